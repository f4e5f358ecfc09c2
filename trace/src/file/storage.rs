//! The storage that a trace is written to. A process may be killed between any two writes, and within a write
//! longer than a page, and a reader must not notice. So a segment is free space until its header is written,
//! and a header lies within one page.

use crate::file::segment::{HEADER, Header, Kind, round_up};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

/// A file that a trace is written to.
pub trait Storage {
    /// Writes all bytes from this offset on.
    fn write(&self, bytes: &[u8], at: u64) -> io::Result<()>;

    /// Cuts the file, or extends it by zeros.
    fn set_len(&self, len: u64) -> io::Result<()>;

    /// The file system may have back the whole pages of these bytes, which nobody reads. It need not.
    fn give_back(&self, from: u64, to: u64);
}

impl Storage for File {
    fn write(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        self.write_all_at(bytes, at)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        File::set_len(self, len)
    }

    fn give_back(&self, from: u64, to: u64) {
        let from = round_up(from);
        if from < to {
            let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
            // SAFETY: a plain system call on our own descriptor; what it frees lies behind the committed bytes.
            let _unsupported = unsafe { libc::fallocate(self.as_raw_fd(), mode, from as i64, (to - from) as i64) };
        }
    }
}

/// Puts a segment where everything ends that counts.
pub(crate) fn append(storage: &impl Storage, header: Header, content: &[u8], at: u64) -> io::Result<()> {
    // Nothing is left there of what was begun before.
    storage.set_len(at)?;
    storage.set_len(at + header.size)?;
    storage.write(&Header::new(Kind::Free, header.size).encode(), at)?;
    storage.write(content, at + HEADER as u64)?;
    storage.write(&header.encode(), at)
}
