//! Work that a wait has covered: removed from the pending work, and its results hashed.

use super::copy::{ConcurrentWrites, Copy, Work};
use super::order::{Covered, Reach};
use super::{Pending, State};
use crate::driver::queue::Queue;
use crate::in_flight::host_functions;
use crate::os::dirty_pages::pages_of;
use crate::os::intervals::joined;
use std::collections::btree_map::Entry;
use std::ops::Range;
use std::sync::MutexGuard;
use std::sync::atomic::Ordering::*;
use std::time::{Duration, Instant};

/// Completed copies, each with the CPU's writes during it, if it is a launch.
pub(crate) struct Finished {
    pub copies: Vec<(Copy, ConcurrentWrites)>,
    /// Launches of a row, of which the last is still under way: what they may have made of memory is there.
    pub partly: Vec<Copy>,
    /// Of `copies` those for which, or beside which, the CPU has copied to pages: these, in order and apart.
    pub copied_by_cpu: Vec<(Queue, Copy, Vec<Range<u64>>)>,
    /// The positions of those that are as finished, and which others are looking at.
    others: Vec<u64>,
}

impl Finished {
    /// Where the CPU has copied to pages of this one's memory: in order and apart.
    pub(crate) fn copied_by_cpu(&self, copy: &Copy) -> &[Range<u64>] {
        let found = self.copied_by_cpu.iter().find(|(_, copied_by_cpu, _)| copied_by_cpu.position == copy.position);
        found.map_or(&[], |(.., pages)| pages)
    }
}

const MOST_LANDED: usize = 256;

impl Pending {
    /// Takes out the copies that have finished, now that a synchronisation has returned which began at
    /// `position`. With each launch goes where the CPU wrote meanwhile. They are to be given to `looked_at`.
    /// `waiter`: the thread whose call it was; none if a callback begins.
    pub(crate) fn finished(&self, covered: Covered, position: u64, waiter: Option<u32>) -> Finished {
        let mut state = self.state.lock();
        let cover = Cover::new(&state, covered, position);
        let others = state
            .looking
            .values()
            .filter(|(queue, copy)| cover.covers(queue, cover.limit_of(queue), &mut copy.clone()));
        let others = others.map(|(_, copy)| copy.position).collect();
        let (mut finished, partly) = cover.take(&mut state);
        // A wait that began before it was known that work behind a launch has written there, too, says
        // nothing of the launch alone.
        finished.iter_mut().for_each(|(_, copy)| copy.is_superseded |= copy.overwritten >= position);
        state.met_by(&finished, waiter, || self.next.fetch_add(1, Relaxed));
        state.keep_landed(&finished);
        let State { copies, looking, .. } = &mut *state;
        looking.extend(finished.iter().map(|(queue, copy)| (copy.position, (*queue, *copy))));
        copies.retain(|_, copies| !copies.is_empty());
        let copied_by_cpu = state.stirred_by(&finished);
        state.drop_landings(&finished);
        let beside = &state.beside;
        let copies = finished.into_iter().map(|(_, copy)| (copy, copy.concurrent_writes(beside, waiter))).collect();
        state.drop_old_writes();
        Finished { copies, partly, copied_by_cpu, others }
    }

    /// What they brought is known now. What other threads are still looking at the application must not
    /// overwrite: it may go on when they have.
    pub(crate) fn looked_at(&self, finished: &Finished) {
        if finished.copies.is_empty() && finished.others.is_empty() {
            return;
        }
        let mut state = self.state.lock();
        let State { copies, landings, order, looking, .. } = &mut *state;
        let own = finished.copies.iter().filter(|(copy, _)| looking.remove(&copy.position).is_some());
        self.count.fetch_sub(own.count(), Relaxed);
        if copies.is_empty() && looking.is_empty() && !host_functions::any_under_way() {
            landings.clear();
            order.clear();
        }
        self.wait_for_looks(state, |copy| finished.others.contains(&copy.position));
    }

    fn wait_for_looks<'s>(&'s self, mut state: MutexGuard<'s, State>, awaited: impl Fn(&Copy) -> bool) {
        const PATIENCE: Duration = Duration::from_secs(1);
        let mut since = None;
        while state.looking.values().any(|(_, copy)| awaited(copy)) {
            // Who looks at it may be gone, as threads are that a signal's handler has left by a jump.
            if since.get_or_insert_with(Instant::now).elapsed() > PATIENCE {
                let before = state.looking.len();
                state.looking.retain(|_, (_, copy)| !awaited(copy));
                self.count.fetch_sub(before - state.looking.len(), Relaxed);
                return;
            }
            drop(state);
            std::thread::yield_now();
            state = self.state.lock();
        }
    }

    /// Takes out the copies that go to memory which is about to be given back: nobody will look at what they
    /// bring.
    pub(crate) fn forget(&self, start: u64, len: u64) -> Vec<Copy> {
        let mut state = self.state.lock();
        state.copied.retain(|(_, pages)| pages.end <= start || start + len <= pages.start);
        let lands = |copy: &mut Copy| copy.landing.address().checked_sub(start).is_some_and(|offset| offset < len);
        let forgotten: Vec<Copy> = state.copies.values_mut().flat_map(|copies| copies.extract_if(.., lands)).collect();
        self.count.fetch_sub(forgotten.len(), Relaxed);
        self.wait_for_looks(state, |copy| lands(&mut copy.clone()));
        forgotten
    }
}

/// What a synchronisation covers, which began at `position`.
struct Cover<'t> {
    covered: Covered<'t>,
    position: u64,
    /// Up to where, by stream.
    until: Reach,
    /// All of a context, or only its blocking streams.
    of_context: Option<(u64, bool)>,
    /// Legacy streams among `until`: the context, and up to where.
    legacy: Vec<(u64, u64)>,
}

impl<'t> Cover<'t> {
    fn new(state: &State, covered: Covered<'t>, position: u64) -> Cover<'t> {
        let order = &state.order;
        let (until, of_context) = match covered {
            Covered::Event(event) => (order.by_event(event, position), None),
            Covered::Turn(turn) => (order.by_stream(turn.queue, position), None),
            Covered::Stream(queue) => {
                (order.by_stream(queue, position), queue.is_legacy().then_some((queue.context, true)))
            }
            Covered::Context(context) => (Reach::new(), Some((context, false))),
            Covered::Legacy(context) => (Reach::new(), Some((context, true))),
        };
        let legacy = until.iter().filter(|(queue, _)| queue.is_legacy());
        let legacy = legacy.map(|(queue, until)| (queue.context, *until)).collect();
        Cover { covered, position, until, of_context, legacy }
    }

    fn limit_of(&self, queue: &Queue) -> Option<u64> {
        self.until.get(queue).copied()
    }

    /// `until`: that of the queue, looked up once for all of its copies.
    fn covers(&self, queue: &Queue, until: Option<u64>, copy: &mut Copy) -> bool {
        let in_context = self.of_context.is_some_and(|(context, only_blocking)| {
            let own = copy.context == context && copy.is_put_before(self.position);
            copy.late |= own && only_blocking && copy.blocking.is_none();
            own && (!only_blocking || copy.blocking == Some(true))
        });
        let is_own = || matches!(self.covered, Covered::Turn(turn) if copy.is_done_before(*queue, turn));
        let is_before = until.is_some_and(|until| copy.is_put_before(until));
        in_context || is_before || self.is_before_legacy(copy) || is_own()
    }

    /// The legacy stream waits for blocking ones: with work of its own, and in its synchronisation, or for an
    /// event on it, without any (seen on driver 580: tests/gpu/facts/legacy_waits.c; it does not wait for
    /// streams that are not blocking).
    fn is_before_legacy(&self, copy: &Copy) -> bool {
        let is_meant = |(context, until): &(u64, u64)| copy.context == *context && copy.is_put_before(*until);
        copy.blocking == Some(true) && self.legacy.iter().any(is_meant)
    }

    /// Takes out what is covered; and launches of a row of which the last is not.
    fn take(&self, state: &mut State) -> (Vec<(Queue, Copy)>, Vec<Copy>) {
        let (mut finished, mut partly) = (Vec::new(), Vec::new());
        for (queue, copies) in &mut state.copies {
            let until = self.limit_of(queue);
            if until.is_some() || self.of_context.is_some() || !self.legacy.is_empty() {
                let done = copies.extract_if(.., |copy| self.covers(queue, until, copy));
                finished.extend(done.map(|copy| (*queue, copy)));
            }
            // What they brought is told when the last is done; but the CPU may write over what the first have
            // made.
            let is_meant = |copy: &&mut Copy| matches!(copy.work, Work::Launch | Work::Given | Work::Unnamed { .. });
            for copy in copies.iter_mut().filter(is_meant) {
                let is_of = |(context, only_blocking): &(u64, bool)| {
                    copy.context == *context && (!only_blocking || copy.blocking == Some(true))
                };
                let until = until.or(self.of_context.filter(is_of).map(|_| self.position));
                partly.extend(until.is_some_and(|until| copy.row.drop_before(until)).then_some(*copy));
            }
        }
        (finished, partly)
    }
}

impl State {
    /// Launches that are left learn what of this has worked in their memory. `next`: a tick, if there is any.
    fn met_by(&mut self, finished: &[(Queue, Copy)], waiter: Option<u32>, next: impl Fn() -> u64) {
        let writes: Vec<&(Queue, Copy)> = finished.iter().filter(|(_, copy)| copy.work.writes()).collect();
        let is_graph = |(_, copy): &&(Queue, Copy)| copy.work == Work::Unnamed { any: true };
        let graphs: Vec<Queue> = finished.iter().filter(is_graph).map(|(queue, _)| *queue).collect();
        if writes.is_empty() && graphs.is_empty() {
            return;
        }
        let tick = next();
        let State { copies, looking, .. } = self;
        let left = copies.iter_mut().flat_map(|(queue, copies)| copies.iter_mut().map(|copy| (*queue, copy, false)));
        let left = left.chain(looking.values_mut().map(|(queue, copy)| (*queue, copy, true)));
        for (queue, launch, is_looked_at) in left.filter(|(_, copy, _)| copy.work == Work::Launch) {
            let Range { start, end } = launch.landing.extent();
            let of_all = |done: &Copy| done.landing.extent() == (start..end);
            let (launched, own) = (launch.position, (launch.thread, launch.call));
            // What a graph has filled before its callback is not behind it.
            let is_behind = |done: &Copy| done.position > launched && (done.thread, done.call) != own;
            if writes.iter().any(|(other, done)| *other != queue && done.meets(start, end)) {
                launch.meets_other_writer(waiter);
            }
            if graphs.iter().any(|graph| *graph != queue) {
                launch.meets_graphs(waiter);
            }
            let writes = writes.iter().map(|(_, done)| done);
            for done in writes.filter(|done| is_behind(done) && done.meets(start, end)) {
                launch.overwritten = tick;
                launch.is_superseded |= is_looked_at || done.work == Work::Launch && of_all(done);
            }
        }
    }

    fn keep_landed(&mut self, finished: &[(Queue, Copy)]) {
        let landed = finished.iter().filter(|(_, copy)| copy.work.lands());
        self.landed.extend(landed.map(|(queue, copy)| (*queue, copy.position, copy.landing.extent())));
        let many = self.landed.len().saturating_sub(MOST_LANDED);
        self.landed.drain(..many);
    }

    fn drop_landings(&mut self, finished: &[(Queue, Copy)]) {
        for (_, copy) in finished.iter().filter(|(_, copy)| copy.work == Work::Copy) {
            if let Entry::Occupied(known) = self.landings.entry(copy.landing.address())
                && known.get().2 == copy.position
            {
                known.remove();
            }
        }
    }

    /// Of what the CPU wrote beside launches, only what the earliest that is left may have met matters.
    fn drop_old_writes(&mut self) {
        if self.beside.is_empty() {
            return;
        }
        let launches = self.copies.values().flatten().filter(|copy| copy.work == Work::Launch);
        let earliest = launches.map(|launch| launch.row.first()).min().unwrap_or(u64::MAX);
        self.beside.retain(|(tick, ..)| *tick > earliest);
    }

    /// Keeps in mind where the CPU copied for these, while launches are at work there. Which of them have to
    /// do with such pages.
    fn stirred_by(&mut self, finished: &[(Queue, Copy)]) -> Vec<(Queue, Copy, Vec<Range<u64>>)> {
        let pages = |copy: &Copy| joined(copy.landing.places().iter().map(pages_of).collect());
        let by_cpu = finished.iter().filter(|(_, copy)| copy.by_cpu);
        let mut copied_by_cpu: Vec<_> = by_cpu.map(|(queue, copy)| (*queue, *copy, pages(copy))).collect();
        if self.copied.is_empty() && copied_by_cpu.is_empty() {
            return copied_by_cpu;
        }
        let now = Instant::now();
        for pages in copied_by_cpu.iter().flat_map(|(.., pages)| pages) {
            self.copied.retain(|(_, known)| known != pages);
            self.copied.push((now, pages.clone()));
        }
        for (queue, launch) in finished.iter().filter(|(_, copy)| copy.work == Work::Launch) {
            let met = self.copied.iter().filter(|(_, pages)| launch.meets(pages.start, pages.end));
            let met = joined(met.map(|(_, pages)| pages.clone()).collect());
            copied_by_cpu.extend((!met.is_empty()).then_some((*queue, *launch, met)));
        }
        let mut copied = std::mem::take(&mut self.copied);
        copied.retain(|copied| self.is_unsettled(copied, None));
        self.copied = copied;
        copied_by_cpu
    }
}
