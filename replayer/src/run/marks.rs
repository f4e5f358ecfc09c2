//! Marks round a launch, which other tools look at and nothing else: `ncu --profile-from-start off`, `nsys -c cudaProfilerApi`.

use crate::driver::Failure;
use crate::driver::stream::Queue;
use crate::run::world::World;
use crate::tally::Tally;
use trace::api::effect::Effect;
use trace::{Call, Function};

/// Whether the program sets a mark by it.
pub fn is_mark(function: &Function) -> bool {
    matches!(function.effect, Effect::ProfilerRange { .. })
}

pub fn begin(world: &World, tally: &mut Tally, call: &Call) {
    if let Err(Failure { name, .. }) = world.driver.start_profiler() {
        tally.leave_out(name, "the driver would not: the launch is not marked", true, call.number);
    }
}

/// When the launch is done: a tool that is told to stop may not wait for it. What is on other streams may wait for a later call.
pub fn end(world: &World, queue: Queue) {
    if let Some(_none) = world.placement.captures.none() {
        // A failure is the next call's to report.
        let _ = world.placement.relaxed(|| queue.synchronize(world.driver));
    }
    // Where no mark was set, none can be taken away.
    let _ = world.driver.stop_profiler();
}
