//! `replay --profile`: a trace that also has device times.

use std::collections::BTreeMap;
use std::path::Path;
use tests::*;
use trace::Trace;
use trace::file::record::timed::{COPY, CUPTI, EVENTS, FILL, GRAPH, KERNEL, UNKNOWN};
use trace::read::device_times::Work;

const SOURCES: [(&str, u8); 2] = [("cupti", CUPTI), ("events", EVENTS)];

fn recorded(app: &str) -> Place {
    let place = Place::new();
    run(&mut place.recorded(client(app))).expect(0);
    place
}

fn profile(place: &Place, options: &[&str]) -> Outcome {
    run(place.cutrace(["replay", "--driver", "sim", "--profile"]).args(options))
}

/// The trace with the times of this source.
#[track_caller]
fn timed(place: &Place, source: &str) -> Trace {
    let file = format!("{source}.timed");
    let ran = profile(place, &["--times", source, "-o", &file]).expect(0);
    assert!(is_verified(&ran.stdout), "{}", ran.stdout);
    assert_eq!(ran.stderr, "");
    sound(place.join(&file))
}

/// Everything of a trace but what was measured.
fn calls(place: &Place, file: &Path) -> Vec<String> {
    let dumped = run(place.cutrace(["dump"]).arg(file)).expect(0).stdout;
    dumped.lines().filter(|line| !line.contains(" device ")).map(String::from).collect()
}

fn kernels(works: &[Work]) -> Vec<String> {
    let kernels = works.iter().filter(|work| work.is_kernel());
    kernels.map(|work| work.name.expect("a kernel has a name").to_owned()).collect()
}

#[test]
fn every_launch_copy_and_fill_has_its_times() {
    let place = recorded("vector_add.c");
    for (source, number) in SOURCES {
        let trace = timed(&place, source);
        let works: Vec<Work> = trace.timed().collect();
        assert!(works.iter().all(|work| work.about.source == number));
        let names = |what: u8| -> Vec<&str> {
            let those = works.iter().filter(|work| work.about.what == what);
            those.map(|work| trace.call(work.call.expect("a call")).expect("in the trace").name()).collect()
        };
        assert_eq!(names(KERNEL), ["cuLaunchKernel"]);
        assert_eq!(names(COPY), ["cuMemcpyHtoD_v2", "cuMemcpyHtoD_v2", "cuMemcpyDtoH_v2"]);
        let kernel = works.iter().find(|work| work.is_kernel()).expect("a kernel");
        assert_eq!(kernel.name, Some("vector_add"));
        assert_eq!((kernel.about.grid, kernel.about.block), ([4, 1, 1], [256, 1, 1]));
        assert_eq!((kernel.about.static_shared, kernel.about.dynamic_shared), (0, 0));
        assert!(kernel.about.registers != UNKNOWN && kernel.about.registers > 0);
        assert_eq!(kernel.about.occupancy(), Some(100.0));
        let copies: Vec<(u64, String)> = works
            .iter()
            .filter(|work| work.about.what == COPY)
            .map(|work| (work.about.bytes, work.about.operation()))
            .collect();
        let (to, from) = ("[CUDA memcpy Host-to-Device]", "[CUDA memcpy Device-to-Host]");
        assert_eq!(copies, [(4000, to.into()), (4000, to.into()), (4000, from.into())]);
        // One after the other on one stream, and none before its call; the clocks were compared as well as
        // that.
        let off = trace.profile.as_ref().map_or(0, |profile| profile.uncertainty) as i64;
        assert!(works.windows(2).all(|pair| pair[0].about.end <= pair[1].about.start + off), "{off}: {works:?}");
        assert!(works.iter().all(|work| work.about.start < work.about.end), "{works:?}");
        assert!(works.iter().all(|work| work.about.submitted <= work.about.start + off), "{off}: {works:?}");
        // The first call that gave the device something begins when it did.
        let first = trace.call(works[0].call.expect("a call")).expect("in the trace");
        assert_eq!(works[0].about.submitted, trace.nanoseconds(first.begin));
        let profile = trace.profile.as_ref().expect("a profile");
        assert_eq!((profile.source, profile.works, &profile.untimed[..]), (number, 4, &[][..]));
        assert_eq!(profile.devices, [(0, "cutrace simulated device".to_owned())]);
    }
}

#[test]
fn everything_else_stays_as_it_was() {
    for app in ["streams_events.c", "mapped_threads.c", "two_contexts.c"] {
        let place = recorded(app);
        let was = calls(&place, &place.join("trace.bin"));
        for (source, _) in SOURCES {
            let trace = timed(&place, source);
            assert!(trace.has_device_times() && trace.footer.is_some());
            assert_eq!(calls(&place, &trace.path), was, "{app}");
        }
        // Measured once more, what was measured before is gone.
        let again = profile(&place, &["--times", "events", "-o", "again.timed", "cupti.timed"]).expect(0);
        assert!(is_verified(&again.stdout), "{}", again.stdout);
        let (again, events) = (sound(place.join("again.timed")), sound(place.join("events.timed")));
        assert_eq!(again.timed_works(), events.timed_works(), "{app}");
        assert!(again.timed().all(|work| work.about.source == EVENTS));
        assert_eq!(calls(&place, &again.path), was, "{app}");
    }
}

/// A trace that nobody closed is closed on the way.
#[test]
fn a_trace_without_a_footer() {
    let place = Place::new();
    run(&mut place.preloaded(client("vector_add.c"))).expect(0);
    assert!(place.trace().footer.is_none());
    let trace = timed(&place, "cupti");
    assert_eq!(trace.footer.as_ref().map(|footer| footer.verdict.as_str()), Some("replayable"));
    assert_eq!(calls(&place, &trace.path), calls(&place, &place.join("trace.bin")));
}

#[test]
fn nodes_of_graphs_one_by_one_or_the_graph_as_a_whole() {
    let place = recorded("graphs.c");
    let count = |trace: &Trace| {
        let mut counts: BTreeMap<u8, usize> = BTreeMap::new();
        trace.timed().for_each(|work| *counts.entry(work.about.what).or_default() += 1);
        counts
    };
    let nodes = timed(&place, "cupti");
    let launches = calls_named(&nodes, "cuGraphLaunch").len();
    assert_eq!(launches, 4);
    let works: Vec<Work> = nodes.timed().filter(|work| work.about.node != 0).collect();
    assert_eq!(kernels(&works), ["add_two", "twice", "add_two", "twice", "add_two", "add_two", "add_two", "twice"]);
    assert!(works.iter().all(|work| nodes.call(work.call.expect("a call")).expect("there").name() == "cuGraphLaunch"));
    let whole = timed(&place, "events");
    assert_eq!(count(&whole).get(&GRAPH), Some(&launches));
    // What was captured was not done then.
    assert_eq!(count(&whole).get(&KERNEL), None);
    assert_eq!(count(&whole).get(&COPY), count(&nodes).get(&COPY).map(|copies| copies - 4).as_ref());
}

/// Work of several threads, streams and contexts, fills, copies of every form, captures under way elsewhere.
#[test]
fn both_sources_time_the_same_works() {
    let apps = ["two_contexts.c", "streams_events.c", "pitched_copies.c", "batch_copies.c", "launch_beside_capture.c"];
    for app in apps.into_iter().chain(["every_copy.c", "kinds_of_memory.c", "unified_copies.c", "globals.c"]) {
        let place = recorded(app);
        let of = |source: &str| {
            let ran = profile(&place, &["--times", source, "-o", source]);
            assert!(ran.code() == 0 || ran.code() == 6, "{app}: {ran:?}");
            sound(place.join(source))
        };
        let (one, other) = (of("cupti"), of("events"));
        let by_call = |trace: &Trace| -> BTreeMap<u64, (u8, u64)> {
            let mut calls: BTreeMap<u64, (u8, u64)> = BTreeMap::new();
            for work in trace.timed() {
                let entry = calls.entry(work.call.expect("a call")).or_insert((work.about.what, 0));
                entry.1 += if work.about.what == COPY || work.about.what == FILL { work.about.bytes } else { 0 };
            }
            calls
        };
        let (one, other) = (by_call(&one), by_call(&other));
        assert!(!one.is_empty(), "{app}");
        assert_eq!(one, other, "{app}");
    }
}

#[test]
fn what_cannot_be_used_is_told() {
    let place = recorded("vector_add.c");
    let unknown = |options: &[&str]| {
        let mut command = place.cutrace(["replay", "--driver", "sim", "--profile", "--force", "-o", "t"]);
        run(command.args(options).env("CUTRACE_SIM_CUPTI_VERSION", "140000"))
    };
    let told = unknown(&[]).expect(0);
    let why = "libcuda_sim.so is CUPTI version 140000; expected version 18 to 28 (CUDA 12)";
    assert!(told.stderr.contains("warning: device times are measured by events: "), "{}", told.stderr);
    assert!(told.stderr.contains(why), "{}", told.stderr);
    let trace = sound(place.join("t"));
    assert!(trace.profile.as_ref().is_some_and(|profile| profile.source == EVENTS && profile.why.contains(why)));
    let told = unknown(&["--times", "cupti"]).expect(1);
    assert!(told.said()[0].contains("cannot use CUPTI: ") && told.said()[0].contains(why), "{}", told.stderr);
    // Nothing is overwritten, least of all what is being read.
    let told = profile(&place, &["-o", "t"]).expect(1).stderr;
    assert!(told.contains("t exists already; --force replaces it"), "{told}");
    let told = profile(&place, &["-o", "trace.bin", "--force"]).expect(2).stderr;
    assert!(told.contains("-o trace.bin: this is the trace itself"), "{told}");
    let mut wrong = place.cutrace(["replay", "--driver", "sim", "--profile", "-o", "x"]);
    let told = run(wrong.env("CUTRACE_CUPTI", "/no/such/file")).expect(0).stderr;
    assert!(told.contains("device times are measured by events: CUTRACE_CUPTI: /no/such/file is not a file"), "{told}");
    for options in [&["--sync-launches"][..], &["--bisect"], &["--dry-run"]] {
        profile(&place, options).expect(2);
    }
    let left: Vec<_> = std::fs::read_dir(place.path()).expect("ours").map(|entry| entry.expect("one").path()).collect();
    assert!(!left.iter().any(|path| path.extension().is_some_and(|ending| ending == "partial")), "{left:?}");
}
