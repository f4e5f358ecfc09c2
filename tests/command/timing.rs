//! Reports on device times: their columns, and agreement with the measurements.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use tests::*;
use trace::Trace;
use trace::file::record::timed::{COPY, FILL};

const FIGURES: &str = "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns)";

/// With the columns of Nsight Systems.
fn columns(report: &str) -> String {
    let exec = |letter: &str| {
        format!("{letter}Avg (ns),{letter}Med (ns),{letter}Min (ns),{letter}Max (ns),{letter}StdDev (ns)")
    };
    match report {
        "cuda_gpu_kern_sum" => format!("{FIGURES},Name"),
        "cuda_gpu_kern_gb_sum" => format!("{FIGURES},GridXYZ,BlockXYZ,Name"),
        "cuda_gpu_sum" => format!("{FIGURES},Category,Operation"),
        "cuda_gpu_mem_time_sum" => format!("{},Operation", FIGURES.replace("Instances", "Count")),
        "cuda_gpu_mem_size_sum" => {
            "Total (MB),Count,Avg (MB),Med (MB),Min (MB),Max (MB),StdDev (MB),Operation".to_owned()
        }
        "cuda_gpu_trace" => {
            "Start (ns),Duration (ns),CorrId,GrdX,GrdY,GrdZ,BlkX,BlkY,BlkZ,Reg/Trd,StcSMem (MB),DymSMem (MB),\
             Bytes (MB),Throughput (MB/s),SrcMemKd,DstMemKd,Device,Ctx,GreenCtx,Strm,Name"
                .to_owned()
        }
        "cuda_kern_exec_sum" => {
            let parts = ["T", "A", "Q", "K"].map(exec).join(",");
            format!("PID,TID,DevId,Count,QCount,{parts},API Function,Kernel Name")
        }
        "cuda_kern_exec_trace" => {
            "API Start (ns),API Dur (ns),Queue Start (ns),Queue Dur (ns),Kernel Start (ns),Kernel Dur (ns),\
             Total Dur (ns),PID,TID,DevId,API Function,GridXYZ,BlockXYZ,Kernel Name"
                .to_owned()
        }
        "nvtx_sum" => format!("{FIGURES},Style,Range"),
        "nvtx_pushpop_sum" => format!("{FIGURES},Range"),
        "nvtx_gpu_proj_sum" => {
            "Range,Style,Total Proj Time (ns),Total Range Time (ns),Range Instances,Proj Avg (ns),Proj Med (ns),\
             Proj Min (ns),Proj Max (ns),Proj StdDev (ns),Total GPU Ops,Avg GPU Ops,Avg Range Lvl,Avg Num Child"
                .to_owned()
        }
        name => panic!("{name}"),
    }
}

const ON_TIMES: [&str; 8] = [
    "cuda_gpu_kern_sum",
    "cuda_gpu_kern_gb_sum",
    "cuda_gpu_sum",
    "cuda_gpu_mem_time_sum",
    "cuda_gpu_mem_size_sum",
    "cuda_gpu_trace",
    "cuda_kern_exec_sum",
    "cuda_kern_exec_trace",
];

fn timed(app: &str) -> (Place, Trace) {
    let place = Place::new();
    run(&mut place.recorded(client(app))).expect(0);
    run(&mut place.cutrace(["replay", "--driver", "sim", "--profile"])).expect(0);
    let trace = sound(place.join("timed.bin"));
    (place, trace)
}

fn report(place: &Place, arguments: &[&str]) -> Outcome {
    run(place.cutrace(["report", "timed.bin", "-r"]).args(arguments))
}

#[track_caller]
fn rows(place: &Place, arguments: &[&str]) -> Vec<Value> {
    let ran = report(place, &[arguments, &["--json"]].concat()).expect(0);
    let whole: Value = serde_json::from_str(&ran.stdout).expect("JSON");
    whole["reports"][0]["rows"].as_array().expect("rows").clone()
}

#[test]
fn columns_are_those_of_nsight_systems() {
    let (place, _) = timed("graphs.c");
    for name in ON_TIMES {
        let csv = report(&place, &[name, "--format", "csv"]).expect(0).stdout;
        assert_eq!(csv.lines().next(), Some(&columns(name)[..]), "{name}");
        assert!(csv.lines().count() > 1, "{name}: {csv}");
        let table = report(&place, &[name]).expect(0);
        assert!(table.stdout.contains("(times of a replay, by CUPTI)"), "{}", table.stdout);
    }
}

#[test]
fn kernels_and_copies_are_summed() {
    let (place, trace) = timed("graphs.c");
    let mut sums: BTreeMap<String, (u64, i64)> = BTreeMap::new();
    for work in trace.timed() {
        let name = work.name.map_or_else(|| work.about.operation(), String::from);
        let sum = sums.entry(name).or_default();
        *sum = (sum.0 + 1, sum.1 + work.duration());
    }
    let found: BTreeMap<String, (u64, i64)> = rows(&place, &["cuda_gpu_sum"])
        .iter()
        .map(|row| {
            let number = |key: &str| row[key].as_i64().expect("a number");
            let name = row["Operation"].as_str().expect("a name").to_owned();
            (name, (number("Instances") as u64, number("Total Time (ns)")))
        })
        .collect();
    assert_eq!(found, sums);
    let kernels: Vec<Value> = rows(&place, &["cuda_gpu_kern_sum"]);
    // They come in the order of their times, which is anything.
    let instances: BTreeSet<u64> = kernels.iter().filter_map(|row| row["Instances"].as_u64()).collect();
    assert_eq!((kernels.len(), instances), (2, BTreeSet::from([3, 5])));
    let shapes = rows(&place, &["cuda_gpu_kern_gb_sum"]);
    assert!(
        shapes.iter().all(|row| row["GridXYZ"] == "   1    1    1" && row["BlockXYZ"] == " 128    1    1"),
        "{shapes:?}"
    );
    let all: i64 =
        trace.timed().filter(|work| matches!(work.about.what, COPY | FILL)).map(|work| work.duration()).sum();
    let times = rows(&place, &["cuda_gpu_mem_time_sum"]);
    assert_eq!(times.iter().map(|row| row["Total Time (ns)"].as_i64().expect("ns")).sum::<i64>(), all);
    let sizes = rows(&place, &["cuda_gpu_mem_size_sum"]);
    assert_eq!(sizes.iter().map(|row| row["Count"].as_u64().expect("count")).sum::<u64>(), 5);
    // What is selected is selected by calls, and by names of kernels in graphs.
    let twice = rows(&place, &["cuda_gpu_trace", "--grep", "twice"]);
    assert!(twice.len() == 3 && twice.iter().all(|row| row["Name"] == "twice"), "{twice:?}");
    assert_eq!(rows(&place, &["cuda_gpu_trace", "--limit", "2"]).len(), 2);
    let call = trace.timed().next().and_then(|work| work.call).expect("a call");
    let first = call.to_string();
    assert!(rows(&place, &["cuda_gpu_trace", "--calls", &first]).iter().all(|row| row["CorrId"] == call));
}

#[test]
fn launch_queue_and_kernel_add_up() {
    let (place, trace) = timed("streams_events.c");
    let found = rows(&place, &["cuda_kern_exec_trace"]);
    assert_eq!(found.len(), trace.timed().filter(|work| work.is_kernel()).count());
    for row in &found {
        let number = |key: &str| row[key].as_i64();
        let end = number("Kernel Start (ns)").zip(number("Kernel Dur (ns)")).map(|(start, ns)| start + ns);
        let whole = end.zip(number("API Start (ns)")).map(|(end, begin)| end - begin);
        assert_eq!(number("Total Dur (ns)"), whole, "{row}");
        if let Some(queued) = number("Queue Dur (ns)") {
            let parts =
                number("API Dur (ns)").zip(number("Kernel Dur (ns)")).map(|(call, kernel)| call + queued + kernel);
            assert_eq!(parts, whole, "{row}");
        }
    }
    let sums = rows(&place, &["cuda_kern_exec_sum"]);
    assert_eq!(sums.iter().map(|row| row["Count"].as_u64().expect("count")).sum::<u64>(), found.len() as u64);
}

/// Busy and idle make the whole span, whatever the causes.
#[test]
fn gaps_have_causes() {
    let (place, trace) = timed("two_contexts.c");
    let found = rows(&place, &["gaps"]);
    let of = |place: &str| -> Vec<&Value> { found.iter().filter(|row| row["where"] == place).collect() };
    let device = of("device 0");
    let time: i64 = device.iter().map(|row| row["time_ns"].as_i64().expect("ns")).sum();
    let works: Vec<_> = trace.timed().collect();
    let span = works.iter().map(|work| work.about.end).max().unwrap_or(0) - works[0].about.start;
    assert_eq!(time, span);
    assert_eq!(device[0]["cause"], "busy");
    assert!(device.iter().any(|row| row["cause"] == "host"), "{device:?}");
    let page = run(&mut place.cutrace(["report", "timed.bin"])).expect(0).stdout;
    assert!(page.contains("  device time   device 0 busy for "), "{page}");
    assert!(page.contains("Device time (of a replay)\n"), "{page}");
}

/// `dump`, the tables with the columns of Nsight Systems, `gaps` and Perfetto's tracks name one stream alike,
/// beside its number.
#[test]
fn a_stream_has_one_name() {
    let (place, _) = timed("streams_events.c");
    let ran = run(&mut place.cutrace(["report", "timed.bin", "-r", "cuda_gpu_trace", "--json"])).expect(0).stdout;
    let whole: Value = serde_json::from_str(&ran).expect("JSON");
    let notes = whole["reports"][0]["notes"].as_array().expect("notes");
    let note = notes.iter().filter_map(Value::as_str).find(|note| note.starts_with("Strm ")).expect("the names");
    let named = |number: u64| {
        let start = format!("Strm {number} is ");
        note.split("; ").find_map(|part| part.strip_prefix(&start)).unwrap_or_else(|| panic!("{number}: {note}"))
    };
    let dump = run(&mut place.cutrace(["dump", "timed.bin"])).expect(0).stdout;
    let mut streams = std::collections::BTreeSet::new();
    for row in whole["reports"][0]["rows"].as_array().expect("rows") {
        let (call, number) = (row["CorrId"].as_u64().expect("a call"), row["Strm"].as_u64().expect("a stream"));
        let line =
            dump.lines().find(|line| line.split_whitespace().next() == Some(&call.to_string())).expect("the call");
        match named(number) {
            name if name.starts_with("stream#") => assert!(line.contains(&format!("hStream={name}")), "{name}: {line}"),
            name => {
                assert_eq!((name, line.contains("hStream=stream#")), ("the legacy stream of ctx#1", false), "{line}")
            }
        }
        streams.insert(number);
    }
    assert!(streams.len() > 1, "{note}");
    let gaps = rows(&place, &["gaps"]);
    run(&mut place.cutrace(["export", "timed.bin", "--to", "perfetto", "-o", "app.pftrace"])).expect(0);
    let tracks = std::fs::read(place.join("app.pftrace")).expect("the file");
    for number in streams {
        let title = format!("{} (Strm {number})", named(number));
        assert!(gaps.iter().any(|row| row["where"] == format!("device 0, {title}")), "{title}: {gaps:?}");
        assert!(tracks.windows(title.len()).any(|piece| piece == title.as_bytes()), "{title}");
    }
}

/// Ranges of the program, and what the device did for the calls in them.
#[test]
fn ranges_are_summed_and_projected() {
    let place = Place::new();
    let include = nvtx_include();
    let program = client_with("ranges.c", &["-I", include.to_str().expect("a path"), "-ldl"]);
    run(&mut place.recorded(program)).expect(0);
    run(&mut place.cutrace(["replay", "--driver", "sim", "--profile"])).expect(0);
    let trace = sound(place.join("timed.bin"));
    for name in ["nvtx_sum", "nvtx_pushpop_sum", "nvtx_gpu_proj_sum"] {
        let csv = report(&place, &[name, "--format", "csv"]).expect(0).stdout;
        assert_eq!(csv.lines().next(), Some(&columns(name)[..]), "{name}");
    }
    let sums = rows(&place, &["nvtx_sum"]);
    let named = |rows: &[Value], name: &str| rows.iter().find(|row| row["Range"] == name).cloned().expect("the range");
    assert_eq!(named(&sums, ":step")["Instances"], 3);
    assert_eq!(
        (&named(&sums, ":step")["Style"], &named(&sums, "other:whole")["Style"]),
        (&"PushPop".into(), &"StartEnd".into())
    );
    // Those that the chosen calls opened, by their names as shown.
    let first = calls_named(&trace, "cuLaunchKernel")[0].number;
    let chosen = rows(&place, &["nvtx_sum", "--calls", &format!("{first}..{}", first + 1)]);
    assert_eq!(named(&chosen, ":step")["Instances"], 1);
    assert_eq!(
        rows(&place, &["nvtx_pushpop_sum", "--grep", "^:st"]),
        [named(&rows(&place, &["nvtx_pushpop_sum", "--grep", "step"]), ":step")]
    );
    assert!(rows(&place, &["nvtx_pushpop_sum"]).iter().all(|row| row["Range"] != "other:whole"));
    let projected = rows(&place, &["nvtx_gpu_proj_sum"]);
    // Each step holds a launch and a copy; what is in the range within it is the launch.
    let (step, launch) = (named(&projected, ":step"), named(&projected, ":launch"));
    assert_eq!(
        (&step["Range Instances"], &step["Total GPU Ops"], &step["Avg GPU Ops"]),
        (&3.into(), &6.into(), &2.0.into())
    );
    assert_eq!((&step["Avg Range Lvl"], &step["Avg Num Child"]), (&0.0.into(), &1.0.into()));
    assert_eq!((&launch["Total GPU Ops"], &launch["Avg Range Lvl"]), (&3.into(), &1.0.into()));
    let kernels: i64 = trace.timed().filter(|work| work.is_kernel()).map(|work| work.duration()).sum();
    assert_eq!(launch["Total Proj Time (ns)"], kernels);
    assert!(projected.iter().all(|row| row["Range"] != ":nothing"), "{projected:?}");
}
