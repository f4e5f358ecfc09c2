//! File descriptors outside the range of the standard streams.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};

/// The host may have closed its standard streams and expect the next file it opens to become one of them.
pub(crate) fn away_from_standard_streams(file: File) -> io::Result<File> {
    // SAFETY: duplicates our own descriptor; the result, if any, is owned by nobody else.
    let fd = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_DUPFD_CLOEXEC, 100) };
    if fd >= 0 {
        // SAFETY: just made.
        return Ok(unsafe { File::from_raw_fd(fd) });
    }
    if file.as_raw_fd() > 2 { Ok(file) } else { Err(io::Error::last_os_error()) }
}
