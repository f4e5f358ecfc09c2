//! Threads: many, short-lived, ending, interrupted.

use tests::*;

#[test]
fn sixty_four_threads() {
    let place = Place::new();
    place.unchanged(client("many_threads.c"), &["64", "1", "5000"]).expect(0);
    let trace = place.trace();
    assert_eq!(trace.len(), 4 + 64 * 5000);
    assert_eq!(trace.threads.len(), 65);
    assert!(trace.threads[1..].iter().all(|thread| thread.calls == 5000));
    for call in trace.calls().filter(|call| call.thread > 0) {
        assert_eq!(call.name(), "cuCtxSetCurrent");
        assert!(call.succeeded());
    }
    assert_eq!(trace.losses, []);
}

#[test]
fn ten_thousand_short_threads() {
    let place = Place::new();
    place.unchanged(client("many_threads.c"), &["20", "500", "2"]).expect(0);
    let trace = place.trace();
    assert_eq!(trace.len(), 4 + 10_000 * 2);
    assert_eq!(trace.threads.len(), 10_001);
    assert!(trace.threads[1..].iter().all(|thread| thread.calls == 2));
    assert_eq!(trace.losses, []);
    // A page for each thread's few records, and little besides, whether or not the recorder thread keeps up.
    assert!(trace.bytes_on_disk() < 48 << 20, "{} bytes", trace.bytes_on_disk());
}

#[test]
fn destructors_of_a_thread_call_the_driver() {
    let place = Place::new();
    let ran = place.unchanged(client("thread_destructors.cpp"), &[""; 0]).expect(0);
    assert_eq!(ran.stdout, "3 rounds\n");
    let trace = place.trace();
    let expected = ["cuCtxSetCurrent", "cuCtxGetCurrent", "cuDeviceGetCount", "cuDeviceGetCount", "cuDeviceGetCount"];
    assert_eq!(thread_names(&trace, 1), expected);
    assert_eq!(trace.threads.len(), 2);
    assert!(trace.calls().all(|call| call.succeeded()));
}

#[test]
fn a_signal_handler_calls_the_driver() {
    let place = Place::new();
    let report = place.join("report");
    let ran = place.unchanged(client("signal_handler.c"), &[&report]).expect(0);
    let report = std::fs::read_to_string(report).expect("written by the program");
    let made: Vec<u64> = report.split_whitespace().map(|n| n.parse().expect("a number")).collect();
    let trace = place.trace();
    // A call that came in the middle of a record is counted instead, in the trace and on stderr.
    let lost: u64 = trace.losses.iter().map(|(_, count)| count).sum();
    let counted = |name| calls_named(&trace, name).iter().map(|call| call.count()).sum::<u64>();
    assert_eq!(counted("cuCtxSetCurrent"), made[0] + 1);
    assert_eq!(counted("cuCtxGetCurrent") + lost, made[1]);
    assert_eq!(ran.said().len(), usize::from(lost > 0), "{}", ran.stderr);
    assert!(trace.calls().all(|call| call.succeeded()));
}

#[test]
fn a_thread_with_little_stack() {
    let place = Place::new();
    place.unchanged(client("small_stack.c"), &[""; 0]).expect(0);
    assert_eq!(place.trace().len(), 7);
}

#[test]
fn signals_to_the_process_stay_the_programs() {
    let place = Place::new();
    let ran = place.unchanged(client("process_signals.c"), &[""; 0]).expect(0);
    assert_eq!(ran.stdout, "100 signals\n");
    assert_eq!(place.trace().len(), 5);
}
