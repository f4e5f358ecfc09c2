//! `record --gpu-times`: device times of the recorded run itself.

use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use tests::*;
use trace::Trace;
use trace::file::record::timed::{RECORDED, UNKNOWN_OCCUPANCY};

const NONE: &str = "cutrace: no device times are recorded: ";
const NO_MORE: &str = "cutrace: no more device times are recorded: ";

fn record(place: &Place, program: impl AsRef<Path>) -> Command {
    let mut command = place.cutrace(["record", "--gpu-times", "--driver", "sim", "--"]);
    command.arg(program.as_ref());
    command
}

/// Of each call that gave a device work: kind and bytes of each piece, sorted.
fn by_call(trace: &Trace) -> BTreeMap<u64, Vec<(u8, u64)>> {
    let mut calls: BTreeMap<u64, Vec<(u8, u64)>> = BTreeMap::new();
    for work in trace.timed() {
        calls.entry(work.call.expect("a call")).or_default().push((work.about.what, work.about.bytes));
    }
    calls.values_mut().for_each(|works| works.sort_unstable());
    calls
}

fn info(place: &Place) -> String {
    run(&mut place.cutrace(["info"])).expect(0).stdout
}

/// A libcupti that is a file of its own.
fn libcupti() -> PathBuf {
    client("libcupti.c")
}

#[test]
fn every_work_has_its_times() {
    for app in ["vector_add.c", "graphs.c", "streams_events.c", "two_contexts.c", "every_copy.c", "mapped_threads.c"] {
        let place = Place::new();
        let bare = run(&mut place.bare(client(app)));
        let ran = run(&mut record(&place, client(app)));
        place.same(&bare, &ran);
        assert_eq!(ran.said().len(), 1, "{}", ran.stderr);
        let trace = place.trace();
        run(&mut place.cutrace(["replay", "--driver", "sim", "--profile", "--times", "cupti", "-o", "timed"]));
        let replayed = sound(place.join("timed"));
        assert!(trace.timed_works() > 0);
        assert_eq!(by_call(&trace), by_call(&replayed), "{app}");
        let profile = trace.profile.as_ref().expect("a profile");
        assert_eq!((profile.source, profile.works, &profile.untimed[..]), (RECORDED, trace.timed_works(), &[][..]));
        assert_eq!(profile.why, "");
        for work in trace.timed() {
            let call = trace.call(work.call.expect("a call")).expect("in the trace");
            assert_eq!(work.about.source, RECORDED);
            assert_eq!(work.about.occupancy, UNKNOWN_OCCUPANCY);
            assert_eq!(work.about.submitted, trace.nanoseconds(call.begin));
            assert_eq!(Some(work.about.returned), call.end.map(|end| trace.nanoseconds(end)));
            assert!(work.about.start < work.about.end, "{app}: {work:?}");
        }
        // What was measured while recording is gone, and everything else as it was, its times included.
        let dumped = |file: &str| -> Vec<String> {
            let dumped = run(&mut place.cutrace(["dump", file])).expect(0).stdout;
            dumped.lines().filter(|line| !line.contains(" device ")).map(String::from).collect()
        };
        assert_eq!(dumped("trace.bin"), dumped("timed"), "{app}");
        assert!(replayed.timed().all(|work| work.about.source != RECORDED));
    }
}

/// One clock: work begins within its call or after it, and a wait returns when the work is done.
#[test]
fn work_lies_where_its_calls_are() {
    // By as much as clocks may be off on a busy machine.
    const OFF: i64 = 50_000;
    let place = Place::new();
    run(&mut record(&place, client("vector_add.c"))).expect(0);
    let trace = place.trace();
    let ns = |stamp: u64| trace.nanoseconds(stamp);
    for work in trace.timed() {
        let call = trace.call(work.call.expect("a call")).expect("in the trace");
        assert!(work.about.start + OFF > ns(call.begin), "{work:?}");
        let waits = ["cuCtxSynchronize", "cuMemcpyDtoH_v2"];
        let wait = trace.calls().find(|wait| wait.number >= call.number && waits.contains(&wait.name()));
        let done = wait.and_then(|wait| wait.end).expect("a wait");
        assert!(work.about.end < ns(done) + OFF, "{work:?}");
    }
    // They are shown there, too.
    let dumped = run(&mut place.cutrace(["dump"])).expect(0).stdout;
    let kernel = trace.timed().find(|work| work.is_kernel()).expect("a kernel").about.start.max(0);
    let at = format!("{}.{:09} device vector_add ", kernel / 1_000_000_000, kernel % 1_000_000_000);
    assert!(dumped.contains(&at), "{at} is not in\n{dumped}");
}

#[test]
fn everything_that_shows_times_shows_them() {
    let place = Place::new();
    run(&mut record(&place, client("vector_add.c"))).expect(0);
    let told = info(&place);
    assert!(
        told.contains("device times      4 kernels, copies and fills of the recording, by CUPTI of CUDA 13.0\n"),
        "{told}"
    );
    assert!(told.contains("on device 0 cutrace simulated device, driver "), "{told}");
    let json: Value =
        serde_json::from_str(&run(&mut place.cutrace(["info", "--json"])).expect(0).stdout).expect("JSON");
    assert_eq!(json["device_times"]["run"], "the recording");
    assert_eq!(json["no_device_times"], Value::Null);
    let report = run(&mut place.cutrace(["report", "-r", "cuda_gpu_kern_sum"])).expect(0).stdout;
    assert!(report.contains("vector_add") && report.contains("(times of the recording, by CUPTI)"), "{report}");
    let page = run(&mut place.cutrace(["report"])).expect(0).stdout;
    assert!(page.contains("Device time\n"), "{page}");
    assert!(!page.contains("replay in "), "{page}");
    run(&mut place.cutrace(["export", "--to", "perfetto", "-o", "t.pftrace"])).expect(0);
    let exported = std::fs::read(place.join("t.pftrace")).expect("exported");
    let named = b"device 0 cutrace simulated device (recorded times, by CUPTI of CUDA 13.0)";
    assert!(exported.windows(named.len()).any(|bytes| bytes == named));
    let view = run(&mut place.cutrace(["view", "--once", "--size", "112x24", "trace.bin"])).expect(0).stdout;
    assert!(view.contains("recorded device times") && !view.contains("in the replay"), "{view}");
}

/// What CUPTI asks the driver is not the program's.
#[test]
fn a_library_of_its_own() {
    let place = Place::new();
    run(&mut place.recorded(client("vector_add.c"))).expect(0);
    run(record(&place, client("vector_add.c")).env("CUTRACE_CUPTI", libcupti())).expect(0);
    let [plain, timed] = &place.traces()[..] else { panic!("two traces") };
    assert_eq!(names(plain), names(timed));
    assert_eq!(timed.timed_works(), 4);
    assert!(timed.losses.is_empty(), "{:?}", timed.losses);
}

/// Which can record all of the driver's calls, or none.
#[test]
fn an_older_library() {
    let place = Place::new();
    run(record(&place, client("graphs.c")).env("CUTRACE_SIM_CUPTI_VERSION", "18")).expect(0);
    let trace = place.trace();
    assert_eq!(trace.profile.as_ref().map(|profile| (profile.version, profile.works)), Some((18, 13)));
}

#[test]
fn without_libcupti_it_is_said_once() {
    let place = Place::new();
    for (variable, why) in
        [("", "there is no libcupti.so.12 or .13 in"), ("/no/such/libcupti.so.13", "/no/such/libcupti.so.13")]
    {
        let mut bare = place.preloaded(client("vector_add.c"));
        let ran = run(bare.env("CUTRACE_GPU_TIMES", "1").env("CUTRACE_CUPTI", variable)).expect(0);
        assert_eq!(ran.stdout, "c[999] = 2997.5\n");
        let said = ran.said();
        assert!(said.len() == 1 && said[0].starts_with(NONE) && said[0].contains(why), "{said:?}");
        let trace = place.trace();
        assert!(!trace.has_device_times() && trace.no_device_times.as_ref().is_some_and(|none| none.contains(why)));
        let told = info(&place);
        assert!(told.contains("device times      none: ") && told.contains(why), "{told}");
        let refused = run(&mut place.cutrace(["report", "-r", "cuda_gpu_kern_sum"])).expect(2).stderr;
        assert!(refused.contains("needs device times, and this trace has none"), "{refused}");
        std::fs::remove_file(place.join("trace.bin")).expect("the trace");
    }
    let mut odd = record(&place, client("vector_add.c"));
    let ran = run(odd.env("CUTRACE_SIM_CUPTI_VERSION", "140000")).expect(0);
    assert!(ran.said()[0].contains("is CUPTI version 140000; expected version"), "{}", ran.stderr);
}

#[test]
fn beside_another_tool_none_are_taken() {
    let place = Place::new();
    let ran = run(record(&place, client("vector_add.c")).env("CUDA_INJECTION64_PATH", "/opt/tool.so")).expect(0);
    assert_eq!(ran.said()[0], format!("{NONE}CUDA_INJECTION64_PATH is /opt/tool.so: another tool uses CUPTI"));
    assert!(!place.trace().has_device_times());
}

/// The program's own profiler works as it does without us, and has none of our records.
#[test]
fn a_program_with_its_own_cupti_has_it_for_itself() {
    let library = libcupti();
    let directory = |library: &Path| format!("-Wl,-rpath,{}", library.parent().expect("a directory").display());
    let cupti = [library.to_str().expect("a path"), &directory(&library)];
    let linked = client_with("own_cupti.c", &["-DLINKED", cupti[0], cupti[1]]);
    let tool = client("libtools.c");
    let tool = [tool.to_str().expect("a path"), &directory(&tool)];
    let behind_a_tool = client_with("own_cupti.c", &["-DLINKED", tool[0], tool[1], cupti[0], cupti[1]]);
    for program in [client("own_cupti.c"), linked, behind_a_tool] {
        for (when, begins, works) in [("first", NONE, 0), ("later", NO_MORE, 4)] {
            let place = Place::new();
            let bare = run(place.bare(&program).arg(when).env("CUPTI", &library)).expect(0);
            assert!(bare.stdout.ends_with(" kernels, 0 others\n"), "{}", bare.stdout);
            // Without times asked for, nothing is said of it.
            let plain = run(place.recorded(&program).arg(when).env("CUPTI", &library)).expect(0);
            assert_eq!((&plain.stdout, plain.said().len()), (&bare.stdout, 1), "{}", plain.stderr);
            std::fs::remove_file(place.join("trace.bin")).expect("the trace");
            let ran = run(record(&place, &program).arg(when).env("CUPTI", &library)).expect(0);
            assert_eq!(ran.stdout, bare.stdout, "{}", ran.stderr);
            let why = "the program uses CUPTI itself (cuptiSubscribe)";
            assert_eq!(ran.said()[0], format!("{begins}{why}"));
            assert_eq!(ran.said().len(), 2, "{}", ran.stderr);
            let trace = place.trace();
            assert_eq!(trace.timed_works(), works, "{when}");
            assert!(info(&place).contains(why), "{}", info(&place));
        }
    }
}

/// Who comes while the recorder begins waits until it has, and has stopped.
#[test]
fn a_program_may_begin_while_the_recorder_does() {
    let (place, library) = (Place::new(), libcupti());
    let program = client("own_cupti.c");
    let slow = |mut command: Command| {
        command.arg("beside").env("CUPTI", &library).env("CUPTI_SLOW", "20000");
        run(command.env("CUTRACE_CUPTI", &library)).expect(0)
    };
    let bare = slow(place.bare(&program));
    let ran = slow(record(&place, &program));
    assert_eq!(ran.stdout, bare.stdout, "{}", ran.stderr);
    assert_eq!(ran.said().len(), 2, "{}", ran.stderr);
    assert!(ran.said()[0].ends_with("the program uses CUPTI itself (cuptiSubscribe)"), "{}", ran.stderr);
}

/// CUPTI is at work in the parent, and is not in the child.
#[test]
fn children_go_without() {
    for (app, children) in [("fork_after.c", 1), ("fork_before.c", 0), ("fork_in_call.c", 1)] {
        let place = Place::new();
        let program = client(app);
        let bare = run(&mut place.bare(&program));
        let ran = run(&mut record(&place, &program));
        place.same(&bare, &ran);
        let without = ran.said().iter().filter(|line| line.contains("this process was forked from one")).count();
        assert_eq!(without, children, "{app}: {}", ran.stderr);
        assert!(place.traces().len() > children, "{app}");
    }
}

#[test]
fn a_killed_process_keeps_its_times() {
    let place = Place::new();
    let running = begin(&mut record(&place, client("killed_later.c")));
    let has_times = |trace: Trace| trace.timed_works() == 10;
    until("the times are in the file", || Trace::open(place.join("trace.bin")).is_ok_and(has_times));
    std::fs::write(place.join("enough"), "").expect("our own directory");
    running.end().expect(128 + 9);
    let trace = place.trace();
    assert_eq!(trace.timed_works(), 10);
    assert_eq!(trace.profile.as_ref().map(|profile| profile.works), Some(10));
}

/// Calls that a range leaves out are not timed either.
#[test]
fn a_range_has_the_times_of_its_calls() {
    let place = Place::new();
    let mut command = place.cutrace(["record", "--gpu-times", "--calls", "2", "--driver", "sim", "--"]);
    run(command.arg(client("vector_add.c"))).expect(0);
    let trace = place.trace();
    assert!(!trace.left_out.is_empty());
    assert!(trace.timed_works() > 0 && trace.timed_works() < 4, "{}", trace.timed_works());
}
