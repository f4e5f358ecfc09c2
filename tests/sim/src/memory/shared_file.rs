//! Files in memory, which stand for device memory that another process may map. One that is given to another process
//! has a last page that says what it is.

use std::fs::File;
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use std::os::unix::fs::{FileExt, MetadataExt};

const MARK: &[u8; 8] = b"sim-file";
const LAST: u64 = 4096;

/// A file of so many bytes, all of them zero.
pub fn create(size: u64) -> Option<File> {
    // SAFETY: a string with its zero; the descriptor is new, and nobody else's.
    let file = unsafe {
        let descriptor = libc::memfd_create(c"device memory".as_ptr(), libc::MFD_CLOEXEC);
        (descriptor >= 0).then(|| File::from_raw_fd(descriptor))
    }?;
    file.set_len(size).ok()?;
    Some(file)
}

/// One that says in a last page what it is.
pub fn create_marked(size: u64, words: [u32; 2]) -> Option<File> {
    let file = create(size + LAST)?;
    let words = words.map(u32::to_le_bytes).concat();
    file.write_all_at(MARK, size).and_then(|()| file.write_all_at(&words, size + 8)).ok()?;
    Some(file)
}

/// Its bytes without the last page, and what that says; none if it is no such file.
pub fn marked(file: &File) -> Option<(u64, [u32; 2])> {
    let size = file.metadata().ok()?.len().checked_sub(LAST)?;
    let mut found = [0; 16];
    file.read_exact_at(&mut found, size).ok()?;
    let (mark, words) = found.split_at(8);
    let word = |at: usize| u32::from_le_bytes(words[at..at + 4].try_into().expect("4 bytes"));
    (mark == MARK).then(|| (size, [word(0), word(4)]))
}

/// The same file, open once more.
pub fn reopen(process: u32, descriptor: RawFd) -> Option<File> {
    let path = format!("/proc/{process}/fd/{descriptor}");
    File::options().read(true).write(true).open(path).ok()
}

/// What tells it from every other file.
pub fn number(file: &File) -> Option<u64> {
    file.metadata().ok().map(|about| about.ino())
}

/// A file of the application's, which stays the application's to close.
pub fn borrowed(descriptor: RawFd) -> Option<ManuallyDrop<File>> {
    // SAFETY: not closed, and only asked about.
    (descriptor >= 0).then(|| ManuallyDrop::new(unsafe { File::from_raw_fd(descriptor) }))
}

/// Its bytes become those of the mapping, wherever that is already.
pub fn take_over(file: &File, at: u64, size: u64) -> bool {
    // SAFETY: the caller holds still a mapping of this driver of that size.
    let bytes = unsafe { std::slice::from_raw_parts(at as *const u8, size as usize) };
    file.write_all_at(bytes, 0).is_ok() && map(file, at, size)
}

/// Maps it in the place of a mapping of this driver.
pub fn map(file: &File, at: u64, size: u64) -> bool {
    let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_FIXED);
    // SAFETY: the addresses are those of a mapping of this driver.
    let got = unsafe { libc::mmap(at as *mut _, size as usize, access, flags, file.as_raw_fd(), 0) };
    got as u64 == at
}

/// Maps it somewhere.
pub fn map_anywhere(file: &File, size: u64) -> Option<u64> {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: replaces nothing.
    let got = unsafe { libc::mmap(std::ptr::null_mut(), size as usize, access, libc::MAP_SHARED, file.as_raw_fd(), 0) };
    (got != libc::MAP_FAILED).then_some(got as u64)
}
