//! What kernels print while a trace is made again is the recorded program's output, not the replay's result: it goes to stderr.

use std::io::Write;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Standard output leads to stderr as long as this lives. The driver prints through the C library.
pub struct Aside(Option<OwnedFd>);

impl Aside {
    pub fn begin() -> Aside {
        std::io::stdout().flush().ok();
        // SAFETY: descriptors alone; a new one is owned by nobody else.
        let kept = unsafe {
            let kept = libc::fcntl(libc::STDOUT_FILENO, libc::F_DUPFD_CLOEXEC, 3);
            (kept >= 0).then(|| OwnedFd::from_raw_fd(kept))
        };
        // Without a stdout, or with no descriptor left, kernels print where they can.
        if kept.is_some() {
            // SAFETY: as above; both are open, or the call fails and changes nothing.
            unsafe { libc::dup2(libc::STDERR_FILENO, libc::STDOUT_FILENO) };
        }
        Aside(kept)
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        if let Some(kept) = &self.0 {
            // SAFETY: null means all of the C library's streams; the descriptor is our own.
            unsafe {
                libc::fflush(std::ptr::null_mut());
                libc::dup2(kept.as_raw_fd(), libc::STDOUT_FILENO);
            }
        }
    }
}
