//! Copies to pinned memory that may not have finished when their call returned.
//!
//! What they brought is hashed when the application itself could first look: at the synchronisation that covers them. No
//! synchronisation is ever added. Each copy has a position; a stream or event knows up to which position of which stream it
//! waits.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering::*};
use trace::api::copies::Region;

#[derive(Default)]
pub struct Pending {
    count: AtomicUsize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    next: u64,
    copies: Vec<(Copy, Blocking)>,
    /// What an event covered when it was last recorded.
    events: HashMap<u64, Reach>,
    /// What a stream waits for beside its own work.
    waits: HashMap<Queue, Reach>,
}

/// Per stream, the position below which everything is covered.
type Reach = HashMap<Queue, u64>;

/// Where a copy's bytes land.
#[derive(Clone, Copy)]
pub enum Landing {
    Flat { address: u64, len: u64 },
    Rows(Region),
}

#[derive(Clone, Copy)]
pub struct Copy {
    pub landing: Landing,
    pub context: u64,
    pub queue: Queue,
    /// The call that started it.
    pub thread: u32,
    pub call: u32,
    /// A synchronisation went by that may have covered it, for all that could be told.
    pub late: bool,
    position: u64,
}

/// A stream as work is ordered on it: the per-thread default stream is another one on each thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Queue {
    pub stream: u64,
    pub thread: Option<u32>,
}

impl Queue {
    /// `per_thread`: the function is one of those for which stream 0 is the calling thread's own.
    pub fn of(stream: u64, per_thread: bool, thread: u32) -> Queue {
        const LEGACY: u64 = 1;
        const PER_THREAD: u64 = 2;
        if stream == PER_THREAD || stream == 0 && per_thread {
            Queue { stream: PER_THREAD, thread: Some(thread) }
        } else {
            Queue { stream: if stream == 0 { LEGACY } else { stream }, thread: None }
        }
    }

    pub fn is_legacy(self) -> bool {
        self.stream == 1
    }
}

/// What a synchronisation waited for.
#[derive(Clone, Copy)]
pub enum Covered {
    Stream(Queue),
    Event(u64),
    Context(u64),
    /// Work on the legacy stream of this context, which began when all blocking streams had finished what they had.
    Legacy(u64),
}

/// Whether the legacy stream waits for a stream; none if the driver would not tell.
pub type Blocking = Option<bool>;

impl Pending {
    #[inline(always)]
    pub fn any(&self) -> bool {
        self.count.load(Relaxed) != 0
    }

    pub fn add(&self, landing: Landing, context: u64, queue: Queue, blocking: Blocking, thread: u32, call: u32) {
        let mut state = self.state.lock();
        let position = state.next;
        state.next += 1;
        state.copies.push((Copy { landing, context, queue, thread, call, late: false, position }, blocking));
        self.count.fetch_add(1, Relaxed);
    }

    pub fn event_recorded(&self, event: u64, queue: Queue) {
        let mut state = self.state.lock();
        let mut reach = state.waits.get(&queue).cloned().unwrap_or_default();
        reach.insert(queue, state.next);
        state.events.insert(event, reach);
    }

    pub fn stream_waits(&self, queue: Queue, event: u64) {
        let mut state = self.state.lock();
        let Some(reach) = state.events.get(&event).cloned() else { return };
        let waits = state.waits.entry(queue).or_default();
        for (other, position) in reach {
            let known = waits.entry(other).or_default();
            *known = position.max(*known);
        }
    }

    /// Another stream of the same handle waits for nothing yet.
    pub fn stream_ends(&self, queue: Queue) {
        self.state.lock().waits.remove(&queue);
    }

    /// Takes out the copies that have finished, now that a synchronisation returned.
    pub fn finished(&self, covered: Covered) -> Vec<Copy> {
        let mut state = self.state.lock();
        let reach = match covered {
            Covered::Event(event) => state.events.get(&event).cloned().unwrap_or_default(),
            Covered::Stream(queue) => {
                let mut reach = state.waits.get(&queue).cloned().unwrap_or_default();
                reach.insert(queue, u64::MAX);
                reach
            }
            Covered::Context(_) | Covered::Legacy(_) => Reach::new(),
        };
        let done = |(copy, blocking): &mut (Copy, Blocking)| match covered {
            Covered::Context(context) => copy.context == context,
            Covered::Legacy(context) if copy.context == context => {
                copy.late |= blocking.is_none();
                *blocking == Some(true)
            }
            Covered::Legacy(_) => false,
            Covered::Stream(queue) if queue.is_legacy() && copy.queue != queue => {
                // Without work of its own the legacy stream has nothing to wait with; the application may have been lucky.
                copy.late |= *blocking != Some(false);
                false
            }
            _ => reach.get(&copy.queue).is_some_and(|position| copy.position < *position),
        };
        let finished: Vec<Copy> = state.copies.extract_if(.., done).map(|(copy, _)| copy).collect();
        self.count.fetch_sub(finished.len(), Relaxed);
        finished
    }

    /// Takes out the copies that go to memory which is about to be given back: nobody will look at what they bring.
    pub fn forget(&self, start: u64, len: u64) -> Vec<Copy> {
        let mut state = self.state.lock();
        let lands = |(copy, _): &mut (Copy, Blocking)| {
            let address = match copy.landing {
                Landing::Flat { address, .. } => address,
                Landing::Rows(region) => region.address,
            };
            address.checked_sub(start).is_some_and(|offset| offset < len)
        };
        let forgotten: Vec<Copy> = state.copies.extract_if(.., lands).map(|(copy, _)| copy).collect();
        self.count.fetch_sub(forgotten.len(), Relaxed);
        forgotten
    }
}
