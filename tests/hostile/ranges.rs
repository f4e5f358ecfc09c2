//! Capture ranges: `record --range`, `--delay`, `--duration`, `--calls`.

use serde_json::Value;
use std::path::PathBuf;
use tests::*;
use trace::read::call::Content;
use trace::{Call, Trace};

fn program() -> PathBuf {
    client_with("parts.c", &["-I", nvtx_include().to_str().expect("a plain path"), "-ldl"])
}

/// The trace of `record` with these options, and what was said.
#[track_caller]
fn recorded(place: &Place, options: &[&str], way: &[&str], code: i32) -> (Trace, Outcome) {
    let mut command = place.cutrace(["record", "--driver", "sim"]);
    let ran = run(command.args(options).arg("--").arg(program()).args(way)).expect(code);
    (place.trace(), ran)
}

#[track_caller]
fn info(place: &Place) -> Value {
    serde_json::from_str(&run(&mut place.cutrace(["info", "--json"])).expect(0).stdout).expect("JSON")
}

fn count(trace: &Trace, name: &str) -> usize {
    calls_named(trace, name).len()
}

/// What is recorded and what is left out are the whole.
#[track_caller]
fn is_two_steps(ranged: &Trace, way: &[&str], code: i32) {
    let place = Place::new();
    let (whole, _) = recorded(&place, &[], way, code);
    assert_eq!(ranged.len() as u64 + ranged.calls_left_out(), whole.len() as u64);
    let works = ["cuMemcpyHtoD_v2", "cuMemcpyDtoHAsync_v2", "cuGraphLaunch"];
    for name in whole.calls().map(|call| call.name().to_owned()) {
        let (found, all) = (count(ranged, &name), count(&whole, &name));
        match name.as_str() {
            "cuLaunchKernel" if all == 1 => assert_eq!(found, 1, "captured: part of a graph"),
            name if works.contains(&name) || name == "cuLaunchKernel" => assert_eq!(found * 3, all, "{name}"),
            // Where a copy of the range is still to be waited for.
            "cuStreamSynchronize" => assert_eq!((found, all), (2, 6)),
            "cuCtxGetCurrent" | "cuDeviceGet" => assert!(found < all, "{name}"),
            name => assert_eq!(found, all, "{name}"),
        }
    }
    let hashed = |call: &Call| call.images().any(|image| matches!(image.content, Content::Hash { late: false, .. }));
    assert!(calls_named(ranged, "cuMemcpyDtoHAsync_v2").iter().all(hashed), "what came back is in the trace");
}

#[test]
fn ranges_of_the_program() {
    for (range, way) in [
        ("profiler", "profiler"),
        ("nvtx:part", "push"),
        ("nvtx:part", "start"),
        ("nvtx:part@domain", "start"),
        ("nvtx:domain:part", "start"),
        ("signals", "signals"),
    ] {
        let place = Place::new();
        let (trace, ran) = recorded(&place, &["--range", range], &[way], 0);
        assert_eq!(ran.stdout, "260 0\n", "{way}");
        is_two_steps_or_default(&trace, way);
        let told = info(&place);
        assert_eq!((&told["verdict"], &told["left_out"]["calls"]), (&"partly".into(), &trace.calls_left_out().into()));
        assert!(told["left_out"]["works"].as_u64() >= Some(16), "{told}");
        let why =
            "the recorded range begins after earlier calls: the contents of device memory at its start are unknown";
        assert!(told["reasons"][0].as_str().is_some_and(|reason| reason.starts_with(why)), "{told}");
        let replayed = run(&mut place.cutrace(["replay", "--driver", "sim"])).expect(6).stdout;
        assert!(replayed.starts_with("unverified") && replayed.contains("2 copies to the host"), "{replayed}");
    }
}

/// What a range fills by itself is compared; where it needs anything from before, or may, it is not, and that
/// is said.
#[test]
fn a_range_that_needs_nothing_from_before() {
    let program =
        client_with("range_replayed_alone.c", &["-I", nvtx_include().to_str().expect("a plain path"), "-ldl"]);
    for (way, verdict, compared, of, code) in [
        ("own", "replayable", 1, 1, 0),
        ("kept", "replayable", 1, 1, 0),
        ("twice", "partly", 1, 2, 0),
        ("number", "partly", 0, 1, 6),
        ("unfilled", "partly", 0, 1, 6),
        ("unwaited", "partly", 0, 1, 6),
        ("variable", "partly", 0, 1, 6),
    ] {
        let place = Place::new();
        let mut record = place.cutrace(["record", "--driver", "sim", "--range", "nvtx:step", "--"]);
        run(record.arg(&program).arg(way)).expect(0);
        let told = info(&place);
        assert_eq!(told["verdict"], verdict, "{way}: {told}");
        assert_eq!(
            told["notes"][0].as_str().map(|note| note.starts_with("calls outside the recorded range")),
            Some(true)
        );
        let ran = run(&mut place.cutrace(["replay", "--driver", "sim", "--json"])).expect(code);
        let report: Value = serde_json::from_str(&ran.stdout).expect("JSON");
        assert_eq!(report["checked"]["copies"], compared, "{way}: {report}");
        assert_eq!(report["unchecked_copies"], of - compared, "{way}: {report}");
        // Which they are.
        let trace = place.trace();
        let named = |what: &str, function: &str| {
            let all = calls_named(&trace, function).into_iter().map(|call| call.number);
            let left: Vec<Value> = all.skip(compared).map(Value::from).collect();
            let named = report["not_compared"][what].as_array().expect("a list");
            assert!(named.iter().map(|call| call["call"].clone()).eq(left), "{way}: {what} {named:?}");
        };
        named("copies", "cuMemcpyDtoH_v2");
        named("launches", "cuLaunchKernel");
        let launch = calls_named(&trace, "cuLaunchKernel").last().expect("a launch").number;
        let text = run(&mut place.cutrace(["replay", "--driver", "sim"])).expect(code).stdout;
        assert_eq!(text.contains(&format!("\n               call {launch} next\n")), compared < of, "{way}: {text}");
    }
}

/// Without its range, a program that would be ended by the signals cannot be recorded whole.
#[track_caller]
fn is_two_steps_or_default(trace: &Trace, way: &str) {
    match way {
        "signals" => assert_eq!(count(trace, "cuLaunchKernel"), 2),
        way => is_two_steps(trace, &[way], 0),
    }
}

#[test]
fn the_program_keeps_its_signals() {
    let place = Place::new();
    let (trace, ran) = recorded(&place, &["--range", "signals"], &["handled"], 0);
    assert_eq!(ran.stdout, "260 1\n");
    assert!(ran.stderr.contains("the program handles SIGUSR1 itself"), "{}", ran.stderr);
    assert_eq!((count(&trace, "cuLaunchKernel"), trace.calls_left_out()), (6, 0));
}

/// What precedes the first call left out is known, so that it can be compared.
#[test]
fn so_many_calls() {
    let place = Place::new();
    // cuDeviceGet, and two steps of six calls; what is always recorded does not count.
    let (trace, _) = recorded(&place, &["--calls", "13"], &[], 0);
    assert_eq!((count(&trace, "cuLaunchKernel"), count(&trace, "cuStreamSynchronize")), (2, 2));
    assert_eq!(trace.calls_left_out(), 4 * 6);
    let told = info(&place);
    assert_eq!(told["verdict"], "replayable", "{told}");
    assert_eq!(told["notes"][0], "calls outside the recorded range (24)", "{told}");
    let text = run(&mut place.cutrace(["info"])).expect(0).stdout;
    assert!(text.contains("outside range     24 calls, 16 of them device work\n"), "{text}");
    assert!(text.contains("range        the first 13 calls\n"), "{text}");
    let text = run(&mut place.cutrace(["report"])).expect(0).stdout;
    assert!(text.contains("left out      24 calls outside the recorded range (the first 13 calls)\n"), "{text}");
    run(&mut place.cutrace(["replay", "--driver", "sim"])).expect(0);
}

#[test]
fn counts_outlive_a_program_that_is_killed() {
    let place = Place::new();
    let (trace, _) = recorded(&place, &["--range", "profiler"], &["profiler", "killed"], 128 + libc::SIGKILL);
    is_two_steps(&trace, &["profiler", "killed"], 128 + libc::SIGKILL);
}

#[test]
fn some_time() {
    let place = Place::new();
    let (trace, _) = recorded(&place, &["--delay", "0.7", "--duration", "0.6"], &["slow"], 0);
    let launches = count(&trace, "cuLaunchKernel");
    assert!((1..6).contains(&launches), "{launches}");
    // The gap after the range: it ended before the program did.
    let last = calls_named(&trace, "cuLaunchKernel").last().expect("a launch").begin;
    assert!(trace.left_out.iter().any(|left| left.begin > last), "{:?}", trace.left_out);
    assert!(trace.left_out.iter().any(|left| left.begin < last && left.works > 0), "{:?}", trace.left_out);
}

#[test]
fn no_delay_leaves_nothing_out() {
    let (trace, _) = recorded(&Place::new(), &["--delay", "0"], &[], 0);
    assert_eq!((count(&trace, "cuLaunchKernel"), trace.calls_left_out()), (6, 0));
}

#[test]
fn a_range_that_never_begins_is_said() {
    for (option, range, way, why) in [
        ("--range", "nvtx:part@domain", "push", "no NVTX range is part@domain; it has other, inner, part\n"),
        ("--range", "nvtx:step", "start", "no NVTX range is step; it has part@domain\n"),
        ("--range", "nvtx:step", "profiler", "no NVTX range is step; the program has none\n"),
        ("--range", "profiler", "push", "cuProfilerStart was not called\n"),
        ("--range", "signals", "push", "SIGUSR1 was not received\n"),
        ("--delay", "3600", "push", "no driver call was later than 3600 s after the first\n"),
    ] {
        let (trace, ran) = recorded(&Place::new(), &[option, range], &[way], 0);
        assert!(
            ran.stderr.ends_with(&format!("cutrace: no device work was recorded, as the range never began: {why}")),
            "{}",
            ran.stderr
        );
        assert_eq!(count(&trace, "cuGraphLaunch"), 0);
    }
}

#[test]
fn unknown_ranges_are_refused() {
    let place = Place::new();
    for options in [
        ["--range", "kernel"],
        ["--range", "nvtx:"],
        ["--delay", "soon"],
        ["--duration", "0"],
        ["--calls", "-1"],
        ["--calls", "0"],
    ] {
        let ran = run(place.cutrace(["record", "--driver", "sim"]).args(options).arg("--").arg(program())).expect(2);
        assert_eq!(ran.stdout, "");
    }
    let told = run(place.cutrace(["record", "--range", "kernel"]).arg("--").arg(program())).expect(2).stderr;
    assert!(told.contains("expected profiler, nvtx:NAME, nvtx:NAME@DOMAIN or signals"), "{told}");
    place.no_traces();
}
