//! The replay's own events, one behind each copy to the host in flight: they show its completion when its
//! stream, which has newer work, does not.

use crate::driver::Driver;
use crate::driver::stream::{Queue, with_context};
use parking_lot::Mutex;
use std::collections::HashMap;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Arrival {
    event: u64,
    context: u64,
    /// The call that started the copy: events are used again.
    call: u64,
}

#[derive(Default)]
pub(crate) struct Arrivals {
    /// By context: events that stand for nothing.
    idle: Mutex<HashMap<u64, Vec<u64>>>,
}

impl Arrivals {
    /// Behind what the queue has; none if the driver will not. Not while the queue is captured.
    pub(crate) fn mark(&self, driver: &Driver, queue: Queue, call: u64) -> Option<Arrival> {
        let known = self.idle.lock().get_mut(&queue.context).and_then(Vec::pop);
        // A copy on a stream does not need the stream's context to be current.
        let create = || with_context(driver, queue.context, || driver.create_event(false));
        let event = known.or_else(|| create().ok()?.ok())?;
        let arrival = Arrival { event, context: queue.context, call };
        match queue.record(driver, event) {
            Ok(()) => Some(arrival),
            Err(_) => {
                self.give_back(arrival);
                None
            }
        }
    }

    pub(crate) fn has_arrived(&self, driver: &Driver, arrival: Arrival) -> bool {
        let asked = with_context(driver, arrival.context, || driver.query_event(arrival.event));
        matches!(asked, Ok(Ok(true)))
    }

    /// Nobody asks about it any more.
    pub(crate) fn give_back(&self, arrival: Arrival) {
        self.idle.lock().entry(arrival.context).or_default().push(arrival.event);
    }

    /// Its events end with it.
    pub(crate) fn context_ends(&self, context: u64) {
        self.idle.lock().remove(&context);
    }
}
