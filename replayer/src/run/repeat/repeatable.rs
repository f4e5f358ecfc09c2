//! Calls of a range that can be repeated, with everything they need, and the reasons why others cannot.

use crate::call::build::Builder;
use crate::call::frame::Frame;
use crate::driver::calls::ordered_write;
use crate::driver::{Driver, id, result};
use crate::job::run::single_rank;
use crate::memory::buffer::{Arena, Refusal};
use crate::plan::Plan;
use crate::plan::action::{Action, action};
use crate::plan::graphs::callbacks;
use crate::plan::order::partial_order::Edge;
use crate::profile::StartedCall;
use crate::run::decision::{Decision, decide};
use crate::run::hazards;
use crate::run::repeat::gate::EVENTS;
use crate::run::repeat::prepared_call::PreparedCall;
use crate::run::repeat::restore::RangeWrites;
use crate::run::repeat::timing::RepeatTimes;
use crate::run::state::Run;
use crate::tally::Tally;
use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;
use trace::api::by_name;
use trace::api::roles::{Class, Field, Role};
use trace::api::types::{Form, Kind};
use trace::model::stream::StreamHandle;
use trace::read::shared_handles::What;
use trace::{Call, Function, Trace};

/// A call that can be made at once.
pub(crate) struct RepeatableCall<'t> {
    pub call: Call<'t>,
    /// It writes what collectives had delivered, or what memory of other processes had held.
    pub brings: bool,
    pub live: &'static Function,
    pub words: Vec<u64>,
    pub expected: u32,
    /// Bytes that pinned memory has to hold when the call is made.
    pub host: Vec<(u64, Vec<u8>)>,
    /// What the words lead to.
    pub frame: Frame<'t>,
}

impl<'t> RepeatableCall<'t> {
    pub(crate) fn ready(&self, driver: &Driver) -> PreparedCall {
        let (number, writes) = (self.call.number, !self.host.is_empty());
        PreparedCall::new(driver, self.live, &self.frame, number, self.expected, writes)
    }

    pub(crate) fn started(&self) -> StartedCall<'_, 't> {
        StartedCall { call: &self.call, live: self.live, words: &self.words, brings: self.brings }
    }
}

pub(crate) fn prepare<'t>(
    run: &Run<'t>,
    range: &Range<u64>,
    written: &RangeWrites,
    repeated: &mut RepeatTimes,
) -> Result<Vec<RepeatableCall<'t>>, String> {
    let mut left_out: HashMap<String, u64> = HashMap::new();
    let mut threads = HashSet::new();
    let mut prepared = Vec::new();
    let arena = Arc::new(Arena::default());
    let mut sizes = Sizes::default();
    for (number, thread) in numbers(run.plan, range) {
        let Some(call) = run.trace.call(number) else { continue };
        let failed = |why: String| unrepeatable(&call, &why);
        let brings = deliveries(run, call, &arena).map_err(failed)?;
        repeated.brought += brings.iter().map(|write| write.words[2]).sum::<u64>();
        prepared.extend(brings);
        if is_delivered(run.plan, number) {
            repeated.delivered += 1;
            continue;
        }
        for from in made_from(&call) {
            match one(run, call, *from, &arena, &mut sizes).map_err(failed)? {
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
        return Err(format!("no call of {}..{} is replayed", range.start, range.end));
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
    repeated.calls = prepared.iter().filter(|call| !call.brings).count() as u64;
    repeated.threads = threads.len() as u64;
    repeated.left_out = left_out.into_iter().collect();
    repeated.left_out.sort();
    Ok(prepared)
}

/// Says why the range cannot be repeated, as far as the calls tell.
pub(crate) fn check(trace: &Trace, plan: &Plan, range: &Range<u64>) -> Result<(), String> {
    let calling_back = callbacks::launches(trace, range);
    let is_across =
        |(call, edges): &(&u64, &Vec<Edge>)| **call < range.start && edges.iter().any(|edge| edge.call >= range.start);
    if let Some(call) = plan.order.edges.iter().find(is_across).and_then(|(call, _)| trace.call(*call)) {
        return Err(unrepeatable(
            &call,
            "it allocated memory that a call of the range frees, in another thread, at the same time",
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
    let Some(function) = call.function() else {
        return Err("this version of cutrace does not know the function".into());
    };
    match call.result {
        Some(result::NOT_READY) => return Ok(Err("returned not ready when recorded")),
        Some(result::OUT_OF_MEMORY | result::NOT_INITIALIZED | result::DEINITIALIZED) => return Ok(Err(FAILED)),
        _ if plan.special_calls.beyond_allocation.contains(&call.number) => return Ok(Err(FAILED)),
        _ => {}
    }
    match single_rank::decide(plan, call, function) {
        Some(Decision::Refuse(why)) => return Err(why.to_owned()),
        Some(Decision::Skip(why)) => return Ok(Err(why)),
        Some(Decision::Deliver) if !is_delivered(plan, call.number) => return Err(A_GRAPH.into()),
        Some(Decision::Deliver) => return Ok(Ok(function)),
        Some(Decision::StandIn(What::Memory) | Decision::Cross(_)) => return Ok(Err(ONCE)),
        Some(_) => return Err("it creates an object".into()),
        None => {}
    }
    if let Some(why) = plan.job.refusals.get(&call.number) {
        return Err((*why).to_owned());
    }
    let live = match action(function) {
        Action::Skip(why) => return Ok(Err(why)),
        Action::Refuse(_) if !call.succeeded() => return Ok(Err(FAILED)),
        Action::Refuse(why) => return Err(why.to_owned()),
        Action::Memory(_) => return Ok(Err(ONCE)),
        Action::Poll { wait, .. } if call.succeeded() => by_name(wait).ok_or("its wait is not in the table")?,
        Action::Poll { of: [_, _, ..], .. } => return Ok(Err(FAILED)),
        _ => function,
    };
    if live.begins_capture() || live.ends_capture() {
        return Err(A_GRAPH.into());
    }
    if live.creates(Kind::Event).or(live.ends(Kind::Event)).is_some() {
        return Ok(Err(EVENTS));
    }
    for param in live.params {
        match param.role {
            Role::Create(_) => return Err(format!("it creates an object ({})", param.name)),
            Role::Destroy => return Err(format!("it destroys an object ({})", param.name)),
            Role::Callback => return Err("it runs a callback of the program".into()),
            _ => {}
        }
    }
    if call.written().any(|written| written.images().next().is_some()) {
        return Err("the CPU wrote memory before it without a call".into());
    }
    Ok(Ok(live))
}

const NO_FUNCTION: &str = "this driver has no such function";
const FAILED: &str = "failed when recorded";
const A_GRAPH: &str = "a capture creates a graph";
const ONCE: &str = "memory is allocated and freed once";

/// Of functions, by their live handles: offset and size of each parameter, if the driver tells.
type Sizes = HashMap<u64, Option<Vec<(usize, usize)>>>;

fn is_delivered(plan: &Plan, call: u64) -> bool {
    plan.job.single_rank.as_ref().is_some_and(|alone| alone.launches.contains_key(&call))
}

/// Writes of what the trace has of other processes, which come before the call or in its place.
fn deliveries<'t>(run: &Run<'t>, call: Call<'t>, arena: &Arc<Arena>) -> Result<Vec<RepeatableCall<'t>>, String> {
    let mut all = Vec::new();
    let Some(function) = call.function().filter(|_| call.succeeded()) else { return Ok(all) };
    for (delivery, missing) in single_rank::deliveries(run.plan, &call) {
        let stream = single_rank::stream_of(run, &call, function).ok_or("the replay does not have its stream")?;
        for (to, bytes) in single_rank::pieces(run, delivery, missing)? {
            let (name, words) = ordered_write(to, bytes, stream);
            let live = by_name(name).filter(|live| run.driver.exports(id(live))).ok_or(NO_FUNCTION)?;
            let mut frame = Frame { arena: Some(arena.clone()), ..Frame::default() };
            let held = frame.holding(&words.map(u64::to_le_bytes).concat()).map_err(|Refusal(why)| why)?;
            frame.memory.push(held);
            let (words, expected, host) = (words.to_vec(), result::SUCCESS, Vec::new());
            all.push(RepeatableCall { call, brings: true, live, words, expected, host, frame });
        }
    }
    Ok(all)
}

/// Behind the arguments of one launch lie those of another here, and not zeros.
fn takes_more(run: &Run, call: &Call, live: &Function, words: &[u64], sizes: &mut Sizes) -> bool {
    let handle = live.handle(Kind::Function).map(|at| words[live.params[at].offset as usize / 8]);
    let (Some(handle), Some(kernel)) = (handle, call.named_kernel()) else { return false };
    let told = sizes.entry(handle).or_insert_with(|| run.driver.parameters(handle).ok());
    let recorded = kernel.params.as_ref().map(|params| params.iter().map(|(at, size)| (*at as usize, *size as usize)));
    told.as_ref().zip(recorded).is_some_and(|(told, recorded)| !recorded.eq(told.iter().copied()))
}

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
    sizes: &mut Sizes,
) -> Result<Result<RepeatableCall<'t>, String>, String> {
    let (function, live) = match (call.function(), live(run.plan, &call)?) {
        (Some(function), Ok(live)) => (function, live),
        (_, made) => return Ok(Err(made.err().unwrap_or(FAILED).to_owned())),
    };
    // By the devices that are here.
    if let Decision::Skip(why) | Decision::Nothing(why) = decide(run, &call, function) {
        return Ok(Err(why.to_owned()));
    }
    if !run.driver.exports(id(live)) {
        return Err(NO_FUNCTION.into());
    }
    let mut tally = Tally::default();
    let (mut frame, built) = Builder::build(run, call, function, &mut tally, Some(arena));
    hazards::before_call(run, &call, &mut frame, &mut tally);
    match built {
        Ok(()) => {}
        Err(Refusal(why)) if call.succeeded() => return Err(why),
        Err(Refusal(_)) => return Ok(Err(FAILED.to_owned())),
    }
    if frame.instead.is_some() && function.class == Class::copy {
        return Err("it copies managed memory as host memory, and waits".into());
    }
    if from > 0 {
        let words = frame.words();
        frame.memory[0].write(0, &words[from].to_le_bytes());
    }
    let (live, words) = (frame.instead.unwrap_or(live), frame.words());
    let is_own = |param: &Field| {
        let stream = words.get(param.offset as usize / 8).copied().unwrap_or(0);
        let is_stream = matches!(param.ty.form, Form::Handle(Kind::Stream));
        is_stream && StreamHandle::new(live, stream).resolve(0, 0).thread.is_some()
    };
    if live.params.iter().any(is_own) {
        return Err("it uses a thread's own default stream".into());
    }
    if takes_more(run, &call, live, &words, sizes) {
        return Err("its kernel's arguments differ from those in the trace".into());
    }
    let host = frame.sources.iter().map(|range| {
        let len = (range.end - range.start) as usize;
        // SAFETY: pinned memory that the placement holds, which now has what the call read.
        (range.start, unsafe { std::slice::from_raw_parts(range.start as *const u8, len) }.to_vec())
    });
    let host = host.collect();
    Ok(Ok(RepeatableCall { call, brings: false, live, words, expected: call.result.unwrap_or(0), host, frame }))
}
