//! Marks round a launch, which other tools look at and nothing else: `ncu --profile-from-start off`, `nsys -c cudaProfilerApi`.

use crate::driver::stream::Queue;
use crate::run::world::World;
use crate::tally::Tally;
use trace::{Call, Function};

const START: &str = "cuProfilerStart";
const STOP: &str = "cuProfilerStop";

/// Whether the program sets a mark by it.
pub fn is_mark(function: &Function) -> bool {
    matches!(function.name, START | STOP)
}

pub fn begin(world: &World, tally: &mut Tally, call: &Call) {
    // SAFETY: no arguments.
    if unsafe { world.driver.ask(START, &[]) }.is_err() {
        tally.leave_out(START, "the driver would not: the launch is not marked", true, call.number);
    }
}

/// When the launch is done: a tool that is told to stop may not wait for it. What is on other streams may wait for a later call.
pub fn end(world: &World, queue: Queue) {
    if let Some(_none) = world.placement.captures.none() {
        // A failure is the next call's to report.
        let _ = world.placement.relaxed(|| queue.synchronize(world.driver));
    }
    // SAFETY: no arguments. Where no mark was set, none can be taken away.
    let _ = unsafe { world.driver.ask(STOP, &[]) };
}
