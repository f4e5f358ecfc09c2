//! The final message of a recording that must stop. Its place in the file is reserved at the start: when the
//! disk is full or a limit is reached, there is no other.

use crate::os::lock::Lock;
use crate::trace_file::chunk::{Chunk, FRAME};
use crate::trace_file::file::TraceFile;
use std::io;
use std::sync::atomic::{
    AtomicBool, AtomicU32,
    Ordering::{Relaxed, Release},
};
use trace::file::record::{self, Loss, Switched, Thread};
use trace::file::segment::PAGE;

pub(crate) struct LastWords {
    chunk: Chunk,
    /// Bytes said so far; none before the first.
    said: Lock<Option<usize>>,
    /// Some switch of the recording found no room.
    is_full: AtomicBool,
}

impl LastWords {
    pub(crate) fn new(file: &TraceFile) -> io::Result<LastWords> {
        let chunk = Chunk::make(file, PAGE as usize)?;
        // A file that is cut off in the middle of it must not look like one that is not.
        chunk.free();
        Ok(LastWords { chunk, said: Lock::default(), is_full: AtomicBool::new(false) })
    }

    /// Adds a loss, as long as there is room for it.
    pub(crate) fn say(&self, threads: &AtomicU32, what: &str, count: u64) {
        self.append(threads, 0, &record::with_body(record::LOSS, &Loss { what: what.into(), count }));
    }

    /// Adds when recording was switched on or off, unless so often that there would be no room for losses.
    pub(crate) fn switched(&self, threads: &AtomicU32, switched: Switched) {
        const LOSSES: usize = 1 << 10;
        let is_said = self.append(threads, LOSSES, &record::with_body(record::SWITCHED, &switched));
        if !is_said && !self.is_full.swap(true, Relaxed) {
            self.say(threads, "later times at which recording was switched on or off", 1);
        }
    }

    /// Adds a record, if so much room is left behind it; whether it was.
    fn append(&self, threads: &AtomicU32, behind: usize, record: &[u8]) -> bool {
        let mut said = self.said.lock();
        let at = match *said {
            Some(at) => at,
            None => {
                self.chunk.assign(threads.fetch_add(1, Relaxed), 0, 0);
                self.add(0, &record::with_body(record::THREAD, &Thread { os_id: 0, name: "cutrace".into() }))
            }
        };
        let is_room = at + record.len() + behind <= PAGE as usize - FRAME;
        *said = Some(if is_room { self.add(at, record) } else { at });
        is_room
    }

    fn add(&self, at: usize, record: &[u8]) -> usize {
        // SAFETY: within the chunk, which nobody else writes to while the lock is held.
        unsafe { std::ptr::copy_nonoverlapping(record.as_ptr(), self.chunk.start().add(at), record.len()) };
        self.chunk.length().store((at + record.len()) as u64, Release);
        at + record.len()
    }
}
