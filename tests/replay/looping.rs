//! `replay --loop`: a repeated range; and `--only-kernel`, marks for other tools.

use serde_json::Value;
use tests::*;

fn recorded(app: &str) -> Place {
    let place = Place::new();
    run(&mut place.recorded(client(app))).expect(0);
    place
}

fn replayed(place: &Place, options: &[&str]) -> Outcome {
    run(place.cutrace(["replay", "--driver", "sim"]).args(options))
}

#[track_caller]
fn looped(place: &Place, options: &[&str]) -> Value {
    let ran = replayed(place, &[options, &["--json"]].concat()).expect(0);
    let report: Value = serde_json::from_str(&ran.stdout).expect("JSON");
    assert_eq!(report["divergences"], 0);
    report["loop"].clone()
}

/// Numbers of the first call of a name, and of the one behind the last of another.
fn scope(place: &Place, from: &str, to: &str) -> String {
    let trace = place.trace();
    let last = calls_named(&trace, to).last().expect("a call").number;
    format!("{}..{}", calls_named(&trace, from)[0].number, last + 1)
}

/// A kernel that adds to what is there: each time must begin with what was there before the first.
#[test]
fn what_the_range_writes_is_put_back() {
    let place = recorded("streams_events.c");
    for source in ["cupti", "events"] {
        let found = looped(&place, &["--loop", "7", "--warmup", "2", "--times", source]);
        assert_eq!((&found["source"], &found["differing_runs"]), (&source.into(), &0.into()), "{found}");
        assert!(found["restored_bytes"].as_u64() > Some(0), "{found}");
        for time in ["wall", "host", "device", "device_busy"] {
            let [min, median, p99] =
                ["min_ns", "median_ns", "p99_ns"].map(|key| found[time][key].as_i64().expect("ns"));
            assert!(0 < min && min <= median && median <= p99, "{time}: {found}");
            assert_eq!(found[time]["times"], 7, "{time}");
        }
        assert!(found["host"]["median_ns"].as_i64() <= found["wall"]["median_ns"].as_i64());
        assert!(found["device_busy"]["median_ns"].as_i64() <= found["device"]["median_ns"].as_i64());
        assert_eq!((&found["works"]["add_two"]["times"], &found["works"]["twice"]["times"]), (&7.into(), &7.into()));
    }
    let text = replayed(&place, &["--loop", "3"]).expect(0).stdout;
    for line in ["  repeated     ", "  restored     24.0 kB each time\n", "  wall  ", "kernel or copy\n"] {
        assert!(text.contains(line), "{text}");
    }
}

/// A context that is gone is none of those that the range could be in.
#[test]
fn a_context_that_was_detached_from_is_none() {
    let place = recorded("detached_context.c");
    let range = scope(&place, "cuLaunchKernel", "cuCtxSynchronize");
    assert_eq!(looped(&place, &["--loop", "2", "--scope", &range])["works"]["add_two"]["times"], 6);
}

/// Events that the range makes are made once, and one that it ends is there the next time.
#[test]
fn events_of_the_range_stay() {
    let place = recorded("events_of_a_step.c");
    let trace = place.trace();
    let [made, waits] = ["cuEventCreate", "cuStreamSynchronize"].map(|name| calls_named(&trace, name)[1].number);
    let found = looped(&place, &["--loop", "3", "--scope", &format!("{made}..{}", waits + 1)]);
    assert_eq!((&found["works"]["add_two"]["times"], &found["differing_runs"]), (&6.into(), &0.into()), "{found}");
    let kept = serde_json::json!([{ "reason": "an event of the range is created once and lives until the replay ends", "count": 2 }]);
    assert_eq!((&found["left_out"], &found["calls"]), (&kept, &5.into()), "{found}");
}

/// What does not compute the same each time is told.
#[test]
fn runs_that_differ_are_counted() {
    let place = Place::new();
    run(place.recorded(client("nondeterministic.c")).arg("direct")).expect(0);
    let ran = replayed(
        &place,
        &["--no-verify", "--loop", "3", "--json", "--scope", &scope(&place, "cuLaunchKernel", "cuLaunchKernel")],
    );
    let report: Value = serde_json::from_str(&ran.expect(0).stdout).expect("JSON");
    assert_ne!(report["loop"]["differing_runs"], 0, "{report}");
    assert_eq!(report["loop"]["runs"], 12, "{report}");
}

/// Copies from pinned memory that the program fills anew within the range.
#[test]
fn the_range_may_read_what_the_cpu_writes_on_the_way() {
    let place = recorded("pinned_reused.c");
    let scope = scope(&place, "cuMemcpyHtoDAsync_v2", "cuMemcpyDtoH_v2");
    let ran = replayed(&place, &["--loop", "3", "--scope", &scope, "--json"]);
    if ran.code() == 1 {
        assert!(ran.stderr.contains("cannot repeat the range: "), "{}", ran.stderr);
    } else {
        let report: Value = serde_json::from_str(&ran.expect(0).stdout).expect("JSON");
        assert_eq!(report["loop"]["differing_runs"], 0, "{report}");
    }
}

#[test]
fn ranges_by_annotation() {
    let place = Place::new();
    let include = nvtx_include();
    run(&mut place.recorded(client_with("ranges.c", &["-I", include.to_str().expect("a path"), "-ldl"]))).expect(0);
    let trace = place.trace();
    let launches = calls_named(&trace, "cuLaunchKernel");
    for (name, nth) in [("step", 0), ("step#1", 0), ("step#3", 2), (":step#2", 1)] {
        let found = looped(&place, &["--loop", "2", "--nvtx", name]);
        let from = launches[nth].number;
        assert_eq!((&found["range"], &found["calls"]), (&serde_json::json!([from, from + 2]), &2.into()), "{name}");
    }
    for (name, why) in [
        ("stepp", "no NVTX range has this name; the trace has launch, nothing, step, whole@other"),
        ("step#4", "the trace has 3 ranges of this name only"),
        ("step@other", "no NVTX range has this name"),
        ("nothing", "the range has no calls"),
    ] {
        let told = replayed(&place, &["--loop", "2", "--nvtx", name]).expect(2).stderr;
        assert!(told.contains(why), "{told}");
    }
}

/// More times than anybody waits for: neither none at all nor a panic.
#[test]
fn as_often_as_can_be_said() {
    let place = recorded("vector_add.c");
    for options in [["--loop", "18446744073709551615"], ["--loop=1", "--warmup=18446744073709551615"]] {
        let replay = begin(place.cutrace(["replay", "--driver", "sim"]).args(options));
        until("it repeats", || computed(replay.pid()) > std::time::Duration::from_secs(1));
        replay.send(libc::SIGINT);
        let ran = replay.end().expect(128 + libc::SIGINT);
        assert!(ran.stderr.starts_with("cutrace: interrupted by SIGINT "), "{}", ran.stderr);
    }
}

/// From the first launch to the last wait, where no range is asked for.
#[test]
fn other_ranges_are_proposed_for_one_that_cannot_be_repeated() {
    let told = |place: &Place, range: &[&str]| {
        let ran = replayed(place, &[&["--loop", "2"], range].concat()).expect(1).stderr;
        assert!(ran.starts_with("cutrace: cannot repeat the range: call "), "{ran}");
        ran
    };
    let place = Place::new();
    let include = nvtx_include();
    let options = ["-I", include.to_str().expect("a path"), "-ldl"];
    run(place.recorded(client_with("ranges.c", &options)).arg("streams")).expect(0);
    let why = told(&place, &[]);
    let names = "; repeat a part with --nvtx NAME: launch, nothing, step, whole@other\n";
    assert!(why.ends_with(names), "{why}");
    assert!(!told(&place, &["--nvtx", "whole@other"]).contains("repeat a part"));
    looped(&place, &["--loop", "2", "--nvtx", "step"]);
    let place = recorded("callbacks.c");
    let why = told(&place, &[]);
    assert!(why.ends_with("; repeat a part with --scope A..B\n"), "{why}");
}

#[test]
fn what_cannot_be_repeated_is_named() {
    let place = recorded("vector_add.c");
    let trace = place.trace();
    let told = |options: &[&str], code| replayed(&place, &[&["--loop", "2"], options].concat()).expect(code).stderr;
    let all = format!("0..{}", trace.len());
    let why = told(&["--scope", &all], 1);
    let first = "cutrace: cannot repeat the range: call 4 cuModuleLoadData: it creates an object (module)";
    assert!(why.starts_with(first), "{why}");
    assert!(told(&["--scope", "5..9999"], 2).contains("the trace has calls 0 to "));
    for wrong in [&["--scope", "9..5"][..], &["--scope", "x"], &["--profile"], &["--sync-launches"], &["--until", "3"]]
    {
        told(wrong, 2);
    }
    assert!(replayed(&place, &["--warmup", "2"]).expect(2).stderr.contains("--loop"));
    let place = recorded("callbacks.c");
    let why =
        replayed(&place, &["--loop", "2", "--scope", &scope(&place, "cuLaunchHostFunc", "cuLaunchHostFunc")]).expect(1);
    assert!(why.stderr.contains("it runs a callback of the program"), "{}", why.stderr);
    // A node of a graph.
    let why = replayed(&place, &["--loop", "2", "--scope", &scope(&place, "cuGraphLaunch", "cuGraphLaunch")]).expect(1);
    let (launch, told) = (calls_named(&place.trace(), "cuGraphLaunch")[0].number, &why.stderr);
    assert!(told.contains(&format!("call {launch} cuGraphLaunch: its graph runs a callback of the program")), "{told}");
    assert!(told.contains("cuGraphAddHostNode)"), "{told}");
}

/// A kernel in a graph runs when that is launched.
#[test]
fn launches_of_graphs_are_marked_for_kernels_in_them() {
    let (place, seen) = (recorded("graphs.c"), Place::new());
    let mut command = seen.recorded(artifact("cutrace"));
    command.args(["replay", "--driver", "sim", "--only-kernel", "add_two"]).arg(place.join("trace.bin"));
    run(&mut command).expect(0);
    let trace = seen.trace();
    let names = names(&trace);
    let marked = names.windows(2).filter(|pair| pair[0] == "cuProfilerStart").map(|pair| pair[1]);
    let marked: Vec<&str> = marked.collect();
    assert!(marked.len() > 1 && marked.iter().all(|name| *name == "cuGraphLaunch"), "{names:?}");
}

/// The replay itself is recorded: what another tool would see of it.
#[test]
fn launches_are_marked_for_other_tools() {
    let place = recorded("wasteful.c");
    let marked = |options: &[&str], marks: &[usize]| {
        let seen = Place::new();
        let mut command = seen.recorded(artifact("cutrace"));
        command.args(["replay", "--driver", "sim", "--only-kernel"]).args(options).arg(place.join("trace.bin"));
        run(&mut command).expect(0);
        let trace = seen.trace();
        let names = names(&trace);
        let launches: Vec<usize> = (0..names.len()).filter(|at| names[*at] == "cuLaunchKernel").collect();
        assert_eq!(launches.len(), 4);
        let of = |at: usize| names[at - 1] == "cuProfilerStart" && names[at + 1..].contains(&"cuProfilerStop");
        let found: Vec<usize> = (0..4).filter(|nth| of(launches[*nth])).collect();
        assert_eq!(found, marks, "{names:?}");
        assert_eq!(names.iter().filter(|name| **name == "cuProfilerStop").count(), marks.len());
        for nth in marks {
            // It is done when the mark is taken away.
            let after = names[launches[*nth] + 1..].iter().take_while(|name| **name != "cuProfilerStop");
            let after: Vec<_> = after.collect();
            assert!(after.contains(&&"cuStreamSynchronize") && !after.contains(&&"cuLaunchKernel"), "{after:?}");
        }
    };
    marked(&["vector_add"], &[0, 1, 2, 3]);
    marked(&["vector_add#3"], &[2]);
    let told = replayed(&place, &["--only-kernel", "vector_ad"]).expect(2).stderr;
    assert!(told.contains("no such kernel is launched; nearest: vector_add"), "{told}");
    let told = replayed(&place, &["--only-kernel", "vector_add#9"]).expect(2).stderr;
    assert!(told.contains("it is launched, captured or added as a node 4 times only"), "{told}");
}

/// What is under way at either end of the range would be its own, or be lost.
#[test]
fn a_range_that_begins_or_ends_while_a_stream_waits_is_refused() {
    let place = recorded("stream_value_released.c");
    let trace = place.trace();
    let [wait, launch] = ["cuStreamWaitValue32_v2", "cuLaunchKernel"].map(|name| calls_named(&trace, name)[0].number);
    let second = calls_named(&trace, "cuStreamWaitValue32_v2")[1].number;
    for (from, to, at) in [(launch, second, "begins"), (wait, launch + 1, "ends")] {
        let told = replayed(&place, &["--loop", "2", "--scope", &format!("{from}..{to}")]).expect(1).stderr;
        let why = format!("cannot repeat the range: when it {at}, stream#1 has unfinished work: call {wait} ");
        assert!(told.contains(&why), "{told}");
    }
    looped(&place, &["--loop", "2", "--scope", &format!("{wait}..{second}")]);
}

/// One thread makes the calls of all: the first waits for what only a later one lets go.
#[test]
fn a_loop_that_comes_no_further_is_given_up() {
    let place = recorded("stream_released_by_thread.c");
    let range = scope(&place, "cuLaunchKernel", "cuMemcpyDtoH_v2");
    let ran = replayed(&place, &["--loop", "2", "--scope", &range, "--timeout", "1"]).expect(1);
    let wait = calls_named(&place.trace(), "cuStreamSynchronize")[0].number;
    let told = format!("no call has returned for 1 s; waiting for call {wait} cuStreamSynchronize: stopped");
    assert!(ran.stderr.contains(&told), "{}", ran.stderr);
}
