//! A worker, which makes the recorded calls of one thread.

use crate::driver::{Failure, result, result_name};
use crate::job::run::shared_handles::is_ordered;
use crate::options::Progress;
use crate::plan::order::partial_order::{Gate, Lane};
use crate::run::callbacks::runs;
use crate::run::decision::{Decision, decide};
use crate::run::host_writes::apply;
use crate::run::state::Run;
use crate::run::watchdog::Watchdog;
use crate::tally::{Divergence, Tally};
use trace::api::roles::Role;
use trace::api::types::Form;
use trace::{Call, Function};

/// Calls between two reports of progress, of a replay of many; of fewer each is reported.
const STRIDE: u64 = 256;
const MANY: u64 = 1 << 16;

/// Makes the calls of one recorded thread.
pub(crate) struct Worker<'w, 't> {
    pub(crate) run: &'w Run<'t>,
    pub(crate) thread: u32,
    pub(crate) tally: Tally,
}

impl<'t> Worker<'_, 't> {
    pub(crate) fn follow(
        &mut self,
        lane: &Lane,
        gate: &Gate,
        watchdog: &Watchdog,
        index: usize,
        progress: &dyn Progress,
    ) {
        let mut done = 0;
        let stride = if self.run.plan.calls() < MANY { 1 } else { STRIDE };
        for step in lane.steps.iter().take_while(|step| step.call < self.run.end) {
            let held = self.run.repeats.as_ref().map(|repeats| repeats.before_call(self.run, gate, step.call));
            if held.is_some_and(|held| held.is_err()) {
                return gate.abort();
            }
            if gate.start(&self.run.plan.order, step, self.run.end).is_err() {
                return;
            }
            if let Some(call) = self.run.trace.call(step.call) {
                if !self.is_in_turn(&call) {
                    return gate.abort();
                }
                watchdog.watch_call(index, call.number, || self.perform(call));
                self.run.callbacks.inside.passed(call.number);
            }
            if let (Some(watch), Some(first)) = (&self.run.watch, &self.tally.first) {
                watch.differs_at(first.call);
            }
            if self.run.is_stopped() {
                return gate.abort();
            }
            gate.finish(step.rank);
            if let Some(company) = &self.run.company {
                self.tally.first.iter().for_each(|first| company.differs(first.call));
                company.advance(self.run.plan.order.ends.get(gate.reached() as usize).copied().unwrap_or(u64::MAX));
            }
            if let Some(repeats) = &self.run.repeats {
                repeats.returned(step.call);
            }
            done += 1;
            if done == stride {
                progress.advance(done);
                done = 0;
            }
        }
        progress.advance(done);
    }

    /// Waits for what other processes had done when the recorded call began; false if they do not come to it.
    fn is_in_turn(&self, call: &Call) -> bool {
        let company = self.run.company.as_ref().filter(|_| call.function().is_some_and(is_ordered));
        company.is_none_or(|company| company.wait(call.begin))
    }

    fn perform(&mut self, call: Call<'t>) {
        runs::before_call(self.run, &call, &mut self.tally);
        apply::before_call(self.run, &call, &mut self.tally);
        let Some(function) = call.function() else {
            return self.tally.leave_out(
                call.name(),
                "this version of cutrace does not know the function",
                true,
                call.number,
            );
        };
        let decision = decide(self.run, &call, function);
        if self.run.plan.comparability.may_differ.contains(&call.number) {
            self.run.refused.lock().insert(call.number);
        }
        if !matches!(decision, Decision::Nothing(_)) {
            self.adopt(&call);
        }
        match decision {
            Decision::Nothing(why) | Decision::Skip(why) => self.leave_out(&call, function, why, false),
            Decision::Refuse(why) => self.leave_out(&call, function, why, true),
            Decision::Execute { .. } if !self.holds(&call, function) => {}
            Decision::Execute { made, arguments } => self.execute(call, function, made, arguments),
            Decision::Cross(crossing) => self.crosses(call, function, crossing),
            Decision::Emulate(memory) => self.emulate(&call, function, memory),
            Decision::Deliver => self.deliver(&call, function),
            Decision::StandIn(what) => self.stand_in(&call, function, what),
        }
    }

    pub(crate) fn compare(&mut self, call: &Call, result: u32) {
        let expected = call.result.expect("only calls that returned are planned");
        if !self.run.verify || expected != result && self.is_same_fault(call, expected, result) {
            return;
        }
        self.tally.checked.results += 1;
        if expected != result {
            self.diverged(call, "result", result_name(expected), result_name(result));
        }
    }

    /// Whether both mean the same failure of earlier work, which no two runs report at the same call.
    pub(crate) fn is_same_fault(&self, call: &Call, expected: u32, found: u32) -> bool {
        let Some(fault) = self.run.plan.fault else { return false };
        if found == fault.code {
            return call.number >= fault.since && expected == result::SUCCESS;
        }
        // The recorded program had heard of it; the replay's device may not have come to it yet.
        let waits = expected == fault.code;
        waits && matches!(self.run.placement.wait(), Err(Failure { code: Some(code), .. }) if code == expected)
    }

    pub(crate) fn diverged(&mut self, call: &Call, what: &str, expected: String, found: String) {
        self.tally.diverged(Divergence::new(call, what, expected, found));
    }

    pub(crate) fn skip(&mut self, call: &Call, function: &'static Function, why: &str) {
        self.leave_out(call, function, why, false);
    }

    pub(crate) fn refuse(&mut self, call: &Call, function: &'static Function, why: &str) {
        self.leave_out(call, function, why, true);
    }

    /// `matters`: the verdict says so.
    fn leave_out(&mut self, call: &Call, function: &'static Function, why: &str, matters: bool) {
        self.tally.leave_out(function.name, why, matters, call.number);
        if matters && call.succeeded() {
            self.run.refused.lock().insert(call.number);
            self.run.company.iter().for_each(|company| company.differs(call.number));
        }
        self.forgo(call, function);
    }

    /// Objects that the recorded call handed out and the replay does not have.
    pub(crate) fn forgo(&self, call: &Call, function: &'static Function) {
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
