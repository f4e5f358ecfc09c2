//! `replay --sync-launches`: it names the launch that failed.

use serde_json::Value;
use tests::*;

fn recorded(app: &str, arguments: &[&str]) -> Place {
    let place = Place::new();
    run(place.recorded(client(app)).args(arguments));
    place
}

fn replayed(place: &Place, options: &[&str]) -> Outcome {
    run(place.cutrace(["replay", "--driver", "sim", "--sync-launches"]).args(options))
}

fn report(place: &Place, options: &[&str], code: i32) -> Value {
    let ran = replayed(place, &[&["--json"], options].concat()).expect(code);
    serde_json::from_str(&ran.stdout).expect("JSON")
}

/// A kernel that never ends was under way when the program was killed.
#[test]
fn a_launch_that_does_not_end_is_named() {
    let place = Place::new();
    let mut hanging = place.preloaded(client("hanging.c")).spawn().expect("the program");
    let is_waiting = || run(&mut place.cutrace(["dump"])).stdout.contains("cuStreamSynchronize");
    while !is_waiting() {
        assert!(hanging.try_wait().expect("the program").is_none(), "it has ended");
    }
    hanging.kill().and_then(|()| hanging.wait()).expect("the program");
    let waiting = calls_named(&place.trace(), "cuLaunchKernel")[0].number;
    let text = replayed(&place, &[]).expect(1).stdout;
    assert!(text.starts_with("a launch does not finish, as recorded\n"), "{text}");
    assert!(text.contains("\nthe launch that does not finish: waited "), "{text}");
    let report = report(&place, &["--bisect"], 1);
    let culprit = &report["culprit"];
    assert_eq!((&culprit["call"], &culprit["kernel"]), (&waiting.into(), &"wait_for_host".into()));
    assert!(report["outcome"] == "faulted" && culprit["given_ns"].as_u64() > Some(5_000_000_000), "{report}");
}

#[test]
fn the_launch_that_failed_is_named() {
    let place = recorded("late_fault.c", &[]);
    let trace = place.trace();
    let last = calls_named(&trace, "cuLaunchKernel").pop().expect("launches").number;
    for options in [&[][..], &["--no-placement"]] {
        let report = report(&place, options, 1);
        let culprit = &report["culprit"];
        assert_eq!(report["outcome"], "faulted");
        assert_eq!((&culprit["call"], &culprit["kernel"]), (&last.into(), &"vector_add".into()));
        assert_eq!(culprit["failure"], "CUDA_ERROR_ILLEGAL_ADDRESS");
        assert_eq!((&culprit["grid"], &culprit["block"]), (&[4, 1, 1].into(), &[256, 1, 1].into()));
        assert_eq!((&culprit["recorded"]["same"], &culprit["recorded"]["launches"]), (&true.into(), &1.into()));
        assert_eq!((&report["serial_launches"]["launches"], &report["divergences"]), (&11.into(), &0.into()));
        let arguments = culprit["arguments"].as_array().expect("a list");
        let place = |index: usize| arguments[index]["places"][0]["place"].as_str().unwrap_or("");
        assert!(place(0).starts_with("in mem#1 (0x") && place(0).ends_with(", 4000 bytes)"), "{culprit}");
        assert_eq!(arguments[2]["value"], "0x1234567000");
        assert!(place(2).starts_with("in no allocation; ") && place(2).ends_with(", the nearest"), "{culprit}");
        assert_eq!((&arguments[3]["value"], &arguments[3]["size"]), (&"991".into(), &4.into()));
    }
    let text = replayed(&place, &[]).expect(1).stdout;
    assert!(text.starts_with("a launch failed, as recorded\n"), "{text}");
    assert!(text.contains("the same failure: only this launch can have caused it"), "{text}");
}

#[test]
fn the_distance_to_the_nearest_allocation() {
    let place = recorded("graph_fault.c", &["changed"]);
    let culprit = &report(&place, &[], 1)["culprit"];
    let bytes = (1u64 << 40) - 512 + 1;
    let expected = format!("in no allocation; {bytes} bytes past the end of mem#1 (");
    let found = culprit["arguments"][0]["places"][0]["place"].as_str().expect("a place");
    assert!(found.starts_with(&expected), "{found}");
}

#[test]
fn a_node_of_a_graph_is_named() {
    for (how, index, of) in [("captured", 2, 3), ("changed", 1, 2)] {
        let place = recorded("graph_fault.c", &[how]);
        let report = report(&place, &[], 1);
        let culprit = &report["culprit"];
        assert_eq!((&culprit["function"], &culprit["kernel"]), (&"cuGraphLaunch".into(), &"twice".into()), "{how}");
        let node = &culprit["node"];
        assert_eq!((&node["index"], &node["of"], &node["kind"]), (&index.into(), &of.into(), &"kernel".into()));
        assert_eq!((&culprit["grid"], &culprit["block"]), (&[2, 1, 1].into(), &[64, 1, 1].into()));
        assert_eq!(culprit["recorded"]["same"], true);
    }
}

#[test]
fn a_graph_that_cannot_be_taken_apart_is_launched_whole() {
    let place = recorded("graph_fault.c", &["host"]);
    let report = report(&place, &[], 1);
    let why = "it has a node of type CU_GRAPH_NODE_TYPE_HOST";
    assert_eq!((&report["culprit"]["what"], &report["culprit"]["graph"]), (&"graph".into(), &why.into()));
    let whole = &report["serial_launches"]["graphs_whole"][0];
    assert_eq!((&whole["reason"], &whole["count"]), (&why.into(), &1.into()));
}

#[test]
fn a_failure_that_was_not_recorded_is_a_difference() {
    let place = recorded("work_at_exit.c", &["fault"]);
    let report = report(&place, &[], 4);
    assert_eq!((&report["outcome"], &report["culprit"]["kernel"]), (&"diverged".into(), &"vector_add".into()));
    assert_eq!(report["culprit"]["recorded"], Value::Null);
}

/// Captures survive, graphs run node by node with the same results, and every launch is counted.
#[test]
fn what_does_not_fail_is_verified() {
    for (app, launches, graphs, nodes) in [
        ("graphs.c", 0, 4, 12),
        ("capture_never_run.c", 0, 0, 0),
        ("streams_events.c", 2, 0, 0),
        ("vector_add.c", 1, 0, 0),
    ] {
        let place = recorded(app, &[]);
        let report = report(&place, &[], 0);
        assert_eq!((&report["outcome"], &report["culprit"]), (&"verified".into(), &Value::Null), "{app}");
        let serial_launches = &report["serial_launches"];
        let counts = ["launches", "graphs", "nodes"].map(|what| serial_launches[what].as_u64().expect("a number"));
        assert_eq!(counts, [launches, graphs, nodes], "{app}: {serial_launches}");
    }
}

#[test]
fn a_conditional_graph_is_launched_whole() {
    let place = recorded("conditional_graph.c", &[]);
    let report = report(&place, &[], 0);
    let why = "it has a node of type CU_GRAPH_NODE_TYPE_CONDITIONAL";
    assert_eq!(report["serial_launches"]["graphs_whole"][0]["reason"], why);
}

/// A capture would not survive a wait, so what runs beside it is waited for afterwards.
#[test]
fn nothing_is_waited_for_while_a_stream_is_captured() {
    let place = recorded("launch_beside_capture.c", &[]);
    let verified = report(&place, &[], 0);
    let counts = ["launches", "not_waited"].map(|what| verified["serial_launches"][what].as_u64());
    assert_eq!((&verified["outcome"], counts), (&"verified".into(), [Some(1), Some(2)]));

    let place = recorded("launch_beside_capture.c", &["fault"]);
    let calls = calls_named(&place.trace(), "cuLaunchKernel").iter().map(|call| call.number).collect::<Vec<_>>();
    let culprit = &report(&place, &[], 1)["culprit"];
    assert_eq!((&culprit["what"], &culprit["call"]), (&"earlier".into(), &calls[2].into()));
    let suspects: Vec<u64> =
        culprit["earlier"].as_array().expect("a list").iter().filter_map(|one| one["call"].as_u64()).collect();
    // The memset before them was not waited for, either.
    assert_eq!((suspects.len(), &suspects[1..]), (3, &calls[..2]));
}

#[test]
fn a_node_of_a_kernel_of_a_library_is_named() {
    let place = recorded("graph_of_library_fault.c", &["freed"]);
    let free = calls_named(&place.trace(), "cuMemFree_v2")[0].number;
    let culprit = &report(&place, &[], 1)["culprit"];
    assert_eq!((&culprit["what"], &culprit["kernel"]), (&"node".into(), &"follow".into()));
    // The address in the structure, and none of the integers before it.
    let argument = &culprit["arguments"][0];
    assert_eq!((&argument["type"], &argument["size"]), (&".b8[112]".into(), &112.into()));
    let places = argument["places"].as_array().expect("a list");
    assert_eq!((places.len(), &places[0]["offset"]), (1, &96.into()), "{culprit}");
    let text = places[0]["place"].as_str().expect("a place");
    assert!(text.starts_with("in mem#2 (") && text.ends_with(&format!(", freed by call {free}")), "{text}");
    assert_eq!((&culprit["good_addresses"], &culprit["next"]), (&false.into(), &Value::Null));
}

#[test]
fn where_all_addresses_are_good_another_tool_is_named() {
    let place = recorded("graph_of_library_fault.c", &["index"]);
    let launch = calls_named(&place.trace(), "cuGraphLaunch")[0].number;
    let culprit = &report(&place, &[], 1)["culprit"];
    assert_eq!((&culprit["arguments"][1]["value"], &culprit["good_addresses"]), (&"3000000000".into(), &true.into()));
    let next = format!("compute-sanitizer cutrace replay --no-placement --until {launch} trace.bin");
    assert_eq!(culprit["next"], next);
    let text = replayed(&place, &[]).expect(1).stdout;
    assert!(text.contains("all point into live allocations") && text.contains(&next), "{text}");
}

#[test]
fn freed_memory_that_is_used() {
    let place = recorded("use_after_free.c", &[]);
    let trace = place.trace();
    let free = calls_named(&trace, "cuMemFree_v2")[0].number;
    for options in [&[][..], &["--no-placement"]] {
        let culprit = &report(&place, options, 1)["culprit"];
        let text = culprit["arguments"][0]["places"][0]["place"].as_str().expect("a place");
        assert!(text.ends_with(&format!("67108864 bytes), freed by call {free}")), "{text}");
        assert_eq!(culprit["call"], calls_named(&trace, "cuLaunchKernel")[1].number);
    }
}

/// Memory that shares its 2 MiB with other allocations stays mapped.
#[test]
fn little_freed_memory_that_is_used() {
    let place = recorded("use_after_free.c", &["small"]);
    let missed = replayed(&place, &[]).expect(4).stdout;
    assert!(missed.contains("not met      CUDA_ERROR_ILLEGAL_ADDRESS, recorded at call "), "{missed}");
    assert!(missed.contains("--no-placement"), "{missed}");
}

/// One at a time, launches compute what they computed all together.
#[test]
fn launches_that_do_not_fail_are_verified() {
    for app in ["graph_changes.c", "graphs.c", "graph_inputs.c", "conditional_graph.c", "two_contexts.c", "callbacks.c"]
    {
        let place = recorded(app, &[]);
        let text = replayed(&place, &[]).expect(0).stdout;
        assert!(is_verified(&text), "{app}: {text}");
    }
}

#[test]
fn a_kernel_without_parameters_has_a_name() {
    let place = recorded("no_arguments.c", &["fails"]);
    let text = replayed(&place, &[]).expect(1).stdout;
    assert!(text.contains("\n  kernel       fail\n"), "{text}");
    assert!(
        text.contains("the kernel has none; on a GPU") && text.contains("compute-sanitizer cutrace replay"),
        "{text}"
    );
    assert_eq!(report(&place, &[], 1)["culprit"]["kernel"], "fail");
}

/// Memory has no room behind it then.
#[test]
fn an_access_just_past_an_allocation_fails_without_placement() {
    let place = recorded("access_past_end.c", &[]);
    let told = replayed(&place, &[]).expect(4).stdout;
    assert!(told.contains("--no-placement allocates and frees as the program did"), "{told}");
    let report = report(&place, &["--no-placement"], 1);
    assert_eq!((&report["outcome"], &report["culprit"]["kernel"]), (&"faulted".into(), &"add_two".into()), "{report}");
}
