//! Queries about memory: which work in flight uses it, or may use it.

use super::order::Reach;
use super::{Coming, Copy, Pending, State, Uses, Work};
use crate::driver::queue::Queue;
use crate::in_flight::long_results;
use crate::in_flight::node_runs::Turn;
use crate::os::dirty_pages::pages_of;
use crate::os::intervals::{intersections, joined};
use std::ops::Range;
use std::sync::atomic::Ordering::*;
use std::time::{Duration, Instant};
use trace::api::copies::Region;

impl Pending {
    /// Where callbacks have written since this launch was put, in order and apart; none if that is forgotten.
    pub(crate) fn called_back_in(&self, launch: &Copy) -> Option<Vec<Range<u64>>> {
        let state = self.state.lock();
        let since = state.called_back.iter().rev().take_while(|(tick, _)| *tick > launch.position);
        let places = intersections(&launch.landing.extent(), since.map(|(_, place)| place));
        (state.forgotten <= launch.position).then(|| joined(places))
    }

    /// Whether graphs are under way that may run callbacks.
    pub(crate) fn has_graphs(&self) -> bool {
        self.any() && self.state.lock().copies.values().flatten().any(|copy| copy.work == Work::Any)
    }

    /// Whether a launch under way was given memory there.
    pub(crate) fn is_used_by_launch(&self, start: u64, end: u64) -> bool {
        if !self.any() {
            return false;
        }
        let state = self.state.lock();
        state.copies.values().flatten().any(|copy| copy.work == Work::Launch && copy.meets(start, end))
    }

    /// Whether a launch under way was given any that the CPU may write meanwhile: for which it may be
    /// waiting.
    pub(crate) fn has_launches(&self) -> bool {
        self.any() && self.state.lock().copies.values().flatten().any(|copy| copy.work == Work::Launch)
    }

    /// Memory that launches under way were given, in order and apart; so much of it, at most, in bytes, and
    /// no long memory.
    pub(crate) fn launch_memory(&self, most: u64) -> Vec<Range<u64>> {
        if !self.any() {
            return Vec::new();
        }
        let state = self.state.lock();
        let launches = state.copies.values().flatten().filter(|copy| copy.work == Work::Launch);
        let short = launches.filter(|launch| launch.landing.bytes() <= long_results::SHORT);
        let mut given = joined(short.map(|launch| launch.landing.extent()).collect());
        let mut left = most;
        given.retain(|range| {
            let len = range.end - range.start;
            let fits = len <= left;
            left -= if fits { len } else { 0 };
            fits
        });
        given
    }

    /// Whether work under way may write there. `by_name`: only what was given the memory, or may use any.
    pub(crate) fn has(&self, start: u64, end: u64, by_name: bool) -> bool {
        let has = |copy: &Copy| match copy.work {
            Work::Unnamed { any } => any || !by_name,
            Work::Read | Work::Any => false,
            _ => copy.meets(start, end),
        };
        self.any() && self.state.lock().all().any(|(_, copy)| has(copy))
    }

    /// Whether a launch that does not wait for this callback, and for which the callback did not wait, was
    /// given memory there.
    pub(crate) fn is_used_concurrently(&self, range: &Range<u64>, turn: &Turn) -> bool {
        if !self.any() {
            return false;
        }
        self.state.lock().is_at_work(range, Some(turn))
    }

    /// Whether this copy, of the callback's own graph or not, waits for it or is done when it begins.
    pub(crate) fn is_ordered(&self, copy: &Copy, queue: Queue, turn: &Turn) -> bool {
        let state = self.state.lock();
        state.is_ordered((&queue, copy), (turn, &state.completed_before(turn)), true)
    }

    /// Whether a callback that begins finds what its own graph has brought there, and nothing of other work
    /// that does not wait for it.
    pub(crate) fn has_only_own(&self, region: &Region, is_pageable: bool, turn: &Turn) -> bool {
        let state = self.state.lock();
        let done = state.completed_before(turn);
        let (start, end) = (region.address, region.address + region.span());
        // What others bring to pageable memory has made a fill of it.
        let brings = |copy: &Copy| match copy.work {
            Work::Graph(_) => is_pageable,
            Work::Fill => !is_pageable,
            _ => false,
        };
        let looked_at = state.looking.values().map(|(queue, copy)| (queue, copy));
        let mut met = state.all().chain(looked_at).filter(|(_, copy)| copy.meets(start, end));
        let comes = state.coming.values().flat_map(|coming| &coming.memory);
        !comes.clone().any(|place| place.start < end && start < place.end)
            && state
                .copies
                .get(&turn.queue)
                .into_iter()
                .flatten()
                .any(|copy| brings(copy) && copy.landing.is_at(region))
            && met.all(|(queue, copy)| state.is_ordered((queue, copy), (turn, &done), true))
    }

    /// Whether work there waits for the callback that is under way, or about to be.
    pub(crate) fn has_behind(&self, range: &Range<u64>, turn: &Turn) -> bool {
        if !self.any() && self.coming.load(Relaxed) == 0 {
            return false;
        }
        let now = self.position();
        let state = self.state.lock();
        let is_behind = |queue: &Queue, at| state.order.is_behind(*queue, at, (turn.queue, turn.behind));
        let mut there = state.all().filter(|(_, copy)| copy.meets(range.start, range.end));
        let mut coming = state.coming.values().filter(|coming| coming.may_use(range));
        there.any(|(queue, copy)| is_behind(queue, copy.position))
            || coming.any(|coming| coming.queue.is_some_and(|queue| is_behind(&queue, now)))
    }

    /// Whether all that is under way there waits for the one callback, and a launch among it not for the
    /// other.
    pub(crate) fn is_of_one_alone(&self, range: &Range<u64>, user: Option<u32>, one: &Turn, other: &Turn) -> bool {
        let state = self.state.lock();
        let is_users = |thread: u32| user.is_none_or(|user| user == thread);
        let may_be_there = |copy: &Copy| copy.work == Work::Any && is_users(copy.thread);
        let there = || state.all().filter(|(_, copy)| may_be_there(copy) || copy.meets(range.start, range.end));
        let waits = |queue: &Queue, copy: &Copy, turn: &Turn| {
            let is_behind = |position| state.order.is_behind(*queue, position, (turn.queue, turn.behind));
            copy.row.is_ordered(|_| false, is_behind, |_| false)
        };
        !state.is_coming(range, is_users)
            && there().all(|(queue, copy)| waits(queue, copy, one))
            && there().any(|(queue, copy)| copy.work == Work::Launch && !waits(queue, copy, other))
    }

    /// Whether others may be writing where this has, which is being looked at, or may have since it was put,
    /// and a replay has that earlier or later: others than fills and copies behind it, if it is a copy.
    /// `of_several`: whether it is memory that several threads use, and any graph may. `waiter`: the thread
    /// whose call has waited.
    pub(crate) fn has_other_writers(&self, copy: &Copy, of_several: bool, waiter: u32) -> bool {
        let Range { start, end } = copy.landing.extent();
        let may_write = |copy: &Copy| match copy.work {
            Work::Unnamed { any } => any && of_several,
            work => work.writes() && copy.meets(start, end),
        };
        let state = self.state.lock();
        let looked_at = state.looking.get(&copy.position).map_or(copy, |(_, looked_at)| looked_at);
        let is_launch = copy.work == Work::Launch;
        is_launch && state.copies.values().flatten().any(may_write) || !looked_at.is_alone(waiter, of_several)
    }

    /// The parts of a range that work under way was given, in ascending order: what a callback makes of the
    /// rest nobody has use for before the next call. `user`: the only thread whose calls have named it; what
    /// others give the driver has nothing to do with it.
    pub(crate) fn in_use(&self, range: &Range<u64>, user: Option<u32>) -> Vec<Range<u64>> {
        if !self.any() && self.coming.load(Relaxed) == 0 {
            return Vec::new();
        }
        let state = self.state.lock();
        let all = || state.copies.values().flatten();
        let is_users = |thread: u32| user.is_none_or(|user| user == thread);
        let may_be_any = |copy: &Copy| copy.work == Work::Any && is_users(copy.thread);
        if state.is_coming(range, is_users) || all().any(may_be_any) {
            return vec![range.clone()];
        }
        let met = all().filter(|copy| copy.meets(range.start, range.end));
        joined(intersections(range, met.flat_map(|copy| copy.landing.places())))
    }

    /// The parts of a range, in order and apart, where copies of other streams have landed that were put when
    /// a callback had been handed over, and do not wait for it: who writes there now knows of them, and the
    /// callback does not.
    pub(crate) fn landed_since(&self, range: &Range<u64>, turn: &Turn) -> Vec<Range<u64>> {
        let state = self.state.lock();
        let is_since = |(queue, position, _): &&(Queue, u64, Range<u64>)| {
            *queue != turn.queue
                && *position > turn.behind
                && !state.order.is_behind(*queue, *position, (turn.queue, turn.behind))
        };
        joined(intersections(range, state.landed.iter().filter(is_since).map(|(.., place)| place)))
    }

    /// Where copies under way will bring bytes within a range, in ascending order. `thread`: who asks, whose
    /// own call tells by itself.
    pub(crate) fn landing_in(&self, start: u64, len: u64, thread: u32) -> Vec<Range<u64>> {
        self.device_writes_in(start, len, thread, None, false)
    }

    /// The same, and what else on these pages nobody can tell from what the CPU writes for the program.
    /// `turn`: of a callback that has ended; copies aside that wait for it, and cannot have begun.
    pub(crate) fn unsettled_in(&self, start: u64, len: u64, thread: u32, turn: Option<&Turn>) -> Vec<Range<u64>> {
        self.device_writes_in(start, len, thread, turn, true)
    }

    /// Where copies have brought bytes within a range that others are looking at.
    pub(crate) fn looked_at_in(&self, start: u64, end: u64) -> Vec<Range<u64>> {
        if !self.any() {
            return Vec::new();
        }
        let state = self.state.lock();
        let brought = state.looking.values().map(|(_, copy)| copy).filter(|copy| copy.work.lands());
        intersections(&(start..end), brought.flat_map(|copy| copy.landing.places()))
    }

    fn device_writes_in(
        &self,
        start: u64,
        len: u64,
        thread: u32,
        turn: Option<&Turn>,
        by_pages: bool,
    ) -> Vec<Range<u64>> {
        if !self.any() && self.coming.load(Relaxed) == 0 {
            return Vec::new();
        }
        let end = start + len;
        let state = self.state.lock();
        // What the callback waited for is done.
        let done = turn.map(|turn| (turn, state.completed_before(turn)));
        let comes = |queue: &Queue, copy: &Copy| {
            let is_settled = |(turn, done): &(&Turn, Reach)| {
                state.is_ordered((queue, copy), (turn, done), turn.settles(copy.landing))
            };
            copy.work.lands() && copy.meets(start, end) && !done.as_ref().is_some_and(is_settled)
        };
        let copies = state.all().chain(state.looking.values().map(|(queue, copy)| (queue, copy)));
        let places = |copy: &Copy| if by_pages { state.places(copy) } else { copy.landing.places() };
        let found = copies.filter(|(queue, copy)| comes(queue, copy)).flat_map(|(_, copy)| places(copy));
        let copied = state.copied.iter().filter(|copied| by_pages && state.is_unsettled(copied, turn));
        let found = found.chain(copied.map(|(_, pages)| pages.clone()));
        // Of those that are just being given to the driver, too: it may have begun.
        let may_have_begun = |other: u32, coming: &Coming| match (turn, coming.place) {
            // Two threads may have come to the driver the other way round on one stream, but for who came
            // when it had been handed over.
            (Some(turn), Some((queue, position)))
                if queue != turn.queue || other == turn.by.0 || state.is_handed_over(turn, position) =>
            {
                !state.order.is_behind(queue, position, (turn.queue, turn.behind))
            }
            (Some(_), _) => true,
            (None, _) => other != thread,
        };
        let coming = state.coming.iter().filter(|(other, coming)| may_have_begun(**other, coming));
        let found = found.chain(coming.flat_map(|(_, coming)| match by_pages && coming.by_cpu {
            true => state.widened(coming.memory.clone()),
            false => coming.memory.clone(),
        }));
        let mut found = intersections(&(start..end), found);
        found.sort_unstable_by_key(|place| place.start);
        found
    }
}

impl State {
    /// What is under way, with its queue.
    fn all(&self) -> impl Iterator<Item = (&Queue, &Copy)> {
        self.copies.iter().flat_map(|(queue, copies)| copies.iter().map(move |copy| (queue, copy)))
    }

    /// Whether the call that handed over this callback, or a later one of its thread, had returned at this
    /// position, or the callback had begun.
    fn is_handed_over(&self, turn: &Turn, position: u64) -> bool {
        let (thread, call) = turn.by;
        let calls = self.handed_over.get(&thread).into_iter().flatten();
        let returned = calls.filter(|(of, _)| *of >= call).map(|(_, returned)| *returned).next();
        returned.into_iter().chain(turn.begun).any(|since| since < position)
    }

    /// Whether threads of these are about to give the driver work that may use this memory.
    fn is_coming(&self, range: &Range<u64>, of: impl Fn(u32) -> bool) -> bool {
        self.coming.iter().any(|(thread, coming)| of(*thread) && coming.may_use(range))
    }

    /// Where a copy brings bytes. The CPU making it shows on the pages, and what else is new on them a launch
    /// may have brought.
    fn places(&self, copy: &Copy) -> Vec<Range<u64>> {
        let places = copy.landing.places();
        if copy.by_cpu { self.widened(places) } else { places }
    }

    fn widened(&self, mut places: Vec<Range<u64>>) -> Vec<Range<u64>> {
        for place in &mut places {
            let pages = pages_of(place);
            if self.is_at_work(&pages, None) {
                *place = pages;
            }
        }
        places
    }

    /// Whether it is not told yet what shows on pages that the CPU copied to: for a while, as a program that
    /// always has launches under way writes there, too.
    pub(super) fn is_unsettled(&self, (since, pages): &(Instant, Range<u64>), turn: Option<&Turn>) -> bool {
        const A_WHILE: Duration = Duration::from_millis(100);
        since.elapsed() < A_WHILE && self.is_at_work(pages, turn)
    }

    /// Whether a launch may be writing there. `turn`: of a callback, to which it is in no order, and which is
    /// not its own.
    pub(super) fn is_at_work(&self, place: &Range<u64>, turn: Option<&Turn>) -> bool {
        let done = turn.map(|turn| (turn, self.completed_before(turn)));
        let mut launches = self.all().filter(|(_, copy)| copy.work == Work::Launch);
        launches.any(|(queue, launch)| {
            let is_ordered = |(turn, done): &(&Turn, Reach)| self.is_ordered((queue, launch), (turn, done), true);
            launch.meets(place.start, place.end) && !done.as_ref().is_some_and(is_ordered)
        })
    }

    /// What is done when a callback begins.
    fn completed_before(&self, turn: &Turn) -> Reach {
        self.order.by_stream(turn.queue, turn.before)
    }

    /// Whether this, and each that it stands for, is done when a callback begins, or waits for it. `own_is`:
    /// whether what the callback's own graph does is in an order to it.
    fn is_ordered(&self, (queue, copy): (&Queue, &Copy), (turn, done): (&Turn, &Reach), own_is: bool) -> bool {
        let is_put = |position, until| position != copy.position || *queue == turn.queue || copy.is_put_before(until);
        let is_before = |position| done.get(queue).is_some_and(|until| position < *until && is_put(position, *until));
        let is_behind = |position| self.order.is_behind(*queue, position, (turn.queue, turn.behind));
        // Another thread may put work there at the same time.
        let is_by = |position| position != copy.position || copy.is_of(turn);
        let is_own =
            |position| *queue == turn.queue && (turn.before..turn.behind).contains(&position) && is_by(position);
        copy.row.is_ordered(is_before, is_behind, |position| own_is && is_own(position))
    }
}

impl Coming {
    fn may_use(&self, range: &Range<u64>) -> bool {
        let meet =
            |places: &[Range<u64>]| places.iter().any(|place| place.start < range.end && range.start < place.end);
        match &self.uses {
            Uses::Any => true,
            Uses::Only(places) => meet(places) || meet(&self.memory),
        }
    }
}
