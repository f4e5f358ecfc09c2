//! Copies to the host that may not be complete when their call returns.
//!
//! Their results are hashed when the application itself could first read them: at the synchronisation that
//! covers them. No synchronisation is ever added. Each copy has a position; a stream or event knows up to
//! which position of which queue it waits, and a synchronisation covers only copies from before it began.

mod copy;
mod finished;
#[cfg(test)]
mod laws;
mod order;
mod places;
mod row;

pub(crate) use copy::{ConcurrentWrites, Copy, Work};
pub(crate) use order::Covered;

use crate::driver::queue::Queue;
use crate::in_flight::landing_range::Landing;
use crate::os::intervals::{at_most, joined};
use crate::os::lock::Lock;
use order::Order;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::*};
use std::time::Instant;

/// More copies than this that nobody waits for are not kept in mind: the oldest are given up, and counted.
const MOST: usize = 1 << 16;

#[derive(Default)]
pub(crate) struct Pending {
    count: AtomicUsize,
    next: AtomicU64,
    /// Threads inside of calls that may overwrite what copies brought, and of those that have put work.
    coming: AtomicUsize,
    inside: AtomicUsize,
    state: Lock<State>,
}

#[derive(Default)]
struct State {
    copies: BTreeMap<Queue, Vec<Copy>>,
    /// Where copies to the host land, by the start: the end, the queue and the position. No two overlap. Few
    /// of them are done.
    landings: BTreeMap<u64, (u64, Queue, u64)>,
    order: Order,
    /// What the CPU was found to have written since launches under way were put, when it was found, and by
    /// whose call.
    beside: Vec<(u64, u32, Range<u64>)>,
    /// By thread: the queue that the call it is inside of puts work on, and the position of the first of it.
    inside: BTreeMap<u32, (Queue, u64)>,
    /// What callbacks were found to have written, and when it was found: the latest. When the last was that
    /// is forgotten.
    called_back: VecDeque<(u64, Range<u64>)>,
    forgotten: u64,
    /// Pages that the CPU copied to, and when that was known to be done: launches may be writing there, too.
    copied: Vec<(Instant, Range<u64>)>,
    /// Copies to the host that have finished, the latest, each with its queue and position: what the CPU
    /// writes there then is not for a callback that was handed over before.
    landed: VecDeque<(Queue, u64, Range<u64>)>,
    /// Copies that have finished, by position: what they brought is being looked at.
    looking: BTreeMap<u64, (Queue, Copy)>,
    /// By thread: pinned memory that the call it is inside of may give the driver to be written, at once or
    /// later.
    coming: BTreeMap<u32, Coming>,
    /// By thread: the calls that handed over callbacks, the latest, and when each had returned.
    handed_over: BTreeMap<u32, VecDeque<(u32, u64)>>,
    /// Streams that are gone while copies of theirs are not: names for them.
    gone: u64,
}

#[derive(Default)]
struct Coming {
    /// Behind what the work will be.
    place: Option<(Queue, u64)>,
    memory: Vec<Range<u64>>,
    /// The CPU may be had to write it.
    by_cpu: bool,
    /// What else the work may use, and where it will be put.
    uses: Uses,
    queue: Option<Queue>,
}

/// Memory shared with the device that the work of a call may use.
pub(crate) enum Uses {
    Only(Vec<Range<u64>>),
    Any,
}

impl Default for Uses {
    fn default() -> Uses {
        Uses::Only(Vec::new())
    }
}

impl Pending {
    #[inline(always)]
    pub(crate) fn any(&self) -> bool {
        self.count.load(Relaxed) != 0
    }

    /// The position of the next copy: what a call that begins now may cover lies below.
    #[inline(always)]
    pub(crate) fn position(&self) -> u64 {
        self.next.load(Relaxed)
    }

    /// Takes a position for work of which nothing is kept in mind but that.
    pub(crate) fn take_position(&self) -> u64 {
        self.next.fetch_add(1, Relaxed)
    }

    /// Keeps a copy in mind; the ones that had to be given up for it. What earlier copies to the host bring
    /// to the same memory nobody can look at any more: of these nothing will be told.
    pub(crate) fn add(&self, queue: Queue, mut copy: Copy) -> Vec<Copy> {
        let mut state = self.state.lock();
        if copy.work.writes() {
            state.overwrites(copy.landing);
        }
        if copy.work == (Work::Unnamed { any: true }) {
            // A graph behind them, for all that is known: it may replace what they bring.
            let State { copies, looking, .. } = &mut *state;
            let copies = copies.values_mut().flatten().chain(looking.values_mut().map(|(_, copy)| copy));
            copies.filter(|copy| copy.work == Work::Copy).for_each(|copy| copy.meets_graphs(None));
        }
        copy.position = self.next.fetch_add(1, Relaxed);
        copy.put = copy.position;
        if copy.work == Work::Copy {
            state.landings.insert(copy.landing.address(), (copy.landing.end(), queue, copy.position));
        }
        // Who is inside of a call that writes there may be done with it before this is.
        for (other, coming) in &state.coming {
            if *other != copy.thread && coming.memory.iter().any(|place| copy.meets(place.start, place.end)) {
                copy.meets_other_writer(Some(*other));
            }
        }
        copy.row.push(copy.position);
        if copy.is_being_put {
            state.inside.entry(copy.thread).or_insert((queue, copy.position));
            self.inside.store(state.inside.len(), Relaxed);
        }
        state.copies.entry(queue).or_default().push(copy);
        let crowded = self.count.fetch_add(1, Relaxed) >= MOST;
        let longest = state.copies.values_mut().max_by_key(|copies| copies.len()).filter(|_| crowded);
        let given_up: Vec<Copy> =
            longest.map_or(Vec::new(), |copies| copies.drain(..copies.len().div_ceil(2)).collect());
        self.count.fetch_sub(given_up.len(), Relaxed);
        given_up
    }

    /// Keeps in mind that other work than a copy to the host may write this memory; what such work before it
    /// on the same queue made of it does not matter.
    pub(crate) fn add_work(&self, queue: Queue, mut copy: Copy) -> Vec<Copy> {
        if let Some(copies) = self.state.lock().copies.get_mut(&queue) {
            let same = |old: &Copy| {
                let alike = old.work == copy.work || matches!((old.work, copy.work), (Work::Graph(_), Work::Graph(_)));
                alike && old.landing.extent() == copy.landing.extent()
            };
            if let Some(at) = copies.iter().position(same) {
                // The graph may have been launched before, and be at work already.
                let old = copies.remove(at);
                (copy.work, copy.row) = (old.work, old.row);
                copy.takes_writers_of(&old);
                self.count.fetch_sub(1, Relaxed);
            }
        }
        self.add(queue, copy)
    }

    /// The driver has refused the call, whose work was kept in mind before it was made: nothing will come of
    /// it. What stands for earlier work as well stays.
    #[cold]
    pub(crate) fn refused(&self, thread: u32, call: u32) {
        let refused = |copy: &mut Copy| (copy.thread, copy.call) == (thread, call) && copy.row.is_one();
        let mut state = self.state.lock();
        let count = state.copies.values_mut().map(|copies| copies.extract_if(.., refused).count()).sum();
        state.copies.retain(|_, copies| !copies.is_empty());
        self.count.fetch_sub(count, Relaxed);
    }

    /// The CPU was found to have written there, maybe while launches were writing. `thread`: by whose call.
    pub(crate) fn written(&self, thread: u32, places: &[Range<u64>]) {
        if places.is_empty() || !self.any() {
            return;
        }
        let mut state = self.state.lock();
        let State { copies, beside, .. } = &mut *state;
        let launches: Vec<&Copy> = copies.values().flatten().filter(|copy| copy.work == Work::Launch).collect();
        let is_given = |place: &&Range<u64>| launches.iter().any(|launch| launch.meets(place.start, place.end));
        let tick = self.next.fetch_add(1, Relaxed);
        beside.extend(places.iter().filter(is_given).map(|place| (tick, thread, place.clone())));
        // A launch that nobody waits for holds them for ever.
        let many = beside.len().saturating_sub(MOST);
        beside.drain(..many);
    }

    /// A callback was found to have written there.
    pub(crate) fn called_back(&self, places: &[Range<u64>]) {
        const MOST: usize = 4096;
        const MOST_OF_ONE: usize = 256;
        const NEAR: u64 = 64;
        if places.is_empty() || !self.any() {
            return;
        }
        // Every other word, maybe.
        let near = joined(places.iter().map(|place| place.start..place.end + NEAR).collect());
        let places = at_most(MOST_OF_ONE, &near).into_iter().map(|place| place.start..place.end - NEAR);
        let mut state = self.state.lock();
        let tick = self.next.fetch_add(1, Relaxed);
        state.called_back.extend(places.map(|place| (tick, place)));
        let many = state.called_back.len().saturating_sub(MOST);
        let forgotten = state.called_back.drain(..many).next_back();
        state.forgotten = forgotten.map_or(state.forgotten, |(tick, _)| tick);
    }

    /// The thread is about to give the driver work that may write there; the driver may do it before the call
    /// returns. `by_graphs`: graphs may bring something to pageable memory.
    pub(crate) fn call_begins(
        &self,
        thread: u32,
        queue: Queue,
        memory: Vec<Range<u64>>,
        by_cpu: bool,
        by_graphs: bool,
    ) {
        let mut state = self.state.lock();
        for range in &memory {
            state.overwrites_looked_at(range);
        }
        if by_graphs {
            // What a graph brings to pageable memory, too, has been replaced when it is looked at.
            let is_met = |copy: &Copy| memory.iter().any(|range| copy.meets(range.start, range.end));
            let graphs = state.copies.values_mut().flatten().filter(|copy| matches!(copy.work, Work::Graph(_)));
            graphs.filter(|copy| is_met(copy)).for_each(|copy| copy.work = Work::Fill);
        }
        let launches = state.copies.values_mut().flatten().filter(|copy| copy.work == Work::Launch);
        let is_met = |copy: &&mut Copy| memory.iter().any(|range| copy.meets(range.start, range.end));
        launches.filter(is_met).for_each(|launch| launch.meets_other_writer(Some(thread)));
        let place = Some((queue, self.next.fetch_add(1, Relaxed)));
        let coming = state.coming.entry(thread).or_default();
        (coming.place, coming.memory, coming.by_cpu) = (place, memory, by_cpu);
        self.coming.store(state.coming.len(), Relaxed);
    }

    /// The thread is about to give the driver work: until that is kept in mind this may be used by it.
    pub(crate) fn enters(&self, thread: u32, uses: Uses, queue: Option<Queue>) {
        let mut state = self.state.lock();
        let coming = state.coming.entry(thread).or_default();
        (coming.uses, coming.queue) = (uses, queue);
        self.coming.store(state.coming.len(), Relaxed);
    }

    /// What the thread's call will use is kept in mind, and about to be given to the driver.
    #[inline(always)]
    pub(crate) fn entered(&self, thread: u32) {
        if self.coming.load(Relaxed) != 0 {
            let mut state = self.state.lock();
            if let Entry::Occupied(mut coming) = state.coming.entry(thread) {
                (coming.get_mut().uses, coming.get_mut().queue) = (Uses::default(), None);
                if coming.get().memory.is_empty() {
                    coming.remove();
                }
            }
            self.coming.store(state.coming.len(), Relaxed);
        }
    }

    /// The call has returned, and what it gave the driver is kept in mind.
    #[inline(always)]
    pub(crate) fn call_returned(&self, thread: u32) {
        if self.coming.load(Relaxed) != 0 {
            let mut state = self.state.lock();
            state.coming.remove(&thread);
            self.coming.store(state.coming.len(), Relaxed);
        }
    }

    /// Whether other work was given what this copy brought to be overwritten, while that is being looked at,
    /// or just before. `thread`: who looks, whose own call has returned: a replay looks behind it, too.
    pub(crate) fn is_overwritten(&self, copy: &Copy, thread: u32) -> bool {
        let state = self.state.lock();
        let mut others =
            state.coming.iter().filter(|(other, _)| **other != thread).flat_map(|(_, coming)| &coming.memory);
        if others.any(|range| copy.meets(range.start, range.end)) {
            return true;
        }
        let looked_at = state.looking.get(&copy.position);
        looked_at.is_some_and(|(_, looked_at)| looked_at.is_overwritten || looked_at.is_superseded)
    }

    /// An event was recorded by a call that began at `position`.
    pub(crate) fn event_recorded(&self, event: u64, queue: Queue, position: u64) {
        let mut state = self.state.lock();
        state.order.recorded(event, queue, position, self.next.fetch_add(1, Relaxed));
    }

    /// An event was recorded behind all that a context had been given when a call began at `position`.
    pub(crate) fn context_recorded(&self, event: u64, context: u64, position: u64) {
        let mut state = self.state.lock();
        let of_context = |copies: &[Copy]| copies.iter().any(|copy| copy.context == context);
        let queues = state.copies.iter().filter(|(_, copies)| of_context(copies));
        let reach = queues.map(|(queue, _)| (*queue, position)).collect();
        state.order.recorded_behind(event, reach, self.next.fetch_add(1, Relaxed));
    }

    pub(crate) fn event_ends(&self, event: u64) {
        self.state.lock().order.event_ends(event);
    }

    pub(crate) fn stream_waits(&self, queue: Queue, event: u64) {
        let mut state = self.state.lock();
        state.order.stream_waits(queue, event, self.next.fetch_add(1, Relaxed));
    }

    /// The call that put work has returned: what begins to wait from now on waits for that, too. `has_read`:
    /// what it was to read it has read.
    #[inline(always)]
    pub(crate) fn is_put(&self, thread: u32, has_read: bool) {
        if self.inside.load(Relaxed) != 0 {
            let mut state = self.state.lock();
            let Some((queue, first)) = state.inside.remove(&thread) else { return };
            self.inside.store(state.inside.len(), Relaxed);
            let put = self.next.fetch_add(1, Relaxed);
            let Some(copies) = state.copies.get_mut(&queue) else { return };
            let from = copies.partition_point(|copy| copy.position < first);
            let own = copies[from..].iter_mut().filter(|copy| copy.thread == thread);
            own.for_each(|copy| (copy.is_being_put, copy.put) = (false, put));
            if has_read {
                // One that stands for earlier ones as well stays.
                let is_over = |copy: &mut Copy| copy.thread == thread && copy.work == Work::Read && copy.row.is_one();
                let count = copies.extract_if(from.., is_over).count();
                self.count.fetch_sub(count, Relaxed);
                state.copies.retain(|_, copies| !copies.is_empty());
            }
        }
    }

    /// The thread's call that handed over a callback has returned: what others give to that stream from now
    /// on comes behind it.
    pub(crate) fn handed_over(&self, thread: u32, call: u32) {
        const MOST: usize = 1024;
        let mut state = self.state.lock();
        let calls = state.handed_over.entry(thread).or_default();
        if calls.len() == MOST {
            calls.pop_front();
        }
        calls.push_back((call, self.next.fetch_add(1, Relaxed)));
    }

    /// It is inside of nothing any more.
    pub(crate) fn thread_ends(&self, thread: u32) {
        self.state.lock().handed_over.remove(&thread);
        self.call_returned(thread);
        self.is_put(thread, false);
    }

    /// Another stream may get this one's handle: what belongs to the old one gets a name of its own.
    pub(crate) fn stream_ends(&self, queue: Queue) {
        let mut state = self.state.lock();
        let State { copies, landings, order, inside, gone, .. } = &mut *state;
        *gone += 1;
        let name = copies.remove(&queue).map(|left| {
            let name = Queue::destroyed(*gone);
            copies.insert(name, left);
            landings.values_mut().filter(|(_, of, _)| *of == queue).for_each(|(_, of, _)| *of = name);
            inside.values_mut().filter(|(of, _)| *of == queue).for_each(|(of, _)| *of = name);
            name
        });
        order.stream_ends(queue, name);
    }
}

impl State {
    fn overwrites_looked_at(&mut self, range: &Range<u64>) {
        let met = self.looking.values_mut().filter(|(_, copy)| copy.meets(range.start, range.end));
        met.for_each(|(_, copy)| copy.is_overwritten = true);
    }

    /// The copies to the host that land here bring what nobody can look at, as a fill does; not even who is
    /// just about to.
    fn overwrites(&mut self, landing: Landing) {
        self.overwrites_looked_at(&(landing.address()..landing.end()));
        let State { copies, landings, .. } = self;
        let before = landings.range(..landing.end()).rev();
        let met = before.take_while(|(_, (end, ..))| *end > landing.address()).map(|(start, _)| *start);
        for start in met.collect::<Vec<u64>>() {
            let Some((_, queue, position)) = landings.remove(&start) else { continue };
            let queued = copies.get_mut(&queue);
            let found = queued.and_then(|q| Some((q.binary_search_by_key(&position, |copy| copy.position).ok()?, q)));
            found.into_iter().for_each(|(at, queued)| queued[at].work = Work::Fill);
        }
    }
}
