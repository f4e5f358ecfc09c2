//! Findings: `report` and the viewer show the same list.

use crate::reporting::{one, recorded, report, rows};
use serde_json::Value;
use tests::*;

/// The findings of `report`: their headlines.
fn reported(place: &Place, file: &str) -> Vec<String> {
    let ran = run(&mut place.cutrace(["report", file, "--json"]));
    let whole: Value = serde_json::from_str(&ran.stdout).expect("JSON");
    let tables = whole["reports"].as_array().expect("reports");
    let found = tables.iter().find(|table| table["table"] == "findings").expect("findings");
    let rows = found["rows"].as_array().expect("rows");
    rows.iter().map(|row| row["what"].as_str().expect("text").to_owned()).collect()
}

/// Those of the viewer, as it prints them off a terminal; its rows begin with their number.
fn viewed(place: &Place, arguments: &[&str]) -> Vec<String> {
    let ran = run(place.cutrace(["view"]).args(arguments));
    let lines = ran.stdout.lines().skip_while(|line| *line != "Findings");
    let mut lines = lines.skip(1).take_while(|line| !line.is_empty());
    let Some(head) = lines.next() else { return Vec::new() };
    let at = head.find("Finding").expect("the column");
    lines.map(|line| line[at..].to_owned()).collect()
}

#[test]
fn report_and_viewer_list_the_same() {
    for (app, arguments) in [
        ("wasteful.c", &[][..]),
        ("vector_add.c", &[]),
        ("host_bound.c", &[]),
        ("allocation_churn.c", &[]),
        ("never_destroyed.c", &[]),
        ("rows_of_launches.c", &[]),
        ("freed_after_fault.c", &[]),
        ("streams_events.c", &[]),
        ("failing_calls.c", &[]),
        ("many_calls.c", &["1000"]),
    ] {
        let place = Place::new();
        run(place.recorded(client(app)).args(arguments)).expect(0);
        let found = reported(&place, "trace.bin");
        assert_eq!(viewed(&place, &["--no-index"]), found, "{app}");
        // The index tells the same.
        assert_eq!(viewed(&place, &[]), found, "{app}");
        assert_eq!(viewed(&place, &[]), found, "{app}");
    }
    // With device times; and with pieces that cannot be read.
    let place = recorded("streams_events.c");
    run(&mut place.cutrace(["replay", "--driver", "sim", "--profile", "-o", "timed.bin"])).expect(0);
    assert_eq!(viewed(&place, &["timed.bin"]), reported(&place, "timed.bin"));
    let mut forge = forge::Forge::open(place.join("trace.bin"));
    let (offset, header) = forge.segments(trace::file::segment::Kind::Chunk)[0];
    forge.flip(offset + trace::file::segment::HEADER + header.length as usize / 2);
    forge.write(place.join("damaged.bin"));
    let found = reported(&place, "damaged.bin");
    assert_eq!(found[0], "calls are missing: the trace is damaged");
    assert_eq!(viewed(&place, &["damaged.bin"]), found);
}

/// A pool that is used in stream order has no pinned memory.
#[test]
fn what_to_do_about_memory_depends_on_its_kind() {
    let (keep, pool) = ("reuse a pinned buffer, or take parts of a large one", "(cuMemAllocAsync)");
    for (arguments, what, with_pool) in [
        (&["pinned", "only"][..], "20 pinned buffers freed and allocated again at the same size", false),
        (
            &["pinned"],
            "2,013 buffers freed and allocated again at the same size (1,993 device buffers, 20 pinned buffers)",
            true,
        ),
    ] {
        let place = Place::new();
        run(place.recorded(client("allocation_churn.c")).args(arguments)).expect(0);
        let findings = rows(&place, "summary", "findings");
        let finding = one(&findings, "kind", "allocation_churn");
        let [found, evidence] = ["what", "evidence"].map(|of| finding[of].as_str().expect("text"));
        assert!(found.starts_with(what), "{finding}");
        assert!(evidence.contains(keep) && evidence.contains(pool) == with_pool, "{finding}");
    }
}

/// Each with its cost, the calls that show it and the next command.
#[test]
fn findings_have_evidence() {
    for (app, kind) in [
        ("host_bound.c", "host_bound"),
        ("allocation_churn.c", "allocation_churn"),
        ("wasteful.c", "synchronous_pageable_copies"),
        ("never_destroyed.c", "not_destroyed"),
        ("rows_of_launches.c", "repeated_launches"),
    ] {
        let place = recorded(app);
        let findings = rows(&place, "summary", "findings");
        one(&findings, "kind", kind);
        for finding in findings {
            let calls = finding["calls"].as_str().expect("text");
            assert!(!calls.is_empty() && calls.split(' ').all(|call| call.parse::<u64>().is_ok()), "{finding}");
            assert!(finding["times"].as_u64() >= Some(1), "{finding}");
            let next: Vec<&str> = finding["next"].as_str().expect("text").split(' ').collect();
            assert_eq!(next[..3], ["cutrace", "report", "trace.bin"]);
            run(&mut place.cutrace(&next[1..])).expect(0);
        }
    }
}

#[test]
fn time_outside_of_the_driver_is_found_with_its_longest_stretches() {
    let place = recorded("host_bound.c");
    let findings = rows(&place, "summary", "findings");
    let finding = one(&findings, "kind", "host_bound");
    assert!(finding["cost_ns"].as_u64() > Some(12 * 19_000_000), "{finding}");
    assert!(finding["evidence"].as_str().is_some_and(|told| told.contains("(cuEventQuery)")), "{finding}");
    let stretches = rows(&place, "host", "outside");
    // Each sleep.
    let long = stretches.iter().filter(|row| row["for_ns"].as_u64() > Some(19_000_000));
    assert!(long.clone().count() >= 12, "{stretches:?}");
    let sleeps =
        long.filter(|row| row["after_function"] == "cuEventRecord" && row["before_function"] == "cuEventQuery");
    assert_eq!(sleeps.count(), 12, "{stretches:?}");
}

/// A graph would launch each row by one call.
#[test]
fn launches_in_rows_that_repeat_are_found() {
    let place = recorded("rows_of_launches.c");
    let findings = rows(&place, "summary", "findings");
    let finding = one(&findings, "kind", "repeated_launches");
    // 20 rounds that end with a wait; 5 launches and a copy are no row.
    assert_eq!(finding["times"], 20, "{finding}");
    assert_eq!(finding["what"], "240 launches in repeated sequences: capture each sequence in a CUDA graph");
    let evidence = finding["evidence"].as_str().expect("text");
    assert!(evidence.contains("has 12 launches and runs 20 times, first at call "), "{evidence}");
    assert!(evidence.contains("their kernels' durations are unknown"), "{evidence}");
    let calls = report(&place, &["-r", "cuda_api_sum", "--json"]).expect(0).stdout;
    let calls: Value = serde_json::from_str(&calls).expect("JSON");
    let mut all = calls["reports"][0]["rows"].as_array().expect("rows").iter();
    let launches = all.find(|row| row["Name"] == "cuLaunchKernel").expect("launches");
    assert!(finding["cost_ns"].as_u64() < launches["Total Time (ns)"].as_u64(), "{finding}");
    // With device times it is known whether the kernels are short; the simulated driver's are not.
    run(&mut place.cutrace(["replay", "--driver", "sim", "--profile", "-o", "timed.bin"])).expect(0);
    let timed = reported(&place, "timed.bin");
    let trace = trace::Trace::open(place.join("timed.bin")).expect("a trace");
    let times: Vec<i64> = trace.timed().filter(|work| work.is_kernel()).map(|work| work.duration()).collect();
    let average = times.iter().sum::<i64>() / times.len() as i64;
    let is_told = timed.iter().any(|what| what.contains("in repeated sequences"));
    assert!(is_told == (average <= 50_000) || average.abs_diff(50_000) < 25_000, "{average}: {timed:?}");
}

#[test]
fn memory_that_is_freed_and_got_again_is_found() {
    let place = recorded("allocation_churn.c");
    let findings = rows(&place, "summary", "findings");
    let finding = one(&findings, "kind", "allocation_churn");
    // All but the first of each size.
    assert_eq!(finding["what"], "1,993 device buffers freed and allocated again at the same size");
    let calls = report(&place, &["-r", "cuda_api_sum", "--json"]).expect(0).stdout;
    let calls: Value = serde_json::from_str(&calls).expect("JSON");
    let memory = calls["reports"][0]["rows"].as_array().expect("rows").iter();
    let memory = memory.filter(|row| row["Name"].as_str().is_some_and(|name| name.starts_with("cuMem")));
    let whole: u64 = memory.filter_map(|row| row["Total Time (ns)"].as_u64()).sum();
    let cost = finding["cost_ns"].as_u64().expect("a time");
    assert!(cost <= whole && cost * 10 > whole * 8, "{cost} of {whole}");
    // A program that keeps its memory has no such finding.
    let findings = rows(&recorded("vector_add.c"), "summary", "findings");
    assert!(findings.iter().all(|row| row["kind"] != "allocation_churn"), "{findings:?}");
}
