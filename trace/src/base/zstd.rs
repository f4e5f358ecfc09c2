//! zstd (RFC 8878), for the readers and packers of traces; the recorder does not link it.

#[cfg(feature = "zstd")]
mod real {
    use std::io::{self, Read};

    /// Higher ones pack records by a twentieth smaller and ten times slower.
    const LEVEL: i32 = 3;

    pub(crate) fn compress(bytes: &[u8]) -> Option<Vec<u8>> {
        ::zstd::bulk::compress(bytes, LEVEL).ok()
    }

    /// What one frame means, step by step. Its decoder remembers no more than the longer of `most` bytes and 8 MiB,
    /// the longest window of usual compressors.
    pub(crate) fn decoder(frame: &[u8], most: u64) -> io::Result<impl Read> {
        const USUAL: u32 = 23;
        const LONGEST: u32 = 31;
        let window = most.max(1).next_power_of_two().ilog2().clamp(USUAL, LONGEST);
        let mut decoder = ::zstd::Decoder::with_buffer(frame)?.single_frame();
        decoder.window_log_max(window)?;
        Ok(decoder)
    }
}

#[cfg(not(feature = "zstd"))]
mod real {
    use std::io::{self, Read};

    pub(crate) fn compress(_: &[u8]) -> Option<Vec<u8>> {
        None
    }

    pub(crate) fn decoder(_: &[u8], _: u64) -> io::Result<impl Read> {
        Err::<io::Empty, _>(io::ErrorKind::Unsupported.into())
    }
}

pub(crate) use real::{compress, decoder};
