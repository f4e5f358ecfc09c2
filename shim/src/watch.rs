//! Memory that the device can reach and the CPU writes without a call: what has changed is written down before the next call
//! that gives the device work, waits for it or asks about it.
//!
//! Pinned memory is watched once a kernel argument or a graph has referred to it, managed memory likewise; what copies read
//! is captured by the copies. When watching begins all of the memory is recorded. From then on the kernel tells which pages the
//! CPU touched, and of those only what differs from the shadow is recorded, so that what the device writes nearby is left alone.

use crate::lane::Lane;
use crate::lock::Lock;
use crate::memory::bytes_at;
use crate::pinned::Ranges;
use crate::shadow::Shadow;
use crate::tracker::{PAGE, Tracker};
use crate::{clock, start};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::time::{Duration, Instant};
use trace::preamble::Data;
use trace::record::{self, Written};

/// Where the kernel cannot tell what was written, everything is compared; longer memory than this is not, and counted.
const MOST_COMPARED: u64 = 256 << 10;
/// Longer than most callbacks take.
const SHORT: Duration = Duration::from_millis(10);
/// Of one range no more than this is recorded when watching begins; what is larger is not watched, and counted.
const MOST_WATCHED: u64 = 1 << 30;
/// Memory is read and stored in pieces of this size.
const PIECE: u64 = 64 << 10;
/// A record grows to about this size; further pieces go into the next.
const MOST_IN_RECORD: usize = 256 << 10;

#[derive(Default)]
pub struct Watch {
    /// Managed memory, whether watched or not.
    pub managed: Ranges,
    count: AtomicUsize,
    state: Lock<State>,
}

#[derive(Default)]
struct State {
    tracker: Option<Tracker>,
    /// By their start.
    ranges: BTreeMap<u64, Watched>,
    /// Ranges that are too large to be watched.
    refused: BTreeSet<u64>,
    /// Callbacks that run now: what they write is theirs to tell, as copies behind them may read it before the next call.
    callbacks: usize,
    /// When the latest of them began.
    began: Option<Instant>,
}

struct Watched {
    end: u64,
    managed: bool,
    /// Whether the kernel tells which of its pages were written.
    tracked: bool,
    shadow: Shadow,
}

impl Watched {
    fn pages(&self, start: u64) -> Range<u64> {
        start / PAGE * PAGE..self.end.next_multiple_of(PAGE)
    }
}

/// What was found, on its way into the trace.
pub struct Finds {
    about: Written,
    /// The record being written, of what was written and of what was seen.
    open: [Vec<u8>; 2],
    records: Vec<Vec<u8>>,
}

impl Finds {
    /// Found before this call of the lane's.
    pub fn before(lane: &Lane, call: u32) -> Finds {
        let now = clock::exit();
        Finds::at(Written { begin: now, end: now, thread: lane.index(), call, run: 0, seen: 0 })
    }

    pub fn at(about: Written) -> Finds {
        Finds { about, open: [Vec::new(), Vec::new()], records: Vec::new() }
    }

    /// What the host holds there now.
    pub fn take(&mut self, range: Range<u64>) {
        for at in range.clone().step_by(PIECE as usize) {
            let step = PIECE.min(range.end - at) as usize;
            match bytes_at(at, step, true) {
                Some(bytes) => self.add(false, at, &bytes),
                None => self.lose(at, step, "pinned memory that could not be read"),
            }
        }
    }

    fn add(&mut self, seen: bool, address: u64, bytes: &[u8]) {
        if bytes.len() <= record::INLINE_LIMIT {
            return self.attach(seen, record::INLINE, address, bytes.len(), bytes);
        }
        match start::recorder().file.blob(bytes) {
            Some(hash) => self.attach(seen, record::BLOB, address, bytes.len(), &hash.to_bytes()),
            None => self.lose(address, bytes.len(), "memory written by the CPU, for lack of space"),
        }
    }

    fn lose(&mut self, address: u64, len: usize, what: &'static str) {
        self.attach(false, record::LOST, address, len, &[]);
        let count = start::recorder().lose(what);
        self.records.push(record::with_body(record::LOSS, &record::Loss { what: what.into(), count }));
    }

    fn attach(&mut self, seen: bool, form: u8, address: u64, len: usize, data: &[u8]) {
        let record = &mut self.open[usize::from(seen)];
        if record.is_empty() {
            *record = record::with_body(record::WRITTEN, &Written { seen: seen.into(), ..self.about });
        }
        record::attach(record, form, address, len as u32, data);
        if record.len() > MOST_IN_RECORD {
            self.records.push(std::mem::take(record));
        }
    }

    /// A run of a callback is written down even if it wrote nothing.
    pub fn append_run(mut self, lane: &Lane) {
        if self.open[0].is_empty() {
            self.open[0] = record::with_body(record::WRITTEN, &self.about);
        }
        self.append(lane);
    }

    pub fn append(self, lane: &Lane) {
        self.into_records().iter().for_each(|record| lane.append(record));
    }

    pub fn into_records(mut self) -> Vec<Vec<u8>> {
        self.records.extend(self.open.into_iter().filter(|record| !record.is_empty()));
        self.records
    }
}

impl Watch {
    /// Whether anything is watched.
    #[inline(always)]
    pub fn any(&self) -> bool {
        self.count.load(Relaxed) != 0
    }

    /// Begins to watch what these words point to, if it is memory of the host that the device can reach.
    pub fn refer(&self, words: impl Iterator<Item = u64>, finds: &mut Finds) {
        let recorder = start::recorder();
        if recorder.data == Data::None {
            return;
        }
        for word in words {
            if let Some((start, len)) = recorder.pinned.find(word) {
                self.watch(start, len, false, finds);
            } else if let Some((start, len)) = self.managed.find(word) {
                self.watch(start, len, true, finds);
            }
        }
    }

    /// Whether what the CPU writes there is found without being compared as a whole.
    pub fn follows(&self, start: u64, len: u64) -> bool {
        if !self.any() {
            return false;
        }
        let state = self.state.lock();
        let before = state.ranges.range(..=start).next_back();
        before.is_some_and(|(_, watched)| watched.tracked && start + len <= watched.end)
    }

    /// All pinned memory whose changes by the CPU are known: start and length.
    pub fn pinned(&self) -> Vec<(u64, u64)> {
        let state = self.state.lock();
        let known = state.ranges.iter().filter(|(_, watched)| watched.tracked && !watched.managed);
        known.map(|(start, watched)| (*start, watched.end - start)).collect()
    }

    /// Begins to watch this memory, and records what it holds. Whether the kernel tells what is written there.
    pub fn watch(&self, start: u64, len: u64, managed: bool, finds: &mut Finds) -> bool {
        let mut state = self.state.lock();
        let before = state.ranges.range(..=start).next_back();
        if let Some((_, known)) = before.filter(|(_, known)| start + len <= known.end) {
            return known.tracked;
        }
        if state.refused.contains(&start) {
            return false;
        }
        let Some(shadow) = Shadow::of(len) else {
            finds.lose(start, len as usize, "memory written by the CPU, for lack of memory");
            return false;
        };
        let State { tracker, ranges, refused, .. } = &mut *state;
        let tracker = tracker.get_or_insert_with(Tracker::open);
        let mut watched = Watched { end: start + len, managed, tracked: managed, shadow };
        let pages = watched.pages(start);
        let mut here = Vec::new();
        if managed {
            // What is not here the device has, or nobody touched.
            watched.tracked = tracker.present(pages, &mut here);
        } else {
            watched.tracked = tracker.arm(&pages);
            here.push(pages);
        }
        if here.iter().map(|pages| pages.end - pages.start).sum::<u64>() > MOST_WATCHED {
            refused.insert(start);
            tracker.disarm(&watched.pages(start));
            finds.lose(start, 0, "host memory of more than 1 GiB that kernels were given");
            return false;
        }
        let landing = start::recorder().pending.landing_in(start, len);
        for range in here {
            let range = range.start.max(start)..range.end.min(start + len);
            for range in without(range, &landing) {
                for at in range.clone().step_by(PIECE as usize) {
                    let step = PIECE.min(range.end - at) as usize;
                    match bytes_at(at, step, true) {
                        Some(bytes) => {
                            watched.shadow.put((at - start) as usize, &bytes);
                            finds.add(managed, at, &bytes);
                        }
                        None => finds.lose(at, step, "pinned memory that could not be read"),
                    }
                }
            }
        }
        let tracked = watched.tracked;
        ranges.insert(start, watched);
        self.count.store(ranges.len(), Relaxed);
        tracked
    }

    /// Adds what the CPU wrote since the last look.
    pub fn look(&self, finds: &mut Finds) {
        let mut state = self.state.lock();
        // One that takes long waits for somebody, who has to be heard.
        let is_short = |began: Instant| began.elapsed() < SHORT;
        if state.callbacks == 0 || !state.began.is_some_and(is_short) {
            self.look_at(&mut state, finds);
        }
    }

    pub fn callback_begins(&self) {
        let mut state = self.state.lock();
        state.callbacks += 1;
        state.began = Some(Instant::now());
    }

    /// As `look`. Also where nothing seems to be watched: a copy may just be beginning to watch what this callback wrote.
    pub fn callback_ends(&self, finds: &mut Finds) {
        let mut state = self.state.lock();
        state.callbacks = state.callbacks.saturating_sub(1);
        self.look_at(&mut state, finds);
    }

    fn look_at(&self, state: &mut State, finds: &mut Finds) {
        let State { tracker, ranges, .. } = state;
        let Some(tracker) = tracker else { return };
        // Ranges may share pages, whose protection is renewed when one of them is looked at: pages first, then their bytes.
        let mut touched: Vec<Range<u64>> = Vec::new();
        for pages in clusters(ranges) {
            if !tracker.written(pages.clone(), &mut touched) {
                // Mapped anew behind our back.
                ranges.range_mut(..pages.end).for_each(|(_, w)| w.tracked &= w.managed || w.end <= pages.start);
            }
        }
        let mut gone = Vec::new();
        for (start, watched) in ranges.iter_mut() {
            let mut here = Vec::new();
            if watched.managed && watched.tracked {
                watched.tracked = tracker.present(watched.pages(*start), &mut here);
            } else if watched.tracked {
                let first = touched.partition_point(|pages| pages.end <= *start);
                here.extend(touched[first..].iter().take_while(|pages| pages.start < watched.end).cloned());
            } else if watched.end - start <= MOST_COMPARED && !watched.managed {
                here.push(watched.pages(*start));
            } else {
                finds.lose(*start, 0, "memory written by the CPU, which this kernel cannot follow");
            }
            if !here.iter().all(|pages| watched.compare(*start, pages, finds)) {
                gone.push(*start);
            }
        }
        for start in gone {
            ranges.remove(&start);
            if start::recorder().pinned.find(start).is_some() {
                finds.lose(start, 0, "pinned memory that could not be read");
            }
        }
        self.count.store(ranges.len(), Relaxed);
    }

    /// The memory is about to be given back; what the CPU had in managed memory is what the program saw of it.
    pub fn forget(&self, start: u64, finds: Option<&mut Finds>) {
        let mut state = self.state.lock();
        state.refused.remove(&start);
        let State { tracker, ranges, .. } = &mut *state;
        let (Some(mut watched), Some(tracker)) = (ranges.remove(&start), tracker) else { return };
        self.count.store(ranges.len(), Relaxed);
        let pages = watched.pages(start);
        if watched.managed {
            let mut here = Vec::new();
            if let (Some(finds), true) = (finds, tracker.present(pages, &mut here)) {
                let _ = here.iter().all(|pages| watched.compare(start, pages, finds));
            }
        } else if watched.tracked {
            tracker.disarm(&pages);
            // Those that had a page in common with it are watched on.
            for (other, watched) in ranges.iter().filter(|(_, watched)| watched.tracked && !watched.managed) {
                let shared = watched.pages(*other);
                if shared.start < pages.end && pages.start < shared.end {
                    tracker.arm(&(shared.start.max(pages.start)..shared.end.min(pages.end)));
                }
            }
        }
    }

    /// Stops watching what is no pinned memory any more.
    pub fn drop_gone(&self) {
        let state = self.state.lock();
        let gone = |(start, watched): (&u64, &Watched)| {
            let known = watched.managed || start::recorder().pinned.holds(*start, watched.end - start);
            (!known).then_some(*start)
        };
        let gone: Vec<u64> = state.ranges.iter().filter_map(gone).collect();
        drop(state);
        gone.into_iter().for_each(|start| self.forget(start, None));
    }

    /// Whether the CPU has written into this memory since the last look, as far as the kernel tells.
    pub fn is_stirred(&self, start: u64, len: u64) -> bool {
        let state = self.state.lock();
        let pages = start / PAGE * PAGE..(start + len).next_multiple_of(PAGE);
        match (&state.tracker, state.ranges.range(..=start).next_back()) {
            (Some(tracker), Some((_, watched))) if watched.tracked && !watched.managed => tracker.is_written(pages),
            _ => true,
        }
    }
}

impl Watched {
    /// False if the memory is not there any more.
    fn compare(&mut self, start: u64, pages: &Range<u64>, finds: &mut Finds) -> bool {
        let range = pages.start.max(start)..pages.end.min(self.end);
        // What copies are still bringing is theirs.
        let landing = start::recorder().pending.landing_in(range.start, range.end - range.start);
        for range in without(range, &landing) {
            for at in range.clone().step_by(PIECE as usize) {
                let step = PIECE.min(range.end - at) as usize;
                let Some(bytes) = bytes_at(at, step, true) else { return false };
                for stretch in self.shadow.update((at - start) as usize, &bytes) {
                    finds.add(self.managed, at + stretch.start as u64, &bytes[stretch]);
                }
            }
        }
        true
    }
}

/// The parts of a range outside others, which are in ascending order of their starts.
pub fn without(range: Range<u64>, others: &[Range<u64>]) -> Vec<Range<u64>> {
    let (mut left, mut at) = (Vec::new(), range.start);
    for other in others {
        left.push(at..other.start.clamp(at, range.end));
        at = other.end.clamp(at, range.end);
    }
    left.push(at..range.end);
    left.retain(|part| !part.is_empty());
    left
}

/// The pages of all ranges whose writes show, neighbours together, in order.
fn clusters(ranges: &BTreeMap<u64, Watched>) -> Vec<Range<u64>> {
    let mut clusters: Vec<Range<u64>> = Vec::new();
    for (start, watched) in ranges.iter().filter(|(_, watched)| watched.tracked && !watched.managed) {
        let pages = watched.pages(*start);
        match clusters.last_mut() {
            Some(last) if pages.start <= last.end => last.end = last.end.max(pages.end),
            _ => clusters.push(pages),
        }
    }
    clusters
}
