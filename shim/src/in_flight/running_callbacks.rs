//! Running callbacks, and the writes that scans find meanwhile.
//!
//! A callback's writes are recorded as its own, because copies after it may read them before the next call. A
//! scan meanwhile cannot know who made the changes: they are recorded for the scanning call, and again for
//! the callback. But callbacks of others do not write memory that only one thread's calls have named.

use crate::in_flight::node_runs::Turn;
use crate::os::intervals::{joined, without};
use std::ops::Range;
use std::time::{Duration, Instant};

/// Longer than most callbacks take. One that takes longer waits for somebody: what is found meanwhile is
/// rather his.
const SHORT: Duration = Duration::from_millis(100);
/// Longer than a callback takes that prepares what copies read.
const LONG: Duration = Duration::from_secs(1);

/// Callbacks that began recently and may still run.
#[derive(Default)]
pub(crate) struct Callbacks {
    running: Vec<Running>,
    begun: u64,
}

pub(crate) struct Running {
    number: u64,
    /// Which handed it over.
    thread: u32,
    pub turn: Option<Turn>,
    pub began: Instant,
    pub found: Vec<Range<u64>>,
    /// Pages that the CPU copied to meanwhile for the driver, in no order to it: what is new there it has not
    /// written.
    pub copied: Vec<Range<u64>>,
}

impl Running {
    /// Whether what others found meanwhile may be its, too.
    pub(crate) fn is_short(&self) -> bool {
        self.began.elapsed() < SHORT
    }

    /// Whether it may have written what only the calls of this thread, or those of several, have named.
    fn may_write(&self, user: Option<u32>) -> bool {
        self.is_short() && user.is_none_or(|user| user == self.thread)
    }
}

impl Callbacks {
    /// The number by which its end is told. `thread`: which handed it over.
    pub(crate) fn begins(&mut self, thread: u32, turn: Option<Turn>) -> u64 {
        // Some have been left by a jump, and never end.
        self.running.retain(|running| running.began.elapsed() < LONG);
        self.begun += 1;
        self.running.push(Running {
            number: self.begun,
            thread,
            turn,
            began: Instant::now(),
            found: Vec::new(),
            copied: Vec::new(),
        });
        self.begun
    }

    /// None if it took so long that it was given up.
    pub(crate) fn ends(&mut self, number: u64) -> Option<Running> {
        let at = self.running.iter().position(|running| running.number == number)?;
        Some(self.running.swap_remove(at))
    }

    /// The CPU has copied to these pages for the driver, and work was done there that is in no order to those
    /// of these turns.
    pub(crate) fn copied(&mut self, pages: &[Range<u64>], is_unordered: impl Fn(&Turn) -> bool) {
        let beside = self.running.iter_mut().filter(|running| running.turn.as_ref().is_some_and(&is_unordered));
        beside.for_each(|running| running.copied = joined([&running.copied, pages].concat()));
    }

    pub(crate) fn any(&self) -> bool {
        self.running.iter().any(|running| running.began.elapsed() < LONG)
    }

    /// Whether one may write what only the calls of this thread have named.
    pub(crate) fn may_write(&self, user: u32) -> bool {
        self.running.iter().any(|running| running.may_write(Some(user)))
    }

    /// What was found to be written may be any of theirs, with these turns.
    pub(crate) fn record_found(&mut self, user: Option<u32>, places: impl Fn(Option<&Turn>) -> Vec<Range<u64>>) {
        let may_be_its = self.running.iter_mut().filter(|running| running.may_write(user));
        may_be_its.for_each(|running| {
            let places = places(running.turn.as_ref()).into_iter();
            running.found.extend(places.flat_map(|place| without(place, &running.copied)));
        });
    }
}
