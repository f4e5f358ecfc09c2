//! Launches of graphs whose nodes were made by certain calls: callbacks of the program, kernels.

use crate::plan::graphs::uses::{Graphs, Uses};
use std::collections::HashMap;
use std::ops::Range;
use trace::api::roles::{Class, Role};
use trace::api::types::Form;
use trace::model::change::{Moment, resolve};
use trace::model::nested_structs::structs;
use trace::model::streams::Streams;
use trace::{Call, Function, Trace};

/// By launch within the range: a call that put a callback into the graph.
pub(crate) fn launches(trace: &Trace, range: &Range<u64>) -> HashMap<u64, u64> {
    reached(trace, range, gives)
}

/// By launch within the range: the first such call, if the launch is one itself or of a graph that one has
/// put something into.
pub fn reached(
    trace: &Trace,
    range: &Range<u64>,
    is_meant: impl Fn(&Call, &'static Function) -> bool,
) -> HashMap<u64, u64> {
    let (mut graphs, mut streams) = (Graphs::default(), Streams::default());
    let mut found = HashMap::new();
    for call in trace.calls().take_while(|call| call.number < range.end) {
        let Some(function) = call.function().filter(|_| call.took_effect() && !call.inner) else { continue };
        let target = streams.target(&call, function);
        if let Some(change) = resolve(&call, function) {
            streams.follow(Moment::from_call(&call), &change, false);
        }
        // What passes through a graph here is not memory, but the calls that are meant.
        let given: Uses = Uses::new(is_meant(&call, function).then_some(call.number as u32).into_iter().collect());
        let reached = graphs.follow(&call, function, target, given);
        let reached = reached.filter(|_| function.class == Class::launch && range.contains(&call.number));
        found.extend(reached.and_then(|calls| calls.first().map(|first| (call.number, u64::from(*first)))));
    }
    found
}

fn gives(call: &Call, function: &'static Function) -> bool {
    if !matches!(function.class, Class::submit | Class::graph) {
        return false;
    }
    let mut found = function.params.iter().any(|param| {
        matches!(param.role, Role::Callback) && call.argument(param.name).is_some_and(|address| address != 0)
    });
    structs(call, function, &mut |ty, bytes| {
        let Form::Struct(fields) = ty.form else { return };
        let is_set = |at: usize| bytes.get(at..at + 8).is_some_and(|word| word != [0; 8]);
        found |= fields.iter().any(|field| matches!(field.ty.form, Form::Callback) && is_set(field.offset as usize));
    });
    found
}
