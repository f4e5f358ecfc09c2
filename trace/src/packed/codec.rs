//! zstd (RFC 8878), in what reads and packs traces; the recorder has none.

#[cfg(feature = "packed")]
mod real {
    /// Higher ones pack records by a twentieth smaller and ten times slower.
    const LEVEL: i32 = 3;

    pub fn compress(bytes: &[u8]) -> Option<Vec<u8>> {
        zstd::bulk::compress(bytes, LEVEL).ok()
    }

    /// What the frame means, if that is so many bytes. No more than those are set aside.
    pub fn decompress(frame: &[u8], length: usize) -> Option<Vec<u8>> {
        zstd::bulk::decompress(frame, length).ok().filter(|bytes| bytes.len() == length)
    }
}

#[cfg(not(feature = "packed"))]
mod real {
    pub fn compress(_: &[u8]) -> Option<Vec<u8>> {
        None
    }

    pub fn decompress(_: &[u8], _: usize) -> Option<Vec<u8>> {
        None
    }
}

pub use real::{compress, decompress};
