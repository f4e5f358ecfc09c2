//! The order of streams and events: up to which position of which queue each one waits.

use crate::driver::queue::Queue;
use crate::in_flight::node_runs::Turn;
use std::collections::BTreeMap;

/// The work that a wait covered.
#[derive(Clone, Copy)]
pub(crate) enum Covered<'t> {
    Stream(Queue),
    Event(u64),
    Context(u64),
    /// Work on the legacy stream of this context, which began when all blocking streams had finished what
    /// they had.
    Legacy(u64),
    /// The callback begins.
    Turn(&'t Turn),
}

/// Times of waits of one stream for another that are kept in mind.
const MOST_WAITS: usize = 256;

/// Per queue, the position below which everything is covered.
pub(super) type Reach = BTreeMap<Queue, u64>;

#[derive(Default)]
pub(super) struct Order {
    /// What an event covered when it was last recorded.
    events: BTreeMap<u64, Recorded>,
    /// What a stream waits for beside its own work: each time of a wait that added something, and up to
    /// where, both rising.
    waits: BTreeMap<Queue, BTreeMap<Queue, Vec<Moment>>>,
}

struct Recorded {
    reach: Reach,
    /// A synchronisation that had begun before knows nothing of it.
    tick: u64,
}

#[derive(Clone, Copy)]
struct Moment {
    position: u64,
    tick: u64,
}

impl Order {
    /// An event was recorded on a queue by a call that began at `position`.
    pub(super) fn recorded(&mut self, event: u64, queue: Queue, position: u64, tick: u64) {
        // What other threads have told the stream to wait for since may come behind the event.
        self.recorded_behind(event, self.by_stream(queue, position), tick);
    }

    pub(super) fn recorded_behind(&mut self, event: u64, reach: Reach, tick: u64) {
        self.events.insert(event, Recorded { reach, tick });
    }

    pub(super) fn event_ends(&mut self, event: u64) {
        self.events.remove(&event);
    }

    pub(super) fn stream_waits(&mut self, queue: Queue, event: u64, tick: u64) {
        let Some(Recorded { reach, .. }) = self.events.get(&event) else { return };
        let waits = self.waits.entry(queue).or_default();
        for (other, position) in reach {
            let known = waits.entry(*other).or_default();
            if known.last().is_none_or(|last| *position > last.position) {
                if known.len() >= MOST_WAITS {
                    known.remove(0);
                }
                known.push(Moment { position: *position, tick });
            }
        }
    }

    /// The stream is gone; what is left of its work has another name, if anything is.
    pub(super) fn stream_ends(&mut self, queue: Queue, name: Option<Queue>) {
        self.waits.remove(&queue);
        for recorded in self.events.values_mut() {
            let position = recorded.reach.remove(&queue);
            recorded.reach.extend(name.zip(position));
        }
        for known in self.waits.values_mut() {
            let until = known.remove(&queue);
            known.extend(name.zip(until));
        }
    }

    /// What a wait for this event covers that began at `position`.
    pub(super) fn by_event(&self, event: u64, position: u64) -> Reach {
        let recorded = self.events.get(&event).filter(|recorded| recorded.tick < position);
        recorded.map_or(Reach::new(), |recorded| recorded.reach.clone())
    }

    /// What a wait for this queue covers that began at `position`.
    pub(super) fn by_stream(&self, queue: Queue, position: u64) -> Reach {
        let mut until = Reach::new();
        for (other, untils) in self.waits.get(&queue).into_iter().flatten() {
            // What the stream was told to wait for later than this had begun says nothing.
            let known = untils.partition_point(|until| until.tick < position);
            until.extend(known.checked_sub(1).map(|last| (*other, untils[last].position)));
        }
        until.insert(queue, position);
        until
    }

    /// Whether work on a queue waits for what was put on another one, each at its position.
    pub(super) fn is_behind(&self, queue: Queue, position: u64, (other, before): (Queue, u64)) -> bool {
        if queue == other {
            return position >= before;
        }
        let untils = self.waits.get(&queue).and_then(|waits| waits.get(&other));
        untils.into_iter().flatten().any(|until| until.position > before && until.tick < position)
    }

    /// Whatever was known is about positions that all lie behind.
    pub(super) fn clear(&mut self) {
        self.events.clear();
        self.waits.clear();
    }
}
