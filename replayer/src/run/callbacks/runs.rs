//! The application's callbacks, whose code a replay does not have: each run repeats its recorded writes to
//! host memory, in stream order.
//!
//! The program may have waited for a run by any means of its own, and the run may have signalled it before it
//! ended. So a call that began after a run had begun waits for that run here: the work before the run was
//! complete without the call.

use crate::call::frame::{CallbackSlot, Frame};
use crate::check::payload;
use crate::driver::stream::Queue;
use crate::run::callbacks::CallbackRun;
use crate::run::host_writes::apply;
use crate::run::readbacks::Pending;
use crate::run::results;
use crate::run::state::Run;
use crate::tally::Tally;
use parking_lot::RwLock;
use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::time::{Duration, Instant};
use trace::Call;

/// A run that does not come in this time is given up: the work before it may have been left out.
const PATIENCE: Duration = Duration::from_secs(10);
/// So often a run waits in vain for what was found while it ran.
const MOST_IN_VAIN: usize = 20;
/// For a run that began earlier when recorded. The driver may have one thread for all, and have come to this
/// one first.
const FOR_EARLIER: Duration = Duration::from_millis(100);

/// Waits for the runs that had begun before the call, and does what a run itself cannot: write device memory.
pub(crate) fn before_call(run: &Run, call: &Call, tally: &mut Tally) {
    let callbacks = &run.callbacks;
    let from = callbacks.frontier.load(Acquire);
    let to = callbacks.runs.partition_point(|one| one.begin < call.begin);
    if from >= to {
        return;
    }
    let mut done = callbacks.done.lock();
    let until = Instant::now() + PATIENCE;
    for at in from..to {
        while !done[at] {
            if callbacks.changed.wait_until(&mut done, until).timed_out() {
                done[at] = true;
                tally.missed_callbacks += 1;
                break;
            }
        }
    }
    drop(done);
    let before = callbacks.frontier.fetch_max(to, AcqRel);
    for one in callbacks.runs.get(before..to).into_iter().flatten() {
        one.own().for_each(|(written, image)| apply::on_device_only(run, call, written, &image, tally));
    }
}

/// What a run, put at that time and maybe by that call, has not written of what others found meanwhile: a
/// launch, a copy or a fill worked there that it did not wait for. Also if that was done when it began: here
/// the run may come earlier.
fn stands_by(run: &Run, one: &CallbackRun, put: (u64, Option<u64>)) -> HashSet<Range<u64>> {
    let told: Vec<Range<u64>> = one.memory_recorded_twice().collect();
    if told.is_empty() {
        return HashSet::new();
    }
    let beside = run.callbacks.worked.completed_behind(put, one.end);
    let any_to_come = results::are_outstanding(run, one.end, &told);
    let is_to_come =
        |told: &Range<u64>| any_to_come && results::are_outstanding(run, one.end, std::slice::from_ref(told));
    told.into_iter().filter(|told| beside.overlaps(told) || is_to_come(told)).collect()
}

/// What the driver is given with our function.
struct CallbackArgument<'w, 't> {
    run: &'w Run<'t>,
    call: Call<'t>,
    runs: AtomicUsize,
    /// Where the call put it; none for a graph's node.
    queue: Option<Queue>,
    /// How many copies were under way by then, or had been: none of the others is before it.
    copies: u64,
    open: Arc<RwLock<bool>>,
}

/// Before a call is made: puts our functions in the places of the application's.
pub(crate) fn hand_over<'t>(run: &Run<'t>, call: Call<'t>, frame: &mut Frame<'t>) {
    for CallbackSlot { memory, offset, with_status, queue } in std::mem::take(&mut frame.callbacks) {
        run.callbacks.is_put(call.number, queue);
        let (open, copies) = (run.callbacks.open.clone(), run.readbacks.count());
        let handed = Box::new(CallbackArgument { run, call, runs: AtomicUsize::new(0), queue, copies, open });
        let function = if with_status { call_back_with_status as *const () } else { call_back as *const () };
        // Left behind: the driver may run it as long as the process lives.
        let words = [function as u64, Box::into_raw(handed) as u64];
        frame.memory[memory].write(offset, &words.map(u64::to_le_bytes).concat());
    }
}

extern "C" fn call_back(data: *const ()) {
    // SAFETY: what `hand_over` made, and never freed. Its run is looked at only while it is open.
    let handed = unsafe { &*data.cast::<CallbackArgument>() };
    let open = handed.open.clone();
    let open = open.read();
    if *open {
        handed.call_back();
    }
}

extern "C" fn call_back_with_status(_stream: u64, _status: u32, data: *const ()) {
    call_back(data);
}

impl CallbackArgument<'_, '_> {
    /// Work on other streams which this one has waited for: nobody can see what it brought once the callback
    /// has written there. What others saw arrive while it ran may come later here: of that nothing is known.
    fn compare_overwritten(&self, one: &CallbackRun, tally: &mut Tally) {
        let memory: Vec<Range<u64>> = one.own().map(|(_, image)| image.memory()).collect();
        let seen_by_it: HashSet<u64> = match memory.is_empty() {
            true => HashSet::new(),
            false => self.run.trace.seen_by_callback(one.thread, one.begin..one.end).collect(),
        };
        for range in &memory {
            let Some(live) = self.run.host(range) else { continue };
            // Behind it others may be waiting.
            let was_seen = |pending: &Pending| pending.seen < one.end;
            for pending in self.run.readbacks.landed_in(&(live..live + (range.end - range.start)), was_seen) {
                match pending.seen < one.begin || seen_by_it.contains(&pending.call) {
                    true => payload::compare(self.run, pending.call, &pending.readback, tally),
                    false => tally.not_compared(pending.call),
                }
            }
        }
        if self.run.verify {
            results::before_callback(self.run, (one.thread, one.begin..one.end), &memory, tally);
        }
    }

    fn call_back(&self) {
        let number = self.runs.fetch_add(1, AcqRel);
        let callbacks = &self.run.callbacks;
        let mut tally = Tally::default();
        // The work before it has finished: now the application could look.
        for pending in self.queue.into_iter().flat_map(|queue| self.run.readbacks.of_queue(queue, self.copies)) {
            payload::compare(self.run, pending.call, &pending.readback, &mut tally);
        }
        let mut done = callbacks.done.lock();
        let mut run = None;
        if let Some(at) = callbacks.places.get(&self.call.number).and_then(|places| places.get(&number)) {
            let one = &callbacks.runs[*at];
            for earlier in callbacks.frontier.load(Acquire)..*at {
                let comes_first = callbacks.runs[earlier].memory.meets(&one.memory);
                while comes_first && !done[earlier] && callbacks.in_turn.load(Acquire) {
                    let late = callbacks.changed.wait_for(&mut done, FOR_EARLIER).timed_out();
                    callbacks.in_turn.fetch_and(!late, AcqRel);
                }
            }
            let _changing = callbacks.looks.write();
            // Of a node nobody knows when its graph was launched.
            let put = match self.queue {
                Some(_) => (self.call.begin, Some(self.call.number)),
                None => (one.begin, None),
            };
            one.others.get_or_init(|| stands_by(self.run, one, put));
            self.compare_overwritten(one, &mut tally);
            one.own().for_each(|(_, image)| apply::on_host_only(self.run, &image, &mut tally));
            done[*at] = true;
            callbacks.come[*at].store(true, Release);
            callbacks.begun.fetch_max(*at + 1, AcqRel);
            callbacks.changed.notify_all();
            run = Some((*at, one.end));
        }
        drop(done);
        callbacks.tally.lock().add(tally);
        let Some((at, end)) = run else { return };
        callbacks.inside.serve(at);
        // It may have been another thread that it waited for, and work behind it reads what that has written.
        if callbacks.in_vain.load(Relaxed) < MOST_IN_VAIN && !self.run.host_writes.wait_until(end) {
            callbacks.in_vain.fetch_add(1, Relaxed);
        }
    }
}
