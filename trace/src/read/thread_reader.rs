//! The calls of one thread while its chunks are read in order, with those that have not returned yet. Nearly
//! all records are plain entries and returns, so these take a fast path.

use crate::file::call_table::Calls;

/// The state that carries over from one chunk of a thread to the next.
#[derive(Default)]
pub(crate) struct Lane {
    /// Calls without a return so far.
    pub(crate) open: Open,
    /// The latest entry or return. A thread's calls follow each other whatever their stamps say, or the order
    /// of calls could have circles in it.
    pub(crate) latest: u64,
    /// Calls that claim to have been made inside another that has not returned yet, where they stand in the
    /// index.
    pub(crate) inner: Vec<usize>,
    /// The latest call that stands for others, if it is the thread's last.
    pub(crate) run: Option<usize>,
    /// Something of this thread is known to be gone: returns may lack their entries.
    pub(crate) has_gaps: bool,
}

impl Lane {
    /// The call at this place returns. The recorder can be wrong about a call that something was left
    /// through: only what began in between an entry and its return was made inside.
    pub(crate) fn leave_inner(&mut self, place: usize, calls: &mut Calls) {
        while let Some(inner) = self.inner.pop_if(|inner| *inner > place) {
            calls.set_inner(inner);
        }
    }
}

/// Calls without a return so far, by their numbers on the thread, each with its place in the index. Nearly
/// always the last is the next to return.
#[derive(Default)]
pub(crate) struct Open(Vec<(u32, Option<usize>)>);

impl Open {
    pub(crate) fn enter(&mut self, sequence: u32, index: usize) {
        // In a forged file numbers come again: returns are then those of the later calls.
        while self.0.pop_if(|(of, _)| *of >= sequence).is_some() {}
        self.0.push((sequence, Some(index)));
    }

    pub(crate) fn leave(&mut self, sequence: u32) -> Option<usize> {
        let at = match self.0.last() {
            Some((last, _)) if *last == sequence => self.0.len() - 1,
            _ => self.0.binary_search_by_key(&sequence, |(of, _)| *of).ok()?,
        };
        let index = self.0[at].1.take();
        while self.0.pop_if(|(_, index)| index.is_none()).is_some() {}
        index
    }
}
