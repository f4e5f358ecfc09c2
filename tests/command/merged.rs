//! `cutrace export` of a directory: its processes in one export, on one time axis.

use serde_json::{Value, json};
use std::collections::BTreeMap;
use tests::*;

/// Rank 1, and when that has ended rank 0: each once.
fn job() -> Place {
    let place = Place::new();
    let mut record = place.cutrace(["record", "--driver", "sim", "-o", "run/", "--", "sh", "-c"]);
    record.arg("export WORLD_SIZE=2; RANK=1 \"$0\" && RANK=0 \"$1\"").arg(client("wasteful.c")).arg(client("graphs.c"));
    run(&mut record).expect(0);
    place
}

/// Their traces, by rank.
fn traces(place: &Place) -> BTreeMap<u64, trace::Trace> {
    let entries =
        std::fs::read_dir(place.join("run")).expect("the directory").map(|entry| entry.expect("an entry").path());
    let traces = entries.filter(|path| path.extension().is_some_and(|extension| extension == "bin")).map(sound);
    traces.map(|trace| (trace.preamble.number("rank").expect("a rank"), trace)).collect()
}

fn export(place: &Place, format: &str, output: &str) -> Outcome {
    run(&mut place.cutrace(["export", "run/", "--to", format, "-o", output]))
}

#[test]
fn a_database_has_the_processes_of_a_directory() {
    let place = job();
    let traces = traces(&place);
    export(&place, "sqlite", "run.sqlite").expect(0);
    let script = "import json, sqlite3\n\
                  rows = sqlite3.connect('run.sqlite').execute('''\n\
                  SELECT p.rank, p.ranks, p.pid, p.hostName, count(*), min(r.start), max(r.end), count(DISTINCT s.value)\n\
                  FROM CUPTI_ACTIVITY_KIND_RUNTIME r\n\
                  JOIN CUTRACE_PROCESSES p ON p.globalPid = r.globalTid / 0x1000000 * 0x1000000\n\
                  JOIN StringIds s ON r.nameId = s.id GROUP BY 1 ORDER BY 1''').fetchall()\n\
                  print(json.dumps(rows))";
    let told = run(place.command("python3").args(["-c", script])).expect(0).stdout;
    let rows: Vec<Vec<Value>> = serde_json::from_str(&told).expect("rows");
    assert_eq!(rows.len(), 2, "{rows:?}");
    for (row, (rank, trace)) in rows.iter().zip(&traces) {
        let about = &trace.preamble;
        assert_eq!(row[..5], [json!(rank), json!(2), json!(about.pid), json!(about.host), json!(trace.len())]);
        let names: std::collections::BTreeSet<&str> = trace.calls().map(|call| call.name()).collect();
        assert_eq!(row[7], json!(names.len()));
    }
    // Rank 0 began when rank 1 had ended: on the clock of their host, to the nanosecond.
    let time = |rank: usize, column: usize| rows[rank][column].as_i64().expect("a time");
    assert!(time(1, 5) >= 0 && time(1, 6) < time(0, 5), "{rows:?}");
    let [zero, one] = [&traces[&0], &traces[&1]].map(|trace| trace.clocks[0].ns as i64);
    let first = |rank: u64| traces[&rank].nanoseconds(traces[&rank].call(0).expect("a call").begin);
    assert_eq!(time(0, 5) - time(1, 5), zero - one + first(0) - first(1));
}

#[test]
fn slices_of_a_directory_are_on_tracks_of_their_processes() {
    let place = job();
    let traces = traces(&place);
    for (format, output) in [("chrome", "run.json"), ("perfetto", "run.pftrace"), ("jsonl", "run.jsonl")] {
        let calls: usize = traces.values().map(trace::Trace::len).sum();
        let told = export(&place, format, output).expect(0).stdout;
        assert!(told.starts_with(&format!("{output}: {format}, {calls} calls, ")), "{told}");
    }
    let whole: Value = serde_json::from_slice(&std::fs::read(place.join("run.json")).expect("it")).expect("JSON");
    for (rank, trace) in &traces {
        let pid = json!(trace.preamble.pid);
        let events = || whole["traceEvents"].as_array().expect("events").iter().filter(|event| event["pid"] == pid);
        assert_eq!(events().filter(|event| event["cat"] == "cuda_driver").count(), trace.len());
        let name = events().find(|event| event["name"] == "process_name").expect("a name")["args"]["name"].clone();
        assert!(name.as_str().is_some_and(|name| name.starts_with(&format!("rank {rank} "))), "{name}");
    }
    let Some(counts) = crate::exporting::counted(&place.join("run.pftrace")) else { return };
    for (rank, trace) in &traces {
        let told = &counts["processes"][trace.preamble.pid.to_string()];
        assert!(told["name"].as_str().is_some_and(|name| name.starts_with(&format!("rank {rank} "))), "{told}");
        assert_eq!(told["slices"], trace.len());
    }
}

/// Ranks are chosen as everywhere; files that are there stay.
#[test]
fn ranks_of_a_directory_are_chosen() {
    let place = job();
    let traces = traces(&place);
    let some = |rank: &str, output: &str| {
        run(&mut place.cutrace(["export", "run/", "--rank", rank, "--to", "chrome", "-o", output]))
    };
    let told = some("1", "one.json").expect(0).stdout;
    assert!(told.starts_with(&format!("one.json: chrome, {} calls, ", traces[&1].len())), "{told}");
    let whole: Value = serde_json::from_slice(&std::fs::read(place.join("one.json")).expect("it")).expect("JSON");
    assert_eq!(whole["distributedInfo"], json!({ "rank": 1, "world_size": 2 }));
    assert!(some("7", "none.json").expect(2).stderr.contains("no rank 7; this job has the ranks 0-1"));
    let own = traces[&0].path.strip_prefix(place.path()).unwrap_or(&traces[&0].path).display().to_string();
    let ran = run(&mut place.cutrace(["export", "run/", "--to", "jsonl", "--force", "-o", &own])).expect(2);
    assert!(ran.stderr.contains("this is the trace itself"), "{}", ran.stderr);
}
