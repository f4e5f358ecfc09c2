//! Addresses of memory that is elsewhere: all of it, or only ranges blocked by another mapping.

use crate::workloads::{PROGRAMS, program};
use serde_json::Value;
use tests::*;

/// Programs that cannot be verified with nothing placed, and why not.
const EXCEPTIONS: &[(&str, &str)] = &[];

fn recorded(app: &str) -> Place {
    let place = Place::new();
    run(place.recorded(program(app)).env("CUTRACE_SIM_SEED", "1")).expect(0);
    place
}

/// A replay on a driver whose own addresses are others than the recorded one's.
fn replay(place: &Place, options: &[&str]) -> std::process::Command {
    let mut command = place.cutrace(["replay", "--driver", "sim", "--no-explain"]);
    command.args(options).env("CUTRACE_SIM_SEED", "99000000");
    command
}

#[track_caller]
fn report(mut replay: std::process::Command) -> Value {
    let ran = run(replay.arg("--json"));
    serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {}", ran.stderr))
}

/// Payloads, arguments, results, left.
fn words(report: &Value) -> [u64; 4] {
    ["payloads", "arguments", "results", "left"]
        .map(|what| report["translated_words"][what].as_u64().expect("a number"))
}

#[test]
fn every_program_with_nothing_placed() {
    for app in
        PROGRAMS.iter().chain(&["registered_ranges.c", "addresses_far_apart.c", "graph_copies.c", "mapped_addresses.c"])
    {
        let place = recorded(app);
        for (options, is_exception) in [
            (&["--no-placement"][..], EXCEPTIONS.iter().any(|(name, _)| name == app)),
            // What is placed does not depend on where the driver would have put it.
            (&[], false),
        ] {
            let replayed = run(&mut replay(&place, options));
            let verified = is_verified(&replayed.stdout);
            assert_eq!(verified, !is_exception, "{app} {options:?}: {}{}", replayed.stdout, replayed.stderr);
        }
    }
}

/// Functions are elsewhere in every process. No call says where; results do, copied or told by a kernel in
/// memory of the host's.
#[test]
fn addresses_of_functions_are_learned() {
    for told in [&[][..], &["told"]] {
        let place = Place::new();
        run(place.recorded(client("function_pointers.c")).args(told)).expect(0);
        let replayed = report(replay(&place, &[]));
        assert_eq!((&replayed["outcome"], words(&replayed)), (&"verified".into(), [3, 3, 6, 0]), "{replayed}");
        assert_eq!(replayed["translated_words"]["learned"], 1);
        // Not the words by which it was learned: there was nothing to compare them with.
        assert_eq!(replayed["checked"]["bytes"], 256 + 48, "{replayed}");
    }
}

/// Of an address beside a tag nobody can say whether it is one: it is left, and the verdict says so.
#[test]
fn tagged_addresses_of_variables_are_named() {
    let place = recorded("tagged_pointers.c");
    let info = run(&mut place.cutrace(["info", "--json"])).expect(0);
    let info: Value = serde_json::from_str(&info.stdout).expect("JSON");
    assert_eq!((&info["verdict"], info["reasons"].as_array().map(Vec::len)), (&"partly".into(), Some(1)), "{info}");
    assert!(info["reasons"].to_string().contains("words with tag bits"), "{info}");
    run(&mut replay(&place, &[])).expect(4);
}

#[test]
fn addresses_are_found_and_counted() {
    let place = recorded("addresses.c");
    // The variables of the module: into constant memory goes nothing of them, a pair of addresses into device
    // memory, one of them into an argument; a kernel made the pair, and it is read back twice.
    let placed = report(replay(&place, &[]));
    assert_eq!(placed["outcome"], "verified");
    assert_eq!((words(&placed), &placed["unresolved_pointers"]), ([2, 1, 2, 0], &0.into()), "{placed}");
    let elsewhere = report(replay(&place, &["--no-placement"]));
    let [payloads, arguments, results, left] = words(&elsewhere);
    // Of the memory that was freed, two addresses are copied on.
    assert_eq!((payloads, results, left), (27, 12, 2), "{elsewhere}");
    assert!(arguments > 30, "{elsewhere}");
    let shown = run(&mut replay(&place, &["--no-placement"])).expect(0).stdout;
    let planned = run(&mut replay(&place, &["--no-placement", "--dry-run"])).expect(0).stdout;
    assert!(planned.contains("\nno memory at its recorded address, all addresses are translated: "), "{planned}");
    for line in [
        "  translated   27 addresses in payloads, ",
        "  translated   2 addresses not translated: ",
        "cannot be found\n",
    ] {
        assert!(shown.contains(line), "{shown}");
    }
}

#[test]
fn graphs_that_kernels_launch_are_found_like_addresses() {
    let found = report(replay(&recorded("device_graph.c"), &[]));
    assert_eq!((&found["outcome"], words(&found)), (&"verified".into(), [1, 2, 1, 0]), "{found}");
}

#[test]
fn a_wrong_address_is_found_out() {
    // The second link of the list leads to another node.
    let place = recorded("linked_list.c");
    let trace = place.trace();
    let list = trace.calls().find_map(|call| call.output("dptr")).expect("an allocation");
    let path = place.join("trace.bin");
    let mut forge = tests::forge::Forge::open(&path);
    let at =
        forge.find(trace::file::segment::Kind::Chunk, &[list + 16, 0, list + 32, 1].map(u64::to_le_bytes).concat());
    forge.flip_bit(at + 16, 4);
    forge.reseal();
    forge.write(&path);
    let report = report(replay(&place, &["--no-placement"]));
    assert_eq!(report["outcome"], "diverged", "{report}");
}

/// The recorder does not ask the driver for what the program does not: such an address cannot be known for
/// what it is. (The simulated driver's variables are not closed to the CPU.)
#[test]
fn a_variable_that_nobody_asked_for_is_suspected() {
    let report = report(replay(&recorded("unnamed_variable.c"), &[]));
    assert_eq!(report["outcome"], "diverged", "{report}");
    let found = report["first_divergence"]["found"].as_str().expect("text");
    let hint = "; 2 of its words point into memory that no call returned: variables whose address was never queried?";
    assert!(found.ends_with(hint), "{found}");
}

/// What the programs are for, on this driver.
#[test]
fn addresses_are_used_again() {
    let given = |app, function| -> Vec<u64> {
        let trace = recorded(app).trace();
        calls_named(&trace, function).iter().filter_map(|call| call.output("dptr")).collect()
    };
    let pools = given("two_pools.c", "cuMemAllocFromPoolAsync");
    assert!(pools[1] == pools[2] && pools[2] == pools[3], "{pools:x?}");
    let streams = given("freed_memory_of_other_stream.c", "cuMemAllocAsync");
    assert_eq!(streams.first(), streams.last());
}

/// Something else is where one allocation was: the rest is placed, and that one's addresses are translated
/// everywhere.
#[test]
fn what_cannot_be_had_is_translated() {
    let place = recorded("addresses_far_apart.c");
    let trace = place.trace();
    let outputs = |function, name| calls_named(&trace, function).into_iter().filter_map(move |call| call.output(name));
    let device: Vec<u64> = outputs("cuMemAlloc_v2", "dptr").collect();
    let pinned: Vec<u64> = outputs("cuMemAllocHost_v2", "pp").collect();
    let replay_without = |taken: u64| {
        let mut command = replay(&place, &[]);
        command.env("LD_PRELOAD", client("libtaken.c")).env("TAKEN", format!("{taken:#x}"));
        let report = report(command);
        assert_eq!(report["outcome"], "verified", "{report}");
        let count = |what: &str| report["placement"][what].as_u64().expect("a number");
        (["placed", "translated", "host_placed", "host_translated"].map(count), words(&report))
    };
    // To the second list lead all links of the first, and one argument does to the first.
    let (placed, found) = replay_without(device[1] + (5 << 20));
    assert_eq!((placed, found), ([2, 1, 1, 0], [100, 0, 100, 0]));
    let (placed, found) = replay_without(device[0]);
    assert_eq!((placed, found), ([2, 1, 1, 0], [99, 1, 99, 0]));
    let (placed, found) = replay_without(pinned[0]);
    assert_eq!((placed, found), ([3, 0, 0, 1], [0, 0, 0, 0]));
}

/// A mapping must not reach from one reservation into another: a range of the program's that only several
/// have is elsewhere.
#[test]
fn a_range_is_had_as_a_whole_or_not_at_all() {
    let place = recorded("expandable_segments.c");
    let trace = place.trace();
    let [first, second] = calls_named(&trace, "cuMemAddressReserve")[..] else { panic!("two ranges") };
    let of = |call: trace::Call| call.output("ptr").expect("an address");
    assert_eq!(of(first) + (512 << 20), of(second), "neighbours, and reserved as one");
    let mut command = replay(&place, &[]);
    // In the second one's block, behind it.
    let taken = of(second) + (8 << 20);
    command.env("LD_PRELOAD", client("libtaken.c")).env("TAKEN", format!("{taken:#x}"));
    let report = report(command);
    assert_eq!((&report["outcome"], &report["placement"]["translated"]), (&"verified".into(), &1.into()), "{report}");
}

/// What the driver takes for itself as it starts is not seen before: the replay begins anew, and has the
/// addresses with the next layout. Where no layout has them, it says so and translates.
#[test]
fn addresses_that_the_driver_takes() {
    let place = recorded("linked_list.c");
    let list = place.trace().calls().find_map(|call| call.output("dptr")).expect("an allocation");
    let taken = format!("{:x}-{:x}\n", list & !0x1f_ffff, (list | 0x1f_ffff) + 1);
    let (path, all) = (place.join("taken"), ["--dump-memory", "mem#1", "taken.bin"]);
    for (times, left) in [(1, 0), (100, 97)] {
        std::fs::write(&path, taken.repeat(times)).unwrap();
        let mut replay = replay(&place, &["--json", "--force"]);
        let ran = run(replay.args(all).env("CUTRACE_SIM_TAKES", &path));
        let report: Value = serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {}", ran.stderr));
        assert_eq!(report["outcome"], "verified", "{report}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), taken.repeat(left));
        let (elsewhere, why) = (&report["placement"]["translated"], &report["placement"]["why_elsewhere"]);
        assert_eq!(
            (*elsewhere != 0, why.is_string(), !ran.stderr.is_empty()),
            (times > 1, times > 1, times > 1),
            "{report}"
        );
        let told =
            "cutrace: warning: some recorded addresses are already in use: 33554432 bytes, the first 33554432 at ";
        assert_eq!(ran.stderr.starts_with(told), times > 1, "{}", ran.stderr);
    }
    let left = std::fs::read_dir(place.path()).unwrap().flatten().map(|file| file.file_name());
    assert_eq!(left.filter(|name| name.to_string_lossy().ends_with(".partial")).count(), 0);
}
