//! A check whether a process still writes a trace.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The process that still writes the file, if there is one. `pid`: that wrote it; its id may be that of
/// another PID namespace.
pub(crate) fn find(path: &Path, pid: u32) -> Option<u32> {
    (has_open(path, pid) || is_locked(path)).then_some(pid)
}

/// Whether the process of this id has the file open, unless that is this one: ids are used again, by threads
/// too.
pub(crate) fn has_open(path: &Path, pid: u32) -> bool {
    if Path::new(&format!("/proc/self/task/{pid}")).exists() {
        return false;
    }
    let Ok(wanted) = std::fs::metadata(path) else { return false };
    let same = |path: PathBuf| {
        std::fs::metadata(path).is_ok_and(|found| (found.dev(), found.ino()) == (wanted.dev(), wanted.ino()))
    };
    // The list of a zombie is empty.
    let Ok(mut open) = std::fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
    open.any(|link| link.is_ok_and(|link| same(link.path())))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_thread_of_this_process_is_the_writer() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let is_open = || {
            // SAFETY: asks.
            let thread = unsafe { libc::gettid() } as u32;
            (thread != std::process::id(), has_open(file.path(), thread))
        };
        let found = std::thread::scope(|scope| scope.spawn(is_open).join().expect("no panic"));
        assert_eq!(found, (true, false));
        let mut sleeps = std::process::Command::new("sleep");
        let mut other = sleeps.arg("60").stdin(file.reopen().expect("a file")).spawn().expect("it runs");
        let is_other = has_open(file.path(), other.id());
        other.kill().and_then(|()| other.wait()).expect("ours");
        assert!(is_other);
    }
}
