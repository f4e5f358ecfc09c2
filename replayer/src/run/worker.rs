//! A worker: what a recorded call becomes, and what is compared when it has returned.

use crate::call::buffers::Builder;
use crate::check;
use crate::check::payload;
use crate::driver::parameters;
use crate::driver::{Failure, id, result, result_name};
use crate::memory::buffer::Refusal;
use crate::options::Progress;
use crate::plan::action::{Action, Memory, action};
use crate::plan::copied;
use crate::plan::order::{Gate, Lane};
use crate::run::callbacks::runs;
use crate::run::stall::Stall;
use crate::run::state::Run;
use crate::run::work::handle;
use crate::run::written::apply;
use crate::run::{finish, marks, readers, results};
use crate::tally::{Divergence, Tally};
use trace::api::by_name;
use trace::api::effect::{Effect, Work};
use trace::api::enums::CUgraphNodeType;
use trace::api::roles::{Class, Role};
use trace::api::table::Awaited;
use trace::api::types::{Form, Kind};
use trace::call::When;
use trace::{Call, Function};

/// Calls between two reports of progress.
const STRIDE: u64 = 256;

/// Whether its failure, which changed nothing, has to do with how memory was made; the replay's is mapped where the program's was
/// allocated, and its reservations are there all the time. A copy in an executable graph keeps to memory of its kind (driver 580: to none of a pool, if it was made with other).
fn fails_by_memory(call: &Call, function: &Function) -> bool {
    match function.effect {
        Effect::Map | Effect::Unmap | Effect::SetAccess | Effect::RetainPhysical => true,
        Effect::SetNode(Work::Copy | Work::Fill) => true,
        Effect::SetNode(Work::Described) => {
            let kind = call.argument("nodeParams").and_then(|params| call.memory(When::Entry, params, 4));
            let kind = kind.and_then(|bytes| Some(CUgraphNodeType(u32::from_le_bytes(bytes[..].try_into().ok()?))));
            matches!(
                kind,
                Some(CUgraphNodeType::CU_GRAPH_NODE_TYPE_MEMCPY | CUgraphNodeType::CU_GRAPH_NODE_TYPE_MEMSET)
            )
        }
        _ => false,
    }
}

/// Makes the calls of one recorded thread.
pub(super) struct Worker<'w, 't> {
    pub(super) run: &'w Run<'t>,
    pub(super) thread: u32,
    pub(super) tally: Tally,
}

impl<'t> Worker<'_, 't> {
    pub(super) fn follow(&mut self, lane: &Lane, gate: &Gate, stall: &Stall, index: usize, progress: &dyn Progress) {
        let mut done = 0;
        for step in lane.steps.iter().take_while(|step| step.call < self.run.end) {
            let held = self.run.repeats.as_ref().map(|repeats| repeats.before(self.run, gate, step.call));
            if held.is_some_and(|held| held.is_err()) {
                return gate.abort();
            }
            if gate.start(&self.run.plan.order, step, self.run.end).is_err() {
                return;
            }
            if let Some(call) = self.run.trace.call(step.call) {
                stall.within(index, call.number, || self.perform(call));
            }
            if let (Some(watch), Some(first)) = (&self.run.watch, &self.tally.first) {
                watch.differs_at(first.call);
            }
            if self.run.is_stopped() {
                return gate.abort();
            }
            gate.finish(step.rank);
            if let Some(repeats) = &self.run.repeats {
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
        runs::before(self.run, &call, &mut self.tally);
        apply::before(self.run, &call, &mut self.tally);
        let Some(function) = call.function() else {
            return self.tally.leave_out(call.name(), "this cutrace does not know the function", true, call.number);
        };
        match call.result {
            Some(result::OUT_OF_MEMORY) => return self.skip(&call, function, "was out of memory when recorded"),
            // The replay has to start the driver first, to reserve addresses.
            Some(result::NOT_INITIALIZED) => return self.skip(&call, function, "came before the driver's start"),
            Some(result::DEINITIALIZED) => return self.skip(&call, function, "came after the driver's end"),
            Some(result::NOT_READY) => return self.skip(&call, function, "asked too early when recorded"),
            _ if self.run.plan.beyond.contains(&call.number) => {
                return self.skip(
                    &call,
                    function,
                    "failed when recorded, beyond the end of an allocation or where none was",
                );
            }
            Some(_) if !call.succeeded() && fails_by_memory(&call, function) => {
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
            Action::Execute if self.run.marked.is_some() && marks::is_mark(function) => {
                self.skip(&call, function, "only the kernels that were asked for are marked");
            }
            Action::Skip(why) => self.skip(&call, function, why),
            Action::Refuse(_) if !call.succeeded() => self.skip(&call, function, "failed when recorded"),
            Action::Refuse(why) => self.refuse(&call, function, why),
            Action::Poll { wait, of } if call.succeeded() => {
                let waiting = by_name(wait).expect("the exceptions name functions of the table");
                self.execute(call, function, waiting, of);
            }
            Action::Poll { of: [_, _, ..], .. } => self.skip(&call, function, "asked for a time in vain when recorded"),
            Action::Memory(Memory::Allocate) if self.run.plan.captured.contains_key(&call.number) => {
                self.execute(call, function, function, &[0]);
            }
            Action::Memory(memory) if call.succeeded() => self.emulate(&call, function, memory),
            _ => self.execute(call, function, function, &[0]),
        }
    }

    /// Calls `live` in place of the recorded `function`, with its arguments from here on: once for each of `from`, until one
    /// fails.
    fn execute(&mut self, call: Call<'t>, function: &'static Function, live: &'static Function, from: &[usize]) {
        let run = self.run;
        if !run.driver.has(id(live)) {
            return self.refuse(&call, function, "this driver has no such function");
        }
        let (mut frame, built) = Builder::build(run, call, function, &mut self.tally, None);
        readers::before(run, &call, &mut frame, &mut self.tally);
        runs::hand_over(run, call, &mut frame);
        match built {
            Ok(()) => {}
            Err(Refusal(why)) if call.succeeded() => return self.refuse(&call, function, &why),
            Err(Refusal(why)) => return self.skip(&call, function, &why),
        }
        let (live, words) = (frame.instead.unwrap_or(live), frame.words());
        if function.class == Class::destroy
            && let Some((Kind::Stream, stream)) = function.params.first().and_then(|param| handle(param, &words))
        {
            run.sinks.destroys_stream(stream);
            run.aside.destroys_stream(stream);
        }
        let ending = self.context_ended_by(&call);
        if let Some(context) = ending {
            finish::context_ends(run, context, &mut self.tally);
        }
        if function.effect == Effect::Map {
            // Allocated memory may have been here before.
            let start = call.argument("ptr").unwrap_or(0);
            let _ = run.placement.vacate(&(start..start.saturating_add(call.argument("size").unwrap_or(0))));
        }
        if function.class == Class::launch && run.verify {
            results::before_launch(run, &call);
        }
        let gives_work = matches!(function.class, Class::submit | Class::launch);
        if gives_work || function.class == Class::copy {
            readers::settle(run, self.thread, call.begin, &mut self.tally);
        }
        if gives_work {
            run.aside.submits(|| self.queue(function, &words));
        }
        let profiler = run.profiler.as_ref().filter(|_| live.is_timed());
        let is_marked = run.marked.as_ref().is_some_and(|marked| marked.contains(&call.number));
        if is_marked {
            marks::begin(run, &mut self.tally, &call);
        }
        let is_capture = function.begins_capture();
        if is_capture {
            run.placement.captures.begins();
        }
        let make = |words: &[u64]| match (&run.watch, profiler) {
            // SAFETY: the arguments were built from the recording by the table's description of this function.
            (None, None) => unsafe { run.driver.call(id(live), words) },
            // SAFETY: as above.
            (Some(watch), _) => unsafe { watch.call(run, &call, live, words) },
            // SAFETY: as above.
            (None, Some(profiler)) => unsafe { profiler.call(run, &call, live, words) },
        };
        let make = |words: &[u64]| if run.spares.keeps(run, function, words) { result::SUCCESS } else { make(words) };
        let all = || from.iter().map(|at| make(&words[*at..])).find(|result| *result != result::SUCCESS);
        // Who asks for a time may do so beside a capture that forbids a wait.
        let failed = if from.len() > 1 { run.placement.relaxed(all) } else { all() };
        let result = failed.unwrap_or(result::SUCCESS);
        if is_capture && result != result::SUCCESS || function.ends_capture() && function.takes_effect(result) {
            run.placement.captures.ends();
        }
        let of_managed = || copied::memory(&call, function).iter().any(|range| run.plan.managed.overlaps(range));
        let gives_bytes = matches!(function.class, Class::copy | Class::submit) && function.brings_at_once();
        if gives_bytes && (frame.instead.is_some() || !run.plan.managed.is_empty() && of_managed()) {
            // One to or from the host waits, one within the device does not. What has failed other calls will tell, too.
            let none = run.placement.captures.none();
            self.queue(function, &words).wait(run.driver, self.thread, none.is_none());
        }
        if is_marked {
            marks::end(run, self.queue(function, &words));
        }
        self.tally.executed += 1;
        if parameters::end_with(function) {
            run.parameters.forget();
        }
        self.compare(&call, function, result);
        if result == result::SUCCESS && call.succeeded() {
            self.tally.other_numbers += u64::from(run.spares.differs(run, &call, function, &words));
            check::outputs(run, &call, function, &frame, &mut self.tally);
            self.copies(&call, function, &mut frame, &words);
            self.ended(&call, function);
            // A primary context may be held by others still, and its handle stays good.
            if let Some(context) =
                ending.filter(|_| function.params.iter().any(|param| matches!(param.role, Role::Destroy)))
            {
                run.contexts.lock().remove(&context);
                run.spares.ended(context);
            }
            let waited = matches!(function.class, Class::synchronize | Class::poll | Class::copy)
                || function.class == Class::launch && run.trace.preamble.launches_wait();
            let look = waited.then(|| run.callbacks.look());
            // To ask about a stream may break a capture under way.
            let none = run.placement.captures.none();
            if waited && none.is_some() {
                let whole = match function.awaited() {
                    Some(Awaited::Context(at)) => {
                        let named = Awaited::context(at, |at| words[at]);
                        Some(named.unwrap_or_else(|| run.driver.current_context()))
                    }
                    _ => None,
                };
                for pending in run.sinks.synchronized(run.driver, self.thread, whole) {
                    payload::compare(run, pending.call, &pending.sink, &mut self.tally);
                }
            }
            if let Some(profiler) = run.profiler.as_ref()
                && matches!(function.class, Class::synchronize | Class::poll)
                && none.is_some()
            {
                profiler.waited(run);
            }
            drop(none);
            if run.verify {
                results::after_wait(run, &call, &mut self.tally);
            }
            drop(look);
        } else if call.succeeded() {
            // The call failed here: what it would have brought cannot be compared.
            let sinks = frame.sinks.iter().filter(|_| run.verify);
            sinks.for_each(|_| self.tally.not_compared(call.number));
            self.forgo(&call, function);
        }
        // What failed when recorded has no copies to be followed by: what it was given stays until the end.
        if frame.retain || result == result::SUCCESS && !call.succeeded() {
            run.retained.lock().push(frame);
        }
    }

    fn compare(&mut self, call: &Call, function: &Function, result: u32) {
        let expected = call.result.expect("only calls that returned are planned");
        if !self.run.verify || expected != result && self.is_same_fault(call, expected, result) {
            return;
        }
        self.tally.checked.results += 1;
        if expected != result {
            self.diverged(call, function, "result", result_name(expected), result_name(result));
        }
    }

    /// Whether both mean the same failure of earlier work, which no two runs report at the same call.
    pub(super) fn is_same_fault(&self, call: &Call, expected: u32, found: u32) -> bool {
        let Some(fault) = self.run.plan.fault else { return false };
        if found == fault.code {
            return call.number >= fault.since && expected == result::SUCCESS;
        }
        // The recorded program had heard of it; the replay's device may not have come to it yet.
        let waits = expected == fault.code;
        waits && matches!(self.run.placement.wait(), Err(Failure { code: Some(code), .. }) if code == expected)
    }

    pub(super) fn diverged(&mut self, call: &Call, function: &Function, what: &str, expected: String, found: String) {
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

    pub(super) fn refuse(&mut self, call: &Call, function: &'static Function, why: &str) {
        self.tally.leave_out(function.name, why, true, call.number);
        self.forgo(call, function);
    }

    /// Objects that the recorded call handed out and the replay does not have.
    pub(super) fn forgo(&self, call: &Call, function: &'static Function) {
        self.run.callbacks.left_out(call.number);
        if !call.succeeded() {
            return;
        }
        for param in function.params {
            if let Form::Pointer(to) = param.ty.form
                && let Form::Handle(kind) = to.form
                && let Some(value) = call.output(param.name)
                && matches!(param.role, Role::Create(_) | Role::Out(_))
            {
                self.run.objects.forgo(kind, value, call.number, matches!(param.role, Role::Create(_)));
            }
        }
    }
}
