//! Single-rank replay of a process with imported memory: the memory has the contents it had when the process
//! used it (`record --shared-memory`).

use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::Command;
use tests::forge::Forge;
use tests::*;
use trace::Trace;
use trace::base::hash::Hash;
use trace::file::record::imported_memory::{HELD, ImportedMemory};
use trace::file::record::with_body;
use trace::file::segment::{HEADER, Kind};

const KEPT: &[&str] = &["--shared-memory"];

fn record(place: &Place, app: &str, options: &[&str]) -> Outcome {
    let mut record = place.cutrace(["record", "--driver", "sim", "-o", "run/"]);
    run(record.args(options).arg("--").arg(client(app)).env("CUTRACE_SIM_SEED", "1"))
}

/// Of processes that imported memory.
fn importing(place: &Place) -> Vec<PathBuf> {
    const IMPORTS: [&str; 2] = ["cuIpcOpenMemHandle_v2", "cuMemImportFromShareableHandle"];
    let entries = std::fs::read_dir(place.join("run")).expect("our own directory").flatten();
    let files = entries.map(|entry| entry.path()).filter(|path| path.is_file());
    let imports = |path: &PathBuf| {
        let trace = sound(path);
        IMPORTS.iter().any(|name| calls_named(&trace, name).iter().any(|call| call.succeeded()))
    };
    let mut all: Vec<PathBuf> = files.filter(imports).collect();
    all.sort();
    all
}

fn replay(place: &Place, trace: &PathBuf) -> Command {
    let mut replay = place.cutrace(["replay", "--no-explain", "--json"]);
    replay.arg(trace);
    replay
}

fn json_of(command: &mut Command, code: i32) -> Value {
    serde_json::from_str(&run(command).expect(code).stdout).expect("JSON")
}

/// Recorded as before, and each process that imported memory is replayed by itself.
fn replays_alone(app: &str, importers: usize, verdict: &str) {
    let bare = run(Place::new().bare(client(app)).env("CUTRACE_SIM_SEED", "1")).expect(0);
    let (place, without) = (Place::new(), Place::new());
    place.same(&bare, &record(&place, app, KEPT));
    record(&without, app, &[]).expect(0);
    let counts = |place: &Place| importing(place).iter().map(|path| sound(path).len()).collect::<Vec<_>>();
    assert_eq!(counts(&place), counts(&without), "{app}");
    let traces = importing(&place);
    assert_eq!(traces.len(), importers, "{app}");
    for trace in &traces {
        for (seed, options) in [("1", &[][..]), ("7", &["--alone"]), ("99", &["--no-placement"])] {
            let report = json_of(replay(&place, trace).args(options).env("CUTRACE_SIM_SEED", seed), 0);
            let told = format!("{app} {seed} {options:?}: {report}");
            assert_eq!((&report["outcome"], &report["verdict"]), (&"verified".into(), &verdict.into()), "{told}");
            assert_eq!(
                (&report["refused"], &report["not_compared"]["copies_in_all"]),
                (&0.into(), &0.into()),
                "{told}"
            );
            assert!(report["shared_memory"]["calls"].as_u64().is_some_and(|calls| calls > 0), "{told}");
        }
        let info = json_of(place.cutrace(["info", "--json"]).arg(trace), 0);
        assert_eq!((&info["verdict"], &info["shared_memory"]["lost"]), (&verdict.into(), &0.into()), "{app}: {info}");
    }
    for trace in importing(&without) {
        let ran = run(&mut replay(&without, &trace));
        let report: Value = serde_json::from_str(&ran.stdout).expect("JSON");
        assert_eq!((&report["verdict"], &report["shared_memory"]), (&"partly".into(), &Value::Null), "{app}: {report}");
        let named = ["cuIpcOpenMemHandle_v2: shared with another process", "cuMemImportFromShareableHandle: shared by"];
        let reasons = report["reasons"].to_string();
        assert!(named.iter().any(|why| reasons.contains(why)), "{app}: {reasons}");
    }
}

#[test]
fn memory_and_an_event_of_the_parent() {
    replays_alone("ipc_memory_of_parent.c", 1, "replayable");
}

#[test]
fn memory_by_descriptors() {
    replays_alone("descriptors_by_socket.c", 1, "replayable");
}

/// What others write beside the memory of a kernel that runs is not taken for the kernel's.
#[test]
fn memory_that_others_write_beside_a_kernel() {
    replays_alone("written_beside.c", 1, "replayable");
}

#[test]
fn memory_in_a_graph_and_in_rows() {
    replays_alone("imported_by_graph.c", 1, "replayable");
}

/// Whose own memory others use as well is told that what they write there is not stored.
#[test]
fn a_ring_of_three_processes() {
    replays_alone("ipc_ring.c", 3, "partly");
    let place = Place::new();
    record(&place, "ipc_ring.c", KEPT).expect(0);
    let alone = run(&mut place.cutrace(["replay", "run/", "--rank", "1", "--alone"])).expect(0);
    assert!(
        is_verified(&alone.stdout)
            && alone.stdout.contains("  imported     ")
            && alone.stdout.contains("memory, before 3 calls")
    );
    let why = "cuIpcGetMemHandle: exported memory may be written by processes that are not replayed";
    assert!(alone.stdout.contains(why), "{}", alone.stdout);
    // Together they need none of it.
    let together = json_of(&mut place.cutrace(["replay", "run/", "--json"]), 0);
    assert_eq!((&together["outcome"], &together["handles_opened"]), (&"verified".into(), &3.into()), "{together}");
}

fn first_use(trace: &Trace, is_behind: bool) -> ImportedMemory {
    let mut used: Vec<&ImportedMemory> = trace.held.iter().filter(|held| !held.pieces.is_empty()).collect();
    used.sort_by_key(|held| held.call);
    used.into_iter().find(|held| held.is_behind == is_behind).expect("a use").clone()
}

/// What is computed is computed from what was kept.
#[test]
fn a_wrong_byte_in_what_was_kept_is_a_difference() {
    let place = Place::new();
    record(&place, "ipc_memory_of_parent.c", KEPT).expect(0);
    let path = importing(&place).remove(0);
    let trace = sound(&path);
    let first = first_use(&trace, false);
    let opened = calls_named(&trace, "cuIpcOpenMemHandle_v2")[0].output("pdptr").expect("its address");
    let content = Hash::from_bytes(first.pieces[0]);
    let mut forge = Forge::open(&path);
    let blob = forge.segments(Kind::Blob).into_iter().find(|(_, header)| header.id == content.0).expect("its blob");
    forge.flip(blob.0 + HEADER + (opened - first.address) as usize + 8);
    forge.reseal();
    forge.write(&path);
    let report = json_of(&mut replay(&place, &path), 4);
    assert_eq!((&report["outcome"], &report["verdict"]), (&"diverged".into(), &"replayable".into()), "{report}");
    assert!(report["first_divergence"].to_string().contains("cuMemcpyDtoH"), "{report}");
}

#[test]
fn what_is_not_there_is_named_and_what_depends_on_it_is_not_compared() {
    let place = Place::new();
    record(&place, "ipc_memory_of_parent.c", KEPT).expect(0);
    let path = importing(&place).remove(0);
    let (whole, trace) = (Forge::open(&path), sound(&path));
    let forged = |first: &ImportedMemory, change: &dyn Fn(&mut ImportedMemory)| {
        let mut held = first.clone();
        change(&mut held);
        let (old, new) = (with_body(HELD, first), with_body(HELD, &held));
        assert_eq!(old.len(), new.len());
        let mut forge = whole.clone();
        forge.replace(Kind::Chunk, &old, &new);
        forge.reseal();
        forge.write(&path);
        run(&mut replay(&place, &path))
    };
    let first = first_use(&trace, false);
    for (change, why) in [
        (
            &(|held: &mut ImportedMemory| held.pieces[0] = [7; 16]) as &dyn Fn(&mut ImportedMemory),
            "are not in the trace: part of the file is missing",
        ),
        (&|held| held.len = 1 << 40, "are not in the trace: its records in the trace contradict each other"),
        (&|held| held.address = u64::MAX, "are not in the trace: its records in the trace contradict each other"),
        (&|held| held.address = 0x1000, "its destination is memory that the replay does not have"),
    ] {
        let ran = forged(&first, change);
        assert!(ran.stdout.contains(why), "{why}: {}", ran.stdout);
        let report: Value = serde_json::from_str(&ran.stdout).expect("JSON");
        assert_ne!((&report["refused"], &report["reasons"]), (&0.into(), &json!([])), "{report}");
    }
    // How long the memory is nobody tells, or the wrong thing.
    let opened = trace.held.iter().find(|held| held.pieces.is_empty()).expect("the call that opened it").clone();
    let refused = "cuIpcOpenMemHandle_v2: the contents of another process's memory are not in the trace";
    for change in [
        &(|held: &mut ImportedMemory| held.len = 0) as &dyn Fn(&mut ImportedMemory),
        &|held| held.address = 0x1000,
        &|held| held.call.1 = 1,
    ] {
        let ran = forged(&opened, change);
        assert!(ran.stdout.contains(refused), "{}", ran.stdout);
    }
    forged(&opened, &|held| held.len = 1 << 60);
}

#[test]
fn what_is_kept_goes_with_the_trace() {
    let place = Place::new();
    record(&place, "imported_by_graph.c", KEPT).expect(0);
    let path = importing(&place).remove(0);
    let info = run(place.cutrace(["info"]).arg(&path)).expect(0).stdout;
    assert!(info.contains("imported memory") && info.contains(" before 12 calls"), "{info}");
    run(place.cutrace(["pack", "-o", "packed.bin"]).arg(&path)).expect(0);
    run(place.cutrace(["redact", "-o", "redacted.bin"]).arg(&path)).expect(0);
    run(place.cutrace(["replay", "--profile", "--times", "events", "-o", "timed.bin"]).arg(&path)).expect(0);
    for copy in ["packed.bin", "redacted.bin", "timed.bin"] {
        let report = json_of(&mut place.cutrace(["replay", "--json", copy]), 0);
        assert_eq!(report["shared_memory"]["calls"], 12, "{copy}: {report}");
        let told = json_of(&mut place.cutrace(["info", "--json", copy]), 0);
        assert_eq!(told["shared_memory"]["calls"], json!(12), "{copy}: {told}");
    }
    run(place.cutrace(["replay", "--untrusted"]).arg(&path)).expect(0);
}

/// What a loop repeats finds what the plain replay finds.
#[test]
fn what_uses_imported_memory_is_repeated() {
    let place = Place::new();
    record(&place, "ipc_memory_of_parent.c", KEPT).expect(0);
    let path = importing(&place).remove(0);
    let trace = sound(&path);
    let used = trace.held.iter().filter(|held| !held.pieces.is_empty() && !held.is_behind);
    let first = used.filter_map(|held| trace.calls().find(|call| (call.thread, call.sequence) == held.call));
    let first = first.map(|call| call.number).min().expect("a use");
    let scope = format!("{first}..{}", first + 1);
    let report = json_of(replay(&place, &path).args(["--loop", "2", "--scope", &scope]), 0);
    let told = &report["loop"];
    assert_eq!((&told["calls"], &told["differing_runs"]), (&1.into(), &0.into()), "{report}");
    assert!(told["result_bytes"].as_u64().is_some_and(|bytes| bytes > 0), "{report}");
    // Without it the call is refused, and so is the loop.
    let without = Place::new();
    record(&without, "ipc_memory_of_parent.c", &[]).expect(0);
    let path = importing(&without).remove(0);
    let ran = run(replay(&without, &path).args(["--loop", "2", "--scope", &scope])).expect(1);
    assert!(ran.stderr.contains(": uses memory of a process that is not replayed"), "{}", ran.stderr);
}

/// A kernel that polls what a peer writes has nobody to wait for: the verdict says so, and what is waited for is
/// named, and given up.
#[test]
fn what_may_wait_without_end_is_said_before_and_while_it_does() {
    let place = Place::new();
    let mut record = place.cutrace(["record", "--driver", "sim", "-o", "run/"]);
    record.args(KEPT).arg("--").arg(client("ipc_flag.c"));
    run(record.env("CUTRACE_SIM_SEED", "1").env("CUTRACE_SIM_DEVICES", "2")).expect(0);
    let path = importing(&place).remove(0);
    let info = json_of(place.cutrace(["info", "--json"]).arg(&path), 0);
    let why = "cuLaunchKernel of wait: memory of another process changed during this launch: if the kernel waits for that \
               change, the replay may hang (1 call: 7)";
    assert!(info["notes"].to_string().contains(why), "{info}");
    let mut replay = replay(&place, &path);
    let ran = run(replay.args(["--timeout", "11"]).env("CUTRACE_SIM_DEVICES", "2")).expect(1);
    let told = ran.stderr;
    assert!(told.contains("wait of call 7 may wait for a write to device memory 0x"), "{told}");
    assert!(told.contains(" of a process that is not replayed; cutrace replay "), "{told}");
    assert!(told.contains("stopped after about "), "{told}");
}
