//! Stream waits that only the program's CPU could end.

use serde_json::Value;
use tests::*;

#[test]
fn a_wait_for_the_cpu_is_left_out() {
    let place = Place::new();
    run(&mut place.recorded(client("stream_waits.c"))).expect(0);
    let info = run(&mut place.cutrace(["info", "--json"])).expect(0);
    let info: Value = serde_json::from_str(&info.stdout).expect("JSON");
    assert_eq!(info["verdict"], "partly");
    let reasons: Vec<&str> = info["reasons"].as_array().expect("a list").iter().filter_map(Value::as_str).collect();
    let waits = |function: &str| format!("{function}: waits for a value that the CPU wrote (1 call: ");
    for function in ["cuStreamWaitValue32_v2", "cuStreamBatchMemOp_v2"] {
        assert!(reasons.iter().any(|reason| reason.starts_with(&waits(function))), "{reasons:?}");
    }
    let replayed = run(&mut place.cutrace(["replay", "--driver", "sim", "--json"]));
    let report: Value = serde_json::from_str(&replayed.stdout).expect("JSON");
    assert_eq!(report["divergences"], 0, "{}", replayed.stdout);
}

#[test]
fn a_wait_for_a_value_that_was_taken_back_is_left_out() {
    for how in ["w", "f", "c"] {
        let place = Place::new();
        let mut record = place.recorded(client("stream_value_taken_back.c"));
        run(record.arg(how)).expect(0);
        let info = run(&mut place.cutrace(["info", "--json"])).expect(0);
        // The first wait is made; the second, too, if the CPU was seen to take the value back.
        let is_left_out = info.stdout.contains("waits for a value that the CPU wrote (1 call: ");
        assert!(is_left_out || how == "c" && info.stdout.contains("\"replayable\""), "{how}: {}", info.stdout);
        run(&mut place.cutrace(["replay", "--driver", "sim"])).expect(0);
    }
}

#[test]
fn a_kernel_that_waits_for_the_cpu_is_noted() {
    let place = Place::new();
    run(&mut place.recorded(client("kernel_spins_on_pinned.c"))).expect(0);
    let info = run(&mut place.cutrace(["info", "--json"])).expect(0);
    let info: Value = serde_json::from_str(&info.stdout).expect("JSON");
    assert_eq!((&info["verdict"], info["notes"].as_array().map(Vec::len)), (&"replayable".into(), Some(1)), "{info}");
    let text = run(&mut place.cutrace(["info"])).expect(0).stdout;
    assert!(text.contains("note: the CPU wrote memory of a launch in flight"), "{text}");
    let replayed = run(&mut place.cutrace(["replay", "--driver", "sim"])).expect(0);
    assert!(is_verified(&replayed.stdout), "{}", replayed.stdout);
}

#[test]
fn what_both_write_is_named_and_not_compared() {
    let place = Place::new();
    run(&mut place.recorded(client("pinned_written_by_cpu_and_kernel.c"))).expect(0);
    let info = run(&mut place.cutrace(["info", "--json"])).expect(0);
    let info: Value = serde_json::from_str(&info.stdout).expect("JSON");
    let reason = info["reasons"][0].as_str().unwrap_or_default();
    assert!(reason.starts_with("the CPU and a launch in flight wrote the same memory"), "{info}");
    assert_eq!((&info["verdict"], info["reasons"].as_array().map(Vec::len)), (&"partly".into(), Some(1)), "{info}");
    let replayed = run(&mut place.cutrace(["replay", "--driver", "sim", "--json"]));
    let report: Value = serde_json::from_str(&replayed.stdout).expect("JSON");
    // Both the flag and what both wrote; the rest of it nobody wrote.
    assert_eq!((&report["divergences"], &report["unchecked_copies"]), (&0.into(), &2.into()), "{}", replayed.stdout);
}

#[test]
fn a_flag_that_shares_its_page_is_not_told_from_its_neighbours() {
    let place = Place::new();
    let mut record = place.recorded(client("pinned_written_by_cpu_and_kernel.c"));
    run(record.arg("near")).expect(0);
    let info = run(&mut place.cutrace(["info", "--json"])).expect(0);
    let info: Value = serde_json::from_str(&info.stdout).expect("JSON");
    let reasons = info["reasons"].as_array().expect("a list").iter().filter_map(Value::as_str);
    let parts = "the CPU wrote pinned memory of kernels in flight";
    assert!(reasons.into_iter().any(|reason| reason.starts_with(parts)), "{info}");
}

/// Killed, or ended by itself, without waiting: so ends the replay.
#[test]
fn what_the_recording_left_waiting_is_given_up() {
    for (how, call) in [("value", "cuStreamWaitValue32_v2"), ("kernel", "cuLaunchKernel")] {
        let place = Place::new();
        run(place.recorded(client("ends_while_streams_wait.c")).arg(how)).expect(0);
        let replayed = run(&mut place.cutrace(["replay", "--driver", "sim"])).expect(0);
        assert!(is_verified(&replayed.stdout), "{}", replayed.stdout);
        let number = calls_named(&place.trace(), call)[0].number;
        let named = format!("unfinished   stream#1: 1 submission, from call {number} {call} on, did not finish\n");
        assert!(replayed.stdout.contains(&named), "{}", replayed.stdout);
        let report = run(&mut place.cutrace(["replay", "--driver", "sim", "--json"])).expect(0).stdout;
        let report: Value = serde_json::from_str(&report).expect("JSON");
        assert_eq!(report["under_way"], serde_json::json!([{ "stream": "stream#1", "calls": [number] }]));
        assert_eq!((&report["checked"]["copies"], &report["unchecked_copies"]), (&1.into(), &0.into()));
    }
}

/// A launch is waited for, and not what waits for a later call.
#[test]
fn launches_go_one_by_one_beside_a_stream_that_waits() {
    let place = Place::new();
    run(&mut place.recorded(client("stream_value_released.c"))).expect(0);
    for options in [&["--sync-launches"][..], &["--bisect"], &["--only-kernel", "add_two"]] {
        let replayed = run(place.cutrace(["replay", "--driver", "sim"]).args(options)).expect(0);
        assert!(is_verified(&replayed.stdout), "{options:?}: {}", replayed.stdout);
        let counted = replayed.stdout.contains("one by one   2 launches");
        assert_eq!(counted, options[0] != "--only-kernel", "{options:?}: {}", replayed.stdout);
    }
}
