//! Exits from a driver call other than its return, through a callback that the driver calls.

use tests::*;
use trace::Trace;

const OCCUPANCY: &str = "cuOccupancyMaxPotentialBlockSize";
const START: [&str; 6] =
    ["cuInit", "cuDeviceGet", "cuDevicePrimaryCtxRetain", "cuCtxSetCurrent", "cuModuleLoadData", "cuModuleGetFunction"];
const AFTER: [&str; 2] = ["cuCtxGetCurrent", "cuCtxGetDevice"];

/// Calls that were left by unwinding have no result; all others do, and none counts as made inside another.
fn check(trace: &Trace) {
    for call in trace.calls() {
        assert_eq!(call.result, (call.name() != OCCUPANCY).then_some(0), "{}", call.name());
        assert!(!call.inner, "{}", call.name());
    }
    assert_eq!(trace.losses, []);
}

#[test]
fn cpp_exception() {
    let place = Place::new();
    let ran = place.unchanged(client("exception.cpp"), &[""; 0]).expect(0);
    assert_eq!(ran.stdout, "caught 42\n");
    let trace = place.trace();
    assert_eq!(names(&trace), [&START[..], &[OCCUPANCY], &AFTER].concat());
    check(&trace);
}

#[test]
fn longjmp() {
    let place = Place::new();
    let ran = place.unchanged(client("longjmp.c"), &[""; 0]).expect(0);
    assert_eq!(ran.stdout, "3 rounds\n");
    let trace = place.trace();
    let round = [&[OCCUPANCY], &AFTER[..]].concat();
    assert_eq!(names(&trace), [&START[..], &round, &round, &round].concat());
    check(&trace);
}

fn thread_ends(how: &str, said: &str) {
    let place = Place::new();
    let ran = place.unchanged(client("thread_exit.c"), &[how]).expect(0);
    assert_eq!(ran.stdout, said);
    let trace = place.trace();
    // The main thread has asked for its context before, too: that is counted.
    assert_eq!(thread_names(&trace, 0), [&START[..], &AFTER].concat());
    assert_eq!(thread_names(&trace, 1), [&["cuCtxSetCurrent", OCCUPANCY], &AFTER[..]].concat());
    assert!(trace.calls().all(|call| call.result == (call.name() != OCCUPANCY).then_some(0)));
}

#[test]
fn pthread_exit() {
    thread_ends("exit", "exited\n");
}

#[test]
fn pthread_cancel() {
    thread_ends("cancel", "cancelled\n");
}

#[test]
fn calls_inside_a_call_are_marked() {
    let place = Place::new();
    place.unchanged(client("calls_in_callback.c"), &[""; 0]).expect(0);
    let trace = place.trace();
    let inside = ["cuCtxGetDevice", "cuCtxGetCurrent"];
    assert_eq!(names(&trace), [&START[..], &[OCCUPANCY], &inside, &AFTER].concat());
    let marked: Vec<bool> = trace.calls().map(|call| call.inner).collect();
    assert_eq!(marked.iter().filter(|inner| **inner).count(), 2);
    assert!(marked[7] && marked[8]);
    assert!(trace.calls().all(|call| call.succeeded()));
}
