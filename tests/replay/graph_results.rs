//! Copies of graphs to pageable memory, and arguments of nodes that could not be recorded.

use serde_json::Value;
use tests::forge::Forge;
use tests::*;
use trace::file::segment::Kind;

#[test]
fn what_graphs_bring_to_pageable_memory_is_compared() {
    let place = Place::new();
    run(&mut place.recorded(client("graph_results.c"))).expect(0);
    let replayed = run(&mut place.cutrace(["replay", "--driver", "sim", "--json"])).expect(0);
    let report: Value = serde_json::from_str(&replayed.stdout).expect("JSON");
    // Three launches, of which the last two copy to two places.
    assert_eq!(report["checked"]["copies"], 5, "{}", replayed.stdout);
    assert_eq!((&report["unchecked_copies"], &report["unreached_launches"]), (&0.into(), &0.into()));
}

/// Eight megabytes of each launch are read; that there were more is no reason not to replay.
#[test]
fn what_one_launch_brings_is_read_within_bounds_and_the_rest_counted() {
    let place = Place::new();
    run(&mut place.recorded(client("graph_results_many.c"))).expect(0);
    let replayed = run(&mut place.cutrace(["replay", "--driver", "sim", "--json"])).expect(0);
    let report: Value = serde_json::from_str(&replayed.stdout).expect("JSON");
    assert_eq!(report["checked"]["copies"], 2 * 8, "{}", replayed.stdout);
    let told = run(&mut place.cutrace(["info"])).expect(0).stdout;
    let note = "launches of graphs that copy more to pageable memory than is read (2); replay does not need it";
    assert!(told.contains(note) && told.contains("replayable"), "{told}");
}

#[test]
fn a_difference_there_is_found() {
    let place = Place::new();
    run(&mut place.recorded(client("graph_results.c"))).expect(0);
    // The numbers that all results are made of.
    let mut forge = Forge::open(place.join("trace.bin"));
    let numbers = |first: i32| [first, 2, 3].iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<u8>>();
    forge.replace(Kind::Chunk, &numbers(1), &numbers(7));
    forge.reseal();
    forge.write(place.join("trace.bin"));
    let replayed = run(&mut place.cutrace(["replay", "--driver", "sim", "--json"]));
    let report: Value = serde_json::from_str(&replayed.stdout).unwrap_or_default();
    assert_eq!(report["divergences"], 5, "{} {}", replayed.stdout, replayed.stderr);
}

/// The end of a context ends what is known of every function, and the arguments are gone when the call returns.
#[test]
fn arguments_of_a_node_whose_kernel_is_not_known_yet_are_lost() {
    let program = client("unknown_kernel_in_node.c");
    let place = Place::new();
    let bare = run(&mut Place::new().bare(&program)).expect(0);
    place.same(&bare, &run(&mut place.recorded(&program)));
    let lost = "kernel arguments of unknown size before a call that may free them";
    let trace = place.trace();
    assert_eq!(trace.losses, [(lost.to_owned(), 1)]);
    assert!(trace.kernels.values().any(|kernel| kernel.name == "twice" && kernel.params.is_some()));
    let info = run(&mut place.cutrace(["info", "--json"])).expect(0);
    let info: Value = serde_json::from_str(&info.stdout).expect("JSON");
    assert_eq!(info["verdict"], "partly");
    assert!(info["reasons"].to_string().contains("cuGraphKernelNodeSetParams_v2"), "{}", info["reasons"]);
    let replayed = run(&mut place.cutrace(["replay", "--driver", "sim"])).expect(3);
    assert!(replayed.stdout.starts_with("stopped") && replayed.stdout.contains(lost), "{}", replayed.stdout);
}
