//! Recorded runs of the application's callbacks, and the replay's progress through them.

pub(crate) mod nested_calls;
pub(crate) mod runs;

use crate::base::ranges::Ranges;
use crate::driver::stream::Queue;
use crate::plan::Plan;
use crate::plan::comparability::completion::Completions;
use crate::run::callbacks::nested_calls::CallsInside;
use crate::tally::Tally;
use parking_lot::{Condvar, Mutex, RwLock, RwLockReadGuard};
use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use std::sync::{Arc, OnceLock};
use trace::Trace;
use trace::read::call::Image;
use trace::read::host_writes::Written;

pub(crate) struct Callbacks<'t> {
    /// All recorded runs in the order of their beginnings.
    runs: Vec<CallbackRun<'t>>,
    /// The latest end among the first, the first two, the first three ...
    latest: Vec<u64>,
    /// Where each run stands in `runs`, by its call and its number there.
    places: HashMap<u64, HashMap<usize, usize>>,
    /// Where launches, copies and fills had worked on what others found while a run was under way.
    worked: Completions,
    /// Runs before this one are done.
    frontier: AtomicUsize,
    done: Mutex<Vec<bool>>,
    /// Those that have come, and written what they write.
    come: Vec<AtomicBool>,
    /// None from this one on is done.
    begun: AtomicUsize,
    changed: Condvar,
    /// Runs wait for earlier ones that write the same memory, as long as those come.
    in_turn: AtomicBool,
    /// By queue: the latest recorded end of runs that were put there.
    behind: Mutex<HashMap<Queue, u64>>,
    /// How often a run has waited in vain for what was found while it ran.
    in_vain: AtomicUsize,
    /// Calls that were made in a run.
    pub inside: CallsInside,
    /// Held while what work has brought is looked at: it is not overwritten between the wait for it and the
    /// look.
    looks: RwLock<()>,
    /// What the driver's threads compared and wrote.
    tally: Mutex<Tally>,
    /// False once the replay's memory is given back: a run that comes later does nothing.
    open: Arc<RwLock<bool>>,
}

pub(crate) struct CallbackRun<'t> {
    begin: u64,
    end: u64,
    /// The driver's, on which it ran.
    thread: u32,
    call: u64,
    number: usize,
    written: Vec<Written<'t>>,
    /// All that it wrote, and what others found while it ran.
    memory: Ranges,
    /// Of what others found while it ran, what is theirs alone. Known when it runs here.
    others: OnceLock<HashSet<Range<u64>>>,
}

impl CallbackRun<'_> {
    fn images(&self) -> impl Iterator<Item = (&Written<'_>, Image<'_>)> {
        self.written.iter().flat_map(|written| written.images().map(move |image| (written, image)))
    }

    /// Whether somebody else found this while it ran, and it was told for both.
    fn is_recorded_twice(&self, memory: &Range<u64>) -> bool {
        let told = self.own().filter(|(written, _)| written.is_recorded_twice());
        Ranges::union(told.map(|(_, image)| image.memory()), 1).covers(memory)
    }

    fn memory_recorded_twice(&self) -> impl Iterator<Item = Range<u64>> {
        self.images().filter(|(written, _)| written.is_recorded_twice()).map(|(_, image)| image.memory())
    }

    /// What it does here.
    fn own(&self) -> impl Iterator<Item = (&Written<'_>, Image<'_>)> {
        let is_others = |image: &Image| self.others.get().is_some_and(|others| others.contains(&image.memory()));
        self.images().filter(move |(written, image)| !(written.is_recorded_twice() && is_others(image)))
    }
}

impl<'t> Callbacks<'t> {
    /// `end`: calls from this number on are not made.
    pub(crate) fn new(trace: &'t Trace, plan: &Plan, end: u64) -> Callbacks<'t> {
        let mut runs: Vec<CallbackRun> = Vec::new();
        for call in trace.callers_back() {
            for (number, written) in call.callback_runs() {
                let Some(first) = written.first() else { continue };
                let (begin, end, thread) = (first.about.begin, first.about.end, first.finder);
                let images = written.iter().flat_map(|written| written.images());
                let memory = Ranges::union(images.map(|image| image.memory()), 1);
                runs.push(CallbackRun {
                    begin,
                    end,
                    thread,
                    call: call.number,
                    number: number as usize,
                    written,
                    memory,
                    others: OnceLock::new(),
                });
            }
        }
        runs.sort_by_key(|one| (one.begin, one.call, one.number));
        let mut places: HashMap<u64, HashMap<usize, usize>> = HashMap::new();
        for (at, one) in runs.iter().enumerate() {
            places.entry(one.call).or_default().insert(one.number, at);
        }
        let latest = runs.iter().scan(0, |latest: &mut u64, one| {
            *latest = one.end.max(*latest);
            Some(*latest)
        });
        let told = Ranges::union(runs.iter().flat_map(CallbackRun::memory_recorded_twice), 1);
        let worked = if told.is_empty() { Completions::default() } else { Completions::from_trace(trace, &told) };
        Callbacks {
            worked,
            inside: CallsInside::new(trace, &plan.order, end, &runs),
            latest: latest.collect(),
            done: Mutex::new(vec![false; runs.len()]),
            come: runs.iter().map(|_| AtomicBool::new(false)).collect(),
            runs,
            places,
            frontier: AtomicUsize::new(0),
            begun: AtomicUsize::new(0),
            changed: Condvar::new(),
            in_turn: AtomicBool::new(true),
            behind: Mutex::default(),
            in_vain: AtomicUsize::new(0),
            looks: RwLock::default(),
            tally: Mutex::default(),
            open: Arc::new(RwLock::new(true)),
        }
    }

    /// A call puts its first run there.
    fn is_put(&self, call: u64, queue: Option<Queue>) {
        if let (Some(queue), Some(at)) = (queue, self.places.get(&call).and_then(|places| places.get(&0))) {
            let end = self.runs[*at].end;
            self.behind.lock().entry(queue).and_modify(|latest| *latest = end.max(*latest)).or_insert(end);
        }
    }

    /// When what is put on this queue now began when recorded, at the earliest.
    pub(crate) fn ended_on(&self, queue: Queue) -> u64 {
        if self.runs.is_empty() { 0 } else { self.behind.lock().get(&queue).copied().unwrap_or(0) }
    }

    /// Whether a run has come here that had not ended by that time when recorded, or the other way round, and
    /// writes this memory.
    pub(crate) fn are_otherwise(&self, time: u64, memory: &Range<u64>) -> bool {
        let mut runs = self.runs.iter().zip(&self.come);
        runs.any(|(one, come)| (one.end <= time) != come.load(Acquire) && one.memory.overlaps(memory))
    }

    /// The call was left out: nobody will run its callback.
    pub(crate) fn left_out(&self, call: u64) {
        let Some(places) = self.places.get(&call) else { return };
        let mut done = self.done.lock();
        places.values().for_each(|at| done[*at] = true);
        self.changed.notify_all();
        places.values().for_each(|at| self.inside.is_over(*at));
    }

    /// As long as this is held no callback changes anything: hold it for no wait.
    pub(crate) fn look(&self) -> RwLockReadGuard<'_, ()> {
        self.looks.read()
    }

    /// After all work: nothing is touched any more.
    pub(crate) fn close(&self, total: &mut Tally) {
        *self.open.write() = false;
        total.add(std::mem::take(&mut *self.tally.lock()));
    }

    /// Whether a run that is done here has brought what was found there at that time: it was under way, and
    /// was told of it, too.
    pub(crate) fn have_written(&self, found: u64, memory: &Range<u64>) -> bool {
        let done = self.done.lock();
        let mut newer = self.ended_after(found, &done).filter(|one| one.begin < found);
        newer.any(|one| one.is_recorded_twice(memory))
    }

    /// HostWrites recorded host memory as it was found at `since`, but for what runs have written that are
    /// done here and ended later than that when recorded: that is newer, and copies behind them may have
    /// brought what is newer still.
    pub(crate) fn write(&self, since: u64, range: Range<u64>, write: impl Fn(Range<u64>)) {
        if self.runs.is_empty() {
            return write(range);
        }
        let done = self.done.lock();
        // What others had found while it ran was told as it was in the end.
        let newer = self.ended_after(since, &done).flat_map(|one| one.own().map(|(_, image)| image.memory()));
        Ranges::union(newer, 1).gaps(range).into_iter().for_each(write);
    }

    /// Runs that are done here and ended later than that when recorded.
    fn ended_after<'c>(&'c self, time: u64, done: &'c [bool]) -> impl Iterator<Item = &'c CallbackRun<'t>> {
        let first = self.latest.partition_point(|end| *end <= time);
        let begun = self.runs.iter().zip(done).take(self.begun.load(Acquire)).skip(first);
        begun.filter(move |(one, done)| one.end > time && **done).map(|(one, _)| one)
    }
}
