//! What a capture range leaves out: counted in a record at its place, which grows where it stands.

use super::Lane;
use crate::clock;
use crate::lane::put;
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use trace::record::{HEAD, Head, LEFT_OUT, LeftOut, OPTIONAL};

const SIZE: usize = HEAD + size_of::<LeftOut>();

impl Lane {
    /// A call comes by that is not recorded. `works`: it may change what devices hold.
    #[cold]
    pub fn leave_out(&self, works: bool) {
        let mut gap = self.gap.get();
        if gap.is_null() || gap.wrapping_add(SIZE) != self.cursor.get() {
            if self.room() < SIZE && !self.refill(SIZE) {
                return;
            }
            gap = self.cursor.get();
            let head = Head { size: SIZE as u32, kind: LEFT_OUT, flags: OPTIONAL, function: 0 };
            // SAFETY: `SIZE` bytes from the cursor are in the chunk, and only this thread writes there.
            unsafe {
                put(gap, &head);
                put(gap.add(HEAD), &LeftOut { begin: clock::entry(), calls: 0, works: 0 });
                self.commit(SIZE);
            }
            self.gap.set(gap);
        }
        let count = |field: usize| {
            // SAFETY: a word of the record, which is the last of this thread's chunk; a reader may be looking
            // at it.
            let word = unsafe { &*gap.add(HEAD + field).cast::<AtomicU64>() };
            word.store(word.load(Relaxed) + 1, Relaxed);
        };
        count(8);
        if works {
            count(16);
        }
    }

    /// Of the NVTX range that has opened the capture range: its domain, and how many pushes deep this thread
    /// is in it.
    pub fn within(&self) -> &Cell<(u32, u32)> {
        &self.within
    }
}
