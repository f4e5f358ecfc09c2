//! Stream-ordered memory that could not be put back at its recorded address: the same calls, on the same stream.

use crate::driver::stream::current_context;
use crate::driver::{Failure, result};
use crate::memory::objects::{Found, Objects};
use crate::memory::place::Placement;
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;
use trace::api::types::Kind;
use trace::{Call, Function};

/// Where in the order of work memory comes or goes.
#[derive(Debug, Clone, Copy)]
pub struct Ordered {
    function: &'static str,
    /// Whether stream 0 is the thread's own.
    is_twin: bool,
    pool: Option<u64>,
    pub(crate) stream: u64,
}

impl Ordered {
    /// What a recorded call says about it; none if it is no stream-ordered one, or if an object it names is not here.
    pub fn of(call: &Call, function: &'static Function, objects: &Objects) -> Option<Ordered> {
        let live = |kind, name| match objects.find(kind, call.argument(name)?) {
            Found::Live(live) => Some(live),
            _ => None,
        };
        let pool = live(Kind::MemoryPool, "pool");
        if function.param("pool").is_some() && pool.is_none() {
            return None;
        }
        let stream = live(Kind::Stream, "hStream")?;
        Some(Ordered { function: function.name, is_twin: function.twin_of.is_some(), pool, stream })
    }

    /// The one of two names for which stream 0 means the same.
    pub(crate) fn twin(&self, plain: &'static str, twin: &'static str) -> &'static str {
        if self.is_twin { twin } else { plain }
    }
}

impl Placement<'_> {
    /// Device memory somewhere, filled, with room behind it: so its end is no other memory's address, and is
    /// known for what it is in results. Where a capture of another stream is under way, this
    /// one's order may not be touched: then it comes at once.
    pub(crate) fn allocate_elsewhere(&self, len: u64, ordered: Option<Ordered>) -> Result<u64, Failure> {
        const ROOM: u64 = 512;
        match self.allocate_anywhere(len.saturating_add(ROOM), ordered) {
            Err(Failure { code: Some(result::OUT_OF_MEMORY), .. }) => self.allocate_anywhere(len, ordered),
            done => done,
        }
    }

    fn allocate_anywhere(&self, len: u64, ordered: Option<Ordered>) -> Result<u64, Failure> {
        let mut live = 0u64;
        let none = self.captures.none();
        let Some(Ordered { function, is_twin, pool, stream }) = ordered.filter(|_| none.is_some()) else {
            drop(none);
            // SAFETY: one output word.
            self.relaxed(|| unsafe { self.driver.ask("cuMemAlloc_v2", &[&raw mut live as u64, len]) })?;
            self.put_fill(live..live + len);
            return Ok(live);
        };
        let words = [&raw mut live as u64, len].into_iter().chain(pool).chain([stream]);
        // SAFETY: an output word, then plain values, in the order of the function's parameters.
        unsafe { self.driver.ask(function, &words.collect::<Vec<u64>>()) }?;
        // SAFETY: the memory just allocated, from here on in the stream's order.
        if unsafe { self.set(live, len, stream, is_twin) }.is_err() {
            self.counts.unfilled.fetch_add(1, Relaxed);
        }
        Ok(live)
    }

    /// Fills memory that is allocated, perhaps again: when nothing uses it any more, or in the stream's order.
    pub(crate) fn refill(&self, range: Range<u64>, ordered: &Option<Ordered>) {
        let len = range.end - range.start;
        let none = self.captures.none();
        match ordered {
            // Work of the last owner, or a capture, may be under way: whoever waits would break it.
            _ if none.is_none() => _ = self.counts.unfilled.fetch_add(1, Relaxed),
            Some(Ordered { is_twin, stream, .. }) => {
                // SAFETY: memory of this placement's, from here on in the order of a live stream.
                if unsafe { self.set(range.start, len, *stream, *is_twin) }.is_err() {
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
    pub fn free_async(&self, start: u64, ordered: Option<Ordered>) -> Result<(), Failure> {
        let is_of_graph = self.translation.is_of_graph(start);
        if !is_of_graph {
            self.left.lock().insert(current_context(self.driver));
            self.freed(start);
        }
        // A graph that is being captured may go on using the memory; what graphs allocate, a captured free does end.
        let none = self.captures.none();
        if none.is_none() && !is_of_graph {
            return Ok(());
        }
        let (Some(live), Some(Ordered { function, stream, .. })) = (self.translation.unbind(start), ordered) else {
            return Ok(());
        };
        // SAFETY: memory of this placement's, and a live stream.
        match unsafe { self.driver.ask(function, &[live, stream]) } {
            // It was allocated during a capture, and not in a stream's order.
            Err(Failure { code: Some(result::INVALID_VALUE), .. }) => {
                // SAFETY: no pointers.
                unsafe { self.driver.ask("cuMemFree_v2", &[live]) }
            }
            done => done,
        }
    }
}
