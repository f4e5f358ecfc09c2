//! The steps of a call besides its own records, in this order. Each step decides from the call's table line
//! whether it applies; if not, it costs nothing, because steps are inlined where the line is known.

use crate::capture::step::{CallEntry, CallReturn};
use crate::capture::{completed, device_descriptions, in_flight_work, scan_before_call};
use crate::job::{collective_results, imported_snapshots};
use crate::recording::range;
use crate::records::times;
use crate::submission::shape::Shape;

/// The call is not recorded, as it lies outside of the capture range.
#[inline(always)]
pub(crate) fn left_out(call: CallEntry) {
    collective_results::left_out(call);
}

/// Before the entry is written.
#[inline(always)]
pub(crate) fn before_entry(call: CallEntry) {
    scan_before_call::before_entry(call);
    imported_snapshots::before_entry(call);
}

/// The entry is written.
#[inline(always)]
pub(crate) fn after_entry(call: CallEntry) {
    in_flight_work::after_entry(call);
}

/// The next that happens is the driver's call.
#[inline(always)]
pub(crate) fn before_driver(call: CallEntry, sequence: u32) {
    if call.site.shape.timed && range::takes_times() {
        times::begins(call.lane.index(), sequence);
    }
}

/// The driver's call has returned just now.
#[inline(always)]
pub(crate) fn after_driver(shape: &Shape) {
    if shape.timed && range::takes_times() {
        times::ends();
    }
}

/// The return is written.
#[inline(always)]
pub(crate) fn after_return(call: CallReturn) {
    completed::after_return(call);
    in_flight_work::after_return(call);
    if call.site.shape.submits && call.result == 0 && call.lane.recorder().looks_behind_work {
        behind_work(call);
    }
    device_descriptions::after_return(call);
}

/// A device has been given work.
#[cold]
fn behind_work(call: CallReturn) {
    completed::behind_work(call);
    imported_snapshots::behind_work(call);
    collective_results::behind_work(call);
}
