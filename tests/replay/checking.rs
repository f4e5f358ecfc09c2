//! The conditions for `verified`, and the waits before that result.

use serde_json::Value;
use std::process::Stdio;
use tests::forge::Forge;
use tests::*;
use trace::file::segment::Kind;

fn recorded(app: &str, arguments: &[&str]) -> Place {
    let place = Place::new();
    run(place.recorded(client(app)).args(arguments)).expect(0);
    place
}

fn forged(place: &Place, change: impl FnOnce(&mut Forge)) {
    let path = place.join("trace.bin");
    let mut forge = Forge::open(&path);
    change(&mut forge);
    forge.reseal();
    forge.write(&path);
}

fn replayed(place: &Place, options: &[&str]) -> Outcome {
    run(place.cutrace(["replay", "--driver", "sim"]).args(options))
}

fn report(place: &Place, options: &[&str], code: i32) -> Value {
    let ran = replayed(place, &[&["--json"], options].concat()).expect(code);
    serde_json::from_str(&ran.stdout).expect("JSON")
}

#[test]
fn a_fault_that_was_recorded_is_met_again() {
    let place = recorded("late_fault.c", &[]);
    let ran = replayed(&place, &[]).expect(0);
    assert!(
        is_verified(&ran.stdout) && ran.stdout.contains("find the failing launch with cutrace replay "),
        "{}",
        ran.stdout
    );
    let report = report(&place, &[], 0);
    assert_eq!((&report["checked"]["copies"], &report["unchecked_copies"]), (&10.into(), &0.into()));
}

#[test]
fn a_fault_that_was_recorded_excuses_no_earlier_one() {
    let place = recorded("late_fault.c", &[]);
    let trace = place.trace();
    let second = calls_named(&trace, "cuLaunchKernel")[1];
    let sum = trace.calls().filter_map(|call| call.output("dptr")).nth(2).expect("three allocations");
    forged(&place, |forge| {
        let arguments = [sum.to_le_bytes(), 999u64.to_le_bytes()].concat();
        let at = forge.find(Kind::Chunk, &arguments);
        forge.flip_bit(at + 5, 3);
    });
    let report = report(&place, &[], 4);
    let at = report["first_divergence"]["call"].as_u64().expect("a number");
    assert!((second.number..second.number + 3).contains(&at), "{report}");
    assert_eq!((&report["checked"]["copies"], &report["unchecked_copies"]), (&1.into(), &9.into()));
}

#[test]
fn graphs_under_way_at_the_end_keep_their_memory() {
    let place = recorded("work_at_exit.c", &["graph"]);
    for options in [&[][..], &["--no-placement"], &[], &["--no-placement"]] {
        let ran = replayed(&place, options).expect(6);
        assert!(ran.stdout.contains("the results of 40 of 40 launches"), "{}", ran.stdout);
    }
}

#[test]
fn a_fault_after_the_last_call_is_a_difference() {
    let place = recorded("work_at_exit.c", &["fault"]);
    let report = report(&place, &[], 4);
    assert_eq!(report["divergences"], 1);
    let first = &report["first_divergence"];
    assert_eq!(first["what"], "the work in flight when the recording ended");
    assert_eq!(first["found"], "CUDA_ERROR_ILLEGAL_ADDRESS");
}

#[test]
fn freed_pinned_memory_is_compared_first() {
    let place = recorded("pinned_freed.c", &[]);
    for _ in 0..3 {
        let report = report(&place, &["--no-placement"], 0);
        assert_eq!((&report["checked"]["copies"], &report["unchecked_copies"]), (&2.into(), &0.into()));
    }
}

#[test]
fn pinned_memory_is_written_when_its_copy_has_read_it() {
    let place = recorded("pinned_rewritten_after_callback.c", &[]);
    for options in [&[][..], &["--no-placement"]] {
        assert!(is_verified(&replayed(&place, options).expect(0).stdout));
    }
}

#[test]
fn what_the_cpu_writes_again_or_by_pointers_alone_is_found() {
    for app in [
        "callback_rewrites_same_value.c",
        "fill_then_cpu_write.c",
        "callback_over_fill_before_graph.c",
        "cpu_write_during_callback.c",
        "cpu_write_of_same_value.c",
        "found_by_kernel.c",
        "kernel_read_by_list.c",
        "kernel_write_by_list.c",
        "callback_write_read_by_list.c",
        "graph_copy_by_cpu.c",
        "launch_beside_callback.c",
        "callback_over_graph_fill.c",
        "callback_restores_value.c",
        "results_ring.c",
        "capture_broken.c",
        "cpu_write_awaited_by_callback.c",
    ] {
        let place = recorded(app, &[]);
        for options in [&[][..], &["--no-placement"]] {
            assert!(is_verified(&replayed(&place, options).expect(0).stdout), "{app}");
        }
    }
}

#[test]
fn results_are_compared_around_what_callbacks_write() {
    let place = recorded("results_between_callbacks.c", &[]);
    for options in [&[][..], &["--no-placement"]] {
        let report = report(&place, options, 0);
        // When each of the callbacks began, and at each of the waits.
        assert_eq!(report["checked"]["copies"], 20 + 4, "{report}");
    }
}

#[test]
fn what_kernels_write_beside_copies_is_not_the_cpus() {
    let place = recorded("copy_beside_kernels.c", &[]);
    let dry = report(&place, &["--dry-run"], 0);
    assert_eq!((&dry["verdict"], &dry["notes"]), (&"replayable".into(), &serde_json::json!([])));
    for place in [place, recorded("copy_during_callback.c", &[])] {
        assert!(is_verified(&replayed(&place, &[]).expect(0).stdout));
    }
}

#[test]
fn what_the_cpu_may_have_put_back_is_named() {
    let dry = report(&recorded("flag_restored_by_cpu.c", &[]), &["--dry-run"], 0);
    let reasons = dry["reasons"].to_string();
    assert_eq!(dry["verdict"], "partly");
    assert!(reasons.contains("CPU writes that restored earlier bytes"), "{reasons}");
}

#[test]
fn what_the_cpu_writes_where_a_copy_has_landed_is_not_an_earlier_callbacks() {
    let place = recorded("write_found_by_other_callback.c", &[]);
    for _ in 0..3 {
        assert!(is_verified(&replayed(&place, &[]).expect(0).stdout));
    }
}

#[test]
fn what_a_copy_has_replaced_is_not_what_a_graph_brought() {
    let place = recorded("graph_copy_overwritten.c", &[]);
    for _ in 0..3 {
        assert!(is_verified(&replayed(&place, &[]).expect(0).stdout));
    }
}

#[test]
fn what_a_waiting_copy_brings_is_not_the_cpus() {
    let place = recorded("copy_beside_launches.c", &[]);
    let trace = place.trace();
    let found = trace.found_writes();
    assert!(!found.is_empty() && found.iter().all(|found| trace.call(found.call).is_some_and(|call| call.thread == 0)));
    assert!(is_verified(&replayed(&place, &[]).expect(0).stdout));
}

#[test]
fn what_changes_while_it_is_stored_is_stored_whole() {
    let place = recorded("graph_source_written_by_thread.c", &[]);
    assert!(is_verified(&replayed(&place, &[]).expect(0).stdout));
}

#[test]
fn an_echo_verifies_nothing() {
    let place = recorded("echo.c", &[]);
    let ran = replayed(&place, &[]).expect(6);
    assert!(ran.stdout.starts_with("unverified"), "{}", ran.stdout);
    assert!(ran.stdout.contains("the results of 1 of 1 launches"), "{}", ran.stdout);
}

#[test]
fn launches_of_graphs_reach_what_is_copied() {
    let place = recorded("graphs.c", &[]);
    let report = report(&place, &[], 0);
    assert_eq!((&report["launches"], &report["unreached_launches"]), (&4.into(), &0.into()));
}

#[test]
fn refused_calls_stand_in_the_first_line() {
    let place = recorded("stream_waits.c", &[]);
    let ran = replayed(&place, &[]).expect(0);
    assert!(ran.stdout.contains(" identical, except for 2 refused calls\n"), "{}", ran.stdout);
    assert_eq!(report(&place, &[], 0)["refused"], 2);
}

#[test]
fn results_that_are_lost_are_compared_by_their_name() {
    for wrong in [false, true] {
        let place = Place::new();
        let mut record = place.cutrace(["record", "--driver", "sim", "--data", "all", "--"]);
        run(record.arg(client("fill_and_copy.c"))).expect(0);
        let trace = place.trace();
        forged(&place, |forge| {
            if wrong {
                let words = calls_named(&trace, "cuMemsetD8_v2")[0].argument_bytes();
                let at = forge.find(Kind::Chunk, words);
                forge.flip(at + 8);
            }
            // What is copied for nothing is needed.
            forge.lose_blobs_but(Some(trace::base::hash::Hash::compute(&[0; 1 << 16])));
        });
        let report = report(&place, &[], if wrong { 4 } else { 0 });
        assert_eq!((&report["checked"]["copies"], &report["unchecked_copies"]), (&1.into(), &0.into()));
    }
}

#[test]
fn what_is_not_compared_does_not_count() {
    let place = recorded("vector_add.c", &[]);
    let report = report(&place, &["--no-verify"], 0);
    assert_eq!((&report["outcome"], &report["verify"]), (&"replayed".into(), &false.into()));
    for what in ["results", "outputs", "copies", "bytes"] {
        assert_eq!(report["checked"][what], 0, "{what}");
    }
}

/// A return that seems to come later than everything else ties the calls in a knot, if one believes it.
#[test]
fn a_forged_stamp_does_not_hang_the_replay() {
    let place = recorded("two_contexts.c", &[]);
    let trace = place.trace();
    let attach = calls_named(&trace, "cuCtxAttach")[0];
    let stamp = attach.end.expect("it returned").to_le_bytes();
    forged(&place, |forge| {
        let at = forge.find(Kind::Chunk, &[&stamp[..], &attach.sequence.to_le_bytes()].concat());
        forge.flip_bit(at + 6, 3);
    });
    replayed(&place, &[]).expect(0);
}

/// What a stream is still filling is nobody's when a kernel is given it: a replay whose device is faster must
/// not bring back what stood there.
#[test]
fn pinned_memory_that_is_being_filled_is_not_recorded() {
    let place = Place::new();
    run(&mut place.recorded(client("pinned_reused.c"))).expect(0);
    let trace = place.trace();
    let launches = calls_named(&trace, "cuLaunchKernel");
    assert_eq!(launches.len(), 11);
    for launch in &launches[..6] {
        assert_eq!(launch.written().flat_map(|written| written.images()).count(), 0, "call {}", launch.number);
    }
    assert_eq!(launches[6].written().flat_map(|written| written.images()).count(), 1);
    // A copy behind a kernel that changes its source brings what that made of it, not what was there when it
    // was put.
    let copies = calls_named(&trace, "cuMemcpyHtoDAsync_v2");
    assert_eq!(copies.last().expect("the program copies").images().count(), 0);
}

/// What a callback puts in the place of what its graph's kernel has made is told, also if it was there before
/// that.
#[test]
fn what_callbacks_put_back_is_told() {
    for how in ["graph", "plain", "other"] {
        let place = recorded("callback_over_shared_results.c", &[how]);
        replayed(&place, &[]).expect(0);
    }
}

/// A kernel waits for what another thread writes while a call waits for the kernel: named, and written again
/// when the replay's call does not return.
#[test]
fn kernels_are_let_go_while_a_call_waits() {
    for way in ["0", "1", "2"] {
        let place = recorded("kernel_released_by_other_thread.c", &[way]);
        let info = run(&mut place.cutrace(["info", "--json"])).expect(0);
        let info: Value = serde_json::from_str(&info.stdout).expect("JSON");
        assert_eq!(info["verdict"], "partly", "{way}: {info}");
        assert!(info["reasons"].to_string().contains("during this wait the CPU wrote"), "{way}: {info}");
        let report = report(&place, &[], 0);
        assert_eq!(report["outcome"], "verified", "{way}: {report}");
    }
}

/// What a kernel under way waits for is written before a call that waits for the kernel without saying so: a
/// copy, a launch for which the driver has no room, the end of a module. Also where Linux does not tell what
/// the CPU has written.
#[test]
fn kernels_are_let_go_before_copies_and_many_launches() {
    for way in ["0", "1", "2", "3"] {
        let place = recorded("kernel_released_before_copy.c", &[way]);
        let report = report(&place, &[], 0);
        assert_eq!(
            (&report["outcome"], &report["verdict"]),
            (&"verified".into(), &"replayable".into()),
            "{way}: {report}"
        );
    }
}

/// Nothing in the page table tells what io_uring writes into buffers that it keeps: the verdict does, once it
/// does keep some.
#[test]
fn fixed_buffers_are_named() {
    let place = Place::new();
    let ran = run(&mut place.recorded(client("io_uring_fixed_buffers.c"))).expect(0);
    let verdict = if ran.stdout.starts_with("taken") { "partly" } else { "replayable" };
    let info = run(&mut place.cutrace(["info", "--json"])).expect(0);
    let info: Value = serde_json::from_str(&info.stdout).expect("JSON");
    assert_eq!(info["verdict"], verdict, "{info}");
    assert_eq!(info["reasons"].to_string().contains("io_uring writes to fixed buffers"), verdict == "partly", "{info}");
}

/// It would fill the disk; that it is not there is counted once, and said.
#[test]
fn pinned_memory_that_is_too_large_is_not_recorded() {
    let place = recorded("pinned_large.c", &[]);
    assert_eq!(place.trace().losses, [("host memory of more than 1 GiB passed to kernels".to_owned(), 1)]);
    assert!(std::fs::metadata(place.join("trace.bin")).expect("a trace").len() < 1 << 20);
    let info = run(&mut place.cutrace(["info", "--json"])).expect(0);
    let info: Value = serde_json::from_str(&info.stdout).expect("JSON");
    assert_eq!(info["verdict"], "partly");
}

/// (Not among the workloads: a recording and a replay take seconds each.)
#[test]
fn long_inputs_of_graphs_are_recorded() {
    let place = recorded("graph_copies_large.c", &[]);
    let trace = place.trace();
    let (verdict, reasons) = trace.footer.as_ref().map(|footer| (&footer.verdict, &footer.reasons)).expect("closed");
    assert_eq!((verdict.as_str(), &trace.losses[..]), ("replayable", &[][..]), "{reasons:?}");
    let replayed = run(&mut place.cutrace(["replay", "--driver", "sim"])).expect(0);
    assert!(is_verified(&replayed.stdout), "{}", replayed.stdout);
    // In pieces or not, the length of all is shown.
    let dump = run(&mut place.cutrace(["dump", "--grep", "cuMemcpyHtoDAsync|cuGraphAddMemcpyNode"])).expect(0).stdout;
    let lengths = ["69206016 bytes>", "69197824 bytes>"].map(|length| dump.matches(length).count());
    assert_eq!(lengths, [2, 1], "{dump}");
}

/// The driver takes the address of a node's source as it is. Nobody reads it before a launch; the recorder
/// does, and the program lives on.
#[test]
fn long_sources_of_nodes_may_be_unmapped() {
    let place = recorded("graph_copies_large.c", &["unmapped"]);
    let losses = place.trace().losses.clone();
    assert!(losses.contains(&("memory that could not be read".to_owned(), 1)), "{losses:?}");
}

/// Of a page of pinned memory that kernels and others use in parts nobody can tell who wrote what: what the
/// program writes where the CPU copies for the driver, too, is told too late; what a kernel has made where
/// the CPU writes is told with that, and written too early.
#[test]
fn parts_of_pinned_memory_are_named() {
    let copied = "kernels used pinned memory that was the destination of a host copy";
    let written = "the CPU wrote pinned memory of kernels in flight";
    let called_back = "kernels and callbacks of other streams wrote the same pages of pinned memory";
    for (app, how, verdict, why) in [
        ("pinned_arena.c", "", "partly", copied),
        ("pinned_written_in_part_of_page.c", "1", "partly", written),
        ("pinned_written_in_part_of_page.c", "2", "replayable", written),
        ("callback_in_part_of_page.c", "1", "replayable", called_back),
        ("callback_in_part_of_page.c", "2", "partly", called_back),
        ("callback_in_part_of_page.c", "graphs", "partly", called_back),
    ] {
        let place = recorded(app, &[how]);
        let info = run(&mut place.cutrace(["info", "--json"])).expect(0);
        let info: Value = serde_json::from_str(&info.stdout).expect("JSON");
        assert_eq!(info["verdict"], verdict, "{app} {how}");
        assert_eq!(info["reasons"].to_string().contains(why), verdict == "partly", "{app} {how}: {info}");
    }
}

/// A program that allocates until there is no more and touches next to none of it: its blocks are filled with
/// zeros when they are mapped, which took seconds, and as much of the host's memory, where the memory is that.
#[test]
fn memory_that_nobody_touches_is_not_touched() {
    const BLOCK: i64 = 300 << 20;
    let place = Place::new();
    run(&mut place.recorded(client("allocate_until_none.c"))).expect(0);
    assert!(calls_named(&place.trace(), "cuMemAlloc_v2").len() > 1);
    let mut replay = place.cutrace(["replay", "--driver", "sim"]);
    let mut child = replay.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("started");
    let mut status = 0;
    // SAFETY: all zeros are the whole of a struct of numbers; the child is ours, and has not been waited for.
    let used = unsafe {
        let mut used: libc::rusage = std::mem::zeroed();
        assert_eq!(libc::wait4(child.id() as i32, &mut status, 0, &mut used), child.id() as i32);
        used
    };
    let _waited_for = child.wait();
    assert_eq!(status, 0);
    assert!(used.ru_maxrss << 10 < BLOCK, "{} KiB", used.ru_maxrss);
}
