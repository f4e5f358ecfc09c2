//! Stream-ordered memory that could not be placed at its recorded address: allocated by the same calls, on
//! the same stream.

use crate::driver::{Failure, result};
use crate::memory::objects::Objects;
use crate::memory::place::Placement;
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;
use trace::api::types::Kind;
use trace::model::stream::StreamHandle;
use trace::{Call, Function};

/// The position in stream order at which memory is allocated or freed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StreamPosition {
    pool: Option<u64>,
    pub(crate) stream: StreamHandle,
}

impl StreamPosition {
    /// What a recorded call says about it; none if it is no stream-ordered one, or if an object it names is
    /// not here.
    pub(crate) fn from_call(call: &Call, function: &'static Function, objects: &Objects) -> Option<StreamPosition> {
        let live = |kind, at: usize| objects.live(kind, call.argument(function.params[at].name)?);
        let named = function.handle(Kind::MemoryPool);
        let pool = named.and_then(|at| live(Kind::MemoryPool, at));
        if named.is_some() && pool.is_none() {
            return None;
        }
        let stream = live(Kind::Stream, function.handle(Kind::Stream)?)?;
        Some(StreamPosition { pool, stream: StreamHandle::new(function, stream) })
    }
}

impl Placement<'_> {
    /// Device memory somewhere, filled, with room behind it: so its end is no other memory's address, and is
    /// known for what it is in results. Where a capture of another stream is under way, this
    /// one's order may not be touched: then it comes at once.
    pub(crate) fn allocate_elsewhere(&self, len: u64, ordered: Option<StreamPosition>) -> Result<u64, Failure> {
        const ROOM: u64 = 512;
        if self.is_exact {
            return self.allocate_anywhere(len, ordered);
        }
        let is_full = |done: &Result<u64, Failure>| {
            done.as_ref().is_err_and(|failure| failure.code == Some(result::OUT_OF_MEMORY))
        };
        let mut done = self.allocate_anywhere(len.saturating_add(ROOM), ordered);
        if is_full(&done) {
            done = self.allocate_anywhere(len, ordered);
        }
        // The room behind other allocations may have filled a pool of limited size.
        match ordered {
            Some(StreamPosition { pool: Some(_), stream }) if is_full(&done) => {
                self.allocate_anywhere(len, Some(StreamPosition { pool: None, stream }))
            }
            _ => done,
        }
    }

    fn allocate_anywhere(&self, len: u64, ordered: Option<StreamPosition>) -> Result<u64, Failure> {
        let none = self.captures.none();
        let Some(StreamPosition { pool, stream }) = ordered.filter(|_| none.is_some()) else {
            drop(none);
            let live = self.relaxed(|| self.driver.allocate(len))?;
            self.put_fill(live..live + len);
            return Ok(live);
        };
        let live = self.driver.allocate_ordered(len, pool, stream)?;
        if self.set(live, len, stream).is_err() {
            self.counts.unfilled.fetch_add(1, Relaxed);
        }
        Ok(live)
    }

    /// Fills memory that is allocated, perhaps again: when nothing uses it any more, or in the stream's
    /// order.
    pub(crate) fn refill(&self, range: Range<u64>, ordered: &Option<StreamPosition>) {
        let len = range.end - range.start;
        let none = self.captures.none();
        match ordered {
            // Work of the last owner, or a capture, may be under way: whoever waits would break it.
            _ if none.is_none() => _ = self.counts.unfilled.fetch_add(1, Relaxed),
            Some(StreamPosition { stream, .. }) => {
                if self.set(range.start, len, *stream).is_err() {
                    self.counts.unfilled.fetch_add(1, Relaxed);
                }
            }
            None => match self.wait() {
                Ok(()) => self.put_fill(range),
                Err(_) => _ = self.counts.unfilled.fetch_add(1, Relaxed),
            },
        }
    }

    /// Frees in the stream's order what is elsewhere. What is at its place stays mapped.
    pub(crate) fn free_async(&self, start: u64, ordered: Option<StreamPosition>) -> Result<(), Failure> {
        let is_of_graph = self.translation.is_of_graph(start);
        if !is_of_graph {
            self.left.lock().insert(self.driver.current_context());
            let end = self.homes.lock().get(&start).copied();
            self.freed(start);
            let is_imported = self.gives_up(start);
            if let Some(end) = end.filter(|_| is_imported) {
                self.vacate(&(start..end))?;
            }
        }
        // A graph that is being captured may go on using the memory; what graphs allocate, a captured free
        // does end.
        let none = self.captures.none();
        if none.is_none() && !is_of_graph {
            return Ok(());
        }
        let (Some(live), Some(StreamPosition { stream, .. })) = (self.translation.unbind(start), ordered) else {
            return Ok(());
        };
        match self.driver.free_ordered(live, stream) {
            // It was allocated during a capture, and not in a stream's order.
            Err(Failure { code: Some(result::INVALID_VALUE), .. }) => self.driver.free(live),
            done => done,
        }
    }
}
