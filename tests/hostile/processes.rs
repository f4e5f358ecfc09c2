//! How processes begin and end.

use std::path::Path;
use tests::*;
use trace::Trace;

const START: [&str; 4] = ["cuInit", "cuDeviceGet", "cuDevicePrimaryCtxRetain", "cuCtxSetCurrent"];

/// The trace of the process whose second call is of this function.
fn with_second<'a>(traces: &'a [Trace], name: &str) -> &'a Trace {
    traces.iter().find(|t| names(t).get(1) == Some(&name)).unwrap_or_else(|| panic!("no process called {name} second"))
}

#[test]
fn fork_before_the_first_call() {
    let place = Place::new();
    let ran = place.unchanged(client("hostile/fork_before.c"), &[""; 0]).expect(0);
    assert_eq!(ran.stderr, "");
    let traces = place.traces();
    assert_eq!(traces.len(), 2);
    let (parent, child) = (with_second(&traces, "cuDriverGetVersion"), with_second(&traces, "cuDeviceGetCount"));
    assert_eq!(names(parent), ["cuInit", "cuDriverGetVersion"]);
    assert_eq!(names(child), ["cuInit", "cuDeviceGetCount"]);
    assert_eq!(child.preamble.parent, parent.preamble.pid);
}

#[test]
fn fork_after_the_first_call() {
    let place = Place::new();
    let ran = place.unchanged(client("hostile/fork_after.c"), &[""; 0]).expect(0);
    assert_eq!(ran.stderr, "");
    let traces = place.traces();
    assert_eq!(traces.len(), 2);
    let (parent, child) = (&traces[0], &traces[1]);
    assert_eq!(names(parent), [&START[..], &["cuCtxSynchronize"]].concat());
    assert!(parent.calls().all(|call| call.succeeded()));
    assert_eq!(names(child), ["cuDeviceGetCount", "cuCtxGetCurrent"]);
    assert_eq!(child.calls().map(|call| call.result).collect::<Vec<_>>(), [Some(3), Some(3)]);
    assert_eq!(child.preamble.parent, parent.preamble.pid);
}

#[test]
fn a_child_by_raw_clone() {
    let place = Place::new();
    let ran = place.unchanged(client("hostile/raw_clone.c"), &[""; 0]).expect(0);
    assert_eq!(ran.stdout, "7\n");
    let traces = place.traces();
    assert_eq!(traces.len(), 2);
    assert_eq!(names(&traces[0]), [&START[..], &["cuCtxSynchronize"]].concat());
    assert_eq!(names(&traces[1]), ["cuDeviceGetCount"]);
}

fn started_again(way: &str, code: i32, last: &[&str]) {
    let place = Place::new();
    let ran = place.unchanged(client("hostile/exec_self.c"), &[way]).expect(code);
    assert_eq!(ran.stderr, "");
    let traces = place.traces();
    assert_eq!(traces.len(), 2);
    assert_eq!(names(&traces[0]), [&["cuInit", "cuDriverGetVersion"], last].concat());
    assert_eq!(names(&traces[1]), ["cuInit", "cuDeviceGetCount"]);
    assert_eq!(traces[0].preamble.pid == traces[1].preamble.pid, way == "exec");
}

#[test]
fn exec() {
    started_again("exec", 9, &[]);
}

#[test]
fn vfork_and_exec() {
    started_again("vfork", 0, &["cuDeviceGetCount"]);
}

#[test]
fn posix_spawn() {
    started_again("spawn", 0, &["cuDeviceGetCount"]);
}

/// Whatever ends a process, every call that returned is in the trace.
fn ended_by(way: &str, code: i32) {
    let place = Place::new();
    let ran = place.unchanged(client("hostile/ends.c"), &[way]).expect(code);
    assert_eq!(ran.stderr, "");
    let trace = place.trace();
    assert_eq!(names(&trace), [&START[..], &["cuMemAlloc_v2", "cuMemsetD8_v2"]].concat());
    assert!(trace.calls().all(|call| call.succeeded()));
}

#[test]
fn return_from_main() {
    ended_by("return", 13);
}

#[test]
fn underscore_exit() {
    ended_by("_exit", 11);
}

#[test]
fn quick_exit() {
    ended_by("quick_exit", 12);
}

#[test]
fn abort() {
    ended_by("abort", 128 + libc::SIGABRT);
}

#[test]
fn a_fault_of_the_program() {
    ended_by("fault", 128 + libc::SIGSEGV);
}

#[test]
fn sigkill() {
    ended_by("kill", 128 + libc::SIGKILL);
}

fn killed_in_call(place: &Place, command: fn(&Place, &Path) -> std::process::Command) -> Outcome {
    let program = client("hostile/killed_in_call.c");
    run(command(place, &program).env("CUTRACE_SIM_SLOW_US", "30000000")).expect(128 + libc::SIGKILL)
}

#[test]
fn sigkill_in_the_middle_of_a_call() {
    let place = Place::new();
    let bare = killed_in_call(&place, |place, program| place.bare(program));
    let recorded = killed_in_call(&place, |place, program| place.preloaded(program));
    place.same(&bare, &recorded);
    let trace = place.trace();
    assert_eq!(names(&trace), [&START[..], &["cuCtxSynchronize"]].concat());
    let last = trace.calls().last().expect("a call");
    assert_eq!((last.end, last.result), (None, None));
    assert!(trace.calls().take(START.len()).all(|call| call.succeeded()));
}

#[test]
fn calls_after_main() {
    let place = Place::new();
    let ran = place.unchanged(client("hostile/call_after_main.c"), &[""; 0]).expect(0);
    assert_eq!(ran.stderr, "");
    assert_eq!(names(&place.trace()), ["cuInit", "cuDeviceGetCount", "cuDriverGetVersion"]);
}
