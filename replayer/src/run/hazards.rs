//! Hazards: before host memory changes, the replay waits for work that still reads it or copies to it.
//!
//! The program may have known without a call that this work was complete: by a flag that a kernel wrote, or
//! by a callback. Copies end by themselves. A kernel may be waiting for the very bytes that are about to be
//! written: nobody can wait for both, so it gets little time.

use crate::call::frame::{Frame, Hazard};
use crate::check::payload;
use crate::driver::stream::{Queue, with_context};
use crate::run::readbacks::Pending;
use crate::run::state::Run;
use crate::tally::Tally;
use std::collections::HashSet;
use std::ops::Range;
use std::time::{Duration, Instant};
use trace::Call;
use trace::api::copies::Region;

const FOR_ARRIVALS: Duration = Duration::from_secs(1);
/// Beyond the time that the program had let pass, as a launch before them may take as long again; so much of it
/// at most.
const FOR_COPIES: Duration = Duration::from_secs(5);
const MOST_PASSED: Duration = Duration::from_secs(60);
/// Copies that may stand behind a launch that waits: beyond the time that the program had let pass.
const FOR_HELD: Duration = Duration::from_millis(50);
const FOR_LAUNCHES: Duration = Duration::from_millis(50);
/// And so long in all. A program that writes again and again what launches may be reading (a queue of work in
/// pinned memory) does not wait for them: then they are given the time that it had let pass, twice.
const FOR_ALL_LAUNCHES: Duration = Duration::from_secs(1);
/// What is no longer than this may be a flag.
pub(crate) const FLAG: u64 = 64;
const FOR_FLAGS: Duration = Duration::from_millis(1);

/// Queues in which a launch may be waiting for a flag that is still to be written, so that copies behind it
/// would not end sooner.
///
/// If it does not wait, and the program knew otherwise that the copies were complete, the program had given
/// them time. If it does, it may time out, but it had not when the program let that time pass.
pub(crate) struct FlagQueues {
    queues: HashSet<Queue>,
    /// From when on they are waited for.
    since: Instant,
}

impl FlagQueues {
    pub(crate) fn new(queues: HashSet<Queue>) -> FlagQueues {
        FlagQueues { queues, since: Instant::now() }
    }

    pub(crate) fn nowhere() -> FlagQueues {
        FlagQueues::new(HashSet::new())
    }
}

/// Before a call is made: does what its frame says of host memory.
pub(crate) fn before_call<'t>(run: &Run<'t>, call: &Call<'t>, frame: &mut Frame<'t>, tally: &mut Tally) {
    for hazard in std::mem::take(&mut frame.hazards) {
        match hazard {
            Hazard::Write { to, recorded, bytes } => write(run, call, &to, recorded, &bytes, tally),
            Hazard::Overwrite(live) => before_overwrite(run, call.thread, &live, tally),
        }
    }
}

fn write(run: &Run, call: &Call, to: &Region, recorded: u64, bytes: &[u8], tally: &mut Tally) {
    let rows = || to.row_addresses().zip(bytes.chunks_exact(to.row_bytes.max(1) as usize));
    // SAFETY: the placement (or the memory of graphs) holds this memory, readable and writable, until the
    // end.
    let at = |row: u64| unsafe { std::slice::from_raw_parts(row as *const u8, to.row_bytes as usize) };
    let range = to.address..to.address + to.span();
    if run.placement.shared_host.holds(&range) {
        tally.written += rows().map(|(row, bytes)| run.placement.shared_host.bring(row, bytes, true)).sum::<u64>();
        return;
    }
    // What a copy is still bringing may change what agrees now.
    if !run.readbacks.is_landing_in(&range) && rows().all(|(row, bytes)| at(row) == bytes) {
        return;
    }
    wait_for_readers(run, call.thread, &range, call.begin, &FlagQueues::nowhere(), tally);
    for (row, bytes) in rows() {
        let start = recorded + (row - to.address);
        run.callbacks.write(call.begin, start..start + to.row_bytes, |part| {
            let from = &bytes[(part.start - start) as usize..(part.end - start) as usize];
            let at = row + (part.start - start);
            // SAFETY: as above; no copy of the replay reads or writes it any more.
            unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), at as *mut u8, from.len()) };
        });
    }
}

/// Of live memory, which had changed by that time when recorded.
pub(crate) fn wait_for_readers(
    run: &Run,
    thread: u32,
    live: &Range<u64>,
    time: u64,
    held: &FlagQueues,
    tally: &mut Tally,
) {
    let moment = |ticks| run.trace.nanoseconds(ticks);
    let mut longest = Duration::ZERO;
    for (queue, is_launch, put) in run.readbacks.take_readers(live, time) {
        let passed = Duration::from_nanos(moment(time).saturating_sub(moment(put)).max(0) as u64);
        let passed = passed.min(MOST_PASSED);
        longest = longest.max(passed);
        let wait = match (is_launch, live.end - live.start) {
            (false, _) if held.queues.contains(&queue) => {
                (FOR_COPIES + passed).min(FOR_HELD + 2 * passed).saturating_sub(held.since.elapsed())
            }
            (false, _) => FOR_COPIES + passed,
            (true, ..=FLAG) => FOR_FLAGS,
            (true, _) if tally.waited_for_launches < FOR_ALL_LAUNCHES => FOR_LAUNCHES,
            (true, _) => FOR_LAUNCHES.min(FOR_FLAGS + 2 * passed),
        };
        if !finished(run, thread, queue, wait) {
            tally.written_in_use += 1;
            tally.waited_for_launches += if is_launch { wait } else { Duration::ZERO };
        }
    }
    arrived(run, thread, live, FOR_COPIES + longest, tally);
}

/// Before work is given that began then: compares what the recorder had looked at by that time. The work may
/// overwrite it, and whoever had waited for it, as a callback, need not have come to compare it here.
pub(crate) fn compare_due(run: &Run, thread: u32, time: u64, tally: &mut Tally) {
    if !run.readbacks.any_seen_before(time) {
        return;
    }
    let driver = run.driver;
    let has_come = |arrival| run.placement.relaxed(|| run.readbacks.arrivals.has_arrived(driver, arrival));
    // What it waits for may not come here: the work before it may have been left out.
    let until = Instant::now() + FOR_ARRIVALS;
    for arrival in run.readbacks.arrivals_before(time) {
        while run.readbacks.is_awaited(arrival) && !has_come(arrival) {
            if Instant::now() > until {
                run.readbacks.give_up(arrival);
                break;
            }
            std::thread::yield_now();
        }
    }
    let _held = run.placement.captures.hold();
    let _look = run.callbacks.look();
    let finished = |pending: &Pending| {
        let queue = pending.queue;
        if let Some(arrival) = pending.arrival {
            return has_come(arrival);
        }
        // To ask a stream that is captured would end that.
        let ask = || !queue.is_captured(driver) && queue.is_finished(driver, queue.context, thread);
        queue.has_name(thread) && run.placement.relaxed(|| with_context(driver, queue.context, ask)).unwrap_or(false)
    };
    for pending in run.readbacks.seen_before(time, finished) {
        payload::compare(run, pending.call, &pending.readback, tally);
    }
}

/// Before a copy that comes behind them brings other bytes, or the memory is given back and becomes something
/// else: compares what earlier copies brought, or gives up on it.
pub(crate) fn before_overwrite(run: &Run, thread: u32, live: &Range<u64>, tally: &mut Tally) {
    arrived(run, thread, live, Duration::ZERO, tally);
}

fn arrived(run: &Run, thread: u32, live: &Range<u64>, wait: Duration, tally: &mut Tally) {
    let has_come = |arrival| run.placement.relaxed(|| run.readbacks.arrivals.has_arrived(run.driver, arrival));
    let until = Instant::now() + wait;
    // Not taken out before it has come: a callback behind it, which may write there, compares it by itself.
    loop {
        let look = run.callbacks.look();
        for pending in run.readbacks.landed_in(live, |pending| pending.arrival.is_some_and(has_come)) {
            payload::compare(run, pending.call, &pending.readback, tally);
        }
        drop(look);
        if !run.readbacks.is_awaited_in(live) || Instant::now() > until {
            break;
        }
        std::thread::yield_now();
    }
    for pending in run.readbacks.landing_in(live) {
        // One that tells by itself has had its time.
        match pending.arrival.is_none() && finished(run, thread, pending.queue, wait) {
            true => payload::compare(run, pending.call, &pending.readback, tally),
            false => tally.not_compared(pending.call),
        }
    }
}

/// Whether the work of a queue is done within this time.
fn finished(run: &Run, thread: u32, queue: Queue, wait: Duration) -> bool {
    let none = run.placement.captures.none();
    if none.is_none() || !queue.has_name(thread) {
        // Nobody can ask: only wait.
        return wait >= FOR_COPIES && run.placement.relaxed(|| queue.wait(run.driver, thread, none.is_none()));
    }
    let until = Instant::now() + wait;
    let ask = || queue.is_finished(run.driver, queue.context, thread);
    while !with_context(run.driver, queue.context, ask).unwrap_or(true) {
        if Instant::now() > until {
            return false;
        }
        std::thread::yield_now();
    }
    true
}
