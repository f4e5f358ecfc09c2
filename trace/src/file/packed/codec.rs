//! zstd (RFC 8878), in what reads and packs traces; the recorder has none.

#[cfg(feature = "packed")]
mod real {
    use std::io::{self, Read};

    /// Higher ones pack records by a twentieth smaller and ten times slower.
    const LEVEL: i32 = 3;

    pub fn compress(bytes: &[u8]) -> Option<Vec<u8>> {
        zstd::bulk::compress(bytes, LEVEL).ok()
    }

    /// Log of how much of what a frame means its decoder remembers at most.
    const WINDOW: u32 = 23;

    /// What the frame means, step by step.
    pub fn decoder(frame: &[u8]) -> io::Result<impl Read> {
        let mut decoder = zstd::Decoder::with_buffer(frame)?;
        decoder.window_log_max(WINDOW)?;
        Ok(decoder)
    }
}

#[cfg(not(feature = "packed"))]
mod real {
    use std::io::{self, Read};

    pub fn compress(_: &[u8]) -> Option<Vec<u8>> {
        None
    }

    pub fn decoder(_: &[u8]) -> io::Result<impl Read> {
        Err::<io::Empty, _>(io::ErrorKind::Unsupported.into())
    }
}

pub use real::{compress, decoder};
