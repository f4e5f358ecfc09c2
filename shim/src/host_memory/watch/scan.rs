//! Scans: searches of watched memory for CPU writes since the last scan.

use super::watched::{Reason, Watched, clusters};
use super::{MOST_COMPARED, OF_OTHERS, State, Watch};
use crate::driver::queue::Queue;
use crate::host_memory::host_writes::HostWrites;
use crate::in_flight::host_functions;
use crate::in_flight::node_runs::Turn;
use crate::in_flight::pending::{Copy, Pending, Uses};
use crate::in_flight::running_callbacks::{Callbacks, Running};
use crate::in_flight::users::Users;
use crate::os::dirty_pages::{PAGE, Tracker};
use crate::os::intervals::{intersections, joined, without};
use crate::os::{forks, maps};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::Ordering::*;
use trace::api::roles::Class;
use trace::file::record;

impl Watch {
    /// Adds what the CPU wrote since the last scan, before a call. What a callback that ends from now on has
    /// written it tells itself, if the call gives the device work: the call would scan for it in vain, but
    /// for what it copies itself. `queue`: where the call will put work, if callbacks may be under way.
    pub(crate) fn scan(&self, class: Class, uses: Uses, queue: Option<Queue>, is_copy: bool, writes: &mut HostWrites) {
        let around = writes.around;
        let pending = &around.pending;
        let is_work =
            matches!(class, Class::launch | Class::submit) && !matches!(&uses, Uses::Only(none) if none.is_empty());
        let may_be_beside = is_work && (host_functions::any_under_way() || host_functions::any_of_nodes());
        let thread = writes.thread();
        if !self.any() {
            return if may_be_beside {
                pending.enters(thread, uses, queue)
            };
        }
        let mut state = self.state.lock();
        let already = writes.places.len();
        // Whoever waits for the callbacks, too, may have filled it as soon as one had given it back.
        let own = match &uses {
            Uses::Only(sources) if is_copy => joined(sources.clone()),
            _ => Vec::new(),
        };
        self.scan_for(&mut state, Reason::Call(class), &own, writes);
        // Before a callback can end; and not earlier, as what was found now is told for the call.
        if may_be_beside {
            pending.enters(thread, uses, queue);
        }
        pending.written(thread, &writes.places[already..]);
        writes.found_by_now();
    }

    /// When a wait has returned: what others wrote in pinned memory since it began.
    pub(crate) fn scan_after_wait(&self, writes: &mut HostWrites) {
        let around = writes.around;
        let mut state = self.state.lock();
        self.scan_for(&mut state, Reason::Meanwhile, &[], writes);
        around.pending.written(writes.thread(), &writes.places);
        writes.found_by_now();
    }

    /// Waits for a scan that is under way.
    pub(crate) fn wait_for_scan(&self) {
        drop(self.state.lock());
    }

    /// The number by which its end is told. `thread`: which handed it over.
    pub(crate) fn callback_begins(&self, thread: u32, turn: Option<Turn>) -> u64 {
        self.state.lock().callbacks.begins(thread, turn)
    }

    /// The CPU has copied to these pages for the driver, and this, which is done, worked there: what shows on
    /// them is not of callbacks beside it.
    pub(crate) fn copied_by_cpu(&self, pending: &Pending, copy: &Copy, queue: Queue, pages: &[Range<u64>]) {
        let mut state = self.state.lock();
        if state.callbacks.any() {
            let is_unordered = |turn: &Turn| !pending.is_ordered(copy, queue, turn);
            state.callbacks.copied(pages, is_unordered);
        }
    }

    /// As `scan`. Also where nothing seems to be watched: a copy may just be beginning to watch what this
    /// callback wrote. What waits for its turn has brought nothing yet.
    pub(crate) fn callback_ends(&self, number: u64, turn: Option<&Turn>, writes: &mut HostWrites) {
        let around = writes.around;
        let mut state = self.state.lock();
        let ended = state.callbacks.ends(number);
        let is_short = ended.as_ref().is_some_and(Running::is_short);
        let copied = ended.as_ref().map_or(&[][..], |ended| &ended.copied);
        self.scan_for(&mut state, Reason::Callback { turn, copied }, &[], writes);
        around.pending.called_back(&writes.places);
        if let Some(Running { began, found, .. }) = ended.filter(|_| is_short) {
            around.pending.called_back(&found);
            for range in joined(found) {
                // What began to be watched meanwhile was recorded as a whole then: what came later is newer
                // than that. Nobody reads what is watched no more.
                let around = state.ranges.range_mut(..=range.start).next_back();
                let Some((start, watched)) = around.filter(|(_, watched)| watched.end >= range.end) else { continue };
                let how = if watched.since >= began { record::WRITTEN_HERE } else { record::TOLD };
                watched.tell_again(*start, &range, how, writes);
            }
        }
        writes.found_by_now();
    }

    /// `own`: in order, what the call itself copies.
    fn scan_for(&self, state: &mut State, reason: Reason, own: &[Range<u64>], writes: &mut HostWrites) {
        let around = writes.around;
        let already = writes.places.len();
        self.scan_all(state, reason, own, writes);
        let State { callbacks, ranges, .. } = state;
        may_be_theirs(callbacks, ranges, &writes.places[already..], reason, &around.pending);
    }

    fn scan_all(&self, state: &mut State, reason: Reason, own: &[Range<u64>], writes: &mut HostWrites) {
        let around = writes.around;
        if forks::has_forked() && !std::mem::replace(&mut state.has_forked, true) {
            has_children(&mut state.ranges, writes);
        }
        let State { tracker, ranges, callbacks, .. } = state;
        let Some(tracker) = tracker else { return };
        let touched = written_pages(tracker, ranges);
        let pending = &around.pending;
        let scan = Scan { reason, own, thread: writes.thread(), tracker, callbacks, pending, touched };
        let mut gone = Vec::new();
        let is_still = scan.touched.is_empty();
        for (start, watched) in ranges.iter_mut().filter(|(_, watched)| !(is_still && watched.is_quiet())) {
            let (here, fresh) = scan.to_be_read(*start, watched, writes);
            let already = writes.places.len();
            if !here.iter().all(|pages| watched.compare(*start, pages, reason, writes)) {
                gone.push(*start);
            }
            // What the CPU had copied there for the driver is left for later.
            let told = || joined([&watched.left[..], &watched.back, &writes.places[already..]].concat());
            // Where several threads write others may have found it.
            let is_ones = watched.users != Users::Several && !fresh.is_empty();
            if is_ones && may_be_put_back(pending, &(*start..watched.end), &fresh, &told()) {
                writes.lose(*start, 0, "CPU writes that restored earlier bytes in memory of kernels in flight");
            }
        }
        for start in gone {
            ranges.remove(&start);
            if around.pinned.find(start).is_some() {
                writes.lose(start, 0, "pinned memory that could not be read");
            }
        }
        self.count.store(ranges.len(), Relaxed);
    }
}

/// The process has forked: what shared memory was its own is its children's, too, from now on.
#[cold]
fn has_children(ranges: &mut BTreeMap<u64, Watched>, writes: &mut HostWrites) {
    let (pinned, maps) = (&writes.around.pinned, maps::read());
    for (start, watched) in ranges.iter_mut().filter(|(_, watched)| !watched.managed && !watched.is_shared) {
        watched.is_shared = maps::is_shared_in(&maps, &watched.pages(*start), pinned.is_the_drivers(*start));
        if watched.is_shared && watched.tracked {
            writes.lose(*start, 0, OF_OTHERS);
        }
    }
}

/// The pages of pinned memory that the CPU has written, in order. Ranges may share pages, whose protection is
/// renewed when one of them is looked at: pages first, then their bytes.
fn written_pages(tracker: &Tracker, ranges: &mut BTreeMap<u64, Watched>) -> Vec<Range<u64>> {
    let mut touched = Vec::new();
    let untold: Vec<_> = clusters(ranges).filter(|pages| !tracker.written(pages.clone(), &mut touched)).collect();
    for pages in untold {
        // Mapped anew behind our back.
        ranges.range_mut(..pages.end).for_each(|(_, w)| w.tracked &= w.managed || w.end <= pages.start);
    }
    touched
}

/// One scan of all watched memory.
struct Scan<'s> {
    reason: Reason<'s>,
    /// In order, what the call itself copies.
    own: &'s [Range<u64>],
    thread: u32,
    tracker: &'s Tracker,
    callbacks: &'s Callbacks,
    pending: &'s Pending,
    /// Pages of pinned memory that the CPU has written, in order.
    touched: Vec<Range<u64>>,
}

impl Scan<'_> {
    /// The pages of this memory that are compared with what is known of them, and those that were written
    /// since the last scan, if it is one before a call.
    fn to_be_read(
        &self,
        start: u64,
        watched: &mut Watched,
        writes: &mut HostWrites,
    ) -> (Vec<Range<u64>>, Vec<Range<u64>>) {
        let is_wait = matches!(self.reason, Reason::Call(Class::synchronize | Class::poll));
        let is_meanwhile = matches!(self.reason, Reason::Meanwhile);
        let (mut here, mut fresh) = (Vec::new(), Vec::new());
        if is_meanwhile && (watched.managed || !watched.tracked) {
            // The next call looks at it.
        } else if watched.managed && watched.users == Users::Nobody && is_wait {
            // All of what the CPU has there would be compared, for nobody who is likely to use it.
        } else if watched.managed && watched.tracked {
            watched.tracked = self.tracker.present(watched.pages(start), &mut here);
        } else if watched.tracked {
            let first = self.touched.partition_point(|pages| pages.end <= start);
            here.extend(self.touched[first..].iter().take_while(|pages| pages.start < watched.end).cloned());
            if matches!(self.reason, Reason::Call(_)) {
                fresh.clone_from(&here);
            }
            here = self.with_what_was_left(start, watched, here);
            if self.is_left(start, watched) {
                let left = std::mem::take(&mut here);
                here = left.iter().flat_map(|pages| intersections(pages, self.own)).collect();
                watched.left.extend(left.into_iter().flat_map(|pages| without(pages, self.own)));
            }
        } else if watched.end - start <= MOST_COMPARED && !watched.managed {
            here.push(watched.pages(start));
        } else if !std::mem::replace(&mut watched.told, true) {
            writes.lose(start, 0, "CPU writes to host memory, which this Linux kernel cannot follow");
        }
        (here, fresh)
    }

    /// And the pages that earlier scans have left. What was left long ago need not be the callback's that has
    /// ended: a launch beside it may be writing there.
    fn with_what_was_left(&self, start: u64, watched: &mut Watched, mut here: Vec<Range<u64>>) -> Vec<Range<u64>> {
        if watched.left.is_empty() {
            return here;
        }
        let end = watched.end;
        let is_doubtful = |pages: &Range<u64>| {
            let own = pages.start.max(start)..pages.end.min(end);
            matches!(self.reason, Reason::Callback { turn: Some(turn), .. } if self.pending.is_used_concurrently(&own, turn))
        };
        let (doubtful, sure) = std::mem::take(&mut watched.left).into_iter().partition(is_doubtful);
        watched.left = doubtful;
        here.extend::<Vec<_>>(sure);
        joined(here)
    }

    /// Whether what was written there is told later: what other threads alone have named is for their calls
    /// and callbacks; before a call that gives the device work only if one of these may be at it.
    fn is_left(&self, start: u64, watched: &Watched) -> bool {
        let is_callback = matches!(self.reason, Reason::Callback { .. });
        if !is_callback && self.callbacks.any() && watched.prepared {
            return true;
        }
        let is_of_others = matches!(self.reason, Reason::Call(class) if class != Class::launch) || is_callback;
        let Some(user) = watched.users.only().filter(|user| *user != self.thread && is_of_others) else { return false };
        match self.reason {
            // Work of the other thread that is behind the callback has it for its input.
            Reason::Callback { turn: Some(turn), .. } => !self.pending.has_behind(&(start..watched.end), turn),
            Reason::Callback { .. } | Reason::Meanwhile => true,
            Reason::Call(Class::launch | Class::submit | Class::copy) => self.callbacks.may_write(user),
            // A kernel under way may be waiting for what the CPU has written there.
            Reason::Call(_) => self.callbacks.may_write(user) || !self.pending.is_used_by_launch(start, watched.end),
        }
    }
}

/// Whether a page was written and holds what it had held, in memory of a kernel under way: the program may
/// have put that back in the place of a result which it knew to be there by other means than a call. On pages
/// that belong to others, too, that may be theirs.
fn may_be_put_back(pending: &Pending, memory: &Range<u64>, touched: &[Range<u64>], found: &[Range<u64>]) -> bool {
    let inner = |range: &Range<u64>| range.start.next_multiple_of(PAGE)..range.end / PAGE * PAGE;
    let silent = intersections(&inner(memory), touched).into_iter().flat_map(|pages| without(pages, found));
    silent
        .map(|rest| inner(&rest))
        .any(|pages| pages.start < pages.end && pending.is_used_by_launch(pages.start, pages.end))
}

/// What was found may have been written by callbacks that run.
pub(super) fn may_be_theirs(
    callbacks: &mut Callbacks,
    ranges: &BTreeMap<u64, Watched>,
    found: &[Range<u64>],
    reason: Reason,
    pending: &Pending,
) {
    for place in found {
        let user = ranges.range(..=place.start).next_back().and_then(|(_, watched)| watched.users.only());
        // What one has written before its end another that runs has not, if it is for work that does not wait
        // for that.
        let is_only_ones = |other: &Turn| match reason {
            Reason::Callback { turn: Some(one), .. } => pending.is_of_one_alone(place, user, one, other),
            _ => false,
        };
        callbacks.record_found(user, |other| match other.is_some_and(is_only_ones) {
            true => Vec::new(),
            false => pending.in_use(place, user),
        });
    }
}
