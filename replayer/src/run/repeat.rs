//! A range of calls made again and again, to be timed.
//!
//! The first time is the replay's own, by its workers and with all comparisons. Then the range's calls are
//! built once more, all of them, and made by one thread in the order of their entry: nothing is decoded while
//! the clock runs. Between two times what the range writes is put back as it was before. Host time is taken
//! first, without any profiler in the process; device times in as many further runs.
//!
//! So a range must be such that it can be made again: objects that it makes or ends, callbacks, captures, and
//! what the CPU writes without a call stand in the way, and are named.

use crate::call::build::Builder;
use crate::call::frame::Frame;
use crate::driver::{Driver, id, result, result_name};
use crate::memory::buffer::{Arena, Refusal};
use crate::options::Repeat;
use crate::plan::action::{Action, action};
use crate::plan::order::Edge;
use crate::plan::{Plan, called_back};
use crate::profile::{Measure, Profiler, Times, now};
use crate::run::hazards;
use crate::run::prepared_call::PreparedCall;
use crate::run::repeats::{Repeats, at_rest};
use crate::run::restore::Written;
use crate::run::state::Run;
use crate::tally::Tally;
use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;
use trace::api::by_name;
use trace::api::roles::{Class, Field, Role};
use trace::api::types::{Form, Kind};
use trace::model::stream::StreamHandle;
use trace::record::Timed;
use trace::{Call, Function, Trace};

/// What it took. All times in nanoseconds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Repeated {
    /// Calls that were made each time, and the threads that made them when recorded.
    pub calls: u64,
    pub threads: u64,
    /// Calls of the range that were left out: why, and how many.
    pub left_out: Vec<(String, u64)>,
    /// Bytes that the range writes, which were put back each time.
    pub restored: u64,
    /// Allocations that could not be read, and so not be put back.
    pub unread: u64,
    /// Runs of all, those for device times and those that do not count included, and those after which memory
    /// was not as after the first.
    pub runs: u64,
    pub differing: u64,
    /// From the first call until all work was done, and until the last call had returned: one for each time.
    pub wall: Vec<i64>,
    pub host: Vec<i64>,
    /// From the start of the first work to the end of the last, and how long the device had work; in further
    /// runs.
    pub device: Vec<i64>,
    pub busy: Vec<i64>,
    /// By name: how long each took, over all runs.
    pub works: BTreeMap<String, Vec<i64>>,
    /// As in TIMED records; the source's version, and why it is not CUPTI.
    pub source: u8,
    pub version: u32,
    pub why: String,
}

/// A call that can be made at once.
struct Prepared<'t> {
    call: Call<'t>,
    live: &'static Function,
    words: Vec<u64>,
    expected: u32,
    /// Bytes that pinned memory has to hold when the call is made.
    host: Vec<(u64, Vec<u8>)>,
    /// What the words lead to.
    frame: Frame<'t>,
}

/// After the first time.
pub fn run(run: &Run, repeats: Repeats) -> Result<Repeated, String> {
    let about = repeats.about;
    let snapshot = repeats.opened.into_inner().unwrap_or_else(|| Err("no call of the range was made".into()))?;
    let context = match &run.contexts.lock().iter().copied().collect::<Vec<u64>>()[..] {
        [one] => *one,
        all => return Err(format!("the program has {} contexts; only one can be repeated in", all.len())),
    };
    at_rest(run, about.range.end, "ends")?;
    let written = snapshot.written(run);
    run.driver.set_context(context).map_err(|failure| failure.to_string())?;
    let mut repeated = Repeated { restored: written.bytes, unread: written.unread, ..Repeated::default() };
    let mut prepared = prepare(run, &about.range, &written, &mut repeated)?;
    let ready: Vec<PreparedCall> = prepared.iter().map(|call| call.ready(run.driver)).collect();
    for time in 0..about.warmup.saturating_add(about.times) {
        written.restore(run)?;
        let (begin, issued, end) = once(run, &prepared, &ready, |at| {
            if let Some(next) = ready.get(at + 1) {
                next.fetch();
            }
            // SAFETY: the arguments were built from the recording by the table's description of this
            // function, and are kept.
            unsafe { ready[at].make() }
        })?;
        repeated.differing += u64::from(written.differing(run) > 0);
        repeated.runs += 1;
        if time >= about.warmup {
            repeated.wall.push(end - begin);
            repeated.host.push(issued - begin);
        }
    }
    measure(run, &about, &written, &prepared, &ready, &mut repeated)?;
    drop(ready);
    // As the replay left it: what follows compares nothing.
    prepared.drain(..).for_each(|call| drop(call.frame));
    Ok(repeated)
}

impl Prepared<'_> {
    fn ready(&self, driver: &Driver) -> PreparedCall {
        PreparedCall::new(driver, self.live, &self.frame, self.expected, !self.host.is_empty())
    }
}

/// Makes all calls: when the first began, when the last had returned, and when all work was done.
fn once<'t>(
    run: &Run,
    prepared: &[Prepared<'t>],
    ready: &[PreparedCall],
    make: impl Fn(usize) -> u32,
) -> Result<(i64, i64, i64), String> {
    let mut failed = None;
    let begin = now();
    for (at, call) in ready.iter().enumerate() {
        if call.writes {
            for (to, bytes) in &prepared[at].host {
                // SAFETY: pinned memory that the placement holds; the program wrote it here, too.
                unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), *to as *mut u8, bytes.len()) };
            }
        }
        let result = make(at);
        if result != call.expected {
            failed = Some((&prepared[at], result));
            break;
        }
    }
    let issued = now();
    let rest = run.driver.synchronize_context();
    let end = now();
    match (failed, rest) {
        (Some((call, result)), _) => {
            let (number, name, expected) = (call.call.number, call.live.name, result_name(call.expected));
            Err(format!("call {number} {name} says {} when it is repeated, not {expected}", result_name(result)))
        }
        (None, Err(failure)) => Err(format!("the work of the range fails when it is repeated: {failure}")),
        (None, Ok(())) => Ok((begin, issued, end)),
    }
}

fn prepare<'t>(
    run: &Run<'t>,
    range: &Range<u64>,
    written: &Written,
    repeated: &mut Repeated,
) -> Result<Vec<Prepared<'t>>, String> {
    let mut left_out: HashMap<String, u64> = HashMap::new();
    let mut threads = HashSet::new();
    let mut prepared = Vec::new();
    let arena = Arc::new(Arena::default());
    for (number, thread) in numbers(run.plan, range) {
        let Some(call) = run.trace.call(number) else { continue };
        for from in made_from(&call) {
            match one(run, call, *from, &arena).map_err(|why| unrepeatable(&call, &why))? {
                Ok(call) => {
                    threads.insert(thread);
                    prepared.push(call);
                }
                Err(why) => {
                    *left_out.entry(why).or_default() += 1;
                    break;
                }
            }
        }
    }
    if prepared.is_empty() {
        return Err(format!("no call of {}..{} is made by a replay", range.start, range.end));
    }
    // What stays the same in pinned memory is there once it is restored.
    let mut contents: HashMap<u64, &Vec<u8>> = HashMap::new();
    let mut changing: Vec<Range<u64>> = Vec::new();
    for (at, bytes) in prepared.iter().flat_map(|call| &call.host) {
        let range = *at..*at + bytes.len() as u64;
        if contents.insert(*at, bytes).is_some_and(|known| known != bytes) || written.holds(&range) {
            changing.push(range);
        }
    }
    let changes = |at: u64, len: usize| changing.iter().any(|range| at < range.end && range.start < at + len as u64);
    prepared.iter_mut().for_each(|call| call.host.retain(|(at, bytes)| changes(*at, bytes.len())));
    repeated.calls = prepared.len() as u64;
    repeated.threads = threads.len() as u64;
    repeated.left_out = left_out.into_iter().collect();
    repeated.left_out.sort();
    Ok(prepared)
}

/// Says why the range cannot be repeated, as far as the calls tell.
pub fn check(trace: &Trace, plan: &Plan, range: &Range<u64>) -> Result<(), String> {
    let calling_back = called_back::launches(trace, range);
    let is_across =
        |(call, edges): &(&u64, &Vec<Edge>)| **call < range.start && edges.iter().any(|edge| edge.call >= range.start);
    if let Some(call) = plan.order.edges.iter().find(is_across).and_then(|(call, _)| trace.call(*call)) {
        return Err(unrepeatable(
            &call,
            "it got what a call of the range gives back, as another thread did while it was inside",
        ));
    }
    for number in numbers(plan, range).into_iter().map(|(number, _)| number) {
        let Some(call) = trace.call(number) else { continue };
        if let Some(by) = calling_back.get(&number) {
            let name = trace.call(*by).map_or("?", |call| call.name());
            let why = format!("its graph runs a callback of the program (call {by} {name})");
            return Err(unrepeatable(&call, &why));
        }
        let _made = live(plan, &call).map_err(|why| unrepeatable(&call, &why))?;
    }
    Ok(())
}

fn unrepeatable(call: &Call, why: &str) -> String {
    format!("call {} {}: {why}", call.number, call.name())
}

/// The calls of the range that a replay makes, and their threads.
fn numbers(plan: &Plan, range: &Range<u64>) -> Vec<(u64, u32)> {
    let steps = plan.order.lanes.iter().flat_map(|lane| lane.steps.iter().map(|step| (step.call, lane.thread)));
    let mut numbers: Vec<(u64, u32)> = steps.filter(|(call, _)| range.contains(call)).collect();
    numbers.sort_unstable();
    numbers
}

/// The function that is called; or why the call is left out. An error if the range cannot be repeated because
/// of it.
fn live(plan: &Plan, call: &Call) -> Result<Result<&'static Function, &'static str>, String> {
    let Some(function) = call.function() else { return Err("this cutrace does not know the function".into()) };
    match call.result {
        Some(result::NOT_READY) => return Ok(Err("asked too early when recorded")),
        Some(result::OUT_OF_MEMORY | result::NOT_INITIALIZED | result::DEINITIALIZED) => return Ok(Err(FAILED)),
        _ if plan.beyond.contains(&call.number) => return Ok(Err(FAILED)),
        _ => {}
    }
    let live = match action(function) {
        Action::Skip(why) => return Ok(Err(why)),
        Action::Refuse(_) if !call.succeeded() => return Ok(Err(FAILED)),
        Action::Refuse(why) => return Err(why.to_owned()),
        Action::Memory(_) => return Ok(Err("memory is given and taken once")),
        Action::Poll { wait, .. } if call.succeeded() => by_name(wait).ok_or("its wait is not in the table")?,
        Action::Poll { of: [_, _, ..], .. } => return Ok(Err(FAILED)),
        _ => function,
    };
    if live.begins_capture() || live.ends_capture() {
        return Err("a capture makes a graph".into());
    }
    for param in live.params {
        match param.role {
            Role::Create(_) => return Err(format!("it makes an object ({})", param.name)),
            Role::Destroy => return Err(format!("it ends an object ({})", param.name)),
            Role::Callback => return Err("its callback is the program's".into()),
            _ => {}
        }
    }
    if call.written().any(|written| written.images().next().is_some()) {
        return Err("the CPU wrote memory before it without a call".into());
    }
    Ok(Ok(live))
}

const FAILED: &str = "failed when recorded";

/// A call is made with its arguments from here on; a wait for more than one thing more than once.
fn made_from(call: &Call) -> &'static [usize] {
    match call.function().map(action) {
        Some(Action::Poll { of, .. }) => of,
        _ => &[0],
    }
}

/// The call with its arguments from this one on, ready to be made; or why it is left out.
fn one<'t>(
    run: &Run<'t>,
    call: Call<'t>,
    from: usize,
    arena: &Arc<Arena>,
) -> Result<Result<Prepared<'t>, String>, String> {
    let (function, live) = match (call.function(), live(run.plan, &call)?) {
        (Some(function), Ok(live)) => (function, live),
        (_, made) => return Ok(Err(made.err().unwrap_or(FAILED).to_owned())),
    };
    if !run.driver.has(id(live)) {
        return Err("this driver has no such function".into());
    }
    let mut tally = Tally::default();
    let (mut frame, built) = Builder::build(run, call, function, &mut tally, Some(arena));
    hazards::before(run, &call, &mut frame, &mut tally);
    match built {
        Ok(()) => {}
        Err(Refusal(why)) if call.succeeded() => return Err(why),
        Err(Refusal(_)) => return Ok(Err(FAILED.to_owned())),
    }
    if frame.instead.is_some() && function.class == Class::copy {
        return Err("it copies managed memory as if that were the host's, and waits for it".into());
    }
    if from > 0 {
        let words = frame.words();
        frame.memory[0].put(0, &words[from].to_le_bytes());
    }
    let (live, words) = (frame.instead.unwrap_or(live), frame.words());
    let is_own = |param: &Field| {
        let stream = words.get(param.offset as usize / 8).copied().unwrap_or(0);
        let is_stream = matches!(param.ty.form, Form::Handle(Kind::Stream));
        is_stream && StreamHandle::new(live, stream).of(0, 0).thread.is_some()
    };
    if live.params.iter().any(is_own) {
        return Err("it uses a thread's own default stream".into());
    }
    let host = frame.sources.iter().map(|range| {
        let len = (range.end - range.start) as usize;
        // SAFETY: pinned memory that the placement holds, which now has what the call read.
        (range.start, unsafe { std::slice::from_raw_parts(range.start as *const u8, len) }.to_vec())
    });
    let host = host.collect();
    Ok(Ok(Prepared { call, live, words, expected: call.result.unwrap_or(0), host, frame }))
}

/// Works as they come.
#[derive(Default)]
struct Samples {
    works: Vec<(Timed, u32)>,
    names: HashMap<String, u32>,
}

impl Times for Samples {
    fn take(&mut self, timed: Timed, kernel: Option<&str>) {
        let name = kernel.map_or_else(|| timed.operation(), str::to_owned);
        let next = self.names.len() as u32;
        let number = *self.names.entry(name).or_insert(next);
        self.works.push((timed, number));
    }
}

fn measure<'t>(
    run: &Run<'t>,
    about: &Repeat,
    written: &Written,
    prepared: &[Prepared<'t>],
    ready: &[PreparedCall],
    repeated: &mut Repeated,
) -> Result<(), String> {
    let samples = Arc::new(Mutex::new(Samples::default()));
    let measure = Measure { cupti: about.cupti.clone(), only_cupti: false, to: samples.clone() };
    let profiler = Profiler::start(&measure);
    let mut windows = Vec::new();
    for time in 0..about.warmup.saturating_add(about.times) {
        written.restore(run)?;
        let (begin, _, end) = once(run, prepared, ready, |at| match &prepared[at] {
            // SAFETY: as for the runs before.
            call if call.live.is_timed() => unsafe { profiler.call(run, &call.call, call.live, &call.words) },
            // SAFETY: as above.
            _ => unsafe { ready[at].make() },
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
