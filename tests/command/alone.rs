//! Single-rank replay: recorded deliveries are written in place of NCCL's collectives. A library of ours
//! plays NCCL.

use serde_json::Value;
use std::path::PathBuf;
use std::process::Command;
use tests::forge::Forge;
use tests::*;
use trace::Trace;
use trace::api::types::Kind as Object;
use trace::file::record::nccl::{DELIVERED, Delivered};
use trace::file::record::with_body;
use trace::file::segment::Kind;

fn program() -> PathBuf {
    let library = client("libring.c");
    client_with("training.c", &[library.to_str().expect("a plain path")])
}

/// Ranks that share a file, recorded into `run/`.
fn record(place: &Place, ranks: u32, special: &str, options: &[&str]) -> Command {
    let script = "truncate -s 36864 ring; for rank in $(seq 0 $((ranks - 1))); do \
                  RANK=$rank WORLD_SIZE=$ranks env $([ $rank != 0 ] || echo $first_alone) \"$0\" ring $rank $ranks ${steps:-5} $special & done; wait";
    let mut record = place.cutrace(["record", "--driver", "sim", "-o", "run/"]);
    record.args(options).args(["--", "sh", "-c", script]).arg(program());
    record.env("ranks", ranks.to_string()).env("special", special).env("RING_VERSION", "7");
    record
}

const KEPT: &[&str] = &["--collectives"];

fn replay(place: &Place, rank: u32, options: &[&str]) -> Command {
    let mut replay = place.cutrace(["replay", "run/", "--alone", "--rank"]);
    replay.arg(rank.to_string()).args(options);
    replay
}

/// By rank.
fn traces(place: &Place) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(place.join("run")).expect("our own directory").flatten();
    let mut all: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(|path| path.is_file()).collect();
    all.sort();
    all
}

fn json(command: &mut Command, code: i32) -> Value {
    serde_json::from_str(&run(command).expect(code).stdout).expect("JSON")
}

#[test]
fn each_rank_is_replayed_without_the_others() {
    for version in [1, 4, 5, 7] {
        let place = Place::new();
        run(record(&place, 3, "", KEPT).env("RING_VERSION", version.to_string())).expect(0);
        // Five sums of 64 bytes each; then one rank sends, and one receives.
        for (rank, launches, bytes) in [(0, 6, 320), (1, 6, 384), (2, 5, 320)] {
            let report = json(&mut replay(&place, rank, &["--json"]), 0);
            assert_eq!(report["outcome"], "verified", "version {version}, rank {rank}: {report}");
            assert_eq!(report["alone"], serde_json::json!({ "launches": launches, "bytes": bytes }));
            assert_eq!((&report["verdict"], &report["refused"]), (&"replayable".into(), &0.into()), "{report}");
            let copies = if rank == 2 { 2 } else { 3 };
            assert_eq!(report["checked"]["copies"], copies, "{report}");
        }
    }
}

/// Sums as one group, gathered, scattered, from one and to one.
#[test]
fn each_operation_brings_what_it_does() {
    let place = Place::new();
    run(&mut record(&place, 3, "all", KEPT)).expect(0);
    // Of 16 elements: both sums 64 bytes, 5 from each of 3 gathered, 5 scattered, 16 from one, 16 to rank 0,
    // and 1 from each gathered.
    let all = 2 * 32 + 60 + 20 + 64 + 12;
    for (rank, launches, bytes) in [(0, 12, 320 + all + 64), (1, 12, 320 + all + 64), (2, 11, 320 + all)] {
        let report = json(&mut replay(&place, rank, &["--json"]), 0);
        assert_eq!(report["outcome"], "verified", "rank {rank}: {report}");
        assert_eq!(report["alone"], serde_json::json!({ "launches": launches, "bytes": bytes }), "rank {rank}");
    }
    // Before version 4 nobody tells how many ranks there are.
    let older = Place::new();
    run(record(&older, 2, "all", KEPT).env("RING_VERSION", "3")).expect(0);
    let report = json(&mut replay(&older, 0, &["--json"]), 0);
    let reasons = report["reasons"].to_string();
    assert!(reasons.contains("NCCL does not report the number of ranks (2 calls"), "{report}");
}

/// A job, and a call of this kind of its second rank behind which the CPU writes nothing for four calls; if there is
/// one.
fn recorded_with_one_by_itself(special: &str, is_sought: fn(&trace::Call) -> bool) -> Option<(Place, u64)> {
    let place = Place::new();
    run(&mut record(&place, 2, special, KEPT)).expect(0);
    let trace = sound(&traces(&place)[1]);
    let is_alone = |number: &u64| {
        let mut calls = (*number..number + 4).filter_map(|number| trace.call(number));
        calls.all(|call| call.written().all(|written| written.images().next().is_none()))
    };
    let first = trace.calls().filter(is_sought).map(|call| call.number).find(is_alone)?;
    Some((place, first))
}

fn is_sum(call: &trace::Call) -> bool {
    call.named_kernel().is_some_and(|kernel| kernel.name.contains("AllReduce"))
}

fn is_graph(call: &trace::Call) -> bool {
    call.function().is_some_and(|function| function.launches_graph())
}

/// The looped replay writes what the plain one does.
#[test]
fn a_step_of_a_rank_is_repeated_without_the_others() {
    // What the CPU writes on the way, here for the ring, is not repeated: on a busy machine each sum may have some.
    let (place, first) = (0..20).find_map(|_| recorded_with_one_by_itself("", is_sum)).expect("a sum by itself");
    let scope = format!("{first}..{}", first + 4);
    for times in ["cupti", "events"] {
        let options = ["--loop", "3", "--scope", &scope, "--times", times, "--json"];
        let report = json(&mut replay(&place, 1, &options), 0);
        let told = &report["loop"];
        assert_eq!((&told["delivered_launches"], &told["result_bytes"]), (&1.into(), &64.into()), "{report}");
        assert_eq!((&told["calls"], &told["differing_runs"]), (&3.into(), &0.into()), "{report}");
        assert_eq!(told["works"]["step"]["times"], 3, "{report}");
        // What stands in the place of the collective is a copy of ours.
        let all: Vec<&String> = told["works"].as_object().expect("works by name").keys().collect();
        assert_eq!(all, ["[CUDA memcpy Host-to-Device]", "step"], "{times}: {report}");
    }
}

/// Without `--alone` a rank's collectives wait for the others: that is said beforehand.
#[test]
fn a_rank_by_itself_is_said_to_wait_for_the_others() {
    let (place, without) = (Place::new(), Place::new());
    run(&mut record(&place, 2, "", KEPT)).expect(0);
    run(&mut record(&without, 2, "", &[])).expect(0);
    const KEPT_OF_IT: &str = "replay --alone writes its recorded result instead";
    for (place, how, chosen_how) in [
        (&place, KEPT_OF_IT, KEPT_OF_IT),
        (&without, "replay the job's directory to include all ranks", "their traces are not part of this replay"),
    ] {
        let info = json(place.cutrace(["info", "--json"]).arg(&traces(place)[1]), 0);
        let why = |how| format!("cuLaunchKernel: waits for ranks that are not replayed: {how} (6 calls: ");
        assert!(info["verdict"] == "partly" && info["reasons"].to_string().contains(&why(how)), "{info}");
        let chosen = json(&mut place.cutrace(["replay", "run/", "--rank", "1", "--dry-run", "--json"]), 0);
        assert!(chosen["processes"][0]["replay"]["reasons"].to_string().contains(&why(chosen_how)), "{chosen}");
        // Together they have each other.
        let whole = json(&mut place.cutrace(["info", "run/", "--json"]), 0);
        assert!(!whole.to_string().contains("waits for ranks"), "{whole}");
    }
    // Its collectives are not launched: they would wait, or fault where memory of the others was.
    let chosen = json(&mut place.cutrace(["replay", "run/", "--rank", "1", "--json"]), 6);
    let left = chosen["processes"][0]["replay"].to_string();
    assert!(left.contains("waits for ranks that are not replayed"), "{left}");
}

/// What decides is which ranks of the communicator are there, not what else a directory lacks.
#[test]
fn collectives_are_left_out_where_ranks_of_theirs_are() {
    const LEFT_OUT: &str = "waits for ranks that are not replayed";
    let place = Place::new();
    // What ranks write for each other into shared host memory need not be told apart from what the CPU writes.
    let whole =
        |options: &[&str]| run(place.cutrace(["replay", "run/", "--json", "--timeout", "20"]).args(options)).stdout;
    run(&mut record(&place, 3, "peers", KEPT)).expect(0);
    // They share memory, but not with the one that is missing.
    assert!(whole(&["--rank", "1-2"]).contains(LEFT_OUT));
    let all = whole(&[]);
    assert!(all.contains("\"processes\"") && !all.contains(LEFT_OUT), "{all}");
    let trace = std::fs::read(&traces(&place)[0]).expect("a trace");
    std::fs::write(place.join("run/broken.bin"), &trace[..3000]).expect("written");
    let all = whole(&[]);
    assert!(all.contains("broken.bin") && !all.contains(LEFT_OUT), "{all}");

    // Of a rank by itself an interface before version 4 does not tell that it is the only one; its environment does.
    for version in ["3", "7"] {
        let place = Place::new();
        run(record(&place, 1, "", KEPT).env("RING_VERSION", version)).expect(0);
        let ran = run(place.cutrace(["replay"]).arg(&traces(&place)[0])).expect(0);
        assert!(!ran.stdout.contains(LEFT_OUT) && !ran.stderr.contains("left out"), "{}{}", ran.stdout, ran.stderr);
    }
}

/// Its trace is there, but ends before the others' collectives do. What it had written by the time of a scan the other
/// trace has as writes of the CPU: where it was ahead each time, nobody waits.
#[test]
fn ranks_that_wait_for_one_that_comes_no_further_are_given_up() {
    let replayed = || {
        let place = Place::new();
        run(record(&place, 2, "", KEPT).env("first_alone", "CUTRACE_CALLS=20")).expect(0);
        run(&mut place.cutrace(["replay", "run/", "--timeout", "1"]))
    };
    let has_waited = |ran: &Outcome| ran.stdout.contains("no process made progress for 1 s");
    let ran = std::iter::repeat_with(replayed).take(20).find(has_waited).expect("a wait");
    let told = ran.stdout.lines().last().unwrap_or_default();
    assert!(told.contains(" --alone uses recorded results of its collectives"), "{}{}", ran.stdout, ran.stderr);
}

#[test]
fn the_program_does_as_before() {
    let place = Place::new();
    let bare = {
        let mut bare =
            run(&mut record(&place, 3, "", &[])).expect(0).stdout.lines().map(str::to_owned).collect::<Vec<_>>();
        bare.sort();
        bare
    };
    let other = Place::new();
    let ran = run(&mut record(&other, 3, "", KEPT)).expect(0);
    let mut kept: Vec<&str> = ran.stdout.lines().collect();
    kept.sort();
    assert_eq!(kept, bare, "{}", ran.stderr);
    // What the recorder asked of the driver for itself is no part of it.
    let count = |place: &Place| traces(place).iter().map(|path| sound(path).len()).collect::<Vec<_>>();
    assert_eq!(count(&place), count(&other));
}

#[test]
fn what_is_kept_is_told_and_goes_with_the_trace() {
    let place = Place::new();
    run(&mut record(&place, 2, "", KEPT)).expect(0);
    let path = traces(&place).remove(1);
    let info = run(place.cutrace(["info"]).arg(&path)).expect(0).stdout;
    assert!(info.contains("384 B of 6 operations (for replay --alone)"), "{info}");
    let told = &json(place.cutrace(["info", "--json"]).arg(&path), 0)["collectives"];
    assert_eq!((&told["is_kept"], &told["delivered_bytes"], &told["lost"]), (&true.into(), &384.into(), &0.into()));
    run(place.cutrace(["pack", "-o", "packed.bin"]).arg(&path)).expect(0);
    run(place.cutrace(["redact", "-o", "redacted.bin"]).arg(&path)).expect(0);
    run(place.cutrace(["replay", "--alone", "--profile", "--times", "events", "-o", "timed.bin"]).arg(&path)).expect(0);
    for copy in ["packed.bin", "redacted.bin", "timed.bin"] {
        let ran = run(&mut place.cutrace(["replay", "--alone", copy])).expect(0);
        assert!(ran.stdout.contains("recorded results replace 6 launches of NCCL: 384 B"), "{copy}: {}", ran.stdout);
    }
}

/// What only NCCL's kernels use is not missed: the others' memory is there, and holds nothing.
#[test]
fn memory_of_others_is_stood_in_for() {
    let place = Place::new();
    run(&mut record(&place, 2, "peers", KEPT)).expect(0);
    for rank in 0..2 {
        let report = json(&mut replay(&place, rank, &["--json"]), 0);
        assert_eq!((&report["outcome"], &report["verdict"]), (&"verified".into(), &"replayable".into()), "{report}");
        assert_eq!(report["refused"], 0, "{report}");
        let left_out: Vec<&str> = report["left_out"]
            .as_array()
            .expect("a list")
            .iter()
            .filter_map(|left| left["function"].as_str())
            .collect();
        assert_eq!(left_out, ["cuIpcGetEventHandle", "cuIpcGetMemHandle", "cuIpcOpenMemHandle_v2"], "{report}");
        let plan = run(&mut replay(&place, rank, &["--dry-run"])).expect(0).stdout;
        let note = "note: cuMemImportFromShareableHandle: skipped or emulated, as it concerns other processes";
        assert!(plan.contains(note), "{plan}");
    }
}

#[test]
fn what_uses_memory_of_others_is_named_and_not_compared() {
    let place = Place::new();
    run(&mut record(&place, 2, "touched", KEPT)).expect(0);
    let report = json(&mut replay(&place, 0, &["--json"]), 0);
    let reasons = report["reasons"].to_string();
    assert!(
        reasons.contains("cuMemcpyDtoDAsync_v2: uses memory of another process, which is zero in the replay (1 call")
    );
    // Two copies before that, and two that show what came of it.
    assert_eq!((&report["outcome"], &report["checked"]["copies"]), (&"verified".into(), &2.into()), "{report}");
    assert_eq!(report["not_compared"]["copies_in_all"], 2, "{report}");
}

/// Where it is kept as well, all is compared.
#[test]
fn what_uses_memory_of_others_finds_what_it_held() {
    let place = Place::new();
    run(&mut record(&place, 2, "touched", &["--collectives", "--shared-memory"])).expect(0);
    for rank in 0..2 {
        let report = json(&mut replay(&place, rank, &["--json"]), 0);
        assert_eq!((&report["outcome"], &report["verdict"]), (&"verified".into(), &"replayable".into()), "{report}");
        assert_eq!(
            (&report["checked"]["copies"], &report["shared_memory"]["calls"]),
            (&4.into(), &1.into()),
            "{report}"
        );
        // The same of one that is chosen, and of its trace.
        let chosen = json(&mut place.cutrace(["replay", "run/", "--json", "--rank", &rank.to_string()]), 0);
        let chosen = &chosen["processes"][0]["replay"];
        let named = json(place.cutrace(["replay", "--json"]).arg(&traces(&place)[rank as usize]), 0);
        for field in ["outcome", "checked", "refused", "shared_memory"] {
            assert_eq!((&chosen[field], &named[field]), (&report[field], &report[field]), "{field}: {chosen} {named}");
        }
    }
    // Without what collectives delivered nothing is known behind the first.
    let other = Place::new();
    run(&mut record(&other, 2, "touched", &["--shared-memory"])).expect(0);
    let report: Value = serde_json::from_str(&run(&mut replay(&other, 0, &["--json"])).stdout).expect("JSON");
    let why = "cuLaunchKernel: the result of this collective is not in the trace (";
    assert!(report["verdict"] == "partly" && report["reasons"].to_string().contains(why), "{report}");
}

#[test]
fn one_device_does_for_the_rank_of_another() {
    let place = Place::new();
    run(record(&place, 2, "devices", KEPT).env("CUTRACE_SIM_DEVICES", "2")).expect(0);
    for rank in 0..2 {
        for (here, there) in [("0", "1"), ("0", "2"), ("1", "2"), ("0=1,1=0", "2")] {
            let ran = run(replay(&place, rank, &["--device", here]).env("CUTRACE_SIM_DEVICES", there)).expect(0);
            let told = format!("rank {rank}, --device {here} of {there}: {}", ran.stdout);
            assert!(is_verified(&ran.stdout), "{told}");
            for skipped in [
                "cuDeviceGetP2PAttribute (2, first call 17): concerns two devices that map to the same one",
                "cuDevicePrimaryCtxGetState (2, first call 22): queries a device that several recorded devices map to",
            ] {
                assert_eq!(ran.stdout.contains(skipped), here.len() == 1, "{skipped} in {told}");
            }
        }
    }
    let ran = run(replay(&place, 1, &[]).env("CUTRACE_SIM_DEVICES", "1")).expect(5);
    assert!(ran.stderr.contains("device 1"), "{}", ran.stderr);
}

/// The launch that fails does so by what the others had sent.
#[test]
fn a_fault_is_named() {
    let place = Place::new();
    run(&mut record(&place, 2, "fault", KEPT)).expect(0);
    let ran = run(&mut replay(&place, 1, &["--sync-launches"])).expect(1);
    assert!(ran.stdout.contains("a launch failed, as recorded") && ran.stdout.contains("pick"), "{}", ran.stdout);
    run(&mut replay(&place, 0, &[])).expect(0);
}

#[test]
fn what_was_not_kept_is_refused() {
    let place = Place::new();
    run(&mut record(&place, 2, "", &[])).expect(0);
    let ran = run(&mut replay(&place, 0, &[])).expect(1);
    assert!(ran.stderr.contains("record them with --collectives"), "{}", ran.stderr);
    for (arguments, why) in [
        (&["replay", "run/", "--alone"][..], "2 traces, expected one: pass "),
        (&["replay", "run/", "--alone", "--rank", "0-1"], "; or choose with --rank: 0-1\n"),
        (&["replay", "run/", "--alone", "--rank", "7"], "no rank 7; this job has the ranks 0-1"),
        (&["replay", "trace.bin", "--alone", "--rank", "0"], "applies to a directory of traces"),
    ] {
        let ran = run(&mut place.cutrace(arguments)).expect(2);
        assert!(ran.stderr.contains(why), "{arguments:?}: {}", ran.stderr);
    }
}

/// By its launches: of a graph that is made anew each time, and of one that runs again and again.
#[test]
fn what_is_captured_is_copied_by_the_graph() {
    let of_all = 5 * (64 + 48 + 64 + 16 + 64);
    for (special, launches, bytes) in
        [("captured", 5, 320), ("graph", 1, 320), ("graphs", 5, of_all), ("failed", 2, 320), ("updated", 2, 320)]
    {
        let place = Place::new();
        let ran = run(&mut record(&place, 3, special, KEPT)).expect(0);
        let info = json(place.cutrace(["info", "--json"]).arg(&traces(&place)[0]), 0);
        assert_eq!(info["collectives"]["lost"], 0, "{special}: {info}");
        assert_eq!(sorted(&ran), sorted(&run(&mut record(&Place::new(), 3, special, &[])).expect(0)), "{special}");
        // The third has no part in the last transfer; what is reduced to the first brings others nothing.
        for (rank, further) in [(0, (1, 0)), (1, (1, 64)), (2, (0, 0))] {
            let report = json(&mut replay(&place, rank, &["--json"]), 0);
            let told = format!("{special} {rank}: {report}");
            assert_eq!((&report["outcome"], &report["refused"]), (&"verified".into(), &0.into()), "{told}");
            let reduced = if special == "graphs" && rank != 0 { 5 * 16 } else { 0 };
            let (launches, bytes) = (launches + further.0, bytes + further.1 - reduced);
            assert_eq!(report["alone"], serde_json::json!({ "launches": launches, "bytes": bytes }), "{told}");
            let serial_launches = json(&mut replay(&place, rank, &["--sync-launches", "--json"]), 0);
            assert_eq!(serial_launches["outcome"], "verified", "{special} {rank}: {serial_launches}");
        }
    }
}

/// What each rank printed.
fn sorted(ran: &Outcome) -> Vec<&str> {
    let mut lines: Vec<&str> = ran.stdout.lines().collect();
    lines.sort();
    lines
}

/// NCCL waits for all graphs with its kernels to be gone: clones go with what they were made of, also when nothing is
/// recorded any more.
#[test]
fn clones_of_graphs_end_when_recording_has() {
    let place = Place::new();
    let recorded = |place, options, size| {
        run(record(place, 2, "graph", options).env("steps", "1500").env("CUTRACE_MAX_SIZE", size)).expect(0)
    };
    let (ran, bare) = (recorded(&place, KEPT, "1M"), recorded(&Place::new(), &[], ""));
    assert_eq!(sorted(&ran), sorted(&bare), "{}", ran.stderr);
    let trace = sound(&traces(&place)[0]);
    assert!(trace.calls().any(|call| is_graph(&call)), "recording ended before the graph ran");
    let ends = |call: trace::Call| call.function().is_some_and(|function| function.ends(Object::GraphExec).is_some());
    assert!(trace.size_limit_reached().is_some() && !trace.calls().any(ends), "recording did not end in between");
}

/// The looped replay writes what the launch of the graph had found.
#[test]
fn a_graph_with_collectives_is_repeated() {
    let (place, first) = (0..20).find_map(|_| recorded_with_one_by_itself("graph", is_graph)).expect("one by itself");
    let scope = format!("{first}..{}", first + 4);
    let report = json(&mut replay(&place, 1, &["--loop", "3", "--scope", &scope, "--json"]), 0);
    let told = &report["loop"];
    assert_eq!((&told["result_bytes"], &told["differing_runs"]), (&64.into(), &0.into()), "{report}");
}

#[test]
fn what_is_not_told_of_a_graph_is_refused_by_name() {
    const CHANGED: &str = "its executable graph was changed after instantiation";
    const UNTOLD: &str = "the trace has no record of this launch of its graph";
    for (special, why) in
        [("changed", CHANGED), ("switched", CHANGED), ("cloned", UNTOLD), ("child", UNTOLD), ("described", UNTOLD)]
    {
        let place = Place::new();
        let ran = run(&mut record(&place, 2, special, KEPT)).expect(0);
        assert_eq!(sorted(&ran), sorted(&run(&mut record(&Place::new(), 2, special, &[])).expect(0)), "{special}");
        let report: Value = serde_json::from_str(&run(&mut replay(&place, 0, &["--json"])).stdout).expect("JSON");
        let reason = format!("cuGraphLaunch: the result of this collective is not in the trace: {why} (5 calls");
        assert!(report["reasons"].to_string().contains(&reason), "{special}: {report}");
        assert_eq!(report["refused"], 5, "{special}: {report}");
        // What was written where a node is switched off is the same without the graph, and may be compared.
        let outcomes = if special == "switched" { &["verified", "unverified"][..] } else { &["unverified"] };
        assert!(outcomes.iter().any(|outcome| report["outcome"] == *outcome), "{special}: {report}");
    }
    // Without others and what they brought its graph lacks what is left out: what only its fill wrote is compared.
    let place = Place::new();
    run(&mut record(&place, 2, "graph", KEPT)).expect(0);
    let ran = run(place.cutrace(["replay", "--json"]).arg(&traces(&place)[0]));
    let report: Value = serde_json::from_str(&ran.stdout).expect("JSON");
    let lacks = "cuGraphLaunch: launches a graph with missing nodes: the calls that add them are refused (5 calls";
    assert!(report["reasons"].to_string().contains(lacks), "{report}");
    let (compared, others) = (&report["checked"]["copies"], &report["not_compared"]["copies_in_all"]);
    assert!((compared, others) == (&1.into(), &3.into()) || (compared, others) == (&0.into(), &4.into()), "{report}");
}

/// As the trace has it from a process that was ended before its last bytes had come.
#[test]
fn what_is_not_there_is_named_and_what_depends_on_it_is_not_compared() {
    let place = Place::new();
    run(&mut record(&place, 2, "", KEPT)).expect(0);
    let path = traces(&place).remove(0);
    let whole = Forge::open(&path);
    let all = Trace::open(&path).expect("a trace").delivered;
    let first = all.into_iter().find(|delivered| delivered.len > 0).expect("a sum");
    let forged = |change: fn(&mut Delivered), why: &str| {
        let mut delivered = first.clone();
        change(&mut delivered);
        let (old, new) = (with_body(DELIVERED, &first), with_body(DELIVERED, &delivered));
        assert_eq!(old.len(), new.len());
        let mut forge = whole.clone();
        forge.replace(Kind::Chunk, &old, &new);
        forge.reseal();
        forge.write(&path);
        let report = json(&mut replay(&place, 0, &["--json"]), 6);
        assert!(report.to_string().contains(why), "{why}: {report}");
        assert_eq!((&report["outcome"], &report["refused"]), (&"unverified".into(), &1.into()), "{report}");
    };
    let missing = "the result of this collective is not in the trace: part of the file is missing";
    forged(|delivered| delivered.pieces[0] = [7; 16], missing);
    forged(|delivered| delivered.len += 4, missing);
    forged(|delivered| delivered.len = 1 << 40, "its records in the trace contradict each other");
    forged(|delivered| delivered.address = u64::MAX, "its records in the trace contradict each other");
    let elsewhere = "its destination is memory that the replay does not have";
    forged(|delivered| delivered.address = 0x1000, elsewhere);
    forged(|delivered| delivered.address += 1 << 30, elsewhere);
}
