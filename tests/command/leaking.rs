//! Leaks, and failed attempts to free: `report`.

use crate::reporting::{numbers, one, pick, recorded, report, rows};
use serde_json::Value;
use tests::{calls_named, run};

/// By kind and how they ended: objects, made in all, the first call's function.
fn left(found: &[Value]) -> Vec<(String, u64, u64)> {
    let text = |row: &Value, key: &str| row[key].as_str().expect("text").to_owned();
    let all = found.iter().filter(|row| row["end"] == "live");
    all.map(|row| (text(row, "kind"), numbers(row, &["objects"])[0], numbers(row, &["made"])[0])).collect()
}

#[test]
fn objects_that_are_never_destroyed_are_counted_by_kind() {
    let place = recorded("never_destroyed.c");
    let found = rows(&place, "leaks", "");
    let expected = [
        ("event", 32, 34),
        ("address reservation", 9, 10),
        ("stream", 7, 8),
        ("texture", 6, 7),
        ("module", 5, 6),
        ("graph", 4, 5),
        ("executable graph", 3, 4),
        ("retained primary context", 3, 4),
        ("context", 2, 3),
        ("memory pool", 2, 3),
    ];
    assert_eq!(left(&found), expected.map(|(kind, count, made)| (kind.to_owned(), count, made)));
    let with_context: Vec<&Value> = found.iter().filter(|row| row["end"] == "with_context").collect();
    assert_eq!(with_context.len(), 1, "{found:?}");
    assert_eq!(pick(with_context[0], &["kind", "objects"]), ["event".into(), Value::from(1)]);
    let modules = one(&found, "kind", "module");
    let first = numbers(modules, &["first_call"])[0];
    assert_eq!(pick(modules, &["same_image", "function"]), [Value::from(5), "cuModuleLoadData".into()]);
    let calls: Vec<String> = (first..first + 5).map(|call| call.to_string()).collect();
    assert_eq!(modules["calls"], calls.join(" "));
    // All memory was freed.
    assert_eq!(rows(&place, "memory", "left"), [] as [Value; 0]);
    let findings = rows(&place, "summary", "findings");
    let finding = one(&findings, "kind", "not_destroyed");
    let what = finding["what"].as_str().expect("text");
    assert!(what.starts_with("33 events, 9 address reservations, 7 streams"), "{what}");
    assert!(what.ends_with(" and 2 memory pools leaked"), "{what}");
    let evidence = finding["evidence"].as_str().expect("text");
    assert!(evidence.contains(&format!("module by call {first}, 5 from one image")), "{evidence}");
    assert_eq!(finding["next"], "cutrace report trace.bin -r leaks");
    // Those that were not asked for are not told of.
    let some = report(&place, &["-r", "leaks", "--grep", "cuEventCreate", "--format", "csv"]).expect(0).stdout;
    assert!(some.contains("32,33,") || some.contains("32,34,"), "{some}");
    assert!(!some.contains("cuStreamCreate"), "{some}");
}

/// A program that cleans up tidily leaks nothing: the one module and context of a process are not told of.
#[test]
fn one_of_a_kind_is_no_finding() {
    let place = recorded("vector_add.c");
    let findings = rows(&place, "summary", "findings");
    assert!(findings.iter().all(|row| row["kind"] != "not_destroyed"), "{findings:?}");
}

#[test]
fn a_sticky_error_is_one_failure_and_what_it_kept_from_being_freed_is_no_leak() {
    let place = recorded("freed_after_fault.c");
    let errors = rows(&place, "errors", "");
    let told: Vec<_> = errors.iter().map(|row| pick(row, &["calls", "function", "result"])).collect();
    let expected: [[Value; 3]; 2] = [
        [1.into(), "cuMemAlloc_v2".into(), "CUDA_ERROR_INVALID_VALUE".into()],
        [13.into(), "cuCtxSynchronize".into(), "CUDA_ERROR_ILLEGAL_ADDRESS".into()],
    ];
    assert_eq!(told, expected);
    let again = errors[1]["returned_by"].as_str().expect("text");
    assert!(again.contains("cuMemFreeHost (4)") && again.contains("cuStreamSynchronize (4)"), "{again}");
    let first = numbers(&errors[1], &["first_call"])[0];
    let text = report(&place, &["-r", "errors"]).expect(0).stdout;
    let note = format!("the error of call {first}, cuCtxSynchronize, belongs to earlier work");
    assert!(text.contains(&note), "{text}");
    assert!(text.contains("cutrace replay trace.bin --sync-launches names the launch"), "{text}");

    let left = rows(&place, "memory", "left");
    assert!(left.iter().all(|row| row["end"] == "failed_to_end"), "{left:?}");
    assert_eq!(left.iter().map(|row| numbers(row, &["allocations"])[0]).sum::<u64>(), 8);
    let findings = rows(&place, "summary", "findings");
    let kinds: Vec<&str> = findings.iter().filter_map(|row| row["kind"].as_str()).collect();
    assert!(!kinds.contains(&"not_freed") && !kinds.contains(&"not_destroyed"), "{findings:?}");
    let failed = one(&findings, "kind", "failed_calls");
    assert_eq!(failed["what"], format!("2 calls failed; 12 later calls repeat the error of call {first}"));
    assert_eq!(failed["next"], "cutrace replay trace.bin --sync-launches");
}

#[test]
fn memory_outlives_the_green_context_that_was_current() {
    let place = recorded("green_context_ends.c");
    let sides = rows(&place, "memory", "sides");
    assert_eq!(sides.len(), 2, "{sides:?}");
    for side in &sides {
        assert_eq!(numbers(side, &["allocations", "frees", "ended_with_context"]), [3, 3, 0], "{side:?}");
    }
    assert_eq!(rows(&place, "memory", "left"), [] as [Value; 0]);
    // Of the green context, though another was current.
    let leaks = rows(&place, "leaks", "");
    assert_eq!(one(&leaks, "function", "cuGreenCtxStreamCreate")["end"], "with_context");
}

/// By the launch that made it. The next launch of a graph that was instantiated so frees what the one before it
/// has left.
#[test]
fn memory_that_graphs_allocate_is_of_their_launches() {
    let place = recorded("graph_memory_left.c");
    let trace = place.trace();
    let launches: Vec<u64> = calls_named(&trace, "cuGraphLaunch").iter().map(|call| call.number).collect();
    let left: Vec<Vec<Value>> = rows(&place, "leaks", "memory")
        .iter()
        .map(|row| pick(row, &["bytes", "allocations", "kind", "function", "first_call", "calls"]))
        .collect();
    let expected = |bytes: u64, launch: u64| {
        vec![
            bytes.into(),
            1.into(),
            "graph".into(),
            "cuGraphLaunch".into(),
            launch.into(),
            Value::from(launch.to_string()),
        ]
    };
    assert_eq!(left, [expected(1 << 20, launches[2]), expected(1 << 17, launches[4])]);
    let families = rows(&place, "memory", "families");
    let of_launches = one(&families, "function", "cuGraphLaunch");
    let bytes = (3 << 20) + (1 << 16) + (1 << 17);
    assert_eq!(numbers(of_launches, &["allocations", "bytes", "frees"]), [5, bytes, 3]);
    let findings = rows(&place, "summary", "findings");
    let left = one(&findings, "kind", "not_freed");
    assert_eq!(left["cost_bytes"], (1 << 20) + (1 << 17));
    let shown = run(&mut place.cutrace(["view", "--once", "--no-index", "trace.bin"])).expect(0).stdout;
    let lane = shown.lines().position(|line| line.contains("graph memory")).unwrap_or_else(|| panic!("{shown}"));
    assert!(shown.lines().nth(lane + 1).is_some_and(|line| line.contains(" of 1.2 MB")), "{shown}");
}
