//! One zstd frame (RFC 8878), as fatbinary of CUDA 13 compresses by default.

use super::parameter::Unread;

/// What the frame means, if that is `len` bytes. A frame may mean any length: one beyond what LZ4 can reach
/// is taken for a lie.
#[cfg(feature = "zstd")]
pub(super) fn frame(from: &[u8], len: u64) -> Result<Vec<u8>, Unread> {
    use ruzstd::decoding::StreamingDecoder;
    use std::io::Read;
    /// The decoder may set aside so much: compressors take windows up to this length.
    const WINDOW: u64 = 8 << 20;
    if len > from.len() as u64 * 255 {
        return Err(Unread::Broken);
    }
    let mut out = Vec::new();
    let decoder = StreamingDecoder::new_with_max_window_size(from, WINDOW.max(len)).map_err(|_| Unread::Broken)?;
    decoder.take(len + 1).read_to_end(&mut out).map_err(|_| Unread::Broken)?;
    if out.len() as u64 == len { Ok(out) } else { Err(Unread::Broken) }
}

#[cfg(not(feature = "zstd"))]
pub(super) fn frame(_: &[u8], _: u64) -> Result<Vec<u8>, Unread> {
    Err(Unread::Zstd)
}
