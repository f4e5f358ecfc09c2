//! The application's callbacks, whose code is not here: each run does to host memory what it did when recorded, in stream order.
//!
//! The program may have waited for a run by any means of its own, and may have been told by the run before it ended. So a call
//! that began after a run had begun waits for that run here: the work before it was done without the call.

use crate::call::frame::{CallbackSlot, Frame};
use crate::check::payload;
use crate::driver::stream::Queue;
use crate::plan::worked::Worked;
use crate::ranges::Ranges;
use crate::run::sinks::Pending;
use crate::run::world::World;
use crate::run::{results, written};
use crate::tally::Tally;
use parking_lot::{Condvar, Mutex, RwLock, RwLockReadGuard};
use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use trace::call::Image;
use trace::written::Written;
use trace::{Call, Trace};

/// A run that does not come in this time is given up: the work before it may have been left out.
const PATIENCE: Duration = Duration::from_secs(10);
/// So often a run waits in vain for what was found while it ran.
const MOST_IN_VAIN: usize = 20;
/// For a run that began earlier when recorded. The driver may have one thread for all, and have come to this one first.
const FOR_EARLIER: Duration = Duration::from_millis(100);

pub struct Callbacks<'t> {
    /// All recorded runs in the order of their beginnings.
    runs: Vec<Run<'t>>,
    /// The latest end among the first, the first two, the first three ...
    latest: Vec<u64>,
    /// Where each run stands in `runs`, by its call and its number there.
    places: HashMap<u64, HashMap<usize, usize>>,
    /// Where launches, copies and fills had worked on what others found while a run was under way.
    worked: Worked,
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
    /// Held while what work has brought is looked at: it is not overwritten between the wait for it and the look.
    looks: RwLock<()>,
    /// What the driver's threads compared and wrote.
    tally: Mutex<Tally>,
    /// False once the replay's memory is given back: a run that comes later does nothing.
    open: Arc<RwLock<bool>>,
}

struct Run<'t> {
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

impl Run<'_> {
    fn images(&self) -> impl Iterator<Item = (&Written<'_>, Image<'_>)> {
        self.written.iter().flat_map(|written| written.images().map(move |image| (written, image)))
    }

    /// Whether somebody else found this while it ran, and it was told for both.
    fn was_told(&self, memory: &Range<u64>) -> bool {
        let told = self.own().filter(|(written, _)| written.is_told_elsewhere());
        Ranges::union(told.map(|(_, image)| image.memory()), 1).covers(memory)
    }

    fn told(&self) -> impl Iterator<Item = Range<u64>> {
        self.images().filter(|(written, _)| written.is_told_elsewhere()).map(|(_, image)| image.memory())
    }

    /// What it does here.
    fn own(&self) -> impl Iterator<Item = (&Written<'_>, Image<'_>)> {
        let is_others = |image: &Image| self.others.get().is_some_and(|others| others.contains(&image.memory()));
        self.images().filter(move |(written, image)| !(written.is_told_elsewhere() && is_others(image)))
    }
}

/// What the driver is given with our function.
struct Handed<'w, 't> {
    world: &'w World<'t>,
    call: Call<'t>,
    runs: AtomicUsize,
    /// Where the call put it; none for a graph's node.
    queue: Option<Queue>,
    /// How many copies were under way by then, or had been: none of the others is before it.
    copies: u64,
    open: Arc<RwLock<bool>>,
}

impl<'t> Callbacks<'t> {
    pub fn of(trace: &'t Trace) -> Callbacks<'t> {
        let mut runs: Vec<Run> = Vec::new();
        for call in trace.callers_back() {
            for (number, written) in call.callback_runs() {
                let Some(first) = written.first() else { continue };
                let (begin, end, thread) = (first.about.begin, first.about.end, first.finder);
                let images = written.iter().flat_map(|written| written.images());
                let memory = Ranges::union(images.map(|image| image.memory()), 1);
                runs.push(Run {
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
        runs.sort_by_key(|run| (run.begin, run.call, run.number));
        let mut places: HashMap<u64, HashMap<usize, usize>> = HashMap::new();
        for (at, run) in runs.iter().enumerate() {
            places.entry(run.call).or_default().insert(run.number, at);
        }
        let latest = runs.iter().scan(0, |latest: &mut u64, run| {
            *latest = run.end.max(*latest);
            Some(*latest)
        });
        let told = Ranges::union(runs.iter().flat_map(Run::told), 1);
        let worked = if told.is_empty() { Worked::default() } else { Worked::on(trace, &told) };
        Callbacks {
            worked,
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

    /// Waits for the runs that had begun before the call, and does what a run itself cannot: write device memory.
    pub fn before(&self, world: &World, call: &Call, tally: &mut Tally) {
        let from = self.frontier.load(Acquire);
        let to = self.runs.partition_point(|run| run.begin < call.begin);
        if from >= to {
            return;
        }
        let mut done = self.done.lock();
        let until = Instant::now() + PATIENCE;
        for at in from..to {
            while !done[at] {
                if self.changed.wait_until(&mut done, until).timed_out() {
                    done[at] = true;
                    tally.missed_callbacks += 1;
                    break;
                }
            }
        }
        drop(done);
        let before = self.frontier.fetch_max(to, AcqRel);
        for run in self.runs.get(before..to).into_iter().flatten() {
            run.own().for_each(|(written, image)| written::on_device_only(world, call, written, &image, tally));
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
    pub fn ended_on(&self, queue: Queue) -> u64 {
        if self.runs.is_empty() { 0 } else { self.behind.lock().get(&queue).copied().unwrap_or(0) }
    }

    /// Whether a run has come here that had not ended by that time when recorded, or the other way round, and writes this memory.
    pub fn are_otherwise(&self, time: u64, memory: &Range<u64>) -> bool {
        let mut runs = self.runs.iter().zip(&self.come);
        runs.any(|(run, come)| (run.end <= time) != come.load(Acquire) && run.memory.overlaps(memory))
    }

    /// The call was left out: nobody will run its callback.
    pub fn left_out(&self, call: u64) {
        let Some(places) = self.places.get(&call) else { return };
        let mut done = self.done.lock();
        places.values().for_each(|at| done[*at] = true);
        self.changed.notify_all();
    }

    /// As long as this is held no callback changes anything: hold it for no wait.
    pub fn look(&self) -> RwLockReadGuard<'_, ()> {
        self.looks.read()
    }

    /// After all work: nothing is touched any more.
    pub fn close(&self, total: &mut Tally) {
        *self.open.write() = false;
        total.add(std::mem::take(&mut *self.tally.lock()));
    }

    /// Whether a run that is done here has brought what was found there at that time: it was under way, and was told of it, too.
    pub fn have_brought(&self, found: u64, memory: &Range<u64>) -> bool {
        let done = self.done.lock();
        let mut newer = self.ended_after(found, &done).filter(|run| run.begin < found);
        newer.any(|run| run.was_told(memory))
    }

    /// Writes recorded host memory as it was found at `since`, but for what runs have written that are done here and ended later
    /// than that when recorded: that is newer, and copies behind them may have brought what is newer still.
    pub fn write(&self, since: u64, range: Range<u64>, write: impl Fn(Range<u64>)) {
        if self.runs.is_empty() {
            return write(range);
        }
        let done = self.done.lock();
        // What others had found while it ran was told as it was in the end.
        let newer = self.ended_after(since, &done).flat_map(|run| run.own().map(|(_, image)| image.memory()));
        Ranges::union(newer, 1).gaps(range).into_iter().for_each(write);
    }

    /// What a run, put at that time and maybe by that call, has not written of what others found meanwhile: a launch, a copy or a fill
    /// worked there that it did not wait for. Also if that was done when it began: here the run may come earlier.
    fn stands_by(&self, world: &World, run: &Run, put: (u64, Option<u64>)) -> HashSet<Range<u64>> {
        let told: Vec<Range<u64>> = run.told().collect();
        if told.is_empty() {
            return HashSet::new();
        }
        let beside = self.worked.beside(put, run.end);
        let any_to_come = results::are_to_come(world, run.end, &told);
        let is_to_come =
            |told: &Range<u64>| any_to_come && results::are_to_come(world, run.end, std::slice::from_ref(told));
        told.into_iter().filter(|told| beside.overlaps(told) || is_to_come(told)).collect()
    }

    /// Runs that are done here and ended later than that when recorded.
    fn ended_after<'c>(&'c self, time: u64, done: &'c [bool]) -> impl Iterator<Item = &'c Run<'t>> {
        let first = self.latest.partition_point(|end| *end <= time);
        let begun = self.runs.iter().zip(done).take(self.begun.load(Acquire)).skip(first);
        begun.filter(move |(run, done)| run.end > time && **done).map(|(run, _)| run)
    }
}

/// Before a call is made: puts our functions in the places of the application's.
pub fn hand_over<'t>(world: &World<'t>, call: Call<'t>, frame: &mut Frame<'t>) {
    for CallbackSlot { memory, offset, with_status, queue } in std::mem::take(&mut frame.callbacks) {
        world.callbacks.is_put(call.number, queue);
        let (open, copies) = (world.callbacks.open.clone(), world.sinks.count());
        let handed = Box::new(Handed { world, call, runs: AtomicUsize::new(0), queue, copies, open });
        let function = if with_status { run_with_status as *const () } else { run as *const () };
        // Left behind: the driver may run it as long as the process lives.
        let words = [function as u64, Box::into_raw(handed) as u64];
        frame.memory[memory].put(offset, &words.map(u64::to_le_bytes).concat());
    }
}

extern "C" fn run(data: *const ()) {
    // SAFETY: what `hand_over` made, and never freed. Its world is looked at only while it is open.
    let handed = unsafe { &*data.cast::<Handed>() };
    let open = handed.open.clone();
    let open = open.read();
    if *open {
        handed.run();
    }
}

extern "C" fn run_with_status(_stream: u64, _status: u32, data: *const ()) {
    run(data);
}

impl Handed<'_, '_> {
    /// Work on other streams which this one has waited for: nobody can see what it brought once the callback has written there. What others saw
    /// arrive while it ran may come later here: of that nothing is known.
    fn compare_overwritten(&self, run: &Run, tally: &mut Tally) {
        let memory: Vec<Range<u64>> = run.own().map(|(_, image)| image.memory()).collect();
        let seen_by_it: HashSet<u64> = match memory.is_empty() {
            true => HashSet::new(),
            false => self.world.trace.seen_by_callback(run.thread, run.begin..run.end).collect(),
        };
        for range in &memory {
            let Some(live) = written::host(self.world, range) else { continue };
            // Behind it others may be waiting.
            let was_seen = |pending: &Pending| pending.seen < run.end;
            for pending in self.world.sinks.landed_in(&(live..live + (range.end - range.start)), was_seen) {
                match pending.seen < run.begin || seen_by_it.contains(&pending.call) {
                    true => payload::compare(self.world, pending.call, &pending.sink, tally),
                    false => tally.not_compared(pending.call),
                }
            }
        }
        if self.world.verify {
            results::before_callback(self.world, (run.thread, run.begin..run.end), &memory, tally);
        }
    }

    fn run(&self) {
        let number = self.runs.fetch_add(1, AcqRel);
        let callbacks = &self.world.callbacks;
        let mut tally = Tally::default();
        // The work before it has finished: now the application could look.
        for pending in self.queue.into_iter().flat_map(|queue| self.world.sinks.of_queue(queue, self.copies)) {
            payload::compare(self.world, pending.call, &pending.sink, &mut tally);
        }
        let mut done = callbacks.done.lock();
        let mut end = None;
        if let Some(at) = callbacks.places.get(&self.call.number).and_then(|places| places.get(&number)) {
            let run = &callbacks.runs[*at];
            for earlier in callbacks.frontier.load(Acquire)..*at {
                let comes_first = callbacks.runs[earlier].memory.meets(&run.memory);
                while comes_first && !done[earlier] && callbacks.in_turn.load(Acquire) {
                    let late = callbacks.changed.wait_for(&mut done, FOR_EARLIER).timed_out();
                    callbacks.in_turn.fetch_and(!late, AcqRel);
                }
            }
            let _changing = callbacks.looks.write();
            // Of a node nobody knows when its graph was launched.
            let put = match self.queue {
                Some(_) => (self.call.begin, Some(self.call.number)),
                None => (run.begin, None),
            };
            run.others.get_or_init(|| callbacks.stands_by(self.world, run, put));
            self.compare_overwritten(run, &mut tally);
            run.own().for_each(|(_, image)| written::on_host_only(self.world, &image, &mut tally));
            done[*at] = true;
            callbacks.come[*at].store(true, Release);
            callbacks.begun.fetch_max(*at + 1, AcqRel);
            callbacks.changed.notify_all();
            end = Some(run.end);
        }
        drop(done);
        callbacks.tally.lock().add(tally);
        // It may have been another thread that it waited for, and work behind it reads what that has written.
        if let Some(end) = end.filter(|_| callbacks.in_vain.load(Relaxed) < MOST_IN_VAIN)
            && !self.world.writes.wait_until(end)
        {
            callbacks.in_vain.fetch_add(1, Relaxed);
        }
    }
}
