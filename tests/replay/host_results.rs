//! Results that reach the CPU without a copy by the program: they are compared, and a wrong one is found.

use serde_json::Value;
use tests::forge::Forge;
use tests::*;
use trace::file::segment::Kind;

fn recorded(app: &str, arguments: &[&str]) -> Place {
    let place = Place::new();
    run(place.recorded(client(app)).args(arguments)).expect(0);
    place
}

#[track_caller]
fn report(place: &Place, code: i32) -> Value {
    let ran = run(&mut place.cutrace(["replay", "--driver", "sim", "--json"])).expect(code);
    serde_json::from_str(&ran.stdout).expect("JSON")
}

/// Has the recorded program have copied other numbers to the device: what kernels make of them is otherwise
/// then.
fn given(place: &Place, old: [i32; 3], new: [i32; 3]) {
    let bytes = |numbers: [i32; 3]| numbers.iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<u8>>();
    let mut forge = Forge::open(place.join("trace.bin"));
    [Kind::Chunk, Kind::Blob].iter().for_each(|kind| forge.replace(*kind, &bytes(old), &bytes(new)));
    forge.reseal();
    forge.write(place.join("trace.bin"));
}

#[test]
fn long_mapped_memory_is_compared() {
    let place = recorded("mapped_results_long.c", &[]);
    let all = report(&place, 0);
    // Five launches, of which one has written across two pieces.
    assert_eq!((&all["checked"]["copies"], &all["unreached_launches"]), (&6.into(), &0.into()), "{all}");
    const N: i32 = 3355443;
    given(&place, [N, 2 * N, 3 * N], [N, 2 * N + 1, 3 * N]);
    let other = report(&place, 4);
    // The changed number lies in the first of the two pieces.
    assert_eq!(other["divergences"], 5, "{other}");
}

/// The CPU reads it a hundred times slower than other memory.
#[test]
fn long_write_combined_memory_is_not_read() {
    // Within a callback the driver may not be asked about it.
    for arguments in [&["5", "combined"][..], &["5", "combined", "called"]] {
        let place = recorded("mapped_results_long.c", arguments);
        let all = report(&place, 6);
        assert_eq!(
            (&all["checked"]["copies"], &all["copied_results"]),
            (&0.into(), &true.into()),
            "{arguments:?}: {all}"
        );
    }
}

/// When the second callback of a launch begins whose first had run before the update, nobody knows which launch it is of:
/// what it changes is no result of the first.
#[test]
fn a_graph_is_updated_between_two_callbacks_of_its_launch() {
    for microseconds in (0..8000).step_by(400) {
        let place = recorded("callbacks_in_a_row.c", &[&microseconds.to_string()]);
        assert_eq!(report(&place, 0)["outcome"], "verified", "{microseconds}");
    }
}

#[test]
fn what_a_graph_copies_for_its_callbacks_is_compared() {
    let place = recorded("results_taken_by_callback.c", &[]);
    let all = report(&place, 0);
    // Six launches to ordinary memory, and as many to pinned memory.
    assert_eq!((&all["checked"]["copies"], &all["unreached_launches"]), (&12.into(), &0.into()), "{all}");
    assert_eq!(all["unchecked_copies"], 0, "{all}");
    given(&place, [1, 2, 3], [1, 7, 3]);
    let other = report(&place, 4);
    assert_eq!(other["divergences"], 12, "{other}");
}

/// The graph waits while it is read.
#[test]
fn what_callbacks_of_graphs_wait_for_is_bounded() {
    let begun = std::time::Instant::now();
    let place = recorded("graph_results_often.c", &["240"]);
    let allowed = (256.0 + 32.0 * begun.elapsed().as_secs_f64()) as u64;
    let read = place.trace().results_of_callbacks().map(|(_, image)| image.len).sum::<u64>() >> 20;
    // What waits read counts, too: how much that is depends on when callbacks run.
    assert!((128..=allowed).contains(&read), "{read} MiB of {allowed}");
}

#[test]
fn managed_memory_is_compared_until_it_ends() {
    for then in ["free", "reset", "exit"] {
        let place = recorded("managed_results.c", &[then]);
        let all = report(&place, 0);
        assert_eq!((&all["checked"]["bytes"], &all["unreached_launches"]), (&16384.into(), &0.into()), "{then}: {all}");
        given(&place, [7, 14, 21], [7, 15, 21]);
        // The CPU may have written what it had there: nothing agrees, and nothing is a difference.
        let other = report(&place, 6);
        assert_eq!(
            (&other["checked"]["bytes"], &other["unreached_launches"]),
            (&0.into(), &2.into()),
            "{then}: {other}"
        );
    }
}

#[test]
fn what_came_back_is_told_from_what_could_not_be_compared() {
    let said = |app: &str, arguments: &[&str], copied_results: bool| {
        let place = recorded(app, arguments);
        assert_eq!(report(&place, 6)["copied_results"], copied_results, "{app} {arguments:?}");
        let text = run(&mut place.cutrace(["replay", "--driver", "sim"])).expect(6).stdout;
        let first =
            if copied_results { "unverified: the copies to the host" } else { "unverified: the program copied no" };
        assert!(text.starts_with(first), "{app} {arguments:?}: {text}");
    };
    // What is copied back the kernel has not made.
    said("echo.c", &[], false);
    said("nothing_back.c", &[], false);
    said("nothing_back.c", &["unread"], true);
    let place = recorded("managed_results.c", &["exit"]);
    assert_eq!(report(&place, 0)["copied_results"], true);
    assert_eq!(report(&place, 0)["others_at_the_end"], 0);
    given(&place, [7, 14, 21], [7, 15, 21]);
    let other = report(&place, 6);
    assert_eq!((&other["copied_results"], &other["others_at_the_end"]), (&true.into(), &16384.into()), "{other}");
}

/// As a GPU has it: what a kernel has written is not here until the CPU looks.
#[test]
fn what_the_cpu_has_of_managed_memory_is_compared_when_it_was_the_devices() {
    for then in ["free", "reset", "exit"] {
        let place = Place::new();
        run(place.recorded(client("managed_results.c")).arg(then).env("CUTRACE_SIM_MIGRATES", "1")).expect(0);
        let all = report(&place, 0);
        assert_eq!((&all["checked"]["bytes"], &all["unreached_launches"]), (&16384.into(), &0.into()), "{then}: {all}");
        given(&place, [7, 14, 21], [7, 15, 21]);
        assert_eq!(report(&place, 6)["divergences"], 0, "{then}");
    }
}

#[test]
fn of_very_many_that_are_not_compared_some_are_named() {
    let place = Place::new();
    run(place.recorded(client("nothing_back.c")).arg("1003")).expect(0);
    let missing = report(&place, 6)["not_compared"].take();
    assert_eq!((&missing["launches_in_all"], &missing["copies_in_all"]), (&1003.into(), &0.into()));
    assert_eq!(missing["launches"].as_array().map(Vec::len), Some(1000));
    let text = run(&mut place.cutrace(["replay", "--driver", "sim"])).expect(6).stdout;
    assert!(text.contains("and 1,000 more (--json names 1,000 of them)\n"), "{text}");
}

/// What stands there when the program has waited need not be the kernel's, though the CPU had no page before
/// nor has one now.
#[test]
fn what_the_cpu_wrote_before_the_device_took_it_back_is_no_divergence() {
    let place = Place::new();
    run(place.recorded(client("managed_taken_back.c")).env("CUTRACE_SIM_MIGRATES", "1")).expect(0);
    assert_eq!(report(&place, 0)["divergences"], 0);
}

#[test]
fn what_kernels_print_is_compared_where_the_output_is_a_file() {
    let place = Place::new();
    let output = std::fs::File::create(place.join("output")).expect("our own directory");
    let recorded = place.recorded(client("printed_only.c")).stdout(output).status().expect("started");
    assert!(recorded.success());
    let said = std::fs::read_to_string(place.join("output")).expect("text");
    assert!(said.contains("block 1: value 4711\n") && said.ends_with("last\n"), "{said}");
    let all = report(&place, 0);
    assert_eq!((&all["outcome"], &all["printed"]["lines"]), (&"verified".into(), &3.into()), "{all}");
    assert_eq!((&all["printed"]["as_recorded"], &all["copied_results"]), (&3.into(), &true.into()), "{all}");
    // Another argument: 4713 instead of 4712.
    let mut forge = Forge::open(place.join("trace.bin"));
    forge.replace(Kind::Chunk, &4712u64.to_le_bytes(), &4713u64.to_le_bytes());
    forge.reseal();
    forge.write(place.join("trace.bin"));
    let other = report(&place, 6);
    assert_eq!((&other["printed"]["lines"], &other["printed"]["as_recorded"]), (&3.into(), &2.into()), "{other}");
}

#[test]
fn a_line_that_the_recorded_output_lacks_is_named_and_changes_no_verdict() {
    let place = Place::new();
    let output = std::fs::File::create(place.join("output")).expect("our own directory");
    let recorded = place.recorded(client("printing.c")).stdout(output).status().expect("started");
    assert!(recorded.success());
    let replay = |code| run(&mut place.cutrace(["replay", "--driver", "sim"])).expect(code).stdout;
    assert!(is_verified(&replay(0)));
    // The same is computed, and another line was printed.
    let mut forge = Forge::open(place.join("trace.bin"));
    let line = trace::base::hash::checksum(b"block 1: value 5");
    forge.replace(Kind::Chunk, &line.to_le_bytes(), &(line ^ 1).to_le_bytes());
    forge.reseal();
    forge.write(place.join("trace.bin"));
    let text = replay(0);
    assert!(text.contains(" identical, except for lines that kernels printed\n"), "{text}");
    assert!(text.contains("2 lines by kernels, 1 is not in the recorded program's output"), "{text}");
}

#[test]
fn what_kernels_print_to_a_pipe_came_back() {
    let place = Place::new();
    let recorded = place.recorded(client("printed_only.c")).output().expect("started");
    assert!(recorded.status.success());
    let all = report(&place, 6);
    assert_eq!((&all["printed"]["lines"], &all["printed"]["as_recorded"]), (&3.into(), &Value::Null), "{all}");
    assert_eq!(all["copied_results"], true);
    let text = run(&mut place.cutrace(["replay", "--driver", "sim"])).expect(6).stdout;
    assert!(
        text.starts_with("unverified: the copies to the host") && text.contains("3 lines by kernels, not compared"),
        "{text}"
    );
}

/// The driver has put something else in the place of the first destination of each list by then.
#[test]
fn what_a_batch_brings_is_compared_wherever_it_leaves_its_index() {
    let place = Place::new();
    run(&mut place.recorded(client("outputs_over_inputs.c"))).expect(0);
    let replayed = run(&mut place.cutrace(["replay", "--driver", "sim", "--json"])).expect(0);
    let report: Value = serde_json::from_str(&replayed.stdout).expect("JSON");
    // Two results are shown of each of three graphs, and two batches bring two.
    assert_eq!(report["checked"]["copies"], 3 * 2 + 2 * 2, "{}", replayed.stdout);
}
