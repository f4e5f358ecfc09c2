//! Timing of a repeated range of calls.
//!
//! The first run is the replay's own, by its workers and with all comparisons. Then all calls of the range
//! are rebuilt, and one thread makes them in the order of their entry: nothing is decoded while the clock
//! runs. Between two runs the memory that the range writes is restored. Host time is measured first, without
//! any profiler in the process; device times in as many further runs.
//!
//! So a range must be repeatable: objects that it makes or ends (except events), callbacks, captures, and CPU
//! writes without a call prevent that, and are named.

use crate::driver::result_name;
use crate::options::{Progress, Repeat};
use crate::profile::{Measure, Profiler, Times, now};
use crate::run::hang_report;
use crate::run::repeat::gate::{RepeatGate, at_rest};
use crate::run::repeat::prepared_call::PreparedCall;
use crate::run::repeat::repeatable::{RepeatableCall, prepare};
use crate::run::repeat::restore::RangeWrites;
use crate::run::state::Run;
use crate::run::watchdog::{EndAtLast, Watchdog};
use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use trace::file::record::Timed;

/// Times of the repeated range, in nanoseconds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RepeatTimes {
    /// Calls that were made each time, and the threads that made them when recorded.
    pub calls: u64,
    /// Recorded threads that made these calls.
    pub threads: u64,
    /// Calls of the range that were left out: why, and how many.
    pub left_out: Vec<(String, u64)>,
    /// Launches of collectives in whose place is written what they had delivered, and the bytes that are
    /// written of that and of what memory of other processes had held.
    pub delivered: u64,
    /// Bytes that are written in place of peers, each time.
    pub brought: u64,
    /// Bytes that the range writes, which were put back each time.
    pub restored: u64,
    /// Allocations that could not be read, and so not be put back.
    pub unread: u64,
    /// Runs of all, those for device times and those that do not count included, and those after which memory
    /// was not as after the first.
    pub runs: u64,
    /// Runs after which memory was not as after the first.
    pub differing: u64,
    /// From the first call until all work was done, and until the last call had returned: one for each time.
    pub wall: Vec<i64>,
    /// Nanoseconds until the last call had returned, one value for each run.
    pub host: Vec<i64>,
    /// From the start of the first work to the end of the last, and how long the device had work; in further
    /// runs.
    pub device: Vec<i64>,
    /// Nanoseconds in which the device had work, one value for each run.
    pub busy: Vec<i64>,
    /// By name: how long each took, over all runs.
    pub works: BTreeMap<String, Vec<i64>>,
    /// As in TIMED records; the source's version, and why it is not CUPTI.
    pub source: u8,
    /// Version of CUPTI, or 0.
    pub version: u32,
    /// Why events were used instead of CUPTI; empty if they were not.
    pub why: String,
}

/// After the first time. No call may take longer than `limit`.
pub(crate) fn run(
    run: &Run,
    repeats: RepeatGate,
    limit: Option<Duration>,
    progress: &dyn Progress,
) -> Result<RepeatTimes, String> {
    let about = repeats.about;
    let snapshot = repeats.opened.into_inner().unwrap_or_else(|| Err("no call of the range was replayed".into()))?;
    let context = match &run.contexts.lock().iter().copied().collect::<Vec<u64>>()[..] {
        [one] => *one,
        all => {
            return Err(format!("the program has {} contexts; a range can be repeated in one context only", all.len()));
        }
    };
    at_rest(run, about.range.end, "ends")?;
    let written = snapshot.written(run);
    run.driver.set_context(context).map_err(|failure| failure.to_string())?;
    let mut repeated = RepeatTimes { restored: written.bytes, unread: written.unread, ..RepeatTimes::default() };
    let mut prepared = prepare(run, &about.range, &written, &mut repeated)?;
    let ready: Vec<PreparedCall> = prepared.iter().map(|call| call.ready(run.driver)).collect();
    let watchdog = Watchdog::new(1);
    std::thread::scope(|scope| {
        let _end = EndAtLast(&watchdog);
        hang_report::attend(scope, run, &watchdog, limit, progress).map_err(|error| error.to_string())?;
        let all = AllCalls { run, watchdog: &watchdog, prepared: &prepared, ready: &ready };
        all.repeat(&about, &written, &mut repeated)?;
        all.measure(&about, &written, &mut repeated)
    })?;
    drop(ready);
    // As the replay left it: what follows compares nothing.
    prepared.drain(..).for_each(|call| drop(call.frame));
    Ok(repeated)
}
/// All calls of the range, in their order.
struct AllCalls<'a, 't> {
    run: &'a Run<'t>,
    watchdog: &'a Watchdog,
    prepared: &'a [RepeatableCall<'t>],
    ready: &'a [PreparedCall],
}

impl AllCalls<'_, '_> {
    fn repeat(&self, about: &Repeat, written: &RangeWrites, repeated: &mut RepeatTimes) -> Result<(), String> {
        for time in 0..about.warmup.saturating_add(about.times) {
            written.restore(self.run)?;
            let (begin, issued, end) = self.once(|at| {
                if let Some(next) = self.ready.get(at + 1) {
                    next.fetch();
                }
                // SAFETY: the arguments were built from the recording by the table's description of this
                // function, and are kept.
                unsafe { self.ready[at].make() }
            })?;
            repeated.differing += u64::from(written.differing(self.run) > 0);
            repeated.runs += 1;
            if time >= about.warmup {
                repeated.wall.push(end - begin);
                repeated.host.push(issued - begin);
            }
        }
        Ok(())
    }

    /// Makes all calls: when the first began, when the last had returned, and when all work was done.
    fn once(&self, make: impl Fn(usize) -> u32) -> Result<(i64, i64, i64), String> {
        let first = self.ready.first().map_or(0, |call| call.number);
        self.watchdog.watch_call(0, first, || {
            let inside = self.watchdog.lane(0);
            let mut failed = None;
            let begin = now();
            for (at, call) in self.ready.iter().enumerate() {
                if call.writes {
                    for (to, bytes) in &self.prepared[at].host {
                        // SAFETY: pinned memory that the placement holds; the program wrote it here, too.
                        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), *to as *mut u8, bytes.len()) };
                    }
                }
                inside.store(call.number, Relaxed);
                let result = make(at);
                if result != call.expected {
                    failed = Some((&self.prepared[at], result));
                    break;
                }
            }
            let issued = now();
            let rest = self.run.driver.synchronize_context();
            let end = now();
            match (failed, rest) {
                (Some((call, result)), _) => {
                    let (number, name, expected) = (call.call.number, call.live.name, result_name(call.expected));
                    let result = result_name(result);
                    Err(format!("call {number} {name} returns {result} when repeated, not {expected}"))
                }
                (None, Err(failure)) => Err(format!("the work of the range fails when repeated: {failure}")),
                (None, Ok(())) => Ok((begin, issued, end)),
            }
        })
    }

    /// The device's times, in runs of their own.
    fn measure(&self, about: &Repeat, written: &RangeWrites, repeated: &mut RepeatTimes) -> Result<(), String> {
        let run = self.run;
        let samples = Arc::new(Mutex::new(Samples::default()));
        let measure = Measure { cupti: about.cupti.clone(), only_cupti: false, to: samples.clone() };
        let profiler = Profiler::start(&measure);
        let mut windows = Vec::new();
        for time in 0..about.warmup.saturating_add(about.times) {
            written.restore(run)?;
            let (begin, _, end) = self.once(|at| match &self.prepared[at] {
                // SAFETY: as for the runs before.
                call if call.live.is_timed() => unsafe { profiler.call(run, call.started()) },
                // SAFETY: as above.
                _ => unsafe { self.ready[at].make() },
            })?;
            profiler.waited(run);
            repeated.differing += u64::from(written.differing(run) > 0);
            repeated.runs += 1;
            if time >= about.warmup {
                windows.push((begin, end));
            }
        }
        let measured = profiler.finish(run);
        (repeated.source, repeated.version) = (measured.source, measured.version);
        repeated.why = measured.why;
        let mut samples = std::mem::take(&mut *samples.lock());
        samples.works.sort_unstable_by_key(|(timed, _)| timed.start);
        let mut runs = vec![(None::<i64>, i64::MIN, 0i64); windows.len()];
        let mut works: BTreeMap<u32, Vec<i64>> = BTreeMap::new();
        for (timed, name) in &samples.works {
            let made = timed.submitted - measured.offset;
            let window = windows.partition_point(|(begin, _)| *begin <= made).checked_sub(1);
            let Some(window) = window.filter(|window| made <= windows[*window].1) else { continue };
            let (first, last, busy) = &mut runs[window];
            first.get_or_insert(timed.start);
            *busy += (timed.end - timed.start.max(*last)).max(0);
            *last = timed.end.max(*last);
            works.entry(*name).or_default().push(timed.end - timed.start);
        }
        let timed = runs.iter().filter_map(|(first, last, busy)| Some((last - (*first)?, *busy)));
        (repeated.device, repeated.busy) = timed.unzip();
        let names: HashMap<u32, &String> = samples.names.iter().map(|(name, number)| (*number, name)).collect();
        repeated.works = works.into_iter().map(|(number, times)| (names[&number].clone(), times)).collect();
        Ok(())
    }
}

/// Works as they come.
#[derive(Default)]
struct Samples {
    works: Vec<(Timed, u32)>,
    names: HashMap<String, u32>,
}

impl Times for Samples {
    fn record(&mut self, timed: Timed, kernel: Option<&str>) {
        let name = kernel.map_or_else(|| timed.operation(), str::to_owned);
        let next = self.names.len() as u32;
        let number = *self.names.entry(name).or_insert(next);
        self.works.push((timed, number));
    }
}
