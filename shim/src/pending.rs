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
    copies: Vec<Copy>,
    /// What an event covered when it was last recorded.
    events: HashMap<u64, Reach>,
    /// What a stream waits for beside its own work.
    waits: HashMap<u64, Reach>,
}

/// Per stream, the position below which everything is covered.
type Reach = HashMap<u64, u64>;

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
    pub stream: u64,
    /// The call that started it.
    pub thread: u32,
    pub call: u32,
    position: u64,
}

/// What a synchronisation waited for.
#[derive(Clone, Copy)]
pub enum Covered {
    Stream(u64),
    Event(u64),
    Context(u64),
}

impl Pending {
    #[inline(always)]
    pub fn any(&self) -> bool {
        self.count.load(Relaxed) != 0
    }

    pub fn add(&self, landing: Landing, context: u64, stream: u64, thread: u32, call: u32) {
        let mut state = self.state.lock();
        let position = state.next;
        state.next += 1;
        state.copies.push(Copy { landing, context, stream, thread, call, position });
        self.count.fetch_add(1, Relaxed);
    }

    pub fn event_recorded(&self, event: u64, stream: u64) {
        let mut state = self.state.lock();
        let mut reach = state.waits.get(&stream).cloned().unwrap_or_default();
        reach.insert(stream, state.next);
        state.events.insert(event, reach);
    }

    pub fn stream_waits(&self, stream: u64, event: u64) {
        let mut state = self.state.lock();
        let Some(reach) = state.events.get(&event).cloned() else { return };
        let waits = state.waits.entry(stream).or_default();
        for (other, position) in reach {
            let known = waits.entry(other).or_default();
            *known = position.max(*known);
        }
    }

    /// Takes out the copies that have finished, now that a synchronisation returned.
    pub fn finished(&self, covered: Covered) -> Vec<Copy> {
        let mut state = self.state.lock();
        let reach = match covered {
            Covered::Event(event) => state.events.get(&event).cloned().unwrap_or_default(),
            Covered::Stream(stream) => {
                let mut reach = state.waits.get(&stream).cloned().unwrap_or_default();
                reach.insert(stream, u64::MAX);
                reach
            }
            Covered::Context(_) => Reach::new(),
        };
        let done = |copy: &mut Copy| match covered {
            Covered::Context(context) => copy.context == context,
            _ => reach.get(&copy.stream).is_some_and(|position| copy.position < *position),
        };
        let finished: Vec<Copy> = state.copies.extract_if(.., done).collect();
        self.count.fetch_sub(finished.len(), Relaxed);
        finished
    }
}
