//! The zero of times: the earliest time in a trace, in all outputs alike.

use serde_json::Value;
use std::process::Command;
use tests::*;

/// A program that pushes a range before its first driver call.
fn recorded() -> Place {
    let place = Place::new();
    let program = client_with("annotated.c", &["-I", nvtx_include().to_str().expect("a plain path")]);
    run(&mut place.recorded(program)).expect(0);
    place
}

fn export(place: &Place, to: &str, name: &str) -> Vec<u8> {
    run(&mut place.cutrace(["export", "trace.bin", "--to", to, "-o", name])).expect(0);
    std::fs::read(place.join(name)).unwrap_or_default()
}

/// Rows of a table of strings.
fn query(place: &Place, sql: &str) -> Vec<Vec<i64>> {
    let script = "import json, sqlite3, sys\n\
                  print(json.dumps([list(row) for row in sqlite3.connect(sys.argv[1]).execute(sys.argv[2])]))";
    let ran = run(Command::new("python3").args(["-c", script]).arg(place.join("t.sqlite")).arg(sql)).expect(0);
    serde_json::from_str(&ran.stdout).expect("rows")
}

/// The range, the first call and the call behind it begin at these nanoseconds, as every output says.
#[test]
fn a_range_before_the_first_call_begins_at_zero_in_every_output() {
    let place = recorded();
    let trace = place.trace();
    let calls: Vec<i64> = trace.calls().map(|call| trace.nanoseconds(call.begin)).collect();
    let ranges = trace.annotated_ranges();
    let range = ranges.iter().find(|range| range.opened.message.as_deref() == Some("whole")).expect("the range");
    let lasted = trace.nanoseconds(range.end.expect("ended"));
    assert_eq!(trace.nanoseconds(range.opened.about.time), 0);
    assert!(calls[0] > 0 && lasted > calls[0], "{calls:?} {lasted}");

    export(&place, "sqlite", "t.sqlite");
    let found = query(&place, "SELECT start, end FROM NVTX_EVENTS WHERE text = 'whole' ORDER BY start");
    assert_eq!(found, [[0, lasted]]);
    assert_eq!(query(&place, "SELECT min(start) FROM NVTX_EVENTS"), [[0]]);
    let found = query(&place, "SELECT start FROM CUPTI_ACTIVITY_KIND_RUNTIME ORDER BY correlationId");
    assert_eq!(found.concat(), calls);
    let day = query(&place, "SELECT utcEpochNs FROM TARGET_INFO_SESSION_START_TIME");
    assert_eq!(day, [[trace.started_on() as i64]]);

    export(&place, "csv", "tables");
    let found = std::fs::read_to_string(place.join("tables/NVTX_EVENTS.csv")).expect("a table");
    assert!(found.contains(&format!("\n0,{lasted},")) && !found.contains("\n-"), "{found}");
    let script = "import sys; from duckdb import sql\n\
                  print(sql(\"SELECT min(start), max(text) FILTER (start = 0) FROM 'parquet/**/NVTX_EVENTS.parquet'\").fetchall())";
    export(&place, "parquet", "parquet");
    let python = std::path::PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../target/readers/bin/python");
    match python.exists() {
        true => assert_eq!(run(place.command(python).args(["-c", script])).expect(0).stdout, "[(0, 'whole')]\n"),
        false => eprintln!("SKIPPED: no reader of Parquet is here; scripts/readers fetches it"),
    }

    for lines in [
        String::from_utf8(export(&place, "jsonl", "t.jsonl")).expect("text"),
        run(&mut place.cutrace(["dump", "trace.bin", "--json"])).expect(0).stdout,
    ] {
        let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        let times: Vec<i64> = lines.iter().filter_map(|line| line["time_ns"].as_i64()).collect();
        assert_eq!(times.iter().min(), Some(&0));
        let of_calls = lines.iter().filter(|line| line["call"].is_u64()).filter_map(|line| line["time_ns"].as_i64());
        assert_eq!(of_calls.collect::<Vec<_>>(), calls);
    }
    let dumped = run(&mut place.cutrace(["dump", "trace.bin"])).expect(0).stdout;
    assert!(!dumped.lines().any(|line| line.split_whitespace().any(|word| word.starts_with("-0."))), "{dumped}");

    let chrome: Value = serde_json::from_slice(&export(&place, "chrome", "t.json")).expect("JSON");
    let begins = |name: &str| {
        let mut events = chrome["traceEvents"].as_array().expect("events").iter();
        let event = events.find(|event| event["name"] == name && event["ts"].is_number());
        event.and_then(|event| event["ts"].as_f64()).map(|time| (time * 1000.0).round() as i64)
    };
    assert_eq!((begins("whole"), begins("cuInit")), (Some(0), Some(calls[0])));

    let found = run(&mut place.cutrace(["report", "trace.bin", "-r", "cuda_api_trace", "--json"])).expect(0).stdout;
    let whole: Value = serde_json::from_str(&found).expect("JSON");
    let rows = whole["reports"][0]["rows"].as_array().expect("rows").iter();
    assert_eq!(rows.filter_map(|row| row["Start (ns)"].as_i64()).collect::<Vec<_>>(), calls);
    let found = run(&mut place.cutrace(["report", "trace.bin", "-r", "nvtx_pushpop_trace", "--json"])).expect(0).stdout;
    let whole: Value = serde_json::from_str(&found).expect("JSON");
    let rows = whole["reports"][0]["rows"].as_array().expect("rows").iter();
    let starts: Vec<i64> = rows.filter_map(|row| row["Start (ns)"].as_i64()).collect();
    assert_eq!(starts.iter().min(), Some(&0), "{found}");
}
