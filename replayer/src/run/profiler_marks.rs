//! Profiler marks around a launch, for other tools only: `ncu --profile-from-start off`, `nsys -c
//! cudaProfilerApi`.

use crate::driver::Failure;
use crate::driver::stream::Queue;
use crate::session::Session;
use crate::tally::Tally;
use trace::api::effect::Effect;
use trace::{Call, Function};

/// Whether the program sets a mark by it.
pub(crate) fn is_mark(function: &Function) -> bool {
    matches!(function.effect, Effect::ProfilerRange { .. })
}

pub(crate) fn begin(session: &Session, tally: &mut Tally, call: &Call) {
    if let Err(Failure { name, .. }) = session.driver.start_profiler() {
        tally.leave_out(name, "the driver refused: the launch is not marked", true, call.number);
    }
}

/// When the launch is done: a tool that is told to stop may not wait for it. What is on other streams may
/// wait for a later call.
pub(crate) fn end(session: &Session, queue: Queue) {
    if let Some(_none) = session.placement.captures.none() {
        // A failure is the next call's to report.
        let _ = session.placement.relaxed(|| queue.synchronize(session.driver));
    }
    // Where no mark was set, none can be taken away.
    let _ = session.driver.stop_profiler();
}
