//! Which launches bring a kernel to run: its own, or that of a graph that it has become a node of.

use crate::plan::captures::Captures;
use crate::plan::graphs::{Graphs, Uses};
use crate::plan::survey::stream_of;
use std::collections::BTreeSet;
use trace::Trace;
use trace::api::roles::Class;

/// Of these calls, which launch kernels, capture them or make nodes of them, those that launch, and launches of graphs in their stead.
pub fn running(trace: &Trace, calls: &BTreeSet<u64>) -> BTreeSet<u64> {
    let (mut graphs, mut captures) = (Graphs::default(), Captures::default());
    let mut found = BTreeSet::new();
    for call in trace.calls() {
        let Some(function) = call.function().filter(|_| call.succeeded() && !call.inner) else { continue };
        let capture = stream_of(&call, function).and_then(|stream| captures.origin(stream));
        captures.see(&call, function, &Default::default());
        // What passes through a graph here is not memory, but the calls that put the kernel there.
        let given: Uses = Uses::new(calls.contains(&call.number).then_some(call.number as u32).into_iter().collect());
        let reached = graphs.see(&call, function, capture, given);
        if function.class == Class::launch && reached.is_some_and(|calls| !calls.is_empty()) {
            found.insert(call.number);
        }
    }
    found
}
