//! Calls that a replay makes of its own: the replay itself is recorded, as another tool would watch it.

use super::workloads::on;
use std::collections::BTreeMap;
use tests::*;
use trace::Trace;

const SUCCESS: u32 = 0;
const OUT_OF_MEMORY: u32 = 2;
const NOT_READY: u32 = 600;

/// What a tool takes for errors of the program: by function and result, how many.
fn failures(trace: &Trace) -> BTreeMap<(String, u32), u64> {
    let mut all = BTreeMap::new();
    for call in trace.calls() {
        match call.result {
            None | Some(SUCCESS | NOT_READY) => {}
            Some(result) => *all.entry((call.name().to_owned(), result)).or_default() += 1,
        }
    }
    all
}

/// What there is to ask about: functions and kernels, contexts and threads without one, streams, memory of all
/// kinds, graphs.
const PROGRAMS: &[&str] = &[
    "vector_add.c",
    "kernel_libraries.c",
    "packed_arguments.c",
    "older_forms.c",
    "hidden_tables.c",
    "linking.c",
    "globals.c",
    "two_contexts.c",
    "no_context.c",
    "context_memory.c",
    "green_context_ends.c",
    "streams_events.c",
    "stream_operations.c",
    "callbacks.c",
    "pools.c",
    "virtual_memory.c",
    "managed_variables.c",
    "mapped_results.c",
    "exported_in_process.c",
    "texture.c",
    "every_copy.c",
    "every_question.c",
    "failing_calls.c",
    "graphs.c",
    "every_node.c",
    "outputs_over_inputs.c",
    "updatable_nodes.c",
    "graph_memory.c",
    "conditional_graph.c",
    "host_nodes.c",
];

/// Whose graphs are launched node by node.
const TAKEN_APART: [(&str, &[&str]); 3] =
    [("graphs.c", ONE_BY_ONE), ("updatable_nodes.c", ONE_BY_ONE), ("every_node.c", ONE_BY_ONE)];
const ONE_BY_ONE: &[&str] = &["--sync-launches"];

/// compute-sanitizer, for one, tells of every call that fails.
#[test]
fn no_call_fails_that_the_program_did_not_make() {
    for (app, options) in PROGRAMS.iter().map(|app| (*app, &[][..])).chain(TAKEN_APART) {
        let place = Place::new();
        run(on(&mut place.recorded(client(app)), "1")).expect(0);
        let mut record = place.cutrace(["record", "--driver", "sim", "--output", "of_the_replay", "--"]);
        record.arg(artifact("cutrace")).args(["replay", "--driver", "sim", "trace.bin"]).args(options);
        run(on(&mut record, "1")).expect(0);
        let programs = failures(&place.trace());
        let own = failures(&sound(place.join("of_the_replay")));
        for ((name, result), count) in own {
            let known = programs.get(&(name.clone(), result)).copied().unwrap_or(0);
            // Memory that was given back is kept until the driver has no more, which only a failure tells.
            let is_for_room = app == "context_memory.c" && result == OUT_OF_MEMORY;
            assert!(count <= known || is_for_room, "{app}: {name} fails {count} times with {result}, not {known}");
        }
    }
}
