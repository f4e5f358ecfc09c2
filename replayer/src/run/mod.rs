//! The run: one worker a recorded thread, each call when what preceded it has returned.

pub mod callbacks;
pub mod culprit;
pub mod edges;
pub mod finish;
pub mod instances;
pub mod launches;
pub mod numbers;
pub mod peek;
pub mod queue;
pub mod readers;
pub mod results;
pub mod sinks;
pub mod stall;
pub mod trail;
pub mod unroll;
pub mod world;
pub mod written;

use crate::call::buffers::Builder;
use crate::call::driver::{Driver, Failure, id, result, result_name};
use crate::call::frame::{Frame, Refusal};
use crate::call::objects::{Found, Objects};
use crate::check::payload;
use crate::check::report::{Divergence, Report, Tally};
use crate::memory::ordered::Ordered;
use crate::memory::place::Placement;
use crate::memory::translate::Translation;
use crate::plan::Plan;
use crate::plan::action::{Action, Memory, action};
use crate::plan::order::{Gate, Lane};
use crate::run::callbacks::Callbacks;
use crate::run::launches::Watch;
use crate::run::queue::{Queue, current_context};
use crate::run::sinks::{Pending, Sinks};
use crate::run::stall::{EndAtLast, PATIENCE, Stall, watched};
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
    let driver = Driver::load(&options.driver)?;
    // SAFETY: no pointers.
    unsafe { driver.ask("cuInit", &[0]) }.map_err(|failure| Error::Init { failure: failure.to_string() })?;
    let objects = Objects::new(options.devices.clone());
    let translation = Translation::default();
    let placement = Placement::prepare(&driver, &objects, &translation, plan, options.place, options.tools.fill)?;
    placement.shortages.iter().for_each(|shortage| progress.warn(shortage));
    let world = World {
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
        graph_sources: Mutex::default(),
        graph_reads: Mutex::default(),
        callbacks: Callbacks::of(trace),
        writes: Writes::of(trace),
        before_launches: Mutex::default(),
        verify: options.verify,
        tolerance: options.tools.tolerance,
        end: options.tools.end.unwrap_or(u64::MAX),
        watch: (options.tools.sync_launches || options.tools.trail).then(|| Watch::new(options.tools.trail)),
    };
    let mut tally = run(&world, progress)?;
    if !world.is_stopped() {
        peek::dump(&world, &options.tools.dumps, |what| progress.warn(what))
            .map_err(|(path, why)| Error::Dump { path, why })?;
    }
    watched(|| progress.stalled(PATIENCE, &[]), || finish::finish(&world, &mut tally));
    world.callbacks.close(&mut tally);
    Ok(Report::new(world, tally, started.elapsed()))
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
            _ if self.world.plan.beyond.contains(&call.number) => {
                return self.skip(&call, function, "failed when recorded, beyond the end of an allocation");
            }
            _ => {}
        }
        match action(function) {
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
        let mut frame = match Builder::build(world, call, function, &mut self.tally) {
            Ok(frame) => frame,
            Err(Refusal(why)) if call.succeeded() => return self.refuse(&call, function, &why),
            Err(Refusal(why)) => return self.skip(&call, function, &why),
        };
        let words = frame.words();
        if function.class == Class::destroy
            && let Some((Kind::Stream, stream)) = function.params.first().and_then(|param| handle(param, &words))
        {
            world.sinks.destroys_stream(stream);
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
        let result = match &world.watch {
            // SAFETY: the arguments were built from the recording by the table's description of this function.
            None => unsafe { world.driver.call(id(live), &words) },
            // SAFETY: as above.
            Some(watch) => unsafe { watch.call(world, &call, live, &words) },
        };
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

    /// Copies of this call: compared at once if it waited for them, later if it did not.
    fn copies(&mut self, call: &Call<'t>, function: &'static Function, frame: &mut Frame<'t>, words: &[u64]) {
        let waits = function.class == Class::copy;
        let runs_graph = matches!(function.twin_of.unwrap_or(function.name), "cuGraphLaunch");
        let nothing = frame.sources.is_empty() && frame.lent.is_empty() && !runs_graph;
        if frame.sinks.is_empty() && (waits || nothing) {
            return;
        }
        let stream = function.params.iter().find_map(|param| match handle(param, words) {
            Some((Kind::Stream, stream)) => Some(stream),
            _ => None,
        });
        let own = function.twin_of.is_some() && stream == Some(0) || stream == Some(2);
        let thread = own.then_some(self.thread);
        let context = if waits { 0 } else { current_context(self.world.driver) };
        let queue = Queue { context, stream: stream.unwrap_or(0), thread };
        // A copy under a capture has become a node, which reads whenever its graph runs; so does a node made by hand.
        let captures = self.world.placement.captures.load(Relaxed) > 0;
        let submits = matches!(function.class, Class::submit | Class::launch);
        if function.class == Class::graph || captures && queue.is_captured(self.world.driver) {
            self.world.graph_reads.lock().extend(frame.sources.drain(..).map(|range| (range.start, range.end)));
        }
        if submits && !(captures && queue.is_captured(self.world.driver)) {
            let is_launch = function.class == Class::launch;
            frame.sources.drain(..).for_each(|range| self.world.sinks.use_source(range, queue, is_launch));
            if runs_graph {
                let reads = self.world.graph_reads.lock();
                reads.iter().for_each(|(start, end)| self.world.sinks.use_source(*start..*end, queue, true));
            }
            self.world.sinks.lend(frame.lent.drain(..), queue);
        }
        for sink in frame.sinks.drain(..) {
            if waits {
                payload::compare(self.world, call.number, &sink, &mut self.tally);
            } else if sink.expected.is_empty() {
                // Under a capture the copy has become a node, which writes whenever its graph runs.
                self.tally.unchecked_copies += 1;
                frame.retain |= sink.memory.is_some();
                frame.memory.extend(sink.memory);
            } else {
                self.world.sinks.add(Pending { call: call.number, sink, queue });
            }
        }
    }

    /// The live context that ends with this call.
    fn context_ended_by(&self, call: &Call) -> Option<u64> {
        let end = self.world.plan.ends.get(&call.number)?;
        match self.world.objects.find(Kind::Context, end.context) {
            Found::Live(context) => Some(context),
            _ => None,
        }
    }

    /// What begins or ends with a call that succeeded.
    fn ended(&mut self, call: &Call, function: &Function) {
        for param in function.params.iter().filter(|param| matches!(param.role, Role::Destroy)) {
            if let Form::Handle(kind) = param.ty.form {
                self.world.objects.end(kind, call.argument(param.name).unwrap_or(0), call.number);
            }
        }
        if let Some(end) = self.world.plan.ends.get(&call.number) {
            self.world.placement.end(&end.memory);
        }
        match function.twin_of.unwrap_or(function.name) {
            "cuLinkDestroy" => {
                let state = call.argument("state");
                self.world.linked.lock().retain(|_, (_, linker)| Some(*linker) != state);
            }
            "cuStreamBeginCapture" | "cuStreamBeginCapture_v2" | "cuStreamBeginCaptureToGraph" => {
                self.world.placement.captures.fetch_add(1, Relaxed);
            }
            "cuStreamEndCapture" => {
                self.world.placement.captures.fetch_sub(1, Relaxed);
            }
            _ => {}
        }
    }

    fn emulate(&mut self, call: &Call<'t>, function: &'static Function, memory: Memory) {
        let placement = &self.world.placement;
        let argument = |name: &str| call.argument(name).unwrap_or(0);
        let sized = |start: u64, len: &str| start..start.saturating_add(argument(len));
        let done: Result<(), Failure> = match memory {
            Memory::Allocate => match self.world.plan.allocations.get(&call.number) {
                Some(allocation) => {
                    let (ordered, start) = (Ordered::of(call, function, self.world.objects), allocation.range.start);
                    placement.takes_over(&self.world.plan.handovers, call.number, start, ordered);
                    placement.allocate(allocation, ordered)
                }
                None => return self.refuse(call, function, "the address it returned was not recorded"),
            },
            Memory::Free => placement.free(argument("dptr")),
            Memory::FreeAsync => {
                let (ordered, start) = (Ordered::of(call, function, self.world.objects), argument("dptr"));
                placement.hands_over(&self.world.plan.handovers, call.number, start, ordered);
                placement.free_async(start, ordered)
            }
            Memory::HostAllocate => match call.output("pp") {
                Some(start) => placement.pin(sized(start, "bytesize")),
                None => return self.refuse(call, function, "the address it returned was not recorded"),
            },
            Memory::HostRegister => placement.pin(sized(argument("p"), "bytesize")),
            Memory::HostFree => {
                if let Some(range) = placement.pinned_elsewhere(argument("p")) {
                    finish::memory_ends(self.world, &range, self.thread, &mut self.tally);
                }
                placement.unpin(argument("p"))
            }
            Memory::Reserve => match call.output("ptr") {
                Some(start) => placement.reserve(sized(start, "size"), argument("alignment")),
                None => return self.refuse(call, function, "the address it returned was not recorded"),
            },
            Memory::Unreserve => placement.unreserve(argument("ptr"), argument("size")),
        };
        self.tally.emulated += 1;
        match done {
            Ok(()) => {}
            Err(Failure { code: Some(code), .. }) if self.is_same_fault(call, result::SUCCESS, code) => {}
            Err(Failure { code: Some(code), name }) => {
                self.diverged(
                    call,
                    function,
                    "result",
                    "CUDA_SUCCESS".into(),
                    format!("{}: {}", name, result_name(code)),
                );
            }
            Err(failure) => self.diverged(call, function, "result", "CUDA_SUCCESS".into(), failure.to_string()),
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

/// The handle that a parameter holds by value.
fn handle(param: &trace::api::roles::Field, words: &[u64]) -> Option<(Kind, u64)> {
    match param.ty.form {
        Form::Handle(kind) => Some((kind, *words.get(param.offset as usize / 8)?)),
        _ => None,
    }
}
