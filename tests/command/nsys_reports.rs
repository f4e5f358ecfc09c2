//! Options of `cutrace report` that work as in `nsys stats`: names, suffixes, units, a file for each table.

use crate::reporting::{recorded, report, rows};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use tests::*;

/// A program with ranges of NVTX, timed: as trace.bin.
pub fn annotated() -> Place {
    annotated_by("ranges.c", &[])
}

fn annotated_by(app: &str, arguments: &[&str]) -> Place {
    let place = Place::new();
    let include = nvtx_include();
    let include = ["-I", include.to_str().expect("a plain path"), "-ldl"];
    run(place.recorded(client_with(app, &include)).args(arguments)).expect(0);
    run(&mut place.cutrace(["replay", "--driver", "sim", "--profile"])).expect(0);
    std::fs::rename(place.join("timed.bin"), place.join("trace.bin")).expect("renamed");
    place
}

/// The lines of a report in CSV, without the heading.
fn lines(place: &Place, arguments: &[&str]) -> Vec<String> {
    let ran = report(place, &[&["--format", "csv"], arguments].concat()).expect(0);
    ran.stdout.lines().skip(1).map(str::to_owned).collect()
}

#[test]
fn reports_are_listed_and_named_as_there() {
    let place = Place::new();
    let list = report(&place, &["--list"]).expect(0).stdout;
    assert!(list.contains("\n  cuda_gpu_kern_sum ") && list.contains("\n  gpu_gaps "), "{list}");
    assert_eq!(report(&place, &["-r", "help"]).expect(0).stdout, list);
    let told: Value = serde_json::from_str(&report(&place, &["--list", "--json"]).expect(0).stdout).expect("JSON");
    let of = |name: &str| {
        let all = told["reports"].as_array().expect("reports");
        all.iter().find(|report| report["name"] == name).unwrap_or_else(|| panic!("{told}")).clone()
    };
    assert_eq!(of("gaps")["aliases"], json!(["gpu_gaps", "gpu_time_util"]));
    assert_eq!(
        (&of("nvtx_kern_sum")["device_times"], &of("nvtx_kern_sum")["annotations"]),
        (&true.into(), &true.into())
    );
    for (wrong, why) in [
        ("osrt_sum", "osrt_sum: Nsight Systems takes this report from other sources"),
        ("sync:base", "sync has no kernel names, so :base does not apply"),
        ("cuda_gpu_kern_sum:first", "cuda_gpu_kern_sum takes :base, :mangled and :nvtx-name, not :first"),
        ("nvtx_kern_sum:nvtx-name", "nvtx_kern_sum takes no :nvtx-name: it is by range"),
    ] {
        let ran = report(&place, &["-r", wrong]).expect(2);
        assert!(ran.stderr.contains(&format!("invalid value '{wrong}'")) && ran.stderr.contains(why), "{}", ran.stderr);
    }
    let place = recorded("wasteful.c");
    let text = |name: &str| report(&place, &["-r", name]).expect(0).stdout;
    assert_eq!(text("cuda_api_sync"), text("sync"));
    assert_eq!(text("cuda_memcpy_async"), text("transfers"));
    let ran = report(&place, &["-r", "cuda_gpu_kern_sum:nvtx-name"]).expect(2);
    assert!(ran.stderr.contains(":nvtx-name needs NVTX annotations"), "{}", ran.stderr);
}

#[test]
fn kernels_are_named_as_the_suffix_says() {
    let place = recorded("argument_types.c");
    // Nothing comes back from its kernels.
    run(&mut place.cutrace(["replay", "--driver", "sim", "--profile"])).expect(6);
    let of = |arguments: &[&str]| lines(&place, &[&["timed.bin"], arguments].concat());
    for (suffix, flag) in [("base", "--short"), ("mangled", "--mangled")] {
        let name = format!("cuda_gpu_kern_sum:{suffix}");
        assert_eq!(of(&["-r", &name]), of(&["-r", "cuda_gpu_kern_sum", flag]));
        assert_ne!(of(&["-r", &name]), of(&["-r", "cuda_gpu_kern_sum"]), "{suffix}");
    }
    // Each report by its own.
    let both = report(&place, &["timed.bin", "-r", "cuda_gpu_kern_sum:mangled,cuda_gpu_sum:base", "--json"]).expect(0);
    let told: Value = serde_json::from_str(&both.stdout).expect("JSON");
    let has = |report: usize, key: &str| {
        let rows = told["reports"][report]["rows"].as_array().expect("rows");
        rows.iter().any(|row| row[key].as_str().is_some_and(|name| name.starts_with("_Z")))
    };
    assert!(has(0, "Name") && !has(1, "Operation"), "{told}");
}

#[test]
fn times_are_in_the_unit_that_is_asked_for() {
    let place = recorded("wasteful.c");
    let all = |arguments: &[&str]| {
        let ran = report(&place, &[&["-r", "cuda_api_sum", "--format", "csv"], arguments].concat()).expect(0);
        ran.stdout.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let (whole, milli) = (all(&[]), all(&["--timeunit", "milli"]));
    assert_eq!(milli[0], whole[0].replace("(ns)", "(ms)"));
    for (whole, milli) in whole.iter().zip(&milli).skip(1) {
        let cell = |line: &str, at: usize| line.split(',').nth(at).expect("a cell").to_owned();
        let ns: u64 = cell(whole, 1).parse().expect("nanoseconds");
        assert_eq!(cell(milli, 1), format!("{}.{:06}", ns / 1_000_000, ns % 1_000_000));
        assert_eq!((cell(milli, 0), cell(milli, 2)), (cell(whole, 0), cell(whole, 2)));
    }
    let table = report(&place, &["-r", "sync", "--timeunit", "us"]).expect(0).stdout;
    assert!(table.contains("  total (us)  calls  average (us)  "), "{table}");
    let told = report(&place, &["-r", "sync", "--timeunit", "s", "--json"]).expect(0).stdout;
    let told: Value = serde_json::from_str(&told).expect("JSON");
    assert!(told["reports"][0]["rows"][0]["total_s"].as_f64().is_some_and(|seconds| seconds < 60.0), "{told}");
    assert!(report(&place, &["--timeunit", "m"]).expect(2).stderr.contains("expected nanoseconds, microseconds"));
}

#[test]
fn each_table_is_a_file() {
    let place = recorded("wasteful.c");
    let write = |more: &[&str]| {
        report(&place, &[&["-r", "memory,cuda_api_sum,cuda_api_trace", "--format", "csv", "-o", "app"], more].concat())
    };
    assert!(write(&[]).expect(0).stdout.starts_with("app_*.csv: "));
    let files = || {
        let entries = std::fs::read_dir(place.path()).expect("our own directory");
        entries
            .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
            .collect::<BTreeSet<_>>()
    };
    let made = files();
    let text = |name: &str| std::fs::read_to_string(place.join(name)).expect("a table");
    for name in ["cuda_api_sum", "cuda_api_trace"] {
        let alone = report(&place, &["-r", name, "--format", "csv"]).expect(0).stdout;
        assert_eq!(text(&format!("app_{name}.csv")), alone);
    }
    let told: Value =
        serde_json::from_str(&report(&place, &["-r", "memory", "--json"]).expect(0).stdout).expect("JSON");
    for table in told["reports"].as_array().expect("reports") {
        let part = table["table"].as_str().map_or(String::new(), |part| format!("_{}", part.replace(' ', "_")));
        let (text, rows) = (text(&format!("app_memory{part}.csv")), table["rows"].as_array().expect("rows").len());
        assert_eq!(text.lines().count(), rows + 1, "{part}: {text}");
        assert!(!text.contains('#') && !text.lines().any(str::is_empty), "{text}");
    }
    assert!(write(&[]).expect(1).stderr.contains("exists already; --force replaces it"));
    assert!(write(&["--force"]).expect(0).stdout.starts_with("app_*.csv: "));
    assert_eq!(files(), made, "nothing else is left");
}

#[test]
fn calls_stand_beside_what_devices_did() {
    let place = annotated();
    let all = lines(&place, &["-r", "cuda_api_gpu_sum"]);
    let mut sums: BTreeMap<(String, String), (u64, u64)> = BTreeMap::new();
    let whole: Value =
        serde_json::from_str(&report(&place, &["-r", "cuda_api_gpu_sum", "--json"]).expect(0).stdout).expect("JSON");
    for row in whole["reports"][0]["rows"].as_array().expect("rows") {
        let text = |key: &str| row[key].as_str().expect("text").to_owned();
        let number = |key: &str| row[key].as_u64().expect("a number");
        sums.insert((text("Category"), text("Operation")), (number("Instances"), number("Total Time (ns)")));
    }
    assert_eq!(sums.len(), all.len());
    let mut expected = BTreeMap::new();
    for row in rows(&place, "cuda_api_sum", "") {
        let key = ("CUDA_API".to_owned(), row["Name"].as_str().expect("a name").to_owned());
        expected.insert(key, (row["Num Calls"].as_u64().expect("calls"), row["Total Time (ns)"].as_u64().expect("ns")));
    }
    for row in rows(&place, "cuda_gpu_sum", "") {
        let text = |key: &str| row[key].as_str().expect("text").to_owned();
        let figures = (row["Instances"].as_u64().expect("a count"), row["Total Time (ns)"].as_u64().expect("ns"));
        expected.insert((text("Category"), text("Operation")), figures);
    }
    assert_eq!(sums, expected);
}

/// Against a search through all ranges, for each kernel.
#[test]
fn kernels_are_found_in_the_ranges_of_their_launches() {
    let place = annotated();
    let trace = place.trace();
    let ranges = trace.annotated_ranges();
    let (mut expected, mut innermost) = (BTreeMap::<(String, String), (u64, i64)>::new(), BTreeMap::new());
    for work in trace.timed().filter(|work| work.is_kernel()) {
        let call = work.call.and_then(|call| trace.call(call)).expect("a call");
        let around = ranges.iter().filter(|range| {
            let (from, to) = (range.opened.about.time, range.end.expect("it ended"));
            range.opened.thread == call.thread && from <= call.begin && call.begin < to
        });
        let name = |range: &trace::read::annotation::Range| {
            let (domain, message) = (range.opened.domain.as_deref(), range.opened.message.as_deref());
            format!("{}:{}", domain.unwrap_or(""), message.unwrap_or(""))
        };
        let kernel = work.name.expect("a name").to_owned();
        let mut last = None;
        for range in around {
            let sum = expected.entry((name(range), kernel.clone())).or_default();
            *sum = (sum.0 + 1, sum.1 + work.duration());
            last = last.max(Some((range.opened.about.time, name(range))));
        }
        let shown = last.map_or(kernel.clone(), |(_, range)| format!("{range}/{kernel}"));
        *innermost.entry(shown).or_insert(0) += 1;
    }
    assert!(!expected.is_empty());
    let told = rows(&place, "nvtx_kern_sum", "");
    let found = told.iter().map(|row| {
        let text = |key: &str| row[key].as_str().expect("text").to_owned();
        let number = |key: &str| row[key].as_u64().expect("a number");
        ((text("NVTX Range"), text("Kernel Name")), (number("Kern Inst"), number("Total Time (ns)") as i64))
    });
    assert_eq!(found.collect::<BTreeMap<_, _>>(), expected);
    assert!(told.iter().all(|row| row["PID"] == trace.preamble.pid && row["NVTX Inst"].as_u64() > Some(0)));
    let named = report(&place, &["-r", "cuda_gpu_kern_sum:nvtx-name", "--json"]).expect(0).stdout;
    let named: Value = serde_json::from_str(&named).expect("JSON");
    let named = named["reports"][0]["rows"]
        .as_array()
        .expect("rows")
        .iter()
        .map(|row| (row["Name"].as_str().expect("a name").to_owned(), row["Instances"].as_u64().expect("a count")));
    assert_eq!(named.collect::<BTreeMap<_, _>>(), innermost);
}

#[test]
fn every_range_is_a_row() {
    let place = annotated();
    let trace = place.trace();
    let (pushed, started): (Vec<_>, Vec<_>) = trace
        .annotated_ranges()
        .into_iter()
        .partition(|range| range.opened.about.what == trace::file::record::annotated::PUSH);
    let rows_of = |name: &str| rows(&place, name, "");
    let told = rows_of("nvtx_pushpop_trace");
    assert_eq!(told.len(), pushed.len());
    for (row, range) in told.iter().zip(&pushed) {
        let [begin, end] = [range.opened.about.time, range.end.expect("it ended")].map(|at| trace.nanoseconds(at));
        let of = ["Start (ns)", "End (ns)", "Duration (ns)", "Lvl"].map(|key| row[key].as_i64().expect("a number"));
        assert_eq!(of, [begin, end, end - begin, range.depth.into()]);
        let within = ["DurChild (ns)", "DurNonChild (ns)"].map(|key| row[key].as_i64().expect("a number"));
        let children = told.iter().filter(|other| other["ParentId"] == row["RangeId"]);
        let took: i64 = children.clone().map(|child| child["Duration (ns)"].as_i64().expect("a number")).sum();
        assert_eq!((within, &row["NumChild"]), ([took, end - begin - took], &json!(children.count())));
        let stack = row["RangeStack"].as_str().expect("a stack");
        assert_eq!(stack.matches(':').count() as u32, range.depth + 1);
        assert!(stack.ends_with(&format!(":{}", row["RangeId"])), "{row}");
    }
    assert!(told.iter().any(|row| !row["ParentId"].is_null()), "ranges within ranges");
    let told = rows_of("nvtx_startend_trace");
    assert_eq!((told.len(), rows_of("nvtx_startend_sum").is_empty()), (started.len(), started.is_empty()));
    // Projections sum up to the summary's.
    let mut sums = BTreeMap::<String, (i64, i64)>::new();
    for row in rows_of("nvtx_gpu_proj_trace") {
        let number = |key: &str| row[key].as_i64().expect("a number");
        let sum = sums.entry(row["Name"].as_str().expect("a name").to_owned()).or_default();
        *sum = (sum.0 + number("Projected Duration (ns)"), sum.1 + number("NumGPUOps"));
    }
    let mut expected = BTreeMap::<String, (i64, i64)>::new();
    for row in rows_of("nvtx_gpu_proj_sum") {
        let number = |key: &str| row[key].as_i64().expect("a number");
        let sum = expected.entry(row["Range"].as_str().expect("a name").to_owned()).or_default();
        *sum = (sum.0 + number("Total Proj Time (ns)"), sum.1 + number("Total GPU Ops"));
    }
    assert!(!sums.is_empty());
    assert_eq!(sums, expected);
}

/// What is told of each range is bounded: in square it would be more than a gigabyte.
#[test]
fn ranges_that_are_never_popped_take_bounded_memory() {
    const PUSHED: usize = 20_000;
    let place = annotated_by("deep_ranges.c", &[&PUSHED.to_string()]);
    let told = |report: &str| -> Value {
        let script = format!("ulimit -v 400000; exec \"$0\" report -r {report} --json");
        let ran = run(place.command("bash").args(["-c", &script]).arg(artifact("cutrace"))).expect(0);
        let told: Value = serde_json::from_str(&ran.stdout).expect("JSON");
        told["reports"][0].clone()
    };
    for (report, rows) in [("nvtx_pushpop_trace", PUSHED), ("nvtx_gpu_proj_trace", PUSHED), ("nvtx_kern_sum", 1)] {
        let told = told(report);
        assert_eq!(told["rows"].as_array().map(Vec::len), Some(rows), "{report}");
        assert!(told["notes"].to_string().contains("innermost 256"), "{report}: {}", told["notes"]);
        let last = told["rows"].as_array().and_then(|rows| rows.last()).expect("a row").clone();
        if report == "nvtx_kern_sum" {
            assert_eq!((&last["NVTX Inst"], &last["Kern Inst"]), (&json!(256), &json!(256)));
            continue;
        }
        let stack = last["RangeStack"].as_str().expect("a stack");
        assert!(stack.starts_with("...:19745:19746:") && stack.ends_with(":20000"), "{stack}");
        assert_eq!((stack.matches(':').count(), &last["Lvl"]), (256, &json!(PUSHED - 1)));
    }
    let table = report(&place, &["-r", "nvtx_pushpop_trace", "--limit", "2"]).expect(0).stdout;
    assert!(table.contains("and 19,998 rows more"), "{table}");
}
