//! Messages to the user of the program.

use crate::os::transparency::without_signals;
use std::io;

/// One line on stderr, written in one call, past any buffer of the host. A closed stderr is the host's
/// business.
pub(crate) fn tell(message: &str) {
    let line = format!("cutrace: {message}\n");
    let _closed = without_signals(|| {
        // SAFETY: the buffer is valid.
        match unsafe { libc::write(2, line.as_ptr().cast(), line.len()) } {
            0.. => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    });
}
