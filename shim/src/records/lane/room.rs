//! Space for a lane's records: in its chunk, and in the next one when that is full.

use super::{Lane, exit};
use crate::os::generation;
use crate::os::transparency::unseen;
use crate::trace_file::chunk::{FRAME, LARGE};
use std::sync::atomic::Ordering::*;
use trace::file::record::CONFIG;

impl Lane {
    #[inline(always)]
    pub(crate) fn room(&self) -> usize {
        self.limit.get() as usize - self.cursor.get() as usize
    }

    /// Makes `size` bytes from the cursor part of the trace.
    ///
    /// # Safety
    /// They must have been written, and lie in the chunk.
    #[inline(always)]
    pub(crate) unsafe fn commit(&self, size: usize) {
        // SAFETY: the caller's promise; the length word belongs to the same chunk.
        unsafe {
            let next = self.cursor.get().add(size);
            self.cursor.set(next);
            (*self.length.get()).store(next as u64 - self.start.get() as u64, Release);
        }
    }

    /// Where the next record goes.
    pub(crate) fn cursor(&self) -> *mut u8 {
        self.cursor.get()
    }

    /// Appends a whole record made elsewhere.
    #[cold]
    pub(crate) fn append(&self, bytes: &[u8]) {
        if generation::is_off() || self.room() < bytes.len() && !self.refill(bytes.len()) {
            return;
        }
        // SAFETY: there is room, and only this thread writes there.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.cursor.get(), bytes.len());
            self.commit(bytes.len());
        }
    }

    /// Gives the lane a chunk with room for `size` more bytes; false, and recording off, if there is none to
    /// be had.
    #[cold]
    #[inline(never)]
    pub(crate) fn refill(&self, size: usize) -> bool {
        self.refill_keeping(size, 0)
    }

    /// As `refill`, moving `keep` uncommitted bytes at the cursor along.
    #[cold]
    pub(crate) fn refill_keeping(&self, size: usize, keep: usize) -> bool {
        unseen(|| self.refill_now(size, keep))
    }

    fn refill_now(&self, size: usize, keep: usize) -> bool {
        let recorder = self.recorder();
        let first = self.ordinal.get() == 0;
        // Chunks grow once: a thread that filled its first one will fill more.
        let least = if first { 0 } else { LARGE - FRAME };
        if self.ordinal.get() == 1 {
            recorder.supply.expect_more();
        }
        let chunk = match recorder.supply.take(&recorder.around.file, wanted(size, keep).max(least)) {
            Ok(chunk) => chunk,
            Err(error) => {
                generation::off(&format!("{}: {error}", recorder.around.file.path.display()));
                return false;
            }
        };
        // SAFETY: only this thread touches its lane, and nothing of it is borrowed.
        if let Some(outgrown) = unsafe { &*self.chunk.get() }
            && self.cursor.get() == outgrown.start()
        {
            // Nothing of it counts: its place among the thread's chunks is the next one's, and no two of them
            // have it at a time.
            outgrown.free();
            self.ordinal.set(self.ordinal.get() - 1);
        }
        chunk.assign(self.index.get(), self.ordinal.get(), self.calls.get());
        self.ordinal.set(self.ordinal.get() + 1);
        if keep > 0 {
            // SAFETY: the bytes were written at the old cursor; the new chunk has room for them.
            unsafe { std::ptr::copy_nonoverlapping(self.cursor.get(), chunk.start(), keep) };
        }
        self.start.set(chunk.start());
        self.cursor.set(chunk.start());
        self.limit.set(chunk.end());
        self.length.set(chunk.length());
        // An address may come again with a chunk that is used once more.
        self.gap.set(std::ptr::null_mut());
        self.asked.forget();
        // SAFETY: only this thread touches its lane, and nothing of it is borrowed.
        let full = unsafe { (*self.chunk.get()).replace(chunk) };
        if let Some(full) = full {
            recorder.supply.retire(&recorder.around.file, full);
        } else {
            exit::watch();
        }
        true
    }
}

/// Bytes of records that a chunk is to have room for. A record that no common chunk holds has twice as much
/// each time, or it would be moved for every few of its bytes.
fn wanted(size: usize, keep: usize) -> usize {
    let least = size + keep;
    if least + FRAME > LARGE { size + 2 * keep } else { least }
}

/// Encodes with bincode at `at`.
///
/// # Safety
/// The encoding of `value` must fit there.
#[inline(always)]
pub(crate) unsafe fn encode_at<T: bincode::Encode>(at: *mut u8, value: &T) {
    // SAFETY: the caller promises room; every record type encodes to exactly its size in memory.
    let room = unsafe { std::slice::from_raw_parts_mut(at, size_of::<T>()) };
    let written = bincode::encode_into_slice(value, room, CONFIG);
    debug_assert!(matches!(written, Ok(n) if n == size_of::<T>()));
    // To drop the error that there cannot be is a call for each value.
    std::mem::forget(written);
}

/// Copies bytes and pads them with zeros to 8; where the next ones go.
///
/// # Safety
/// Both places must be as long as that.
#[inline(always)]
pub(crate) unsafe fn copy_padded(at: *mut u8, from: *const u8, len: usize) -> *mut u8 {
    let padded = len.div_ceil(8) * 8;
    // SAFETY: the caller's promise; the last word lies within the padded length.
    unsafe {
        if padded != len {
            at.add(padded - 8).cast::<u64>().write(0);
        }
        std::ptr::copy_nonoverlapping(from, at, len);
        at.add(padded)
    }
}
