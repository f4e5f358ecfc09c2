//! Work that a call submits to a device: registered in `in_flight` when the call begins and returns.

use crate::capture::step::{CallEntry, CallReturn};
use crate::in_flight::host_functions;
use crate::os::guard::guarded;

#[inline(always)]
pub(crate) fn after_entry(call: CallEntry) {
    if call.site.shape.submits {
        call.lane.recorder().around.pending.entered(call.lane.index());
    }
}

#[inline(always)]
pub(crate) fn after_return(call: CallReturn) {
    let CallReturn { lane, site, sequence, result, .. } = call;
    if !site.shape.submits {
        return;
    }
    let recorder = lane.recorder();
    let pending = &recorder.around.pending;
    if result != 0 && pending.any() {
        guarded(|| pending.refused(lane.index(), sequence));
    }
    if result != 0 && host_functions::any_of_nodes() {
        guarded(|| recorder.node_runs.refused((lane.index(), sequence)));
    }
    pending.call_returned(lane.index());
    pending.is_put(lane.index(), site.shape.reads_at_once);
}
