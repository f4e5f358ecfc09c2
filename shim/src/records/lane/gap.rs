//! Calls that a capture range leaves out, counted in a record at their place, which is updated in place.

use super::Lane;
use crate::os::{clock, counters};
use crate::recording::range;
use crate::records::lane::encode_at;
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering::*, compiler_fence};
use trace::file::record::{HEAD, Head, LEFT_OUT, LeftOut, OPTIONAL};

const SIZE: usize = HEAD + size_of::<LeftOut>();

impl Lane {
    /// Whether a range leaves the call out, which is counted then. `works`: it may change what devices hold;
    /// `tells`: it may tell that copies have arrived. This is all that a call pays while recording is off; a
    /// signal handler that comes in between may count in the same record.
    #[cold]
    #[inline(never)]
    pub(crate) fn leaves_out(&self, works: bool, tells: bool) -> bool {
        if range::admits(|| tells && self.recorder().around.pending.any()) {
            return false;
        }
        let mut gap = self.gap.get();
        if gap.is_null() || gap.wrapping_add(SIZE) != self.cursor.get() {
            gap = match self.begin_gap() {
                Some(gap) => gap,
                None => return true,
            };
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
        true
    }

    /// A record that counts nothing yet; none if there is no room to be had, or the thread is in the midst of
    /// another record.
    #[cold]
    #[inline(never)]
    fn begin_gap(&self) -> Option<*mut u8> {
        if self.busy.replace(true) {
            counters::REENTRANT.fetch_add(1, Relaxed);
            return None;
        }
        compiler_fence(SeqCst);
        let is_room = self.room() >= SIZE || self.refill(SIZE);
        let gap = self.cursor.get();
        if is_room {
            let head = Head { size: SIZE as u32, kind: LEFT_OUT, flags: OPTIONAL, function: 0 };
            // SAFETY: `SIZE` bytes from the cursor are in the chunk, and only this thread writes there.
            unsafe {
                encode_at(gap, &head);
                encode_at(gap.add(HEAD), &LeftOut { begin: clock::entry(), calls: 0, works: 0 });
                self.commit(SIZE);
            }
            self.gap.set(gap);
        }
        compiler_fence(SeqCst);
        self.busy.set(false);
        is_room.then_some(gap)
    }

    /// Of the NVTX range that has opened the capture range: its domain, and how many pushes deep this thread
    /// is in it.
    pub(crate) fn opening_range(&self) -> &Cell<(u32, u32)> {
        &self.within
    }
}
