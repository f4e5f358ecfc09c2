//! The end of a context during a replay, and of the replay.
//!
//! Memory is freed only when nothing can use it any more. The replay first waits for the work and compares
//! copies that were not yet checked; the result of the wait is part of the replay's.

use crate::check::payload;
use crate::driver::result_name;
use crate::driver::stream::{Queue, synchronize, with_context};
use crate::run::quiesce::{Idle, QuiesceResult};
use crate::run::readbacks::Pending;
use crate::run::state::Run;
use crate::tally::{Divergence, Tally};
use std::ops::Range;

/// Before a context is ended: its copies.
pub(crate) fn context_ends(run: &Run, context: u64, tally: &mut Tally) {
    // A capture would not survive the wait.
    let wait = |_none| Idle::from_wait(run.placement.relaxed(|| synchronize(run.driver, context)));
    let rest = run.placement.captures.none().map_or(Idle::Never, wait);
    if let Some(profiler) = &run.profiler {
        profiler.context_ends(run, context);
    }
    settle(run, run.readbacks.of_context(context), |_| rest == Idle::Done, tally);
    run.side_stream.context_ends(run, context);
    run.placement.ends_context(context);
    run.readbacks.arrivals.context_ends(context);
    if let Some(watch) = &run.watch {
        watch.context_ends(context);
    }
    if rest != Idle::Never {
        run.readbacks.give_back(context);
    }
}

/// Before pinned memory is given back: the copies into it and out of it.
pub(crate) fn memory_ends(run: &Run, range: &Range<u64>, thread: u32, tally: &mut Tally) {
    let none = run.placement.captures.none();
    let wait = |queue: Queue| run.placement.relaxed(|| queue.wait(run.driver, thread, none.is_none()));
    for pending in run.readbacks.landing_in(range) {
        let arrived = wait(pending.queue);
        settle(run, vec![pending], |_| arrived, tally);
    }
    // One that cannot be waited for is in the way of nothing: memory stays as long as captures are under way.
    run.readbacks.take_readers(range, u64::MAX).into_iter().for_each(|(queue, ..)| {
        wait(queue);
    });
}

/// After the last call, when all work has been waited for: compares what it brought, and gives everything
/// back; whether nothing is in use any more.
pub(crate) fn finish(run: &Run, rests: &QuiesceResult, tally: &mut Tally) -> bool {
    run.contexts.lock().clear();
    let (mut all_at_rest, mut live) = (true, None);
    for &(context, rest) in &rests.contexts {
        let has_come = |pending: &Pending| match rest {
            Idle::Done => true,
            Idle::Never => run.placement.relaxed(|| has_arrived(run, pending)),
            Idle::Gone | Idle::Failed(_) => false,
        };
        settle(run, run.readbacks.of_context(context), has_come, tally);
        all_at_rest &= rest != Idle::Never;
        live = if rest == Idle::Done { Some(context) } else { live };
        if let Idle::Failed(code) = rest
            && run.verify
            && !run.is_stopped()
            && run.plan.fault.is_none_or(|fault| fault.code != code)
        {
            failed_at_the_end(run, code, tally);
        }
    }
    let (pending, lent) = run.readbacks.drain();
    settle(run, pending, |_| false, tally);
    let retained = std::mem::take(&mut *run.retained.lock());
    match all_at_rest {
        true => match live {
            Some(context) => _ = with_context(run.driver, context, || run.placement.release()),
            None => run.placement.release(),
        },
        // Some work may still use it: it goes with the process.
        false => std::mem::forget((retained, lent)),
    }
    all_at_rest
}

/// Of a copy in a context that does not come to rest.
fn has_arrived(run: &Run, pending: &Pending) -> bool {
    /// Whose own stream it is, nobody here is.
    const NOBODY: u32 = u32::MAX;
    let Queue { context, .. } = pending.queue;
    match pending.arrival {
        Some(arrival) => run.readbacks.arrivals.has_arrived(run.driver, arrival),
        None => with_context(run.driver, context, || pending.queue.is_finished(run.driver, context, NOBODY))
            .is_ok_and(|is| is),
    }
}

fn settle(run: &Run, pending: Vec<Pending>, has_arrived: impl Fn(&Pending) -> bool, tally: &mut Tally) {
    for pending in pending {
        match has_arrived(&pending) {
            true => payload::compare(run, pending.call, &pending.readback, tally),
            false => forgo(run, pending, tally),
        }
    }
}

/// Its bytes are not there. The driver may still come to write them.
fn forgo(run: &Run, pending: Pending, tally: &mut Tally) {
    if run.verify {
        tally.not_compared(pending.call);
    }
    std::mem::forget(pending.readback.memory);
}

fn failed_at_the_end(run: &Run, code: u32, tally: &mut Tally) {
    let Some(last) = (run.trace.len() as u64).min(run.end).checked_sub(1).and_then(|last| run.trace.call(last)) else {
        return;
    };
    let what = "the work in flight when the recording ended";
    tally.diverged(Divergence::new(&last, what, "no failure".into(), result_name(code)));
}
