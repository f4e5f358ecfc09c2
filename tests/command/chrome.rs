//! `cutrace export --to chrome`: events of the Trace Event Format, as PyTorch's profiler has them.

use crate::reporting::recorded;
use serde_json::Value;
use std::collections::BTreeMap;
use tests::*;

fn export(place: &Place, arguments: &[&str]) -> Outcome {
    run(place.cutrace(["export", "--to", "chrome"]).args(arguments))
}

/// The events of an export, each with the fields that its kind must have.
fn events(place: &Place, name: &str) -> (Value, Vec<Value>) {
    let whole: Value = serde_json::from_slice(&std::fs::read(place.join(name)).expect("the export")).expect("JSON");
    let events = whole["traceEvents"].as_array().expect("events").clone();
    for event in &events {
        let has = |field: &str, is: fn(&Value) -> bool| assert!(is(&event[field]), "{field} of {event}");
        let is_time = |value: &Value| value.as_f64().is_some_and(|time| time >= 0.0);
        has("name", Value::is_string);
        has("pid", Value::is_u64);
        let kind = event["ph"].as_str().expect("a kind");
        if kind != "M" {
            has("ts", is_time);
        }
        if !matches!(kind, "M" | "C") {
            has("cat", Value::is_string);
            has("tid", Value::is_u64);
        }
        match kind {
            "X" => has("dur", is_time),
            "s" | "b" | "e" => has("id", Value::is_u64),
            "f" => assert!(event["id"].is_u64() && event["bp"] == "e", "{event}"),
            "i" => assert_eq!(event["s"], "t"),
            "M" | "C" => has("args", Value::is_object),
            "B" => {}
            other => panic!("an event of kind {other}"),
        }
    }
    (whole, events)
}

fn of<'x>(events: &'x [Value], kind: &'x str, category: &'x str) -> impl Iterator<Item = &'x Value> {
    events.iter().filter(move |event| event["ph"] == kind && event["cat"] == category)
}

/// By name: how many, and nanoseconds in all.
fn sums<'x>(events: impl Iterator<Item = &'x Value>) -> BTreeMap<String, (u64, i64)> {
    events.fold(BTreeMap::new(), |mut sums, event| {
        let ns = (event["dur"].as_f64().expect("a duration") * 1000.0).round() as i64;
        let sum = sums.entry(event["name"].as_str().expect("a name").to_owned()).or_default();
        *sum = (sum.0 + 1, sum.1 + ns);
        sums
    })
}

#[test]
fn calls_and_work_are_complete_events() {
    let place = recorded("graphs.c");
    run(&mut place.cutrace(["replay", "--driver", "sim", "--profile"])).expect(0);
    let ran = export(&place, &["timed.bin", "-o", "timed.json"]).expect(0);
    let trace = sound(place.join("timed.bin"));
    assert!(ran.stdout.starts_with(&format!("timed.json: chrome, {} calls, ", trace.len())), "{}", ran.stdout);
    let (whole, events) = events(&place, "timed.json");
    assert_eq!(whole["deviceProperties"][0]["name"], trace.devices[0].name);
    let mut expected: BTreeMap<String, (u64, i64)> = BTreeMap::new();
    for call in trace.calls() {
        let took = trace.nanoseconds(call.end.expect("it returned")) - trace.nanoseconds(call.begin);
        let sum = expected.entry(call.name().to_owned()).or_default();
        *sum = (sum.0 + 1, sum.1 + took);
    }
    assert_eq!(sums(of(&events, "X", "cuda_driver")), expected);
    let kernels = sums(of(&events, "X", "kernel"));
    assert_eq!((kernels["add_two"].0, kernels["twice"].0), (5, 3));
    let took: i64 = trace.timed().filter(|work| work.is_kernel()).map(|work| work.duration()).sum();
    assert_eq!(kernels.values().map(|(_, ns)| ns).sum::<i64>(), took);
    let copies = sums(of(&events, "X", "gpu_memcpy"));
    assert!(copies.keys().any(|name| name.starts_with("Memcpy HtoD (")), "{copies:?}");
    let kernel = of(&events, "X", "kernel").next().expect("a kernel");
    assert_eq!(kernel["args"]["block"], serde_json::json!([128, 1, 1]));
    assert!(kernel["args"]["stream"].is_u64() && kernel["args"]["device"] == 0, "{kernel}");

    // Each flow has both ends, and each end lies in a slice of its thread.
    let (begun, ended): (Vec<_>, Vec<_>) = (of(&events, "s", "ac2g").collect(), of(&events, "f", "ac2g").collect());
    assert_eq!(begun.len(), trace.timed().count());
    let ids = |all: &[&Value]| all.iter().map(|event| event["id"].as_u64().expect("an id")).collect::<Vec<_>>();
    assert_eq!(ids(&begun), ids(&ended));
    let time = |event: &Value, field: &str| event[field].as_f64().expect("a time");
    let is_within = |flow: &Value| {
        events.iter().any(|slice| {
            slice["ph"] == "X"
                && slice["tid"] == flow["tid"]
                && time(slice, "ts") <= time(flow, "ts")
                && time(flow, "ts") <= time(slice, "ts") + time(slice, "dur")
        })
    };
    assert!(begun.iter().chain(&ended).all(|flow| is_within(flow)));
    let named = |tid: &Value| {
        let names = |event: &&Value| event["name"] == "thread_name" && event["tid"] == *tid;
        events.iter().find(names).map(|event| event["args"]["name"].as_str().expect("a name"))
    };
    assert!(named(&kernel["tid"]).is_some_and(|name| name.contains("device 0") && name.contains("stream#")));

    // Memory that was got and given up.
    let counted = events.iter().filter(|event| event["ph"] == "C" && event["name"] == "memory of device 0");
    let bytes: Vec<i64> = counted.map(|event| event["args"]["bytes"].as_i64().expect("bytes")).collect();
    assert!(bytes.first().is_some_and(|first| *first > 0) && bytes.iter().all(|bytes| *bytes >= 0), "{bytes:?}");
}

#[test]
fn annotations_are_events_of_their_threads() {
    let place = Place::new();
    let include = nvtx_include();
    let include = ["-I", include.to_str().expect("a plain path"), "-ldl"];
    run(&mut place.recorded(client_with("ranges.c", &include))).expect(0);
    export(&place, &["-o", "app.json.gz"]).expect(0);
    run(place.command("gunzip").arg("app.json.gz")).expect(0);
    let (_, events) = events(&place, "app.json");
    let trace = place.trace();
    let (mut pushed, mut started) = (BTreeMap::<String, (u64, i64)>::new(), 0);
    for range in trace.annotated_ranges() {
        let [begin, end] = [range.opened.about.time, range.end.expect("it ended")].map(|at| trace.nanoseconds(at));
        match range.opened.about.what {
            trace::file::record::annotated::PUSH => {
                let sum = pushed.entry(range.opened.message.expect("a name").into_owned()).or_default();
                *sum = (sum.0 + 1, sum.1 + end - begin);
            }
            _ => started += 1,
        }
    }
    assert!(!pushed.is_empty() && started > 0);
    assert_eq!(sums(of(&events, "X", "user_annotation")), pushed);
    let count = |kind| of(&events, kind, "user_annotation").count();
    assert_eq!((count("b"), count("e")), (started, started));
}

/// From the first submission to the wait that told of the last, a stream for a stream.
#[test]
fn without_device_times_streams_have_what_was_submitted() {
    let place = recorded("graphs.c");
    export(&place, &["-o", "app.json"]).expect(0);
    let (_, events) = events(&place, "app.json");
    let trace = place.trace();
    let periods: Vec<&Value> = of(&events, "X", "submitted").collect();
    let names: Vec<&str> = periods.iter().map(|period| period["name"].as_str().expect("a name")).collect();
    assert_eq!(names, ["cuGraphLaunch", "cuGraphLaunch", "2 x cuGraphLaunch"]);
    let waits = calls_named(&trace, "cuStreamSynchronize");
    for (period, wait) in periods.iter().zip(&waits) {
        let end = (period["ts"].as_f64().expect("a time") + period["dur"].as_f64().expect("a time")) * 1000.0;
        assert_eq!(end.round() as i64, trace.nanoseconds(wait.end.expect("it returned")));
        let first = trace.call(period["args"]["first call"].as_u64().expect("a call")).expect("it is there");
        let begin = period["ts"].as_f64().expect("a time") * 1000.0;
        assert_eq!((first.name(), begin.round() as i64), ("cuGraphLaunch", trace.nanoseconds(first.begin)));
    }
    let launches: u64 = periods.iter().map(|period| period["args"]["submissions"].as_u64().expect("a count")).sum();
    assert_eq!(launches as usize, calls_named(&trace, "cuGraphLaunch").len());
    assert!(of(&events, "s", "ac2g").next().is_none(), "nothing would end a flow");
    let counted = events.iter().filter(|event| event["ph"] == "C" && event["name"] == "submissions in flight");
    let most = counted.map(|event| event["args"]["submissions"].as_i64().expect("a count"));
    assert_eq!(most.collect::<Vec<_>>(), [1, 0, 1, 0, 1, 2, 0]);
}
