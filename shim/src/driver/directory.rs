//! The directory of the trace, kept open from the moment the driver is loaded until the trace is created
//! there: the program may change its root directory in between. A process that loads no driver opens none.

use crate::os::config;
use crate::os::environment::variable;
use crate::os::generation;
use std::ffi::{CString, OsStr};
use std::fs::File;
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI32, AtomicPtr, Ordering::*};

struct OpenDirectory {
    /// -1 when it is closed.
    descriptor: AtomicI32,
    /// Device and inode: the program may close a descriptor that it does not know.
    identity: (u64, u64),
    /// By the path that it had.
    path: PathBuf,
}

/// Null, or never freed. No lock: a child may be forked by another thread at any time.
static KEPT: AtomicPtr<OpenDirectory> = AtomicPtr::new(std::ptr::null_mut());

/// Opens it, if there is to be a recording and its traces go to one directory; nothing is said if it cannot be.
pub(crate) fn keep() {
    if !KEPT.load(Acquire).is_null() || !generation::dormant() || config::is_disabled() {
        return;
    }
    let Some(pattern) = variable("CUTRACE_OUTPUT").filter(|pattern| pattern.as_bytes().starts_with(b"/")) else {
        return;
    };
    let path = config::expand(&pattern);
    let path = path.as_bytes();
    let parent = &path[..path.iter().rposition(|byte| *byte == b'/').unwrap_or(0) + 1];
    let path = OsStr::from_bytes(parent);
    let mut options = File::options();
    let opened = options.read(true).custom_flags(libc::O_PATH | libc::O_DIRECTORY).open(path);
    let Some((opened, found)) = opened.ok().and_then(|opened| opened.metadata().ok().map(|found| (opened, found)))
    else {
        return;
    };
    // The program may expect the next file that it opens to have the lowest number.
    // SAFETY: duplicates our own descriptor.
    let descriptor = unsafe { libc::fcntl(opened.as_raw_fd(), libc::F_DUPFD_CLOEXEC, 100) };
    if descriptor < 0 {
        return;
    }
    let identity = (found.dev(), found.ino());
    let new = Box::into_raw(Box::new(OpenDirectory { descriptor: descriptor.into(), identity, path: path.into() }));
    if KEPT.compare_exchange(std::ptr::null_mut(), new, AcqRel, Acquire).is_err() {
        // SAFETY: just made, and nobody else knows of it.
        unsafe { libc::close(descriptor) };
    }
}

/// It, if the program has not closed it, and what it was opened for. Not closed when dropped.
fn opened() -> Option<(ManuallyDrop<File>, &'static Path)> {
    // SAFETY: null, or never freed.
    let kept = unsafe { KEPT.load(Acquire).as_ref() }?;
    let descriptor = kept.descriptor.load(Acquire);
    if descriptor < 0 {
        return None;
    }
    // SAFETY: only borrowed.
    let directory = ManuallyDrop::new(unsafe { File::from_raw_fd(descriptor) });
    let found = directory.metadata().ok()?;
    // The program may have opened the same directory, for itself, under the number that it closed.
    // SAFETY: a question about a descriptor.
    let flags = unsafe { libc::fcntl(descriptor, libc::F_GETFL) };
    let is_ours = flags >= 0 && flags & libc::O_PATH != 0 && (found.dev(), found.ino()) == kept.identity;
    is_ours.then_some((directory, &*kept.path))
}

/// It, and the name of this file in it; none if it is not open, or the file belongs into another directory.
fn file_in(path: &Path) -> Option<(ManuallyDrop<File>, CString)> {
    let (directory, _) = opened().filter(|(_, its_path)| path.parent() == Some(its_path))?;
    Some((directory, CString::new(path.file_name()?.as_bytes()).ok()?))
}

/// Makes a file in it, which is not there yet, for reading and writing; none if it has no place for it.
pub(crate) fn create(path: &Path) -> Option<io::Result<File>> {
    let (directory, name) = file_in(path)?;
    let flags = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL | libc::O_CLOEXEC;
    // SAFETY: a C string and our own descriptor; what is made is ours.
    let made = unsafe { libc::openat(directory.as_raw_fd(), name.as_ptr(), flags, 0o600) };
    // SAFETY: just made.
    Some(if made < 0 { Err(io::Error::last_os_error()) } else { Ok(unsafe { File::from_raw_fd(made) }) })
}

/// Whether a plain file is there, in this directory.
pub(crate) fn has_file(path: &Path) -> bool {
    let Some((directory, name)) = file_in(path) else { return false };
    // SAFETY: all zeros are a valid struct of numbers, which the call fills.
    unsafe {
        let mut found: libc::stat = std::mem::zeroed();
        // By its number: the function of this name came with glibc 2.33.
        libc::syscall(libc::SYS_newfstatat, directory.as_raw_fd(), name.as_ptr(), &raw mut found, 0) == 0
            && found.st_mode & libc::S_IFMT == libc::S_IFREG
    }
}

/// It is not needed any more.
pub(crate) fn close() {
    let Some((directory, _)) = opened() else { return };
    // SAFETY: not null if it is open, and never freed.
    let was_open = unsafe { (*KEPT.load(Acquire)).descriptor.swap(-1, AcqRel) } >= 0;
    if was_open {
        drop(ManuallyDrop::into_inner(directory));
    }
}
