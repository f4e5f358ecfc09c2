//! Kernels that may have waited for the CPU: it wrote memory that a launch had been given and that nothing told to have finished.
//!
//! Such a program replays if the write is found before the call that waits for the kernel. It is named all the same: a kernel that
//! spins on a flag while no thread makes a call waits for ever.

use crate::plan::outstanding::Outstanding;
use crate::plan::verdict::{Reason, Reasons};
use trace::objects::Objects;
use trace::{Trace, decode};

const WHAT: &str = "the CPU wrote memory that a launch under way had been given: a kernel may have waited for it";

pub fn spins(trace: &Trace) -> Vec<Reason> {
    let mut reasons = Reasons::default();
    if !trace.has_written() {
        return Vec::new();
    }
    let mut walk = Outstanding::default();
    let mut objects = Objects::default();
    for call in trace.calls().filter(|call| !call.inner) {
        let mut written = call.written().filter(|written| !written.is_seen()).flat_map(|written| written.images());
        if written.any(|image| walk.is_given(image.address)) {
            reasons.about_call(WHAT, call.number);
        }
        match objects.concerned(&call).then(|| decode::decode(&call)).flatten() {
            Some(decoded) => objects.advance(&call, &decoded),
            None => objects.until(&call),
        }
        if let Some(function) = call.function() {
            walk.see(&call, function, &objects);
        }
    }
    reasons.into_list()
}
