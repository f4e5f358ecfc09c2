//! Memory files, which represent device memory that another process may map.

use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::OnceLock;

use parking_lot::Mutex;

const MARK: &[u8; 8] = b"sim-file";
const PAGE: u64 = 4096;

/// A file of so many bytes, all of them zero.
pub(crate) fn create(size: u64) -> Option<File> {
    // SAFETY: a string with its zero; the descriptor is new, and nobody else's.
    let file = unsafe {
        let descriptor = libc::memfd_create(c"device memory".as_ptr(), libc::MFD_CLOEXEC);
        (descriptor >= 0).then(|| File::from_raw_fd(descriptor))
    }?;
    file.set_len(size).ok()?;
    Some(file)
}

/// A part of the one file that holds all exportable physical memory of this process: as with the real driver,
/// file system and inode do not distinguish exported descriptors. A page before it identifies it.
pub(crate) struct Part {
    pub file: &'static File,
    pub start: u64,
}

impl Part {
    pub(crate) fn new(size: u64, words: [u32; 2]) -> Option<Part> {
        static WHOLE: OnceLock<Option<(File, Mutex<u64>)>> = OnceLock::new();
        let (file, used) = WHOLE.get_or_init(|| Some((create(0)?, Mutex::new(0)))).as_ref()?;
        let mut used = used.lock();
        let start = *used + PAGE;
        file.set_len(start + size).ok()?;
        let words = [size.to_le_bytes().to_vec(), words.map(u32::to_le_bytes).concat()].concat();
        file.write_all_at(MARK, *used).and_then(|()| file.write_all_at(&words, *used + 8)).ok()?;
        *used = start + size;
        Some(Part { file, start })
    }

    /// An open file of its own, of this part: its position says which.
    pub(crate) fn open(&self) -> Option<File> {
        let mut file = reopen(std::process::id(), self.file.as_raw_fd())?;
        file.seek(SeekFrom::Start(self.start)).ok()?;
        Some(file)
    }
}

/// The position in an open file that stands for a part: where that begins, how long it is and what it says of
/// itself; none if it is no such file.
pub(crate) fn part(file: &File) -> Option<(u64, u64, [u32; 2])> {
    let mut file = file;
    let start = file.stream_position().ok()?;
    let mut found = [0; 24];
    file.read_exact_at(&mut found, start.checked_sub(PAGE)?).ok()?;
    let word = |at: usize| u32::from_le_bytes(found[at..at + 4].try_into().expect("4 bytes"));
    let size = u64::from_le_bytes(found[8..16].try_into().expect("8 bytes"));
    found.starts_with(MARK).then(|| (start, size, [word(16), word(20)]))
}

/// The same file, open once more.
pub(crate) fn reopen(process: u32, descriptor: RawFd) -> Option<File> {
    let path = format!("/proc/{process}/fd/{descriptor}");
    File::options().read(true).write(true).open(path).ok()
}

/// What tells it from every other file.
pub(crate) fn number(file: &File) -> Option<u64> {
    file.metadata().ok().map(|about| about.ino())
}

/// A file of the application's, which stays the application's to close.
pub(crate) fn borrowed(descriptor: RawFd) -> Option<ManuallyDrop<File>> {
    // SAFETY: not closed, and only asked about.
    (descriptor >= 0).then(|| ManuallyDrop::new(unsafe { File::from_raw_fd(descriptor) }))
}

/// Its bytes become those of the mapping, wherever that is already.
pub(crate) fn take_over(file: &File, at: u64, size: u64) -> bool {
    // SAFETY: the caller holds still a mapping of this driver of that size.
    let bytes = unsafe { std::slice::from_raw_parts(at as *const u8, size as usize) };
    file.write_all_at(bytes, 0).is_ok() && map(file, at, size)
}

/// Maps it in the place of a mapping of this driver.
pub(crate) fn map(file: &File, at: u64, size: u64) -> bool {
    let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_FIXED);
    // SAFETY: the addresses are those of a mapping of this driver.
    let got = unsafe { libc::mmap(at as *mut _, size as usize, access, flags, file.as_raw_fd(), 0) };
    got as u64 == at
}

/// Maps it somewhere.
pub(crate) fn map_anywhere(file: &File, offset: u64, size: u64) -> Option<u64> {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let (at, flags, offset) = (std::ptr::null_mut(), libc::MAP_SHARED, offset as i64);
    // SAFETY: replaces nothing.
    let got = unsafe { libc::mmap(at, size as usize, access, flags, file.as_raw_fd(), offset) };
    (got != libc::MAP_FAILED).then_some(got as u64)
}
