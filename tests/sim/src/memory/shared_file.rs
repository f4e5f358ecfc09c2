//! The files that stand for exported memory: each holds a number.

use std::fs::File;
use std::mem::ManuallyDrop;
use std::os::fd::{FromRawFd, IntoRawFd, RawFd};
use std::os::unix::fs::FileExt;

const MARK: &[u8; 8] = b"sim-file";

/// The application's to close.
pub fn create(number: u64) -> Option<RawFd> {
    // SAFETY: a string with its zero; the descriptor is new, and nobody else's.
    let file = unsafe {
        let descriptor = libc::memfd_create(c"exported".as_ptr(), libc::MFD_CLOEXEC);
        (descriptor >= 0).then(|| File::from_raw_fd(descriptor))
    }?;
    file.write_all_at(MARK, 0).and_then(|()| file.write_all_at(&number.to_le_bytes(), 8)).ok()?;
    Some(file.into_raw_fd())
}

/// None if it is not such a file.
pub fn read(descriptor: RawFd) -> Option<u64> {
    if descriptor < 0 {
        return None;
    }
    // SAFETY: only read, and not closed: it stays the application's.
    let file = ManuallyDrop::new(unsafe { File::from_raw_fd(descriptor) });
    let mut found = [0; 16];
    file.read_exact_at(&mut found, 0).ok()?;
    let (mark, number) = found.split_at(8);
    (mark == MARK).then(|| u64::from_le_bytes(number.try_into().expect("8 bytes")))
}
