//! The exports of libcutrace.so: the driver's names, each once, dlopen and dlsym, the entry points for NVTX
//! and NCCL and those that begin a use of CUPTI; no names of the debugger's.

use object::{Object, ObjectSymbol};
use std::collections::BTreeSet;
use tests::*;
use trace::api::FUNCTIONS;

/// glibc's names that the recorder stands in front of.
const NETS: [&str; 2] = ["dlopen", "dlsym"];

/// What NVTX looks up in a tool, by its version.
const NVTX: [&str; 2] = ["InitializeInjectionNvtx", "InitializeInjectionNvtx2"];

/// By what a program shows that it uses CUPTI itself.
const CUPTI: [&str; 9] = [
    "cuptiSubscribe",
    "cuptiSubscribe_v2",
    "cuptiActivityRegisterCallbacks",
    "cuptiActivityRegisterCallbacks_v2",
    "cuptiActivityEnable",
    "cuptiActivityEnable_v2",
    "cuptiActivityEnableContext",
    "cuptiActivityEnableAndDump",
    "cuptiFinalize",
];

/// What NCCL looks up in a profiler, by its version.
const NCCL: [&str; 7] = [
    "ncclProfiler_v1",
    "ncclProfiler_v2",
    "ncclProfiler_v3",
    "ncclProfiler_v4",
    "ncclProfiler_v5",
    "ncclProfiler_v6",
    "ncclProfiler_v7",
];

#[test]
fn the_recorder_exports_the_table_the_nets_and_what_tools_ask_for() {
    let bytes = std::fs::read(artifact("libcutrace.so")).expect("the recorder");
    let file = object::File::parse(&*bytes).expect("an ELF file");
    let exported: Vec<&str> = file
        .dynamic_symbols()
        .filter(|symbol| symbol.is_definition())
        .filter_map(|symbol| symbol.name().ok())
        .collect();
    let wanted: BTreeSet<&str> =
        FUNCTIONS.iter().map(|function| function.name).chain(NETS).chain(NVTX).chain(CUPTI).chain(NCCL).collect();
    let found: BTreeSet<&str> = exported.iter().copied().collect();
    assert_eq!(found.difference(&wanted).collect::<Vec<_>>(), [&""; 0], "exported, and not the driver's");
    assert_eq!(wanted.difference(&found).collect::<Vec<_>>(), [&""; 0], "in the table, and not exported");
    assert_eq!(exported.len(), wanted.len(), "a name stands twice");
}

/// Its thread-local storage then lies in the room that the C library keeps for that.
#[test]
fn the_recorder_can_be_opened_late() {
    let place = Place::new();
    let mut program = place.bare(client("opened_late.c"));
    let ran = run(program.arg(artifact("libcutrace.so"))).expect(0);
    assert_eq!(ran.stdout, "1\n1\n");
    let trace = place.trace();
    assert_eq!((trace.len(), trace.threads.len()), (3, 2));
}
