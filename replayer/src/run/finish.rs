//! Ends: of a context in the middle of a replay, and of the replay.
//!
//! Memory is given back only when nothing can use it any more. Work is waited for first, copies that nobody has looked
//! at yet are compared, and what the wait says is part of the result.

use crate::call::driver::{Failure, result, result_name};
use crate::check::payload;
use crate::check::report::{Divergence, Tally};
use crate::run::queue::{Queue, synchronize, within};
use crate::run::sinks::Pending;
use crate::run::world::World;
use std::ops::Range;

/// How a context came to rest.
#[derive(Clone, Copy, PartialEq)]
enum Rest {
    Done,
    /// It is no more, and its work went with it.
    Gone,
    /// Its work failed; none of it runs any more.
    Failed(u32),
    /// It cannot be waited for.
    Never,
}

fn rest(world: &World, context: u64) -> Rest {
    match world.placement.relaxed(|| synchronize(world.driver, context)) {
        Ok(()) => Rest::Done,
        Err(Failure { code: Some(result::INVALID_CONTEXT | result::CONTEXT_IS_DESTROYED), .. }) => Rest::Gone,
        Err(Failure { code: Some(code), .. }) if result::is_sticky(code) => Rest::Failed(code),
        Err(_) => Rest::Never,
    }
}

/// Before a context is ended: its copies.
pub fn context_ends(world: &World, context: u64, tally: &mut Tally) {
    // A capture would not survive the wait.
    let rest = world.placement.captures.none().map_or(Rest::Never, |_none| rest(world, context));
    if let Some(profiler) = &world.profiler {
        profiler.context_ends(world, context);
    }
    settle(world, world.sinks.of_context(context), rest == Rest::Done, tally);
    world.aside.context_ends(world, context);
    world.placement.ends_context(context);
    world.sinks.arrivals.context_ends(context);
    if let Some(watch) = &world.watch {
        watch.context_ends(context);
    }
    if rest != Rest::Never {
        world.sinks.give_back(context);
    }
}

/// Before pinned memory is given back: the copies into it and out of it.
pub fn memory_ends(world: &World, range: &Range<u64>, thread: u32, tally: &mut Tally) {
    let none = world.placement.captures.none();
    let wait = |queue: Queue| world.placement.relaxed(|| queue.wait(world.driver, thread, none.is_none()));
    for pending in world.sinks.landing_in(range) {
        let arrived = wait(pending.queue);
        settle(world, vec![pending], arrived, tally);
    }
    // One that cannot be waited for is in the way of nothing: memory stays as long as captures are under way.
    world.sinks.take_readers(range, u64::MAX).into_iter().for_each(|(queue, ..)| {
        wait(queue);
    });
}

/// After the last call: waits for all work, compares what it brought, and gives everything back.
pub fn finish(world: &World, tally: &mut Tally) {
    let contexts = std::mem::take(&mut *world.contexts.lock());
    let (mut all_at_rest, mut live) = (true, None);
    for context in contexts {
        let rest = rest(world, context);
        settle(world, world.sinks.of_context(context), rest == Rest::Done, tally);
        all_at_rest &= rest != Rest::Never;
        live = if rest == Rest::Done { Some(context) } else { live };
        if let Rest::Failed(code) = rest
            && world.verify
            && !world.is_stopped()
            && world.plan.fault.is_none_or(|fault| fault.code != code)
        {
            failed_at_the_end(world, code, tally);
        }
    }
    let (pending, lent) = world.sinks.drain();
    settle(world, pending, false, tally);
    let retained = std::mem::take(&mut *world.retained.lock());
    match all_at_rest {
        true => match live {
            Some(context) => _ = within(world.driver, context, || world.placement.release()),
            None => world.placement.release(),
        },
        // Some work may still use it: it goes with the process.
        false => std::mem::forget((retained, lent)),
    }
}

fn settle(world: &World, pending: Vec<Pending>, arrived: bool, tally: &mut Tally) {
    for pending in pending {
        match arrived {
            true => payload::compare(world, pending.call, &pending.sink, tally),
            false => forgo(world, pending, tally),
        }
    }
}

/// Its bytes are not there. The driver may still come to write them.
fn forgo(world: &World, pending: Pending, tally: &mut Tally) {
    tally.unchecked_copies += u64::from(world.verify);
    std::mem::forget(pending.sink.memory);
}

fn failed_at_the_end(world: &World, code: u32, tally: &mut Tally) {
    let Some(last) = (world.trace.len() as u64).min(world.end).checked_sub(1).and_then(|last| world.trace.call(last))
    else {
        return;
    };
    tally.diverged(Divergence {
        call: last.number,
        function: last.name().to_owned(),
        thread: last.thread,
        what: "the work that was under way when the recording ended".into(),
        offset: None,
        expected: "no failure".into(),
        found: result_name(code),
        extent: None,
        launches: Vec::new(),
    });
}
