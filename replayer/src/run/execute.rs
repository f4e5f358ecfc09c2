//! Execution of a recorded call, and the comparisons after its return.

use crate::call::build::Builder;
use crate::call::frame::Frame;
use crate::check;
use crate::check::payload;
use crate::driver::{id, result};
use crate::memory::buffer::Refusal;
use crate::profile::StartedCall;
use crate::run::callbacks::runs;
use crate::run::worker::Worker;
use crate::run::{finish, hazards, profiler_marks, results};
use trace::api::effect::Effect;
use trace::api::roles::Class;
use trace::api::table::Awaited;
use trace::api::types::Kind;
use trace::model::change::{Change, resolve};
use trace::model::copy_endpoints;
use trace::{Call, Function};

/// A call that can be made.
struct Built<'t> {
    call: Call<'t>,
    function: &'static Function,
    /// What is called in its place.
    live: &'static Function,
    words: Vec<u64>,
    frame: Frame<'t>,
    /// The live contexts that end with it: behind a green one the primary one.
    ending: Vec<u64>,
}

impl<'t> Worker<'_, 't> {
    /// Calls `live` in place of the recorded `function`, with its arguments from here on: once for each of
    /// `from`, until one fails.
    pub(crate) fn execute(
        &mut self,
        call: Call<'t>,
        function: &'static Function,
        live: &'static Function,
        from: &[usize],
    ) {
        let Some(mut built) = self.build(call, function, live) else { return };
        self.before_call(&built);
        let Some(result) = self.make(&built, from) else {
            return self.skip(&call, function, "was called in a callback, which does not reach it in the replay");
        };
        self.tally.executed += 1;
        self.compare(&call, result);
        match result {
            result::SUCCESS if call.succeeded() => self.after_call(&mut built),
            _ if call.succeeded() => self.failed_here(&built),
            _ => {}
        }
        // What failed when recorded has no copies to be followed by: what it was given stays until the end.
        if built.frame.retain || result == result::SUCCESS && !call.succeeded() {
            self.run.retained.lock().push(built.frame.after_the_call());
        }
    }

    /// None if it is left out.
    fn build(&mut self, call: Call<'t>, function: &'static Function, live: &'static Function) -> Option<Built<'t>> {
        let run = self.run;
        if !run.driver.exports(id(live)) {
            self.refuse(&call, function, "this driver has no such function");
            return None;
        }
        let (mut frame, built) = Builder::build(run, call, function, &mut self.tally, None);
        hazards::before_call(run, &call, &mut frame, &mut self.tally);
        runs::hand_over(run, call, &mut frame);
        if let Err(Refusal(why)) = built {
            match call.succeeded() {
                true => self.refuse(&call, function, &why),
                false => self.skip(&call, function, &why),
            }
            return None;
        }
        let (live, words) = (frame.instead.unwrap_or(live), frame.words());
        let ending = self.contexts_ended_by(&call);
        Some(Built { call, function, live, words, frame, ending })
    }

    /// What a call ends is waited for, and what it gives its stream to do follows what was seen before.
    fn before_call(&mut self, built: &Built<'t>) {
        let (run, Built { call, function, words, .. }) = (self.run, built);
        if let Some(at) = function.ends(Kind::Stream) {
            run.readbacks.destroys_stream(words[at]);
            run.side_stream.destroys_stream(words[at]);
        }
        for context in &built.ending {
            finish::context_ends(run, *context, &mut self.tally);
        }
        // Its handle may be another's as soon as the driver has it back.
        if let Some(context) = built.ending.first().filter(|_| !ends_primary(function)) {
            run.contexts.lock().remove(context);
        }
        if let Effect::Map { .. } = function.effect
            && let Some(Change::Mapped { at, bytes, .. }) = resolve(call, function)
        {
            // Allocated memory may have been here before.
            if let Err(failure) = run.placement.vacate(&(at..at.saturating_add(bytes))) {
                self.diverged(call, "memory", "its addresses translated back".into(), failure.to_string());
            }
        }
        if function.class == Class::launch && run.verify {
            results::before_launch(run, call);
        }
        let gives_work = matches!(function.class, Class::submit | Class::launch);
        if gives_work || function.class == Class::copy {
            hazards::compare_due(run, self.thread, call.begin, &mut self.tally);
        }
        if gives_work {
            run.side_stream.submits(|| self.queue(function, words));
        }
    }

    /// The call itself, and what has to stand right before and behind it. The CUresult; none if it was made in
    /// a callback that does not come to it.
    fn make(&mut self, built: &Built<'t>, from: &[usize]) -> Option<u32> {
        let (run, Built { call, function, live, words, .. }) = (self.run, built);
        if let Some(at) = run.callbacks.inside.run_of(call.number) {
            // SAFETY: as in `once`.
            let one = |at: &usize| unsafe { run.driver.call(id(live), &words[*at..]) };
            let all = || from.iter().map(one).find(|result| *result != result::SUCCESS).unwrap_or(result::SUCCESS);
            return run.callbacks.inside.make(at, all);
        }
        let is_marked = run.marked.as_ref().is_some_and(|marked| marked.contains(&call.number));
        if is_marked {
            profiler_marks::begin(run, &mut self.tally, call);
        }
        if function.begins_capture() {
            run.placement.captures.begins();
        }
        let all = || from.iter().map(|at| self.once(built, &words[*at..])).find(|result| *result != result::SUCCESS);
        // Who asks for a time may do so beside a capture that forbids a wait.
        let failed = if from.len() > 1 { run.placement.relaxed(all) } else { all() };
        let result = failed.unwrap_or(result::SUCCESS);
        let has_not_begun = function.begins_capture() && result != result::SUCCESS;
        if has_not_begun || function.ends_capture() && function.takes_effect(result) {
            run.placement.captures.ends();
        }
        if self.has_to_wait(built) {
            // One to or from the host waits, one within the device does not. What has failed other calls will
            // tell, too.
            let none = run.placement.captures.none();
            self.queue(function, words).wait(run.driver, self.thread, none.is_none());
        }
        if is_marked {
            profiler_marks::end(run, self.queue(function, words));
        }
        Some(result)
    }

    fn once(&self, Built { call, function, live, .. }: &Built<'t>, words: &[u64]) -> u32 {
        let run = self.run;
        if run.reserved_ids.keeps(run, function, words) {
            return result::SUCCESS;
        }
        match (&run.watch, run.profiler.as_ref().filter(|_| live.is_timed())) {
            // SAFETY: the arguments were built from the recording by the table's description of this
            // function.
            (None, None) => unsafe { run.driver.call(id(live), words) },
            // SAFETY: as above.
            (Some(watch), _) => unsafe { watch.call(run, call, live, words) },
            // SAFETY: as above.
            (None, Some(profiler)) => unsafe { profiler.call(run, StartedCall { call, live, words, brings: false }) },
        }
    }

    /// Whether it copied managed memory, which is the device's here: when recorded that was there at once.
    fn has_to_wait(&self, Built { call, function, frame, .. }: &Built<'t>) -> bool {
        let managed = &self.run.plan.addresses.managed;
        let of_managed = || copy_endpoints::memory(call, function).iter().any(|range| managed.overlaps(range));
        let gives_bytes = matches!(function.class, Class::copy | Class::submit) && function.brings_at_once();
        gives_bytes && (frame.instead.is_some() || !managed.is_empty() && of_managed())
    }

    /// It succeeded here, and did when recorded.
    fn after_call(&mut self, built: &mut Built<'t>) {
        let run = self.run;
        let Built { call, function, words, frame, ending, .. } = built;
        self.tally.other_numbers += u64::from(run.reserved_ids.differs(run, call, function, words));
        check::outputs(run, call, function, frame, &mut self.tally);
        self.copies(call, function, frame, words);
        self.ended(call, function);
        match ending.first() {
            // It may be held by others still, and its handle is good for the next one. Another thread that
            // retains it meanwhile adds it behind this.
            Some(context) if ends_primary(function) => {
                let mut contexts = run.contexts.lock();
                if !run.driver.has_primary_context(words[0] as i32).unwrap_or(true) {
                    contexts.remove(context);
                }
            }
            Some(context) => run.reserved_ids.ended(*context),
            None => {}
        }
        self.compare_finished(call, function, words);
    }

    /// If the call waited, or asked: what has finished by that.
    fn compare_finished(&mut self, call: &Call<'t>, function: &'static Function, words: &[u64]) {
        let run = self.run;
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
            for pending in run.readbacks.synchronized(run.driver, self.thread, whole) {
                payload::compare(run, pending.call, &pending.readback, &mut self.tally);
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
            results::after_wait(run, call, &mut self.tally);
        }
        drop(look);
    }

    /// It did not fail when recorded: what it would have brought cannot be compared.
    fn failed_here(&mut self, Built { call, function, frame, ending, .. }: &Built<'t>) {
        self.run.contexts.lock().extend(ending.first());
        let readbacks = frame.readbacks.iter().filter(|_| self.run.verify);
        readbacks.for_each(|_| self.tally.not_compared(call.number));
        self.forgo(call, function);
    }
}

fn ends_primary(function: &Function) -> bool {
    matches!(function.effect, Effect::ReleasePrimary | Effect::ResetPrimary)
}
