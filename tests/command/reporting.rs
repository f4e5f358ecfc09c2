//! `cutrace report`: the correctness of its reports, and its options.

use serde_json::Value;
use std::collections::BTreeMap;
use tests::forge::Forge;
use tests::*;
use trace::file::segment::Kind;

const OURS: [&str; 10] =
    ["summary", "sync", "host", "memory", "leaks", "transfers", "launches", "modules", "errors", "pending"];
const NSIGHT: [(&str, &str); 2] = [
    ("cuda_api_sum", "Time (%),Total Time (ns),Num Calls,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name"),
    ("cuda_api_trace", "Start (ns),Duration (ns),Name,Result,CorrID,Pid,Tid,T-Pri,Thread Name"),
];

pub fn recorded(app: &str) -> Place {
    let place = Place::new();
    run(&mut place.recorded(client(app))).expect(0);
    place
}

pub fn report(place: &Place, arguments: &[&str]) -> Outcome {
    run(place.cutrace(["report"]).args(arguments))
}

/// The rows of one table.
#[track_caller]
pub fn rows(place: &Place, name: &str, part: &str) -> Vec<Value> {
    let ran = report(place, &["-r", name, "--json"]).expect(0);
    assert_eq!(ran.stderr, "");
    let whole: Value = serde_json::from_str(&ran.stdout).expect("JSON");
    assert_eq!(whole["schema"], 1);
    let tables = whole["reports"].as_array().expect("reports");
    let table = tables.iter().find(|table| table["report"] == name && table["table"].as_str().unwrap_or("") == part);
    let table = table.unwrap_or_else(|| panic!("no table {part:?}: {whole}"));
    table["rows"].as_array().expect("rows").clone()
}

pub fn one<'v>(rows: &'v [Value], key: &str, value: &str) -> &'v Value {
    let found: Vec<&Value> = rows.iter().filter(|row| row[key] == value).collect();
    assert_eq!(found.len(), 1, "{key} {value}: {rows:?}");
    found[0]
}

/// The values of some columns.
pub fn pick(row: &Value, keys: &[&str]) -> Vec<Value> {
    keys.iter().map(|key| row[*key].clone()).collect()
}

pub fn numbers(row: &Value, keys: &[&str]) -> Vec<u64> {
    pick(row, keys).iter().map(|value| value.as_u64().unwrap_or_else(|| panic!("{row}"))).collect()
}

#[test]
fn every_report_in_every_form() {
    let place = recorded("wasteful.c");
    for name in OURS.into_iter().chain(NSIGHT.map(|(name, _)| name)) {
        let table = report(&place, &["-r", name]).expect(0);
        assert!(table.stderr.is_empty() && !table.stdout.contains("\x1b["), "{name}: {table:?}");
        let csv = report(&place, &["-r", name, "--format", "csv"]).expect(0);
        let json = report(&place, &["-r", name, "--format", "json"]).expect(0);
        assert_eq!(report(&place, &["-r", name, "--json"]).expect(0), json);
        let json: Value = serde_json::from_str(&json.stdout).unwrap_or_else(|error| panic!("{name}: {error}"));
        let tables = json["reports"].as_array().expect("reports");
        // In CSV: each table its header and its rows, set apart by empty lines.
        let apart: Vec<&str> = csv.stdout.trim_end().split("\n\n").collect();
        assert_eq!(apart.len(), tables.len(), "{name}");
        for (text, table) in apart.into_iter().zip(tables) {
            let mut lines = text.lines().filter(|line| !line.starts_with('#'));
            let keys: Vec<&str> =
                table["columns"].as_array().expect("columns").iter().filter_map(Value::as_str).collect();
            assert_eq!(lines.next(), Some(keys.join(",").as_str()), "{name}");
            assert_eq!(lines.count(), table["rows"].as_array().expect("rows").len(), "{name}");
            for row in table["rows"].as_array().expect("rows") {
                assert_eq!(row.as_object().expect("an object").keys().collect::<Vec<_>>(), keys, "{name}");
            }
        }
    }
    let all = report(&place, &["-r", "errors,sync", "-r", "pending"]).expect(0).stdout;
    let at = |title| all.find(title).unwrap_or_else(|| panic!("{title}: {all}"));
    assert!(at("(errors)") < at("(sync)") && at("(sync)") < at("(pending)"), "{all}");
}

#[test]
fn nsights_columns_are_nsights() {
    let place = recorded("vector_add.c");
    for (name, columns) in NSIGHT {
        let ran = report(&place, &["-r", name, "--format", "csv"]).expect(0);
        assert_eq!(ran.stdout.lines().next(), Some(columns));
    }
}

/// Against what `dump` says, call by call.
#[test]
fn the_sums_are_those_of_the_calls() {
    let place = recorded("wasteful.c");
    let dump = run(&mut place.cutrace(["dump", "--json"])).expect(0).stdout;
    let calls = objects(&dump);
    let mut expected: BTreeMap<String, Vec<i64>> = BTreeMap::new();
    for call in &calls {
        let function = call["function"].as_str().expect("a name").to_owned();
        expected.entry(function).or_default().push(call["duration_ns"].as_i64().expect("a duration"));
    }
    let found = rows(&place, "cuda_api_sum", "");
    assert_eq!(found.len(), expected.len());
    let mut percent = 0.0;
    for (function, mut durations) in expected {
        let row = one(&found, "Name", &function);
        durations.sort_unstable();
        let (count, middle) = (durations.len(), durations.len() / 2);
        let median = (durations[(count - 1) / 2] + durations[middle]) as f64 / 2.0;
        let sums: Vec<Value> =
            vec![durations.iter().sum::<i64>().into(), count.into(), durations[0].into(), durations[count - 1].into()];
        assert_eq!(pick(row, &["Total Time (ns)", "Num Calls", "Min (ns)", "Max (ns)"]), sums, "{function}");
        assert_eq!(row["Med (ns)"], median, "{function}");
        percent += row["Time (%)"].as_f64().expect("a number");
    }
    assert!((percent - 100.0).abs() < 2.0, "{percent}");
    let trace = rows(&place, "cuda_api_trace", "");
    assert_eq!(trace.len(), calls.len());
    for (row, call) in trace.iter().zip(&calls) {
        let keys = ["Start (ns)", "Duration (ns)", "Name", "Result", "CorrID"];
        assert_eq!(pick(row, &keys), pick(call, &["time_ns", "duration_ns", "function", "result_code", "call"]));
        assert_eq!(row["T-Pri"], Value::Null);
    }
}

#[test]
fn waits_for_nothing_are_found() {
    let place = recorded("wasteful.c");
    let found = rows(&place, "sync", "");
    let keys = ["calls", "needless", "submissions_covered"];
    assert_eq!(numbers(one(&found, "function", "cuStreamSynchronize"), &keys), [2, 1, 5]);
    let context = one(&found, "function", "cuCtxSynchronize");
    // A copy within the device, though it has no stream, is waited for as the launches are.
    assert_eq!(numbers(context, &keys), [3, 1, 4]);
    assert_eq!(context["object"], "ctx#1");
    // On a busy machine a wait for nothing can be the longest.
    let last = context["longest_waited_for"].as_str();
    let awaited = ["cuLaunchKernel of vector_add", "cuMemcpy2D_v2"];
    assert!(last.is_none_or(|text| awaited.contains(&text)), "{context}");
    assert_eq!(context["longest_waited_for_call"].is_u64(), last.is_some(), "{context}");
    // A synchronous copy waits for the launch before it.
    assert_eq!(numbers(one(&found, "function", "cuMemcpyHtoD_v2"), &keys), [6, 0, 1]);
}

#[test]
fn memory_is_accounted_for() {
    let place = recorded("wasteful.c");
    let sides = rows(&place, "memory", "sides");
    let keys = ["peak_bytes", "allocations", "frees", "ended_with_context", "total_bytes", "live_bytes"];
    let (big, small, four) = (1 << 20, 1 << 10, 4096);
    let total = 3 * four + big + 4 * small + 2 * four + 1000;
    assert_eq!(numbers(one(&sides, "where", "device 0"), &keys), [3 * four + big, 11, 8, 3, total, 0]);
    assert_eq!(numbers(one(&sides, "where", "host"), &keys), [four, 1, 1, 0, four, 0]);
    let families = rows(&place, "memory", "families");
    let kinds: Vec<&str> = families.iter().filter_map(|row| row["kind"].as_str()).collect();
    assert_eq!(kinds, ["device", "managed", "pool", "pinned"]);
    let peak: u64 = rows(&place, "memory", "peak").iter().filter_map(|row| row["bytes"].as_u64()).sum();
    assert_eq!(peak, 3 * four + big + four);
    let failed = rows(&place, "memory", "failed");
    assert_eq!(failed.len(), 1);
    assert_eq!(numbers(&failed[0], &["asked_bytes", "live_bytes", "live_allocations"]), [1 << 45, 3 * four, 3]);
    let left = rows(&place, "memory", "left");
    assert_eq!(
        left.iter().map(|row| numbers(row, &["bytes", "allocations"])).collect::<Vec<_>>(),
        [[2 * four, 2], [1000, 1]]
    );
    // The same among the leaks, with the calls that got it.
    let leaks = rows(&place, "leaks", "memory");
    let keys = ["where", "bytes", "allocations", "each_bytes", "kind", "first_call", "end", "function"];
    let alike = |all: &[Value]| all.iter().map(|row| pick(row, &keys)).collect::<Vec<_>>();
    assert_eq!(alike(&leaks), alike(&left));
    let calls: Vec<u64> =
        leaks[0]["calls"].as_str().expect("calls").split(' ').map(|call| call.parse().expect("a number")).collect();
    let trace = place.trace();
    let names: Vec<String> = calls.iter().map(|call| trace.call(*call).expect("a call").name().to_owned()).collect();
    assert_eq!((calls[0], names), (numbers(&left[0], &["first_call"])[0], vec!["cuMemAlloc_v2".to_owned(); 2]));
    let not_freed = rows(&place, "summary", "findings");
    assert_eq!(one(&not_freed, "kind", "not_freed")["next"], "cutrace report trace.bin -r leaks");
    // Those that were not asked for are not told of.
    let some = report(&place, &["-r", "leaks", "--grep", "cuEventCreate"]).expect(0).stdout;
    assert!(!some.contains("cuMemAlloc_v2"), "{some}");
}

/// Physical memory lives as long as a handle or a mapping of it does.
#[test]
fn virtual_memory_is_counted_once() {
    for app in ["virtual_memory.c", "expandable_segments.c"] {
        let place = recorded(app);
        let found = rows(&place, "memory", "families");
        let physical = one(&found, "function", "cuMemCreate");
        assert_eq!(physical["kind"], "virtual");
        assert_eq!(physical["allocations"], calls_named(&place.trace(), "cuMemCreate").len(), "{app}");
        assert!(found.iter().all(|row| !matches!(row["function"].as_str(), Some("cuMemAddressReserve" | "cuMemMap"))));
        let freed = numbers(physical, &["bytes", "freed_bytes"]);
        let left = rows(&place, "memory", "left");
        let live = left.iter().filter(|row| row["kind"] == "virtual").filter_map(|row| row["bytes"].as_u64());
        assert_eq!(freed[0], freed[1] + live.sum::<u64>(), "{app}");
    }
}

#[test]
fn transfers_and_their_repeats() {
    let place = recorded("wasteful.c");
    let ways = rows(&place, "transfers", "ways");
    let way = |function| pick(one(&ways, "function", function), &["from", "to", "copies", "bytes"]);
    let expected = |from: &str, to: &str, copies: u64| -> Vec<Value> {
        vec![from.into(), to.into(), copies.into(), (copies * 4096).into()]
    };
    assert_eq!(way("cuMemcpyHtoD_v2"), expected("pageable", "device", 6));
    assert_eq!(way("cuMemcpyHtoDAsync_v2"), expected("pinned", "device", 3));
    let rows_copied: Vec<Value> = vec!["device".into(), "device".into(), 1.into(), 64.into()];
    assert_eq!(way("cuMemcpy2D_v2"), rows_copied);
    assert_eq!(way("cuMemcpyDtoHAsync_v2"), expected("device", "pageable", 1));
    assert!(one(&ways, "function", "cuMemcpyHtoD_v2")["bytes_per_second"].as_f64().is_some_and(|rate| rate > 0.0));
    assert_eq!(one(&ways, "function", "cuMemcpyHtoDAsync_v2")["bytes_per_second"], Value::Null);
    let again = rows(&place, "transfers", "again");
    let found: Vec<_> = again.iter().map(|row| numbers(row, &["redundant", "repeated", "bytes"])).collect();
    assert_eq!(found, [[2, 1, 4096], [0, 1, 4096]]);
    assert_eq!((&again[0]["destination"], &again[1]["destination"]), (&"mem#1".into(), &"mem#2".into()));
}

#[test]
fn memory_under_a_capture_is_its_graphs() {
    let families = rows(&recorded("capture_memory.c"), "memory", "families");
    assert_eq!(families.iter().map(|row| row["function"].as_str()).collect::<Vec<_>>(), [Some("cuMemAlloc_v2")]);
}

#[test]
fn copies_into_managed_variables_are_of_managed_memory() {
    let ways = rows(&recorded("managed_variable_copies.c"), "transfers", "ways");
    let way = pick(one(&ways, "function", "cuMemcpyHtoD_v2"), &["from", "to", "copies", "bytes"]);
    assert_eq!(way, ["pageable".into(), "managed".into(), 2.into(), Value::from(20)]);
}

/// Rectangles, boxes, arrays, batches: every way to copy is one that is counted.
#[test]
fn every_copy_has_its_bytes() {
    for app in ["every_copy.c", "batch_copies.c", "pitched_copies.c", "unified_copies.c"] {
        let place = recorded(app);
        let trace = place.trace();
        let is_copy = |name: &str| name.starts_with("cuMemcpy");
        let copied = trace.calls().filter(|call| call.succeeded() && is_copy(call.name()));
        let functions: std::collections::BTreeSet<&str> = copied.map(|call| call.name()).collect();
        let ways = rows(&place, "transfers", "ways");
        let found: std::collections::BTreeSet<&str> = ways.iter().filter_map(|row| row["function"].as_str()).collect();
        assert_eq!(found, functions, "{app}");
        assert!(ways.iter().all(|row| row["bytes"].as_u64().is_some_and(|bytes| bytes > 0)), "{app}: {ways:?}");
    }
}

#[test]
fn launches_and_modules() {
    let place = recorded("wasteful.c");
    let kernels = rows(&place, "launches", "kernels");
    assert_eq!(numbers(&kernels[0], &["launches", "configurations", "arguments"]), [4, 3, 4]);
    assert_eq!((&kernels[0]["kernel"], &kernels[0]["varying"]), (&"vector_add".into(), &1.into()));
    let arguments = rows(&place, "launches", "arguments");
    assert_eq!(arguments.len(), 1, "{arguments:?}");
    assert_eq!(numbers(&arguments[0], &["argument", "changes", "launches", "bytes"]), [3, 3, 4, 4]);
    let shapes = rows(&place, "launches", "configurations");
    assert_eq!(
        shapes.iter().map(|row| row["block"].as_str().unwrap_or("")).collect::<Vec<_>>(),
        ["32x1x1", "64x1x1", "256x1x1"]
    );
    let modules = rows(&place, "modules", "");
    assert_eq!(modules.len(), 1);
    let keys = ["loads", "repeated", "failed", "unloads", "functions_looked_up", "launches"];
    assert_eq!(numbers(&modules[0], &keys), [2, 1, 0, 1, 1, 4]);
    let ptx = std::fs::metadata(kernels_file()).expect("the PTX").len();
    // Read up to and including the NUL.
    assert_eq!((&modules[0]["kind"], &modules[0]["bytes"]), (&"PTX".into(), &(ptx + 1).into()));
}

#[test]
fn the_summary_is_numbers_to_scripts() {
    let place = recorded("wasteful.c");
    let ran = rows(&place, "summary", "ran");
    let value = |what: &str, of: &str| {
        let is_it = |row: &&Value| row["what"] == what && row["of"].as_str().unwrap_or("") == of;
        ran.iter().find(is_it).unwrap_or_else(|| panic!("{what} {of}: {ran:?}"))["value"].clone()
    };
    let trace = place.trace();
    assert_eq!((value("calls", ""), value("trace_bytes", "")), (trace.len().into(), trace.bytes_on_disk().into()));
    assert_eq!((value("launches", ""), value("kernels", "")), (4.into(), 1.into()));
    assert_eq!((value("copies", "to_device"), value("copied_bytes", "from_device")), (9.into(), 4096.into()));
    let peak = |row: &Value| (row["where"].clone(), row["peak_bytes"].clone());
    for (side, bytes) in rows(&place, "memory", "sides").iter().map(peak) {
        assert_eq!(value("peak_bytes", side.as_str().expect("a place")), bytes);
    }
    assert!(value("host_in_calls_ns", "").as_u64() > Some(0) && value("elapsed_ns", "").as_u64() > Some(0), "{ran:?}");
    assert!(!ran.iter().any(|row| row["value"].as_str().is_some_and(|text| text.contains(" in "))), "{ran:?}");
}

fn kernels_file() -> std::path::PathBuf {
    tests::kernels().join("vector_add.ptx")
}

#[test]
fn failures_and_the_summary() {
    let place = recorded("wasteful.c");
    let errors = rows(&place, "errors", "");
    let found: Vec<_> = errors.iter().map(|row| pick(row, &["calls", "result", "function"])).collect();
    let expected: [[Value; 3]; 2] = [
        [1.into(), "CUDA_ERROR_OUT_OF_MEMORY".into(), "cuMemAlloc_v2".into()],
        [2.into(), "CUDA_ERROR_NOT_FOUND".into(), "cuModuleGetFunction".into()],
    ];
    assert_eq!(found, expected);
    let findings = rows(&place, "summary", "findings");
    let kinds: Vec<&str> = findings.iter().filter_map(|row| row["kind"].as_str()).collect();
    assert_eq!(kinds[..2], ["failed_calls", "failed_allocations"]);
    for kind in ["synchronous_pageable_copies", "repeated_module_loads", "not_freed"] {
        assert!(kinds.contains(&kind), "{kind}: {kinds:?}");
    }
    assert!(
        findings
            .iter()
            .all(|row| row["next"].as_str().is_some_and(|next| next.starts_with("cutrace report trace.bin")))
    );
    // The times of the kinds are those of the calls.
    let time = |rows: Vec<Value>, key: &str| rows.iter().filter_map(|row| row[key].as_u64()).sum::<u64>();
    let kinds = time(rows(&place, "summary", "host_time"), "time_ns");
    assert_eq!(kinds, time(rows(&place, "cuda_api_sum", ""), "Total Time (ns)"));
    // Nothing is wrong with this one.
    let place = recorded("vector_add.c");
    let findings = rows(&place, "summary", "findings");
    assert!(findings.iter().all(|row| !row["cost_ns"].is_null()), "{findings:?}");
}

#[test]
fn what_is_under_way_when_the_program_dies() {
    let place = Place::new();
    let mut program = place.recorded(client("killed_in_call.c"));
    run(program.env("CUTRACE_SIM_SLOW_US", "2000000")).expect(128 + 9);
    let inside = rows(&place, "pending", "inside");
    assert_eq!(inside.len(), 1, "{inside:?}");
    assert_eq!(inside[0]["function"], "cuCtxSynchronize");
    let findings = rows(&place, "summary", "findings");
    assert!(findings.iter().any(|row| row["kind"] == "unfinished"), "{findings:?}");
    // It lasted as long as the process lived, which killed itself after a fifth of a second.
    let fifth =
        |value: &Value| (150_000_000..1_900_000_000).contains(&value.as_i64().unwrap_or_else(|| panic!("{value}")));
    assert!(fifth(&inside[0]["for_ns"]), "{inside:?}");
    let sums = rows(&place, "cuda_api_sum", "");
    assert!(fifth(&one(&sums, "Name", "cuCtxSynchronize")["Total Time (ns)"]), "{sums:?}");
    let times = rows(&place, "summary", "host_time");
    assert!(times.iter().any(|row| fifth(&row["time_ns"])), "{times:?}");
    let waits = rows(&place, "sync", "");
    assert!(fifth(&one(&waits, "function", "cuCtxSynchronize")["total_ns"]), "{waits:?}");
    let info = run(&mut place.cutrace(["info"])).expect(0).stdout;
    assert!(
        info.contains("is inside call 4 cuCtxSynchronize, since ") && info.contains(" until the process ended"),
        "{info}"
    );
    let info: Value =
        serde_json::from_str(&run(&mut place.cutrace(["info", "--json"])).expect(0).stdout).expect("JSON");
    assert!(fifth(&info["unfinished"]["inside"][0]["for_ns"]), "{info}");
    // A call without an end has no duration.
    let ran = report(&place, &["-r", "cuda_api_trace", "--format", "csv", "--grep", "cuCtxSynchronize"]).expect(0);
    let fields: Vec<&str> = ran.stdout.lines().nth(1).expect("the call").split(',').collect();
    assert_eq!((fields[1], fields[3]), ("", ""));
}

#[test]
fn reports_that_cannot_be_had_are_refused_by_name() {
    let place = recorded("vector_add.c");
    for name in [
        "cuda_gpu_kern_sum",
        "cuda_gpu_kern_gb_sum",
        "cuda_gpu_trace",
        "cuda_gpu_mem_time_sum",
        "cuda_gpu_mem_size_sum",
        "cuda_gpu_sum",
        "cuda_kern_exec_sum",
        "cuda_kern_exec_trace",
        "gaps",
    ] {
        let ran = report(&place, &["-r", name]).expect(2);
        assert_eq!(ran.stdout, "");
        let why = "needs device times, and this trace has none: cutrace replay trace.bin --profile -o timed.bin";
        assert!(ran.stderr.starts_with(&format!("cutrace: report {name} {why}")), "{}", ran.stderr);
    }
    // No replay is proposed of a trace that cannot be replayed.
    let without = Place::new();
    run(without.recorded(client("vector_add.c")).env("CUTRACE_DATA", "none")).expect(0);
    let ran = report(&without, &["-r", "gaps"]).expect(2);
    assert!(
        ran.stderr.contains("has none: record with --gpu-times") && !ran.stderr.contains("replay "),
        "{}",
        ran.stderr
    );
    for name in ["nvtx_sum", "nvtx_pushpop_sum", "nvtx_gpu_proj_sum"] {
        let ran = report(&place, &["-r", name]).expect(2);
        assert!(ran.stderr.contains("needs NVTX annotations"), "{}", ran.stderr);
    }
    // Unknown names list the known ones, with or without a trace.
    for place in [&place, &Place::new()] {
        let ran = report(place, &["-r", "cuda_api_sum,sums"]).expect(2);
        for said in ["'sums'", "[possible values: summary, cuda_api_sum, ", "nvtx_gpu_proj_trace]"] {
            assert!(ran.stderr.contains(said), "{}", ran.stderr);
        }
    }
    let help = report(&place, &["--help"]).expect(0).stdout;
    for name in OURS.into_iter().chain(NSIGHT.map(|(name, _)| name)).chain(["gaps", "nvtx_sum"]) {
        assert!(help.contains(&format!("\n  {name} ")), "{name}");
    }
    for wrong in [["--format", "xml"], ["--json", "--format=csv"], ["--mangled", "--short"]] {
        assert_eq!(report(&place, &wrong).code(), 2, "{wrong:?}");
    }
}

#[test]
fn reports_select() {
    let place = recorded("two_contexts.c");
    let calls = |arguments: &[&str]| {
        let ran = report(&place, &[&["-r", "cuda_api_trace", "--format", "csv"], arguments].concat()).expect(0);
        ran.stdout.lines().count() - 1
    };
    let all = calls(&[]);
    assert_eq!(calls(&["--calls", "3..7"]), 4);
    let whole = report(&place, &["-r", "cuda_api_trace", "--format", "csv"]).expect(0).stdout;
    let begins = |call: usize| whole.lines().nth(1 + call).and_then(|row| row.split(',').next()).expect("a row");
    assert_eq!(calls(&["--window", &format!("{}ns..{}ns", begins(3), begins(7))]), 4);
    assert_eq!(calls(&["--window", &format!("{}ns..", begins(all - 1))]), 1);
    assert_eq!(calls(&["--limit", "2"]), 2);
    assert_eq!(calls(&["--thread", "t0"]) + calls(&["--thread", "1"]), all);
    assert_eq!(calls(&["--grep", "^cuLaunchKernel "]), 3, "with its kernel");
    // The same report again is not another.
    let ran =
        report(&place, &["-r", "cuda_api_sum,cuda_api_sum", "-r", "cuda_api_sum", "--limit", "2", "--json"]).expect(0);
    let whole: Value = serde_json::from_str(&ran.stdout).expect("JSON");
    assert_eq!(whole["reports"].as_array().map(Vec::len), Some(1));
    assert_eq!(whole["reports"][0]["rows"].as_array().map(Vec::len), Some(2));
    assert!(whole["reports"][0]["notes"][0].as_str().is_some_and(|note| note.starts_with("and ")), "{whole}");
    // What is left out still makes and ends objects.
    let some = report(&place, &["-r", "sync", "--grep", "Synchronize", "--json"]).expect(0).stdout;
    assert!(!some.contains("ctx@"), "{some}");
    assert_eq!(report(&place, &["--thread", "t9"]).code(), 2);
}

/// Time in calls that were left out, or not asked for, is not outside the driver.
#[test]
fn time_in_other_calls_is_told_apart() {
    let place = recorded("two_contexts.c");
    let host_time = |arguments: &[&str]| {
        let ran = report(&place, arguments).expect(0).stdout;
        let line = ran.lines().find(|line| line.trim_start().starts_with("host time"));
        line.unwrap_or_else(|| panic!("{ran}")).to_owned()
    };
    let whole = host_time(&[]);
    assert!(whole.contains(" in the driver, ") && whole.contains(" outside it"), "{whole}");
    let some = host_time(&["--grep", "^cuLaunchKernel "]);
    for words in [" in these calls, ", " in other calls between them, ", " outside the driver"] {
        assert!(some.contains(words), "{some}");
    }
    let place = Place::new();
    let mut record = place.recorded(client("differing_calls.c"));
    run(record.args(["queries", "40"]).env("CUTRACE_CALLS", "20")).expect(0);
    let ran = report(&place, &[]).expect(0).stdout;
    assert!(ran.contains(" outside it or in calls outside the recorded range"), "{ran}");
}

#[test]
fn names_and_colours() {
    let place = recorded("vector_add.c");
    let mut forge = Forge::open(place.join("trace.bin"));
    // A name of the same length, as C++ makes them.
    forge.replace(Kind::Chunk, b"vector_add", b"_ZN1f1gEii");
    forge.reseal();
    forge.write(place.join("named.bin"));
    let kernel = |flags: &[&str]| {
        let ran = report(&place, &[&["named.bin", "-r", "launches", "--json"], flags].concat()).expect(0);
        let whole: Value = serde_json::from_str(&ran.stdout).expect("JSON");
        whole["reports"][0]["rows"][0]["kernel"].as_str().expect("a name").to_owned()
    };
    assert_eq!(kernel(&["--mangled"]), "_ZN1f1gEii");
    assert_eq!((kernel(&[]), kernel(&["--short"])), ("f::g(int, int)".into(), "g".into()));
    for pattern in ["^cuLaunchKernel _ZN1f1gEii$", r"f::g\(int", "Kernel g$"] {
        assert_eq!(kernel(&["--grep", pattern]), "f::g(int, int)");
    }
    // A replay finds it by each of them.
    for name in ["_ZN1f1gEii", "f::g(int, int)", "g#1"] {
        for flag in ["--break", "--only-kernel"] {
            run(&mut place.cutrace(["replay", "named.bin", "--dry-run", flag, name])).expect(0);
        }
    }
    let colored = report(&place, &["--color", "always"]).expect(0).stdout;
    assert!(colored.contains("\x1b[1mWhat ran\x1b[0m"), "{colored}");
}

#[test]
fn completions_know_the_commands() {
    let place = Place::new();
    for shell in ["bash", "zsh", "fish"] {
        let script = run(&mut place.cutrace(["completions", shell])).expect(0).stdout;
        for word in ["report", "export", "no-args", "cuda_gpu_kern_sum"] {
            assert!(script.contains(word), "{shell}: {word}");
        }
    }
}

/// A program that hangs is asked from outside, while it does and when it has been killed.
#[test]
fn work_that_a_hanging_program_waits_for() {
    let place = Place::new();
    let mut hanging = place.preloaded(client("hanging.c")).spawn().expect("the program");
    let pending = || place.cutrace(["report", "-r", "pending"]).output().expect("cutrace");
    let told = loop {
        let told = String::from_utf8(pending().stdout).expect("text");
        if told.contains("cuStreamSynchronize") {
            break told;
        }
        assert!(hanging.try_wait().expect("the program").is_none(), "it has ended");
    };
    assert!(told.contains("the process is running: times count until now"), "{told}");
    let info = run(&mut place.cutrace(["info"])).expect(0).stdout;
    assert!(info.contains("is inside call 14 cuStreamSynchronize, since ") && info.contains(" so far"), "{info}");
    assert!(info.contains(&format!(", open: process {} is still writing it)", hanging.id())), "{info}");
    // The timeline draws the first that is possibly unfinished, and not the last, as the one that goes
    // on.
    std::thread::sleep(std::time::Duration::from_secs(1));
    let drawn = run(&mut place.cutrace(["view", "--once", "--no-index", "trace.bin"])).expect(0).stdout;
    let lane = drawn.lines().find(|line| line.contains("stream#1")).unwrap_or_else(|| panic!("{drawn}"));
    assert!(lane.contains("wait_for_host ?") && !lane.contains("add_two"), "{drawn}");
    // What has not come to its end counts up to this moment.
    let sums = rows(&place, "cuda_api_sum", "");
    assert!(one(&sums, "Name", "cuStreamSynchronize")["Total Time (ns)"].as_u64() > Some(900_000_000), "{sums:?}");
    hanging.kill().and_then(|()| hanging.wait()).expect("the program");
    let told = run(&mut place.cutrace(["report", "-r", "pending"])).expect(0).stdout;
    let stands = |words: &[&str]| told.lines().any(|line| words.iter().all(|word| line.contains(word)));
    assert!(stands(&["t0 hanging", "cuStreamSynchronize"]), "{told}");
    assert!(stands(&["stream#1", "cuLaunchKernel of wait_for_host"]), "{told}");
    assert!(stands(&["stream#1", "cuLaunchKernel of add_two"]), "{told}");
    assert!(told.contains("times count until the last call of the trace"), "{told}");
}

#[test]
fn failures_quote_what_the_driver_says_of_graphs() {
    let place = recorded("graphs_refused.c");
    let said = rows(&place, "errors", "messages");
    let text = |what: &str| {
        let row = said.iter().find(|row| row["what"] == what).unwrap_or_else(|| panic!("{what}: {said:?}"));
        (row["function"].as_str().expect("a name"), row["text"].as_str().expect("a line"))
    };
    let (function, outcome) = text("resultInfo");
    assert_eq!(function, "cuGraphExecUpdate_v2");
    assert!(outcome.starts_with("{result=CU_GRAPH_EXEC_UPDATE_ERROR_"), "{outcome}");
    assert_eq!(text("logBuffer"), ("cuGraphInstantiate_v2", "no such graph"));
}

#[test]
fn failures_quote_the_compiler_and_the_linker() {
    let place = recorded("linker_logs.c");
    let said = rows(&place, "errors", "messages");
    let first_lines: Vec<(&str, &str)> = said
        .iter()
        .step_by(2)
        .map(|row| (row["function"].as_str().expect("a name"), row["text"].as_str().expect("a line")))
        .collect();
    let lacks = "ptxas application ptx input, line 45; error   : Unknown symbol 'weight'";
    let broken = "ptxas application ptx input, line 17; error   : Unknown symbol '%r9'";
    assert_eq!(
        first_lines,
        [
            ("cuModuleLoadDataEx", broken),
            ("cuLinkComplete", lacks),
            ("cuLinkComplete", lacks),
            ("cuLinkAddData_v2", broken)
        ]
    );
    assert!(said.iter().all(|row| row["what"] == "CU_JIT_ERROR_LOG_BUFFER"), "{said:?}");
    let summary = report(&place, &[]).expect(0);
    assert!(summary.stdout.contains(&format!("CUDA_ERROR_INVALID_PTX ({broken})")), "{}", summary.stdout);
    // Where a link succeeds, its log is there, too; and the sizes that the program gave, not those that were
    // written over them.
    let dump = run(&mut place.cutrace(["dump"])).expect(0);
    let lines = |with: &str| dump.stdout.lines().filter(|line| line.contains(with)).collect::<Vec<_>>();
    let done = lines("cuLinkComplete(").pop().expect("a link").to_owned();
    assert!(done.contains("CU_JIT_INFO_LOG_BUFFER=\"ptxas info    : Function properties for 'weigh_all'"), "{done}");
    for call in lines("CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES") {
        assert!(call.contains("CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES=4096"), "{call}");
    }
    // Nothing comes back, so nothing is verified; that the results agree is checked all the same.
    let replayed = run(&mut place.cutrace(["replay", "--driver", "sim", "--json"])).expect(6);
    let replayed: Value = serde_json::from_str(&replayed.stdout).expect("JSON");
    assert_eq!(replayed["outcome"], "unverified", "{replayed}");
}

#[test]
fn copies_that_do_not_fit_say_so() {
    let place = Place::new();
    run(&mut place.recorded(client("copies_too_long.c"))).expect(0);
    let wanted = [
        "4000 bytes into mem#1, which has 1000",
        "4000 bytes from mem#1+0x100, which has 744",
        "2000 bytes into mem#1, which has 1000",
        "4000 bytes into mem#1, which has 1000",
        "4000 bytes into mem#1, which has 1000",
    ];
    let report = run(&mut place.cutrace(["report", "-r", "errors", "--json"])).expect(0).stdout;
    let dump = run(&mut place.cutrace(["dump"])).expect(0).stdout;
    let failed: Vec<&str> = dump.lines().filter(|line| line.contains("!!")).collect();
    assert_eq!(failed.len(), wanted.len(), "{dump}");
    for (line, what) in failed.into_iter().zip(wanted) {
        assert!(line.contains(&format!("!! CUDA_ERROR_INVALID_VALUE (1): {what}  ")), "{line}");
        assert!(report.contains(&format!("\"{what}\"")), "{report}");
    }
    let dump = run(&mut place.cutrace(["dump", "--json", "--grep", "cuMemcpyHtoD"])).expect(0).stdout;
    let copies = objects(&dump);
    assert_eq!((&copies[0]["misfits"][0], &copies[1]["misfits"]), (&wanted[0].into(), &Value::Null));
    let at = copies[0]["call"].to_string();
    let frame = run(&mut place.cutrace(["view", "--once", "--size", "120x40", "--at", &at])).expect(0).stdout;
    assert!(frame.contains(wanted[0]), "{frame}");
}

#[test]
fn arguments_that_are_not_as_declared_are_told() {
    /// As a shell has it of a program that SIGSEGV ended.
    const FAULT: i32 = 128 + 11;
    let place = Place::new();
    run(&mut place.recorded(client("wrong_arguments.c"))).expect(FAULT);
    let said = rows(&place, "errors", "messages");
    let texts: Vec<Value> = said.iter().map(|row| row["text"].clone()).collect();
    assert_eq!(texts, ["add_two: 16 bytes passed, 12 declared"]);
    let dump = run(&mut place.cutrace(["dump", "--json"])).expect(0);
    let launches: Vec<Value> =
        objects(&dump.stdout).into_iter().filter(|call| call["function"] == "cuLaunchKernel").collect();
    assert_eq!(pick(&launches[0], &["result"]), ["CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"]);
    assert_eq!(pick(&launches[1], &["result"]), ["CUDA_ERROR_INVALID_VALUE"]);
    for (launch, given) in [(2, 8), (3, 12)] {
        let packed = pick(&launches[launch]["args"]["extra"], &["kernel", "given_bytes", "declared_bytes"]);
        assert_eq!(packed, [Value::from("add_two"), given.into(), 12.into()]);
        assert_eq!(pick(&launches[launch], &["result"]), ["CUDA_SUCCESS"]);
    }
    // No address in the place of an argument, and the name by which the kernel was looked up: it never was
    // launched.
    let last = &launches[4]["args"]["kernelParams"];
    assert_eq!(last["arguments"], Value::Array(vec![]));
    assert_eq!(last["not_recorded"], "the call did not return");
    let inside = rows(&place, "pending", "inside");
    assert_eq!(pick(&inside[0], &["function", "kernel"]), ["cuLaunchKernel", "twice"]);
    let info = run(&mut place.cutrace(["info"])).expect(0);
    assert!(info.stdout.contains("cuLaunchKernel of twice, since"), "{}", info.stdout);
    let replayed = run(&mut place.cutrace(["replay", "--driver", "sim"])).expect(0);
    assert!(is_verified(&replayed.stdout), "{}", replayed.stdout);
}

/// Only where it is certain.
#[test]
fn launches_that_ask_for_too_much_are_told() {
    let place = recorded("refused_launches.c");
    let said = rows(&place, "errors", "messages");
    let told: Vec<&str> = said.iter().filter_map(|row| row["text"].as_str()).collect();
    let expected = [
        "2048 threads in a block; the limit is 1024",
        "100000 bytes of shared memory in a block; the limit is 49152 unless the kernel raises it",
        "232449 bytes of shared memory in a block; the limit is 232448",
        "a dimension of the block is 0",
        "no arguments, but the kernel takes 2",
    ];
    assert_eq!(told, expected);
    assert!(said.iter().all(|row| row["what"] == "launch"), "{said:?}");
    let failed: u64 = rows(&place, "errors", "").iter().map(|row| numbers(row, &["calls"])[0]).sum();
    assert_eq!(failed, 7);
}

/// It is no synchronisation by its name; and where nothing is under way it is none.
#[test]
fn a_call_that_frees_memory_waits_for_what_is_under_way() {
    let place = recorded("free_waits.c");
    let waits = rows(&place, "sync", "");
    let free = one(&waits, "function", "cuMemFree_v2");
    assert_eq!(
        pick(free, &["calls", "object", "needless", "longest_waited_for"]),
        [1.into(), "ctx#1".into(), Value::Null, Value::from("cuMemsetD32Async")]
    );
    assert!(free["total_ns"].as_u64() > Some(200_000_000), "{free}");
}

#[test]
fn failures_are_explained_by_what_was_done_before() {
    let place = recorded("failures_explained.c");
    let said = rows(&place, "errors", "messages");
    let told: Vec<(&str, &str)> =
        said.iter().map(|row| (row["what"].as_str().expect("a word"), row["text"].as_str().expect("a line"))).collect();
    let call = |name: &str, nth: usize| calls_named(&place.trace(), name)[nth].number;
    let (untimed, never, captured) = (call("cuEventCreate", 1), call("cuEventCreate", 2), call("cuEventCreate", 3));
    let (recorded, memory) = (call("cuEventRecord", 2), call("cuMemAlloc_v2", 0));
    let reset = calls_named(&place.trace(), "cuDevicePrimaryCtxReset_v2")[0].number;
    let expected = [
        ("hEnd", format!("event#2, created by call {untimed}, was created without timing (CU_EVENT_DISABLE_TIMING)")),
        ("hEnd", format!("event#3, created by call {never}, was never recorded")),
        (
            "hEnd",
            format!(
                "event#4, created by call {captured}, was last recorded in a capture (call {recorded}), so it has no time"
            ),
        ),
        ("devPtr", format!("the memory is not managed, from cuMemAlloc_v2 (call {memory})")),
        ("devPtr", format!("the memory is not managed, from cuMemAlloc_v2 (call {memory})")),
        ("limit", "77 is not a known CUlimit".into()),
        ("hStream", format!("stream#2 was destroyed with its context by call {reset}")),
        ("hEvent", format!("event#5 was destroyed with its context by call {reset}")),
    ];
    let expected: Vec<(&str, &str)> = expected.iter().map(|(what, text)| (*what, &text[..])).collect();
    assert_eq!(told, expected);
}
