//! The gate before a repeated range of calls.

use crate::options::Repeat;
use crate::plan::order::partial_order::{Aborted, Gate};
use crate::run::quiesce;
use crate::run::repeat::restore::Snapshot;
use crate::session::Session;
use parking_lot::{Condvar, Mutex};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;
use trace::api::types::Kind;
use trace::{Call, Function};

/// What becomes of the events of a range. They hold no data: made again and again they would be the same.
pub(crate) const EVENTS: &str = "an event of the range is created once and lives until the replay ends";

/// Holds the workers at the range until memory has been read.
pub(crate) struct RepeatGate {
    pub about: Repeat,
    /// Calls before the range that have not returned.
    before: AtomicU64,
    pub opened: Mutex<Option<Result<Snapshot, String>>>,
    changed: Condvar,
}

impl RepeatGate {
    pub(crate) fn new(world_calls: impl Iterator<Item = u64>, about: Repeat) -> RepeatGate {
        let before = world_calls.filter(|call| *call < about.range.start).count() as u64;
        RepeatGate { about, before: AtomicU64::new(before), opened: Mutex::new(None), changed: Condvar::new() }
    }

    /// Whether the call ends an event that the range is going to use again.
    pub(crate) fn keeps(&self, call: &Call, function: &Function) -> bool {
        self.about.range.contains(&call.number) && function.ends(Kind::Event).is_some()
    }

    /// Before a call: waits until memory is known as it is before the range, if the call belongs to it.
    pub(crate) fn before_call(&self, session: &Session, gate: &Gate, call: u64) -> Result<(), Aborted> {
        if call < self.about.range.start {
            return Ok(());
        }
        let mut opened = self.opened.lock();
        while opened.is_none() {
            if self.before.load(SeqCst) == 0 {
                let start = self.about.range.start;
                *opened = Some(at_rest(session, start, "begins").and_then(|()| Snapshot::read(session, start)));
                self.changed.notify_all();
                break;
            }
            // Who would tell may have been told to stop.
            self.changed.wait_for(&mut opened, Duration::from_millis(50));
            gate.wait(0)?;
        }
        match opened.as_ref() {
            Some(Err(_)) => Err(Aborted),
            _ => Ok(()),
        }
    }

    /// A call has returned.
    pub(crate) fn returned(&self, call: u64) {
        if call < self.about.range.start && self.before.fetch_sub(1, SeqCst) == 1 {
            let _opened = self.opened.lock();
            self.changed.notify_all();
        }
    }
}

/// Nothing is under way in any context, before this call. A failure comes back from the next call.
pub(crate) fn at_rest(session: &Session, before: u64, there: &str) -> Result<(), String> {
    match quiesce::all(session, before).under_way.first() {
        Some(work) => Err(format!("when it {there}, {}", quiesce::describe(session, work))),
        None => Ok(()),
    }
}
