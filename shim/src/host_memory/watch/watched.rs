//! One watched range of memory.

use crate::host_memory::host_writes::{HostWrites, PIECE};
use crate::host_memory::shadow::{NEAR, Shadow};
use crate::in_flight::node_runs::Turn;
use crate::in_flight::pending::Pending;
use crate::in_flight::users::Users;
use crate::os::dirty_pages::{PAGE, Tracker, pages_of};
use crate::os::intervals::{self, intersections, joined, without};
use crate::os::probe::{bytes_at, copy_of};
use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Instant;
use trace::api::roles::Class;

pub(super) struct Watched {
    pub end: u64,
    pub managed: bool,
    pub since: Instant,
    /// Modules to the driver: otherwise a graph's node reads it, whatever ends.
    pub pinned: bool,
    /// Whether Linux tells which of its pages were written.
    pub tracked: bool,
    /// Whether others may write there, which Linux does not tell.
    pub is_shared: bool,
    /// That it does not has been told.
    pub told: bool,
    /// Whose calls have named it: other memory kernels find by pointers, and callbacks.
    pub users: Users,
    /// Pinned, and an address of it stands in memory that kernels get to: any launch may have been at work
    /// there.
    pub is_stored: bool,
    /// Only copies read it, and callbacks were about to run when the first did: what changes while one runs
    /// is left to it.
    pub prepared: bool,
    /// At its ends, on pages that it shares with other memory of the program's. Short memory alone has any.
    pub edges: Vec<Range<u64>>,
    /// The program writes on those pages and not here: that a page was written tells nothing then.
    pub is_noisy: bool,
    /// What was written and has not been looked at: until the callback ends, or copies have brought what they
    /// bring there.
    pub left: Vec<Range<u64>>,
    /// What work may have changed unseen since the last scan, in order and apart: told as a whole where the
    /// CPU has it again, or writes.
    pub back: Vec<Range<u64>>,
    pub shadow: Shadow,
}

/// The reason for a scan.
#[derive(Clone, Copy)]
pub(super) enum Reason<'t> {
    /// Before a call: a launch can read anything, a wait nothing.
    Call(Class),
    /// A callback has ended, whose turn it was. `copied`: pages that the CPU copied to beside it, in order
    /// and apart.
    Callback { turn: Option<&'t Turn>, copied: &'t [Range<u64>] },
    /// A wait has returned.
    Meanwhile,
}

impl Watched {
    /// Records what this memory holds as watching begins. `here`: the pages of it that the CPU has.
    pub(super) fn record(&mut self, start: u64, here: Vec<Range<u64>>, writes: &mut HostWrites) {
        let (around, thread) = (writes.around, writes.thread());
        let landing_in = |at, len| around.pending.landing_in(at, len, thread);
        let before = landing_in(start, self.end - start);
        let here = here.into_iter().map(|range| range.start.max(start)..range.end.min(self.end));
        for range in here.flat_map(|range| without(range, &before)).collect::<Vec<_>>() {
            for at in range.clone().step_by(PIECE as usize) {
                let step = PIECE.min(range.end - at) as usize;
                let Some(bytes) = bytes_at(at, step, true) else {
                    writes.lose(at, step, "pinned memory that could not be read");
                    continue;
                };
                // Nor what others gave the driver to be written there while it was read.
                for range in without(at..at + step as u64, &landing_in(at, step as u64)) {
                    let bytes = &bytes[(range.start - at) as usize..(range.end - at) as usize];
                    self.shadow.write((range.start - start) as usize, bytes);
                    writes.add(self.managed.into(), range.start, bytes);
                }
            }
        }
    }

    pub(super) fn pages(&self, start: u64) -> Range<u64> {
        pages_of(&(start..self.end))
    }

    /// Managed, and so small that it is told as a whole after any launch.
    pub(super) fn is_small(&self, start: u64) -> bool {
        const SMALL: u64 = 64 << 10;
        self.managed && self.end - start <= SMALL
    }

    /// Where nobody can tell what the CPU writes from what a kernel does.
    pub(super) fn doubtful(&self) -> &[Range<u64>] {
        if self.is_noisy { &self.edges } else { &[] }
    }

    /// What is there now is known, but for the pages where the CPU wrote: those parts. `copied`: pages, in
    /// order, to which it has only copied for the driver. `copy`: to read into, before Linux is asked.
    pub(super) fn take_over(
        &mut self,
        start: u64,
        within: Range<u64>,
        copied: &[Range<u64>],
        tracker: &Tracker,
        copy: &mut Vec<u8>,
    ) -> Vec<Range<u64>> {
        // To read managed memory would bring it here.
        let is_followed = self.tracked && !self.managed;
        // By Linux, also what the driver has given: another thread may be ending its context.
        match is_followed && copy_of(within.start, (within.end - within.start) as usize, copy) {
            true => self.take_over_bytes(start, within, copy, copied, tracker),
            false => vec![within],
        }
    }

    /// The same, of what has just been read there.
    pub(super) fn take_over_bytes(
        &mut self,
        start: u64,
        within: Range<u64>,
        bytes: &[u8],
        copied: &[Range<u64>],
        tracker: &Tracker,
    ) -> Vec<Range<u64>> {
        // Now, as what is written after it was read shows on the page before it is there.
        let mut touched = self.left.clone();
        if !self.tracked || self.managed || !tracker.written_so_far(pages_of(&within), &mut touched) {
            return vec![within];
        }
        let touched = joined(touched).into_iter().flat_map(|pages| without(pages, copied));
        let touched: Vec<_> = touched.flat_map(|pages| without(pages, self.doubtful())).collect();
        for range in without(within.clone(), &touched) {
            let at = (range.start - within.start) as usize..(range.end - within.start) as usize;
            self.shadow.write((range.start - start) as usize, &bytes[at]);
        }
        intervals::intersections(&within, touched)
    }

    /// What was found by others, and is told for a callback, too. What work has brought since, which cannot
    /// have waited for the callback, that does not write; what the CPU has, shows later.
    pub(super) fn tell_again(&mut self, start: u64, range: &Range<u64>, how: u32, writes: &mut HostWrites) {
        for at in range.clone().step_by(PIECE as usize) {
            // What is not there any more no copy reads.
            let Some(bytes) = bytes_at(at, PIECE.min(range.end - at) as usize, true) else { return };
            for same in self.shadow.same((at - start) as usize, &bytes) {
                writes.add(how, at + same.start as u64, &bytes[same]);
            }
        }
    }

    /// False if the memory is not there any more.
    pub(super) fn compare(&mut self, start: u64, pages: &Range<u64>, reason: Reason, writes: &mut HostWrites) -> bool {
        let around = writes.around;
        let (turn, copied) =
            if let Reason::Callback { turn, copied } = reason { (turn, copied) } else { (None, &[][..]) };
        let range = pages.start.max(start)..pages.end.min(self.end);
        // They may have a page in common, and on it nothing.
        if range.is_empty() {
            return true;
        }
        // What copies are still bringing is theirs.
        let thread = writes.thread();
        let landing_in = |range: &Range<u64>| {
            let pending = &around.pending;
            let mut landing = pending.unsettled_in(range.start, range.end - range.start, thread, turn);
            landing.extend(intersections(range, copied));
            landing.sort_unstable_by_key(|place| place.start);
            landing
        };
        let landing = landing_in(&range);
        // And what the CPU has written there besides shows later.
        let shows_later = self.tracked && !self.managed;
        // A wait covers the kernel, or the next call that gives work finds it.
        let waits = matches!(reason, Reason::Meanwhile | Reason::Call(Class::synchronize | Class::poll | Class::copy));
        let may_be_kernels = waits && !self.edges.is_empty() && around.pending.is_used_by_launch(start, self.end);
        let doubtful = if may_be_kernels { self.edges.clone() } else { Vec::new() };
        if let Reason::Call(_) = reason {
            self.is_noisy |= doubtful.iter().any(|edge| meets(edge, &range) && self.is_as_known(start, edge));
        }
        let landing = if self.is_noisy { joined([landing, doubtful].concat()) } else { landing };
        if shows_later {
            self.left.extend(landing.iter().cloned());
        }
        let ranges = without(range, &landing).into_iter();
        let ranges = ranges.flat_map(|range| match reason {
            Reason::Call(_) | Reason::Meanwhile => vec![range],
            // The driver moves pages with their neighbours: by the next call they may be the device's.
            Reason::Callback { .. } if self.managed => vec![range],
            // The rest is told before the next call, by whomever it was written.
            Reason::Callback { .. } => {
                // A graph is used by who has made it, whoever launches it.
                let is_makers = |user: u32| user == thread && turn.is_some_and(Turn::is_of_graph);
                let user = self.users.only().filter(|user| !is_makers(*user));
                let pending = &around.pending;
                let landed = turn.map_or(Vec::new(), |turn| pending.landed_since(&range, turn));
                let in_use: Vec<_> =
                    pending.in_use(&range, user).into_iter().flat_map(|used| without(used, &landed)).collect();
                if self.tracked {
                    self.left.extend(without(range, &in_use));
                }
                in_use
            }
        });
        for range in ranges.collect::<Vec<_>>() {
            let back =
                if let Reason::Call(_) = reason { self.has_back(start, &range, &around.pending) } else { Vec::new() };
            for at in range.clone().step_by(PIECE as usize) {
                let step = PIECE.min(range.end - at) as usize;
                let Some(bytes) = bytes_at(at, step, true) else { return false };
                let mut new = self.shadow.differing((at - start) as usize, &bytes);
                if self.managed {
                    new.iter_mut().for_each(|new| *new = to_edges(at, new.clone(), bytes.len()));
                }
                let new = with_back(at, bytes.len(), new, &back);
                if new.is_empty() {
                    continue;
                }
                // Nor is it the CPU's what others have given the driver to be written there since.
                let landing = landing_in(&(at..at + step as u64));
                if shows_later {
                    self.left.extend(landing.iter().cloned());
                }
                let new = new.into_iter().map(|new| at + new.start as u64..at + new.end as u64);
                for told in new.flat_map(|new| without(new, &landing)) {
                    let bytes = &bytes[(told.start - at) as usize..(told.end - at) as usize];
                    self.shadow.write((told.start - start) as usize, bytes);
                    writes.add(self.managed.into(), told.start, bytes);
                }
            }
        }
        true
    }

    /// Whether it holds what it did.
    pub(super) fn is_as_known(&mut self, start: u64, range: &Range<u64>) -> bool {
        let bytes = bytes_at(range.start, (range.end - range.start) as usize, true);
        bytes.is_some_and(|bytes| self.shadow.differing((range.start - start) as usize, &bytes).is_empty())
    }

    /// Whether a scan that finds no page written has nothing to do here.
    pub(super) fn is_quiet(&self) -> bool {
        self.tracked && !self.managed && self.left.is_empty()
    }

    /// What of this memory the CPU has again. While other work has it, too, that shows later.
    fn has_back(&mut self, start: u64, range: &Range<u64>, pending: &Pending) -> Vec<Range<u64>> {
        let is_others = || pending.has(range.start, range.end, !(self.is_small(start) || self.is_stored));
        if self.back.is_empty() || is_others() {
            return Vec::new();
        }
        let met = intersections(range, &self.back);
        self.settle(range);
        met
    }

    /// Whatever work may have made of this part, what is there now is known.
    pub(super) fn settle(&mut self, range: &Range<u64>) {
        let back = std::mem::take(&mut self.back).into_iter();
        self.back = back.flat_map(|back| without(back, std::slice::from_ref(range))).collect();
    }
}

fn meets(one: &Range<u64>, other: &Range<u64>) -> bool {
    one.start < other.end && other.start < one.end
}

/// What of so short a range lies on pages that are not all its own.
pub(super) fn edges(range: &Range<u64>) -> Vec<Range<u64>> {
    if range.end - range.start > PAGE {
        return Vec::new();
    }
    let whole = range.start.next_multiple_of(PAGE)..range.end / PAGE * PAGE;
    if whole.start < whole.end { without(range.clone(), &[whole]) } else { vec![range.clone()] }
}

/// What is new, and what is back. `new`: of so many bytes at an address.
fn with_back(at: u64, len: usize, mut new: Vec<Range<usize>>, back: &[Range<u64>]) -> Vec<Range<usize>> {
    let within = |place: u64| (place.clamp(at, at + len as u64) - at) as usize;
    let back = back.iter().map(|back| within(back.start)..within(back.end));
    new.extend(back.filter(|back| !back.is_empty()));
    joined(new)
}

/// What is new on a page of managed memory up to the page's edges, if those are near: all of the page was the
/// device's, and its last bytes may only happen to be what they had been. `stretch`: of the bytes at an
/// address.
fn to_edges(at: u64, stretch: Range<usize>, len: usize) -> Range<usize> {
    let (start, end) = (at + stretch.start as u64, at + stretch.end as u64);
    let near = |edge: u64, place: u64| edge.abs_diff(place) <= NEAR as u64;
    let (first, last) = (start / PAGE * PAGE, end.next_multiple_of(PAGE));
    let start = if near(first, start) { first.max(at) } else { start };
    let end = if near(last, end) { last.min(at + len as u64) } else { end };
    (start - at) as usize..(end - at) as usize
}

/// The ranges whose writes show and which have a page in common with these.
pub(super) fn sharing<'r>(
    ranges: &'r mut BTreeMap<u64, Watched>,
    pages: &Range<u64>,
) -> impl Iterator<Item = (&'r u64, &'r mut Watched)> + use<'r> {
    let (start, end) = (pages.start, pages.end);
    let below = ranges.range_mut(..end);
    below.filter(move |(other, w)| w.tracked && !w.managed && w.pages(**other).end > start)
}

/// The pages of all ranges whose writes show, neighbours together, in order.
pub(super) fn clusters(ranges: &BTreeMap<u64, Watched>) -> impl Iterator<Item = Range<u64>> {
    let followed = ranges.iter().filter(|(_, watched)| watched.tracked && !watched.managed);
    let mut all = followed.map(|(start, watched)| watched.pages(*start)).peekable();
    std::iter::from_fn(move || {
        let mut cluster = all.next()?;
        while let Some(next) = all.next_if(|next| next.start <= cluster.end) {
            cluster.end = cluster.end.max(next.end);
        }
        Some(cluster)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_one_threads_until_another_names_it() {
        let one = Users::Nobody.and(Users::One(3)).and(Users::One(3));
        assert_eq!((one.only(), one.and(Users::One(4)).and(Users::One(3)).only()), (Some(3), None));
        assert!(Users::Several.and(Users::Nobody) == Users::Several);
        assert!(one.are_only(3) && Users::Nobody.are_only(3) && !one.are_only(4) && !Users::Several.are_only(3));
    }

    fn watched(end: u64, managed: bool, tracked: bool) -> Watched {
        let (since, shadow) = (Instant::now(), Shadow::with_len(PAGE).unwrap());
        Watched {
            end,
            managed,
            since,
            pinned: !managed,
            tracked,
            is_shared: false,
            told: false,
            users: Users::Nobody,
            is_stored: false,
            prepared: false,
            edges: Vec::new(),
            is_noisy: false,
            left: Vec::new(),
            back: Vec::new(),
            shadow,
        }
    }

    #[test]
    fn ranges_that_share_or_touch_a_page_are_scanned_together() {
        let ranges = [(0x1000, 0x1800, true), (0x1800, 0x2100, true), (0x3000, 0x3010, true), (0x5000, 0x5010, true)];
        let mut ranges: BTreeMap<u64, Watched> =
            ranges.map(|(start, end, tracked)| (start, watched(end, false, tracked))).into();
        ranges.insert(0x4000, watched(0x4800, true, true));
        ranges.insert(0x6000, watched(0x6800, false, false));
        assert_eq!(clusters(&ranges).collect::<Vec<_>>(), [0x1000..0x4000, 0x5000..0x6000]);
        let met: Vec<u64> = sharing(&mut ranges, &(0x1000..0x2000)).map(|(start, _)| *start).collect();
        assert_eq!(met, [0x1000, 0x1800]);
    }

    #[test]
    fn a_scan_without_written_pages_passes_by_what_nothing_is_left_of() {
        let has_left = Watched { left: vec![0x1000..0x1010, 0x1800..0x1810], ..watched(0x3000, false, true) };
        let others = [watched(0x3000, true, true), watched(0x3000, false, false), has_left];
        assert!(watched(0x3000, false, true).is_quiet() && !others.iter().any(Watched::is_quiet));
    }

    #[test]
    fn what_is_settled_is_not_told_as_back() {
        let mut memory = watched(0x3000, true, true);
        memory.back = vec![0x1000..0x1800, 0x2000..0x2100];
        memory.settle(&(0x1400..0x2080));
        assert_eq!(memory.back, [0x1000..0x1400, 0x2080..0x2100]);
    }

    #[test]
    fn what_is_back_adds_to_what_is_new_within_the_bytes_read() {
        assert_eq!(
            with_back(
                0x1000,
                0x100,
                std::iter::once(8..16).collect(),
                &[0x0ff0..0x1004, 0x100c..0x1020, 0x2000..0x2001]
            ),
            [0..4, 8..0x20]
        );
    }

    #[test]
    fn a_stretch_reaches_to_edges_that_are_near() {
        assert_eq!(to_edges(0x2000, 3..4090, 0x3000), 0..4096);
        assert_eq!(to_edges(0x2000, 100..4000, 0x3000), 100..4000);
        assert_eq!(to_edges(0x2ff0, 18..4106, 0x2000), 16..4112);
        assert_eq!(to_edges(0x2004, 2..9, 12), 0..9);
    }
}
