//! `cutrace export`: the contents of the file, and how it is written.

use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use tests::*;

fn recorded(app: &str) -> Place {
    let place = Place::new();
    run(&mut place.recorded(client(app))).expect(0);
    place
}

fn export(place: &Place, arguments: &[&str]) -> Outcome {
    run(place.cutrace(["export"]).args(arguments))
}

/// A field of a message: its number, and its value or bytes.
enum Field<'x> {
    Number(u64, u64),
    Bytes(u64, &'x [u8]),
}

/// Protocol buffers, read by other code than has written them.
fn fields(mut bytes: &[u8]) -> Vec<Field<'_>> {
    fn varint(bytes: &mut &[u8]) -> u64 {
        let end = bytes.iter().position(|byte| byte & 0x80 == 0).expect("a varint ends") + 1;
        let value = bytes[..end].iter().rev().fold(0, |value, byte| value << 7 | u64::from(byte & 0x7f));
        *bytes = &bytes[end..];
        value
    }
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let tag = varint(&mut bytes);
        match tag & 7 {
            0 => found.push(Field::Number(tag >> 3, varint(&mut bytes))),
            1 => {
                found.push(Field::Number(tag >> 3, u64::from_le_bytes(bytes[..8].try_into().expect("8 bytes"))));
                bytes = &bytes[8..];
            }
            2 => {
                let (body, rest) = {
                    let len = varint(&mut bytes) as usize;
                    bytes.split_at(len)
                };
                found.push(Field::Bytes(tag >> 3, body));
                bytes = rest;
            }
            kind => panic!("wire type {kind}"),
        }
    }
    found
}

fn numbers(message: &[u8], field: u64) -> Vec<u64> {
    let of = |found: &Field| match found {
        Field::Number(number, value) if *number == field => Some(*value),
        _ => None,
    };
    fields(message).iter().filter_map(of).collect()
}

fn messages(message: &[u8], field: u64) -> Vec<&[u8]> {
    let of = |found: Field<'_>| match found {
        Field::Bytes(number, bytes) if number == field => Some(bytes.as_ptr_range()),
        _ => None,
    };
    let start = message.as_ptr() as usize;
    let ranges = fields(message).into_iter().filter_map(of);
    ranges.map(|range| &message[range.start as usize - start..range.end as usize - start]).collect()
}

/// Slices by function: how many, and nanoseconds in all. Each thread's must nest.
fn slices(file: &Path) -> BTreeMap<String, (u64, u64)> {
    let bytes = std::fs::read(file).expect("the export");
    let (mut names, mut open, mut sums) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
    for packet in messages(&bytes, 1) {
        for name in messages(packet, 12).into_iter().flat_map(|interned| messages(interned, 2)) {
            let text = String::from_utf8(messages(name, 2)[0].to_vec()).expect("UTF-8");
            names.insert(numbers(name, 1)[0], text);
        }
        let Some(event) = messages(packet, 11).first().copied() else { continue };
        let (at, track) = (numbers(packet, 8)[0], numbers(event, 11)[0]);
        let stack: &mut Vec<(Option<u64>, u64)> = open.entry(track).or_default();
        match numbers(event, 9)[..] {
            [1] => stack.push((numbers(event, 10).first().copied(), at)),
            [4] => {}
            [2] => {
                let (name, begin) = stack.pop().expect("a slice to end");
                // What a stream had to do bears its name itself.
                let Some(name) = name else { continue };
                let sum: &mut (u64, u64) = sums.entry(names[&name].clone()).or_default();
                *sum = (sum.0 + 1, sum.1 + at - begin);
            }
            ref other => panic!("an event of type {other:?}"),
        }
    }
    assert!(open.values().all(Vec::is_empty), "slices left open: {open:?}");
    sums
}

/// By what `report` says.
fn expected(place: &Place) -> BTreeMap<String, (u64, u64)> {
    let ran = run(&mut place.cutrace(["report", "-r", "cuda_api_sum", "--json"])).expect(0);
    let whole: Value = serde_json::from_str(&ran.stdout).expect("JSON");
    let rows = whole["reports"][0]["rows"].as_array().expect("rows").clone();
    let number = |row: &Value, key: &str| row[key].as_u64().expect("a number");
    let of = |row: &Value| {
        (row["Name"].as_str().expect("a name").to_owned(), (number(row, "Num Calls"), number(row, "Total Time (ns)")))
    };
    rows.iter().map(of).collect()
}

#[test]
fn every_call_is_a_slice() {
    // One thread, several, and calls within calls.
    for app in ["wasteful.c", "two_contexts.c", "calls_in_callback.c"] {
        let place = recorded(app);
        let ran = export(&place, &["--to", "perfetto", "-o", "app.pftrace"]).expect(0);
        let count = place.trace().len();
        assert!(ran.stdout.starts_with(&format!("app.pftrace: perfetto, {count} calls, ")), "{}", ran.stdout);
        assert_eq!(slices(&place.join("app.pftrace")), expected(&place), "{app}");
        export(&place, &["--to", "perfetto", "--no-args", "-o", "bare.pftrace"]).expect(0);
        assert_eq!(slices(&place.join("bare.pftrace")), expected(&place), "{app}");
        let size = |name| std::fs::metadata(place.join(name)).expect("a file").len();
        assert!(size("bare.pftrace") < size("app.pftrace"));
    }
}

/// Perfetto's own trace_processor opens and counts it; where that cannot be had, what its own schema makes of
/// it is counted. `scripts/perfetto` fetches both.
#[test]
fn perfetto_reads_it() {
    let python = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../target/perfetto/bin/python");
    if !python.exists() {
        eprintln!("SKIPPED: Perfetto's own reader is not here; scripts/perfetto fetches it");
        return;
    }
    let place = recorded("wasteful.c");
    export(&place, &["--to", "perfetto", "-o", "app.pftrace"]).expect(0);
    let counts = counts(&python, &place.join("app.pftrace"));
    if counts["reader"] != "trace_processor" {
        eprintln!("SKIPPED: trace_processor itself, which scripts/perfetto could not fetch; read by Perfetto's schema");
    }
    let found: BTreeMap<String, (u64, u64)> = serde_json::from_value(counts["slices"].clone()).expect("counts");
    assert_eq!(found, expected(&place));
    let trace = place.trace();
    assert_eq!(counts["threads"], 1);
    assert_eq!(counts["process"], trace.preamble.pid);
    // Without device times nothing would end a flow.
    assert_eq!(counts["flows"], 0);
    assert_eq!(counts["kernels"], serde_json::json!({ "vector_add": 4 }));
    assert_eq!(counts["arrows"], serde_json::json!({}));
    // What was submitted, until a wait told of it.
    let tracks = counts["tracks"].as_array().expect("tracks");
    let is_submitted = |name: &Value| name.as_str().is_some_and(|name| name.ends_with(": submission to known end"));
    assert!(!tracks.is_empty() && tracks.iter().all(is_submitted), "{tracks:?}");

    // With device times, a flow leads from each call to each piece of its work.
    let place = recorded("graphs.c");
    run(&mut place.cutrace(["replay", "--driver", "sim", "--profile"])).expect(0);
    export(&place, &["timed.bin", "--to", "perfetto", "-o", "timed.pftrace"]).expect(0);
    let counts = self::counts(&python, &place.join("timed.pftrace"));
    let found: BTreeMap<String, (u64, u64)> = serde_json::from_value(counts["slices"].clone()).expect("counts");
    assert_eq!(found, expected(&place));
    let timed = sound(place.join("timed.bin"));
    let mut works: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for work in timed.timed() {
        let name = work.name.map_or_else(|| work.about.operation(), String::from);
        let entry = works.entry(name).or_default();
        *entry = (entry.0 + 1, entry.1 + work.duration() as u64);
    }
    let found: BTreeMap<String, (u64, u64)> = serde_json::from_value(counts["device"].clone()).expect("counts");
    assert_eq!(found, works);
    let arrows = serde_json::json!({
        "cuGraphLaunch -> add_two": 5,
        "cuGraphLaunch -> twice": 3,
        "cuGraphLaunch -> [CUDA memcpy Host-to-Device]": 2,
        "cuGraphLaunch -> [CUDA memcpy Device-to-Host]": 2,
        "cuMemcpyDtoH_v2 -> [CUDA memcpy Device-to-Host]": 1,
    });
    let sorted = |value: &Value| -> BTreeMap<String, u64> { serde_json::from_value(value.clone()).expect("counts") };
    assert_eq!(sorted(&counts["arrows"]), sorted(&arrows));
    assert_eq!(counts["tracks"].as_array().map(Vec::len), Some(2), "{}", counts["tracks"]);
    let longest = timed.timed().filter(|work| work.is_kernel()).map(|work| work.duration()).max();
    let of = |work: &trace::read::device_times::Work| work.is_kernel() && Some(work.duration()) == longest;
    let names: Vec<Value> =
        timed.timed().filter(of).map(|work| serde_json::json!([work.name, work.about.grid])).collect();
    assert!(names.contains(&counts["longest"][0]), "{} is none of {names:?}", counts["longest"]);
}

/// What lives and what is outstanding is counted, and fields of structs are found by their names.
#[test]
fn perfetto_counts_memory_and_finds_grids() {
    let place = recorded("stream_operations.c");
    export(&place, &["--to", "perfetto", "-o", "app.pftrace.gz"]).expect(0);
    run(place.command("gunzip").arg("app.pftrace.gz")).expect(0);
    assert_eq!(slices(&place.join("app.pftrace")), expected(&place));
    let Some(counts) = counted(&place.join("app.pftrace")) else { return };
    let report = run(&mut place.cutrace(["report", "-r", "memory", "--json"])).expect(0).stdout;
    let report: Value = serde_json::from_str(&report).expect("JSON");
    let device = report["reports"][0]["rows"][0].clone();
    assert_eq!(device["where"], "device 0");
    assert_eq!(counts["counters"]["memory of device 0"][1], device["peak_bytes"], "{device}");
    assert!(counts["counters"]["submissions in flight"][1].as_u64().is_some_and(|most| most > 0), "{counts}");
    assert_eq!(counts["fields"]["cuLaunchKernelEx config.gridDimX"], serde_json::json!([1]), "{}", counts["fields"]);
}

/// What Perfetto's reader finds in a file; none where it is not here.
pub fn counted(file: &Path) -> Option<Value> {
    let python = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../target/perfetto/bin/python");
    if !python.exists() {
        eprintln!("SKIPPED: Perfetto's own reader is not here; scripts/perfetto fetches it");
        return None;
    }
    Some(counts(&python, file))
}

/// Ranges that were pushed stand below their thread, in their domain's track; those that were started, beside
/// it.
#[test]
fn annotations_are_exported() {
    let place = Place::new();
    let include = nvtx_include();
    let include = ["-I", include.to_str().expect("a plain path"), "-ldl"];
    run(&mut place.recorded(client_with("ranges.c", &include))).expect(0);
    let dump = run(&mut place.cutrace(["dump", "--json"])).expect(0).stdout;
    assert_eq!(dump.lines().filter(|line| line.contains("\"annotation\"")).count(), 2 + 9 * 2);
    assert_eq!(export(&place, &["--to", "jsonl", "-o", "-"]).expect(0).stdout, dump);
    export(&place, &["--to", "perfetto", "-o", "app.pftrace"]).expect(0);
    // A part of it: what began ends, and nothing else does.
    let second = calls_named(&place.trace(), "cuLaunchKernel")[1].number;
    let part = format!("{second}..{}", second + 1);
    export(&place, &["--to", "perfetto", "-o", "part.pftrace", "--calls", &part]).expect(0);
    let python = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../target/perfetto/bin/python");
    if !python.exists() {
        eprintln!("SKIPPED: Perfetto's own reader is not here; scripts/perfetto fetches it");
        return;
    }
    let counts = self::counts(&python, &place.join("app.pftrace"));
    if counts["reader"] != "schema" {
        // It tells tracks below a thread's from others by itself.
        return;
    }
    let mut ranges: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    let trace = place.trace();
    for range in trace.annotated_ranges() {
        let [begin, end] = [range.opened.about.time, range.end.expect("it ended")].map(|at| trace.nanoseconds(at));
        let entry = ranges.entry(range.opened.message.expect("a name").into_owned()).or_default();
        *entry = (entry.0 + 1, entry.1 + (end - begin) as u64);
    }
    // Beside them stands what the streams had to do.
    let found: BTreeMap<String, (u64, u64)> = serde_json::from_value(counts["device"].clone()).expect("counts");
    let (of_ranges, work): (BTreeMap<_, _>, BTreeMap<_, _>) =
        found.into_iter().partition(|(name, _)| ranges.contains_key(name));
    assert_eq!(work.keys().collect::<Vec<_>>(), ["3 submissions", "cuLaunchKernel"]);
    assert_eq!(of_ranges, ranges);
    let tracks: Vec<String> = serde_json::from_value(counts["tracks"].clone()).expect("names");
    let of_ranges = |name: &&String| name.starts_with("NVTX");
    assert_eq!(tracks.iter().filter(of_ranges).collect::<Vec<_>>(), ["NVTX", "NVTX other, started"]);
    let found: BTreeMap<String, (u64, u64)> = serde_json::from_value(counts["slices"].clone()).expect("counts");
    assert_eq!(found, expected(&place));
    self::counts(&python, &place.join("part.pftrace"));
}

fn counts(python: &Path, file: &Path) -> Value {
    let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("command/perfetto_counts.py");
    let ran = run(Command::new(python).arg(script).arg(file)).expect(0);
    serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran:?}"))
}

#[test]
fn lines_are_those_of_dump() {
    let place = recorded("wasteful.c");
    let dump = run(&mut place.cutrace(["dump", "--json"])).expect(0).stdout;
    let ran = export(&place, &["--to", "jsonl", "-o", "-"]).expect(0);
    assert_eq!((ran.stdout, ran.stderr), (dump.clone(), String::new()));
    let ran = export(&place, &["--to", "jsonl", "-o", "calls.jsonl", "--json"]).expect(0);
    assert_eq!(std::fs::read_to_string(place.join("calls.jsonl")).expect("the export"), dump);
    let told: Value = serde_json::from_str(&ran.stdout).expect("JSON");
    assert_eq!(
        (&told["schema"], &told["format"], &told["output"]),
        (&1.into(), &"jsonl".into(), &"calls.jsonl".into())
    );
    assert_eq!((&told["calls"], &told["bytes"]), (&place.trace().len().into(), &dump.len().into()));
    let some = export(&place, &["--to", "jsonl", "-o", "-", "--grep", "Launch", "--limit", "2"]).expect(0).stdout;
    let launches: Vec<&str> = dump.lines().filter(|line| line.contains("cuLaunchKernel")).collect();
    let lines: Vec<&str> = some.lines().collect();
    assert_eq!(lines[..1], dump.lines().take(1).collect::<Vec<_>>());
    assert_eq!(lines[1..], launches[..2]);
    let header: Value = serde_json::from_str(lines[0]).expect("JSON");
    let trace = place.trace();
    assert_eq!(
        (&header["kind"], &header["schema"], &header["pid"]),
        (&"header".into(), &1.into(), &trace.preamble.pid.into())
    );
    assert_eq!(header["devices"][0]["name"], trace.devices[0].name);
    assert!(dump.lines().all(|line| serde_json::from_str::<Value>(line).expect("JSON")["kind"].is_string()));
}

#[test]
fn nothing_is_overwritten_or_left_behind() {
    use std::os::unix::fs::PermissionsExt;
    let place = recorded("vector_add.c");
    let files = || {
        let mut all: Vec<String> = std::fs::read_dir(place.path())
            .expect("our own directory")
            .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
            .collect();
        all.sort();
        all
    };
    std::fs::write(place.join("kept"), "mine").expect("written");
    let ran = export(&place, &["--to", "jsonl", "-o", "kept"]).expect(1);
    assert_eq!(ran.stderr, "cutrace: kept exists already; --force replaces it\n");
    assert_eq!(std::fs::read_to_string(place.join("kept")).expect("kept"), "mine");
    // A link is there even if what it names is not.
    std::os::unix::fs::symlink("nowhere", place.join("link")).expect("our own directory");
    let ran = export(&place, &["--to", "jsonl", "-o", "link"]).expect(1);
    assert_eq!(ran.stderr, "cutrace: link exists already; --force replaces it\n");
    std::fs::remove_file(place.join("link")).expect("our own");
    // Neither does an export that fails on the way replace anything.
    let bytes = std::fs::read(place.join("trace.bin")).expect("a trace");
    std::fs::write(place.join("cut"), &bytes[..100]).expect("written");
    export(&place, &["cut", "--to", "jsonl", "-o", "kept", "--force"]).expect(3);
    assert_eq!(std::fs::read_to_string(place.join("kept")).expect("kept"), "mine");
    assert_eq!(files(), ["cut", "kept", "trace.bin"]);
    export(&place, &["--to", "jsonl", "-o", "kept", "--force"]).expect(0);
    let mode = std::fs::metadata(place.join("kept")).expect("kept").permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "it holds the application's data");
    assert_eq!(files(), ["cut", "kept", "trace.bin"]);
    // The trace itself, under whatever name.
    std::fs::hard_link(place.join("trace.bin"), place.join("same")).expect("linked");
    for name in ["trace.bin", "./trace.bin", "same"] {
        let ran = export(&place, &["--to", "jsonl", "--force", "-o", name]).expect(2);
        assert!(ran.stderr.contains("this is the trace itself"), "{}", ran.stderr);
    }
    let ran = export(&place, &["--to", "jsonl", "-o", "nowhere/calls"]).expect(1);
    assert_eq!(ran.stderr, "cutrace: -o nowhere/calls: directory nowhere does not exist\n");
    // Where even root may not write.
    let ran = export(&place, &["--to", "jsonl", "-o", "/proc/self/calls"]).expect(1);
    assert!(ran.stderr.contains("directory /proc/self is not writable: "), "{}", ran.stderr);
    assert!(!ran.stderr.contains(".partial"), "{}", ran.stderr);
    for (wrong, why) in [
        (&["--to", "xml", "-o", "x"][..], "[possible values: perfetto, chrome, jsonl, sqlite, parquet, csv]"),
        (&["--to", "jsonl"], "--output <FILE>"),
        (&["-o", "x"], "--to <FORMAT>"),
        (&["--to", "jsonl", "--no-args", "-o", "x"], "--no-args applies to --to perfetto and chrome"),
        (&["--to", "jsonl", "--json", "-o", "-"], "give -o a file"),
        (&["--to", "sqlite", "-o", "-"], "a database cannot be streamed"),
        (&["--to", "parquet", "-o", "-"], "give a directory"),
        (&["--to", "csv", "-o", "-"], "give a directory"),
        (&["--to", "sqlite", "-o", "x.gz"], "applies to --to perfetto, chrome and jsonl only"),
    ] {
        let ran = export(&place, wrong).expect(2);
        assert!(ran.stderr.contains(why), "{}", ran.stderr);
    }
}

/// Interrupted on the way: nothing stays.
#[test]
fn an_interrupted_export_leaves_nothing() {
    let place = Place::new();
    run(place.recorded(client("many_calls.c")).arg("150000")).expect(0);
    for (format, signal, name) in [
        ("perfetto", libc::SIGINT, "SIGINT"),
        ("perfetto", libc::SIGHUP, "SIGHUP"),
        ("sqlite", libc::SIGINT, "SIGINT"),
        ("parquet", libc::SIGINT, "SIGINT"),
    ] {
        interrupted(&place, format, signal, name);
    }
}

fn interrupted(place: &Place, format: &str, signal: i32, name: &str) {
    let mut command = place.cutrace(["export", "--to", format, "-o", "made"]);
    // Tests that are run in the background may have been given signals that are ignored.
    let heeds = || {
        // SAFETY: allowed between fork and exec.
        let _as_before = unsafe { [libc::SIGINT, libc::SIGHUP].map(|signal| libc::signal(signal, libc::SIG_DFL)) };
        Ok(())
    };
    // SAFETY: as above.
    unsafe { std::os::unix::process::CommandExt::pre_exec(&mut command, heeds) };
    let mut child = command.stderr(std::process::Stdio::piped()).spawn().expect("started");
    let within = |directory: &Path| -> Vec<String> {
        let entries = std::fs::read_dir(directory).into_iter().flatten();
        entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect()
    };
    let files = || within(place.path());
    while !files().into_iter().chain(within(&place.join("made"))).any(|name| name.ends_with(".partial")) {
        std::thread::sleep(std::time::Duration::from_millis(1));
        assert!(child.try_wait().expect("our child").is_none(), "too fast to be interrupted");
    }
    std::thread::sleep(std::time::Duration::from_millis(20));
    // SAFETY: the child is ours and has not been waited for.
    unsafe { libc::kill(child.id() as i32, signal) };
    let ended = child.wait_with_output().expect("our child");
    let told = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(told, format!("cutrace: interrupted by {name}; nothing was written\n"));
    assert_eq!(ended.status.code(), Some(128 + signal));
    assert!(files().iter().all(|name| name.starts_with("trace.bin")), "{:?}", files());
}

#[test]
fn a_full_disk_leaves_nothing_half_written() {
    const LIMIT: &str = "File too large";
    let place = recorded("streams_events.c");
    for (arguments, status, why) in [
        ("export --to perfetto -o made", 1, LIMIT),
        ("export --to sqlite -o made", 1, "made: disk I/O error"),
        ("repair trace.bin -o made", 1, LIMIT),
        ("redact trace.bin -o made", 1, LIMIT),
        ("replay --driver sim --profile -o made", 1, LIMIT),
    ] {
        let script = format!("ulimit -f 4; exec \"$0\" {arguments}");
        let mut bash = place.command("bash");
        let ran = run(bash.args(["-c", &script]).arg(artifact("cutrace"))).expect(status);
        assert!(ran.stderr.contains(why), "{arguments}: {}", ran.stderr);
        let left: Vec<_> =
            std::fs::read_dir(place.path()).expect("the directory").map(|e| e.expect("an entry").file_name()).collect();
        assert!(!left.iter().any(|name| name.to_string_lossy().contains("made")), "{arguments}: {left:?}");
    }
}
