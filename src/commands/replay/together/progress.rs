//! The progress of each replay of a job: a time on the recorded clock, in memory that all of them map.

use anyhow::{Context, Result};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicU64, Ordering};

pub(super) struct Page {
    start: *mut AtomicU64,
    len: usize,
}

// SAFETY: only atomic words are reached through it.
unsafe impl Send for Page {}
// SAFETY: as above.
unsafe impl Sync for Page {}

impl Drop for Page {
    fn drop(&mut self) {
        // SAFETY: mapped by us, and not used any more.
        unsafe { libc::munmap(self.start.cast(), self.len * 8) };
    }
}

impl std::fmt::Debug for Page {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.debug_list().entries(self.all()).finish()
    }
}

impl Page {
    /// One for so many processes, and the file by which the others have it.
    pub(super) fn new(processes: usize) -> Result<(Page, File)> {
        let file = tempfile::tempfile().context("a file for the times of replays")?;
        file.set_len(processes as u64 * 8).context("a file for the times of replays")?;
        let page = Page::map(std::os::fd::AsFd::as_fd(&file), processes).context("mapping the times of replays")?;
        Ok((page, file))
    }

    pub(super) fn map(file: BorrowedFd, processes: usize) -> io::Result<Page> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let at = std::ptr::null_mut();
        // SAFETY: a new mapping, of a file that is as long and that nobody cuts.
        let start = unsafe { libc::mmap(at, processes * 8, access, libc::MAP_SHARED, file.as_raw_fd(), 0) };
        if start == libc::MAP_FAILED {
            Err(io::Error::last_os_error())
        } else {
            Ok(Page { start: start.cast(), len: processes })
        }
    }

    fn word(&self, of: usize) -> &AtomicU64 {
        assert!(of < self.len);
        // SAFETY: within the mapping, aligned, and valid for every value.
        unsafe { &*self.start.add(of) }
    }

    pub(super) fn get(&self, of: usize) -> u64 {
        self.word(of).load(Ordering::Acquire)
    }

    pub(super) fn advance(&self, of: usize, to: u64) {
        self.word(of).fetch_max(to, Ordering::AcqRel);
    }

    /// Of all, in their order.
    pub(super) fn all(&self) -> Vec<u64> {
        (0..self.len).map(|of| self.get(of)).collect()
    }
}
