//! One zstd frame (RFC 8878), the default compression of fatbinary since CUDA 13.

use super::parameter::Unread;
use crate::base::zstd;
use std::io::{ErrorKind, Read};

/// What the frame means, if that is `len` bytes. A frame may mean any length: one beyond what LZ4 can reach
/// is taken for a lie.
pub(super) fn frame(from: &[u8], len: u64) -> Result<Vec<u8>, Unread> {
    if len > from.len() as u64 * 255 {
        return Err(Unread::Broken);
    }
    let decoder = zstd::decoder(from, len).map_err(|error| match error.kind() {
        ErrorKind::Unsupported => Unread::Zstd,
        _ => Unread::Broken,
    })?;
    let mut out = Vec::new();
    decoder.take(len + 1).read_to_end(&mut out).map_err(|_| Unread::Broken)?;
    if out.len() as u64 == len { Ok(out) } else { Err(Unread::Broken) }
}
