//! Whether a process still writes a trace.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The process that still writes the file, if there is one. `pid`: that wrote it; its id may be that of
/// another PID namespace.
pub(crate) fn of(path: &Path, pid: u32) -> Option<u32> {
    (has_open(path, pid) || is_locked(path)).then_some(pid)
}

/// Whether the process of this id has the file open.
pub(crate) fn has_open(path: &Path, pid: u32) -> bool {
    let Ok(wanted) = std::fs::metadata(path) else { return false };
    let same = |path: PathBuf| {
        std::fs::metadata(path).is_ok_and(|found| (found.dev(), found.ino()) == (wanted.dev(), wanted.ino()))
    };
    // The list of a zombie is empty.
    let Ok(mut open) = std::fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
    pid != std::process::id() && open.any(|link| link.is_ok_and(|link| same(link.path())))
}

/// Whether a process holds the recorder's lock, wherever it is.
fn is_locked(path: &Path) -> bool {
    File::open(path).is_ok_and(|file| lock_holder(&file).is_some())
}

/// The process that holds the recorder's lock; 0 if it cannot be seen from here.
pub(crate) fn lock_holder(file: &File) -> Option<u32> {
    // SAFETY: all zeros are the whole of a file.
    let mut lock = libc::flock { l_type: libc::F_WRLCK as libc::c_short, ..unsafe { std::mem::zeroed() } };
    // SAFETY: a question on our own descriptor, answered in the struct.
    let answered = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETLK, &mut lock) } == 0;
    (answered && lock.l_type != libc::F_UNLCK as libc::c_short).then_some(lock.l_pid.max(0) as u32)
}
