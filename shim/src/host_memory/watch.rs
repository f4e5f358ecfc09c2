//! Memory that the device can reach and the CPU writes without a call. Its changes are recorded before the
//! next call that submits work, waits for it or queries it.
//!
//! Pinned and managed memory is watched once a kernel argument or a graph has referred to it; copies record
//! the bytes that they read. When watching begins, all of the memory is recorded. From then on Linux reports
//! the pages that the CPU touched, and only bytes on them that differ from the shadow are recorded, so that
//! device writes nearby are left alone.

mod device_writes;
mod lookups;
mod referred;
mod scan;
mod watched;

use crate::driver::queries;
use crate::host_memory::host_writes::HostWrites;
use crate::host_memory::shadow::Shadow;
use crate::in_flight::pinned::Ranges;
use crate::in_flight::running_callbacks::Callbacks;
use crate::in_flight::users::Users;
use crate::os::dirty_pages::Tracker;
use crate::os::external_writers::{self, ExternalWriters};
use crate::os::lock::Lock;
use crate::os::{generation, maps};
use crate::trace_file::recorder_parts::Surroundings;
use scan::may_be_theirs;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use std::time::Duration;
use std::time::Instant;
use trace::api::roles::Class;
use trace::file::preamble::Data;
use watched::{Reason, Watched, edges, sharing};

/// Where Linux cannot tell what was written, everything is compared; longer memory than this is not, and
/// counted.
const MOST_COMPARED: u64 = 256 << 10;
/// Of one range no more than this is recorded when watching begins; what is larger is not watched, and
/// counted.
const MOST_RECORDED: u64 = 1 << 30;
/// Each piece may cost the program two mappings, of which a process has 65,530.
const MOST_WATCHED: usize = 8192;
const SHORT: usize = 32;

const OF_OTHERS: &str = "writes of other processes to shared memory";

pub(crate) struct Watch {
    data: Data,
    /// Has the end of the process begin with a scan of managed memory.
    scans_last: fn(),
    external_writers: ExternalWriters,
    /// Managed memory, whether watched or not.
    pub managed: Ranges,
    /// Managed memory made since the last launch, and whether there is any: start and length.
    fresh: Lock<Vec<(u64, u64)>>,
    is_fresh: AtomicBool,
    count: AtomicUsize,
    /// Whether the end of the process will be told what the CPU has of managed memory.
    is_scanned_last: AtomicBool,
    /// Whether addresses of pinned memory stand in memory that kernels get to.
    pub stored: AtomicBool,
    state: Lock<State>,
}

#[derive(Default)]
struct State {
    tracker: Option<Tracker>,
    /// By their start.
    ranges: BTreeMap<u64, Watched>,
    /// The starts of ranges that are too large to be watched, or that there was no room for.
    refused: BTreeSet<u64>,
    callbacks: Callbacks,
    /// Whether the process had forked when it was last looked who has its shared memory.
    has_forked: bool,
    /// Into which memory is read: kept, as the program's allocator would map as much anew each time.
    copy: Vec<u8>,
}

impl State {
    /// Whether Linux tells what is written in this memory, if it is followed already.
    fn is_tracked(&mut self, users: Users, start: u64, len: u64) -> Option<bool> {
        let (_, known) = self.ranges.range_mut(..=start).next_back().filter(|(_, known)| start + len <= known.end)?;
        (known.prepared, known.users) = (false, known.users.and(users));
        known.is_stored |= known.pinned && users == Users::Nobody;
        Some(known.tracked)
    }
}

impl Watch {
    pub(crate) fn new(data: Data, scans_last: fn()) -> Watch {
        Watch {
            data,
            scans_last,
            external_writers: ExternalWriters::default(),
            managed: Ranges::default(),
            fresh: Lock::default(),
            is_fresh: AtomicBool::default(),
            count: AtomicUsize::default(),
            is_scanned_last: AtomicBool::default(),
            stored: AtomicBool::default(),
            state: Lock::default(),
        }
    }

    /// Who else writes what is watched is named once.
    pub(crate) fn look_for_external_writers(&self, period: Duration, around: &Surroundings) {
        if !self.any() {
            return;
        }
        if let Some(what) = self.external_writers.look(period, &|memory| self.overlaps(memory)) {
            around.lose(what);
            generation::say_last(what);
        }
    }

    /// Whether anything is watched.
    #[inline(always)]
    pub(crate) fn any(&self) -> bool {
        self.count.load(Relaxed) != 0
    }

    /// Begins to watch the source of a copy, which callbacks under way may still write.
    pub(crate) fn watch_prepared(&self, start: u64, len: u64, writes: &mut HostWrites) -> bool {
        let tracked = self.watch(start, len, false, writes);
        if let Some(watched) = self.state.lock().ranges.get_mut(&start).filter(|watched| watched.end == start + len) {
            watched.prepared = true;
        }
        tracked
    }

    /// Begins to watch this memory, which a call names, and records what it holds. Whether Linux tells what
    /// is written there.
    pub(crate) fn watch(&self, start: u64, len: u64, managed: bool, writes: &mut HostWrites) -> bool {
        self.watch_for(Users::One(writes.thread()), start, len, managed, writes)
    }

    fn watch_for(&self, users: Users, start: u64, len: u64, managed: bool, writes: &mut HostWrites) -> bool {
        let around = writes.around;
        let mut state = self.state.lock();
        if let Some(tracked) = state.is_tracked(users, start, len) {
            writes.found_by_now();
            return tracked;
        }
        let before = state.ranges.len();
        // What others find done from now on they tell when this is over: it has been left out here.
        self.count.store(state.ranges.len() + 1, Relaxed);
        let tracked = Self::watch_in(&mut state, users, start, len, managed, writes);
        let more = state.ranges.len() > before;
        if managed && !self.is_scanned_last.swap(true, Relaxed) {
            (self.scans_last)();
        }
        self.count.store(state.ranges.len(), Relaxed);
        writes.found_by_now();
        drop(state);
        if more {
            self.look_for_external_writers(external_writers::SOON, around);
        }
        tracked
    }

    fn watch_in(state: &mut State, users: Users, start: u64, len: u64, managed: bool, writes: &mut HostWrites) -> bool {
        let around = writes.around;
        if state.refused.contains(&start) {
            return false;
        }
        let is_crowded = state.ranges.len() >= MOST_WATCHED;
        let Some(shadow) = (if is_crowded { None } else { Shadow::with_len(len) }) else {
            let why = ["CPU writes to host memory, for lack of memory", "CPU writes to host memory in too many ranges"];
            writes.lose(start, len as usize, why[usize::from(is_crowded)]);
            // Once for each: the next launch is likely to be given it again.
            if state.refused.len() >= MOST_WATCHED {
                state.refused.clear();
            }
            state.refused.insert(start);
            return false;
        };
        let State { tracker, ranges, refused, callbacks, .. } = state;
        let tracker = tracker.get_or_insert_with(Tracker::open);
        let pinned = around.pinned.holds(start, len);
        let mut watched = Watched {
            end: start + len,
            managed,
            since: Instant::now(),
            pinned,
            tracked: managed,
            is_shared: false,
            told: false,
            users,
            is_stored: pinned && users == Users::Nobody,
            prepared: false,
            edges: Vec::new(),
            is_noisy: false,
            left: Vec::new(),
            back: Vec::new(),
            shadow,
        };
        if pinned && !around.pinned.is_the_drivers(start) {
            watched.edges = edges(&(start..watched.end));
            // The thread, and the driver on its behalf, will write beside it.
            watched.is_noisy = writes.stack.as_ref().is_some_and(|stack| stack.contains(&start));
        }
        let pages = watched.pages(start);
        let mut here = Vec::new();
        if managed {
            // What is not here the device has, or nobody touched.
            watched.tracked = tracker.present(pages, &mut here);
        } else {
            watched.is_shared = maps::is_shared(&pages, around.pinned.is_the_drivers(start));
            watched.tracked = !(watched.is_shared && len <= MOST_COMPARED) && tracker.arm(&pages);
            if watched.is_shared && watched.tracked {
                writes.lose(start, 0, OF_OTHERS);
            }
            // What was written beside it, on a page in common, shows no more.
            let (already, reason) = (writes.places.len(), Reason::Call(Class::submit));
            for (other, known) in sharing(ranges, &pages) {
                // Memory that is gone the next scan drops.
                let _ = known.compare(*other, &pages, reason, writes);
            }
            may_be_theirs(callbacks, ranges, &writes.places[already..], reason, &around.pending);
            here.push(pages);
        }
        if here.iter().map(|pages| pages.end - pages.start).sum::<u64>() > MOST_RECORDED {
            refused.insert(start);
            tracker.disarm(&watched.pages(start));
            writes.lose(start, 0, "host memory of more than 1 GiB passed to kernels");
            return false;
        }
        watched.record(start, here, writes);
        // Others may have looked at it just before this was watched, and will not come back to it.
        for range in around.pending.looked_at_in(start, start + len) {
            match managed {
                true => watched.back.push(range),
                false => _ = watched.take_over(start, range, &[], tracker, &mut Vec::new()),
            }
        }
        let tracked = watched.tracked;
        if tracked {
            take_in_pieces(ranges, start, &mut watched);
        }
        ranges.insert(start, watched);
        tracked
    }

    /// A call of this thread names the memory: it is not another's alone any more, and what is written there
    /// to be told before the call.
    pub(crate) fn claim(&self, thread: u32, memory: impl Iterator<Item = Range<u64>>) {
        let mut state = self.state.lock();
        for range in memory {
            let met = state.ranges.range_mut(..range.end).filter(|(_, watched)| watched.end > range.start);
            met.for_each(|(_, watched)| watched.users = watched.users.and(Users::One(thread)));
        }
    }

    /// The memory is about to be given back; what the CPU had in managed memory is what the program saw of
    /// it. `entirely`: parts of it that are watched for themselves end with it.
    pub(crate) fn forget(&self, start: u64, len: u64, entirely: bool, mut writes: Option<&mut HostWrites>) {
        let mut state = self.state.lock();
        // What a graph reads of it as pageable memory stays, unless the memory itself goes.
        let within = state.ranges.range(start..start.saturating_add(len.max(1)));
        let ending = within.filter(|(at, watched)| entirely || watched.pinned || **at == start);
        let ending: Vec<u64> = ending.map(|(start, _)| *start).collect();
        ending.iter().chain(&[start]).for_each(|start| _ = state.refused.remove(start));
        let State { tracker: Some(tracker), ranges, .. } = &mut *state else { return };
        for start in ending {
            let Some(mut watched) = ranges.remove(&start) else { continue };
            let pages = watched.pages(start);
            if watched.managed {
                let mut here = Vec::new();
                if let (Some(writes), true) = (writes.as_deref_mut(), tracker.present(pages, &mut here)) {
                    // Memory that is gone already has nothing left to tell.
                    let _ = here.iter().all(|pages| watched.compare(start, pages, Reason::Call(Class::submit), writes));
                }
            } else if watched.tracked {
                tracker.disarm(&pages);
                // Those that had a page in common with it are watched on; what was written there since the
                // last scan must show.
                for (other, watched) in sharing(ranges, &pages) {
                    let shared = watched.pages(*other);
                    tracker.register(&(shared.start.max(pages.start)..shared.end.min(pages.end)));
                }
            }
        }
        self.count.store(ranges.len(), Relaxed);
    }

    /// What the CPU has of managed memory, which may be gone with its context or the process. Where work is
    /// under way it may be the device's by now, and nobody can say what of that the program has seen.
    pub(crate) fn scan_last(&self, writes: &mut HostWrites) {
        let around = writes.around;
        let mut state = self.state.lock();
        let State { tracker: Some(tracker), ranges, .. } = &mut *state else { return };
        for (start, watched) in ranges.iter_mut().filter(|(_, watched)| watched.managed && watched.tracked) {
            let mut here = Vec::new();
            let is_busy = around.pending.has(*start, watched.end, !watched.is_small(*start));
            if !is_busy && tracker.present(watched.pages(*start), &mut here) {
                // Memory that is gone already has nothing left to tell.
                let _ = here.iter().all(|pages| watched.compare(*start, pages, Reason::Call(Class::submit), writes));
            }
        }
        writes.found_by_now();
    }

    /// Stops watching what is no pinned, or no managed, memory any more.
    pub(crate) fn forget_freed(&self, pinned: &Ranges) {
        for (start, len) in self.managed.remove_freed(|start| queries::is_managed(start) == Some(false)) {
            self.forget(start, len, true, None);
        }
        let state = self.state.lock();
        let gone = |(start, watched): (&u64, &Watched)| {
            let len = watched.end - start;
            (watched.pinned && !pinned.holds(*start, len)).then_some((*start, len))
        };
        let gone: Vec<(u64, u64)> = state.ranges.iter().filter_map(gone).collect();
        drop(state);
        gone.into_iter().for_each(|(start, len)| self.forget(start, len, false, None));
    }
}

/// Pieces of a range that begins to be followed are followed with it: whoever asks who follows an address
/// finds the whole.
fn take_in_pieces(ranges: &mut BTreeMap<u64, Watched>, start: u64, watched: &mut Watched) {
    let within = ranges
        .range(start..watched.end)
        .filter(|(_, piece)| piece.end <= watched.end && piece.pinned == watched.pinned);
    let pieces: Vec<u64> = within.map(|(at, _)| *at).collect();
    for piece in pieces.iter().filter_map(|at| ranges.remove(at)) {
        watched.left.extend(piece.left);
        watched.users = watched.users.and(piece.users);
        watched.is_stored |= piece.is_stored;
    }
}
