//! The run: one worker a recorded thread, each call when what preceded it has returned.

pub mod aside;
pub mod callbacks;
pub mod culprit;
pub mod edges;
pub mod finish;
pub mod instances;
pub mod launches;
mod lifetimes;
pub mod marks;
pub mod numbers;
pub mod peek;
pub mod queue;
pub mod readers;
mod ready;
pub mod repeat;
pub mod restore;
pub mod results;
pub mod sinks;
pub mod stall;
pub mod trail;
pub mod unroll;
mod work;
pub mod world;
pub mod written;

use crate::call::buffers::Builder;
use crate::call::driver::{Driver, Failure, id, result, result_name};
use crate::call::frame::Refusal;
use crate::call::objects::Objects;
use crate::check::payload;
use crate::check::report::{Divergence, Report, Tally};
use crate::memory::place::Placement;
use crate::memory::translate::Translation;
use crate::plan::Plan;
use crate::plan::action::{Action, Memory, action};
use crate::plan::order::{Gate, Lane};
use crate::profile::Profiler;
use crate::run::aside::Aside;
use crate::run::callbacks::Callbacks;
use crate::run::launches::Watch;
use crate::run::repeat::Repeats;
use crate::run::sinks::Sinks;
use crate::run::stall::{EndAtLast, PATIENCE, Stall, watched};
use crate::run::work::handle;
use crate::run::world::World;
use crate::run::written::Writes;
use crate::{Error, Options, Progress, check};
use parking_lot::Mutex;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;
use trace::api::by_name;
use trace::api::roles::{Class, Role};
use trace::api::types::{Form, Kind};
use trace::{Call, Function, Trace};

/// Calls between two reports of progress.
const STRIDE: u64 = 256;

pub fn replay(trace: &Trace, plan: &Plan, options: &Options, progress: &dyn Progress) -> Result<Report, Error> {
    let started = Instant::now();
    if options.place
        && !options.translate
        && let Ok(Some(mapping)) = plan.collides_with_own_mappings()
    {
        return Err(Error::Collision { mapping });
    }
    if let Some(about) = &options.tools.repeat {
        repeat::check(trace, plan, &about.range).map_err(|why| Error::Repeat { why })?;
    }
    let driver = Driver::load(&options.driver)?;
    let profiler = options.tools.measure.as_ref().map(Profiler::start);
    if let Some(why) = profiler.as_ref().map(Profiler::why).filter(|why| !why.is_empty()) {
        if options.tools.measure.as_ref().is_some_and(|measure| measure.only_cupti) {
            return Err(Error::Cupti { why: why.to_owned() });
        }
        progress.warn(&format!("times are taken from events: {why}"));
    }
    // SAFETY: no pointers.
    unsafe { driver.ask("cuInit", &[0]) }.map_err(|failure| Error::Init { failure: failure.to_string() })?;
    has_devices(&driver, &options.devices)?;
    let objects = Objects::new(options.devices.clone());
    let translation = Translation::default();
    let placement = Placement::prepare(&driver, &objects, &translation, plan, options.place, options.tools.fill)?;
    placement.shortages.iter().for_each(|shortage| progress.warn(shortage));
    let writes = Writes::of(trace);
    let mut world = World {
        trace,
        plan,
        driver: &driver,
        objects: &objects,
        translation: &translation,
        placement,
        sinks: Sinks::default(),
        contexts: Mutex::default(),
        retained: Mutex::default(),
        linked: Mutex::default(),
        resources: Mutex::default(),
        graph_memory: Mutex::default(),
        graph_reads: Mutex::default(),
        callbacks: Callbacks::of(trace),
        aside: Aside::new(writes.has_seen()),
        writes,
        before_launches: Mutex::default(),
        verify: options.verify,
        tolerance: options.tools.tolerance,
        end: options.tools.end.unwrap_or(u64::MAX),
        profiler,
        marked: options.tools.marked.clone(),
        repeats: options.tools.repeat.clone().map(|about| {
            let calls = plan.order.lanes.iter().flat_map(|lane| lane.steps.iter().map(|step| step.call));
            Repeats::new(calls, about)
        }),
        watch: (options.tools.sync_launches || options.tools.trail).then(|| Watch::new(options.tools.trail)),
    };
    let mut tally = run(&world, progress)?;
    let repeated = match world.repeats.take() {
        None => None,
        Some(repeats) => Some(repeat::run(&world, repeats).map_err(|why| Error::Repeat { why })?),
    };
    if !world.is_stopped() {
        peek::dump(&world, &options.tools.dumps, |what| progress.warn(what))
            .map_err(|(path, why)| Error::Dump { path, why })?;
    }
    watched(|| progress.stalled(PATIENCE, &[]), || finish::finish(&world, &mut tally));
    world.callbacks.close(&mut tally);
    let elapsed = started.elapsed();
    let measured = world.profiler.take().map(|profiler| profiler.finish(&world));
    Ok(Report { measured, repeated, ..Report::new(world, tally, elapsed) })
}

/// Whether there are the devices that stand in for recorded ones.
fn has_devices(driver: &Driver, devices: &std::collections::HashMap<i32, i32>) -> Result<(), Error> {
    let Some(here) = devices.values().copied().max() else { return Ok(()) };
    let mut count = 0i32;
    // SAFETY: one output word.
    unsafe { driver.ask("cuDeviceGetCount", &[&raw mut count as u64]) }
        .map_err(|failure| Error::Init { failure: failure.to_string() })?;
    if here < count { Ok(()) } else { Err(Error::NoDevice { here, count }) }
}

/// Runs all lanes, each begun when its first call may start.
fn run(world: &World, progress: &dyn Progress) -> Result<Tally, Error> {
    let order = &world.plan.order;
    let gate = Gate::new(order.calls);
    let total = Mutex::new(Tally::default());
    let stall = Stall::new(order.lanes.len());
    let ended = std::thread::scope(|scope| {
        scope.spawn(|| stall.watch(PATIENCE, |calls| progress.stalled(PATIENCE, &named(world.trace, calls))));
        let _end = EndAtLast(&stall);
        let mut workers = Vec::new();
        let mut refused = None;
        for (index, lane) in order.lanes.iter().enumerate() {
            if lane.steps[0].call >= world.end {
                continue;
            }
            if gate.wait(lane.steps[0].after).is_err() {
                break;
            }
            let (gate, total, stall) = (&gate, &total, &stall);
            let work = move || {
                let _abort = AbortOnPanic(gate);
                let mut worker = Worker { world, thread: lane.thread, tally: Tally::default() };
                worker.run(lane, gate, stall, index, progress);
                total.lock().add(worker.tally);
            };
            match std::thread::Builder::new().spawn_scoped(scope, work) {
                Ok(worker) => workers.push(worker),
                Err(source) => {
                    refused = Some(Error::Thread { thread: lane.thread, source });
                    gate.abort();
                    break;
                }
            }
        }
        let ends: Vec<bool> = workers.into_iter().map(|worker| worker.join().is_err()).collect();
        if ends.contains(&true) { Some(Error::Worker) } else { refused }
    });
    match ended {
        Some(error) => Err(error),
        None => Ok(total.into_inner()),
    }
}

fn named(trace: &Trace, calls: &[u64]) -> Vec<(u64, String)> {
    calls.iter().filter_map(|call| Some((*call, trace.call(*call)?.name().to_owned()))).collect()
}

struct AbortOnPanic<'g>(&'g Gate);

impl Drop for AbortOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.abort();
        }
    }
}

struct Worker<'w, 't> {
    world: &'w World<'t>,
    thread: u32,
    tally: Tally,
}

impl<'t> Worker<'_, 't> {
    fn run(&mut self, lane: &Lane, gate: &Gate, stall: &Stall, index: usize, progress: &dyn Progress) {
        let mut done = 0;
        // What a call below the end waits for is below it, too.
        for step in lane.steps.iter().take_while(|step| step.call < self.world.end) {
            let held = self.world.repeats.as_ref().map(|repeats| repeats.before(self.world, gate, step.call));
            if held.is_some_and(|held| held.is_err()) {
                return gate.abort();
            }
            if gate.start(&self.world.plan.order, step).is_err() {
                return;
            }
            if let Some(call) = self.world.trace.call(step.call) {
                stall.within(index, call.number, || self.perform(call));
            }
            if self.world.is_stopped() {
                return gate.abort();
            }
            gate.finish(step.rank);
            if let Some(repeats) = &self.world.repeats {
                repeats.returned(step.call);
            }
            done += 1;
            if done == STRIDE {
                progress.advance(done);
                done = 0;
            }
        }
        progress.advance(done);
    }

    fn perform(&mut self, call: Call<'t>) {
        self.world.callbacks.before(self.world, &call, &mut self.tally);
        self.world.writes.before(self.world, &call, &mut self.tally);
        let Some(function) = call.function() else {
            return self.tally.leave_out(call.name(), "this cutrace does not know the function", true, call.number);
        };
        match call.result {
            Some(result::OUT_OF_MEMORY) => return self.skip(&call, function, "was out of memory when recorded"),
            // The replay has to start the driver first, to reserve addresses.
            Some(result::NOT_INITIALIZED) => return self.skip(&call, function, "came before the driver's start"),
            Some(result::DEINITIALIZED) => return self.skip(&call, function, "came after the driver's end"),
            Some(result::NOT_READY) => return self.skip(&call, function, "asked too early when recorded"),
            // Memory that has no handle may have one where the replay has placed it.
            Some(failed) if failed != 0 && function.name == "cuMemRetainAllocationHandle" => {
                return self.skip(
                    &call,
                    function,
                    "its answer is about the recorded allocation, which replay serves in another way",
                );
            }
            _ if self.world.plan.beyond.contains(&call.number) => {
                return self.skip(&call, function, "failed when recorded, beyond the end of an allocation");
            }
            // Memory of the replay is mapped where the program's was allocated.
            Some(_) if !call.succeeded() && function.name == "cuMemRetainAllocationHandle" => {
                return self.skip(
                    &call,
                    function,
                    "failed when recorded, about memory that replay serves in another way",
                );
            }
            _ => {}
        }
        self.adopt(&call, function);
        match action(function) {
            Action::Execute if self.world.marked.is_some() && marks::is_mark(function) => {
                self.skip(&call, function, "only the kernels that were asked for are marked");
            }
            Action::Skip(why) => self.skip(&call, function, why),
            Action::Refuse(_) if !call.succeeded() => self.skip(&call, function, "failed when recorded"),
            Action::Refuse(why) => self.refuse(&call, function, why),
            Action::Poll { wait } if call.succeeded() => {
                let waiting = by_name(wait).expect("the exceptions name functions of the table");
                self.execute(call, function, waiting);
            }
            Action::Memory(Memory::Allocate) if self.world.plan.captured.contains_key(&call.number) => {
                self.execute(call, function, function);
            }
            Action::Memory(memory) if call.succeeded() => self.emulate(&call, function, memory),
            _ => self.execute(call, function, function),
        }
    }

    /// Calls `live` in place of the recorded `function`, which takes the same arguments.
    fn execute(&mut self, call: Call<'t>, function: &'static Function, live: &'static Function) {
        let world = self.world;
        if !world.driver.has(id(live)) {
            return self.refuse(&call, function, "this driver has no such function");
        }
        let mut frame = match Builder::build(world, call, function, &mut self.tally, None) {
            Ok(frame) => frame,
            Err(Refusal(why)) if call.succeeded() => return self.refuse(&call, function, &why),
            Err(Refusal(why)) => return self.skip(&call, function, &why),
        };
        let words = frame.words();
        if function.class == Class::destroy
            && let Some((Kind::Stream, stream)) = function.params.first().and_then(|param| handle(param, &words))
        {
            world.sinks.destroys_stream(stream);
            world.aside.destroys_stream(stream);
        }
        let ending = self.context_ended_by(&call);
        if let Some(context) = ending {
            finish::context_ends(world, context, &mut self.tally);
        }
        if function.name == "cuMemMap" {
            // Allocated memory may have been here before.
            let start = call.argument("ptr").unwrap_or(0);
            let _ = world.placement.vacate(&(start..start.saturating_add(call.argument("size").unwrap_or(0))));
        }
        if function.class == Class::launch && world.verify {
            results::before_launch(world, &call);
        }
        if matches!(function.class, Class::submit | Class::launch) {
            world.aside.submits(|| self.queue(function, &words));
        }
        let profiler = world.profiler.as_ref().filter(|_| Profiler::concerns(live));
        let is_marked = world.marked.as_ref().is_some_and(|marked| marked.contains(&call.number));
        if is_marked {
            marks::begin(world, &mut self.tally, &call);
        }
        let result = match (&world.watch, profiler) {
            // SAFETY: the arguments were built from the recording by the table's description of this function.
            (None, None) => unsafe { world.driver.call(id(live), &words) },
            // SAFETY: as above.
            (Some(watch), _) => unsafe { watch.call(world, &call, live, &words) },
            // SAFETY: as above.
            (None, Some(profiler)) => unsafe { profiler.call(world, &call, live, &words) },
        };
        if is_marked {
            marks::end(world);
        }
        self.tally.executed += 1;
        self.compare(&call, function, result);
        if result == result::SUCCESS && call.succeeded() {
            self.tally.other_numbers += u64::from(numbers::differs(world, &call, function, &words));
            check::outputs(world, &call, function, &frame, &mut self.tally);
            self.copies(&call, function, &mut frame, &words);
            self.ended(&call, function);
            // A primary context may be held by others still, and its handle stays good.
            if let Some(context) =
                ending.filter(|_| function.params.iter().any(|param| matches!(param.role, Role::Destroy)))
            {
                world.contexts.lock().remove(&context);
            }
            // To ask about a stream may break a capture under way.
            let may_ask = world.placement.captures.load(Relaxed) == 0;
            if matches!(function.class, Class::synchronize | Class::poll) && may_ask {
                let all = matches!(function.name, "cuCtxSynchronize" | "cuCtxSynchronize_v2");
                for pending in world.sinks.synchronized(world.driver, self.thread, all) {
                    payload::compare(world, pending.call, &pending.sink, &mut self.tally);
                }
            }
            if let Some(profiler) = world.profiler.as_ref()
                && matches!(function.class, Class::synchronize | Class::poll)
                && may_ask
            {
                profiler.waited(world);
            }
            if world.verify {
                results::after_wait(world, &call, &mut self.tally);
            }
        } else if call.succeeded() {
            // The call failed here: what it would have brought cannot be compared.
            self.tally.unchecked_copies += if world.verify { frame.sinks.len() as u64 } else { 0 };
            self.forgo(&call, function);
        }
        if frame.retain {
            world.retained.lock().push(frame);
        }
    }

    fn compare(&mut self, call: &Call, function: &Function, result: u32) {
        let expected = call.result.expect("only calls that returned are planned");
        if !self.world.verify || expected != result && self.is_same_fault(call, expected, result) {
            return;
        }
        self.tally.checked.results += 1;
        if expected != result {
            self.diverged(call, function, "result", result_name(expected), result_name(result));
        }
    }

    /// Whether both mean the same failure of earlier work, which no two runs report at the same call.
    fn is_same_fault(&self, call: &Call, expected: u32, found: u32) -> bool {
        let Some(fault) = self.world.plan.fault else { return false };
        if found == fault.code {
            return call.number >= fault.since && expected == result::SUCCESS;
        }
        // The recorded program had heard of it; the replay's device may not have come to it yet.
        let waits = expected == fault.code;
        waits && matches!(self.world.placement.wait(), Err(Failure { code: Some(code), .. }) if code == expected)
    }

    fn diverged(&mut self, call: &Call, function: &Function, what: &str, expected: String, found: String) {
        self.tally.diverged(Divergence {
            call: call.number,
            function: function.name.to_owned(),
            thread: call.thread,
            what: what.to_owned(),
            offset: None,
            expected,
            found,
            extent: None,
            launches: Vec::new(),
        });
    }

    fn skip(&mut self, call: &Call, function: &'static Function, why: &str) {
        self.tally.leave_out(function.name, why, false, call.number);
        self.forgo(call, function);
    }

    fn refuse(&mut self, call: &Call, function: &'static Function, why: &str) {
        self.tally.leave_out(function.name, why, true, call.number);
        self.forgo(call, function);
    }

    /// Objects that the recorded call handed out and the replay does not have.
    fn forgo(&self, call: &Call, function: &'static Function) {
        self.world.callbacks.left_out(call.number);
        if !call.succeeded() {
            return;
        }
        for param in function.params {
            if let Form::Pointer(to) = param.ty.form
                && let Form::Handle(kind) = to.form
                && let Some(value) = call.output(param.name)
                && matches!(param.role, Role::Create(_) | Role::Out(_))
            {
                self.world.objects.forgo(kind, value, call.number, matches!(param.role, Role::Create(_)));
            }
        }
    }
}
