//! The environment of a program: bad pointers, closed standard streams, full disks, limits, errors.

use std::os::unix::process::CommandExt;
use std::process::Command;
use tests::*;
use trace::Trace;

#[test]
fn bad_pointers_are_the_drivers_own_affair() {
    for what in [
        "copy from null",
        "copy from nowhere",
        "copy to nowhere",
        "asynchronous copy from nowhere",
        "copy beyond the end",
        "result to null",
        "result to nowhere",
        "name null",
        "name nowhere",
        "image null",
        "image nowhere",
        "struct null",
        "struct nowhere",
        "arguments null",
        "arguments nowhere",
        "arguments at the end of memory",
        "host function null",
        "host node nowhere",
        "an argument nowhere",
        "packed arguments nowhere",
        "arguments nowhere of a refused launch",
        "configuration nowhere",
        "handle nowhere",
    ] {
        let place = Place::new();
        let ran = place.unchanged(client("bad_pointers.c"), &[what]);
        assert!(ran.stdout.starts_with(what), "{ran:?}");
        let trace = place.trace();
        assert_eq!(trace.len(), if ran.code() == 0 { 10 } else { 9 }, "{what}: {:?}", names(&trace));
        // A call in which the driver faulted did not return; all others did.
        assert!(trace.calls().take(8).all(|call| call.result == Some(0)), "{what}");
    }
}

fn without_streams(command: &mut Command) -> &mut Command {
    let close = || {
        for stream in 0..3 {
            // SAFETY: in the child, which has no use for its standard streams.
            unsafe { libc::close(stream) };
        }
        Ok(())
    };
    // SAFETY: close is async-signal-safe.
    unsafe { command.pre_exec(close) }
}

#[test]
fn closed_standard_streams() {
    let place = Place::new();
    let (program, report) = (client("closed_streams.c"), place.join("report"));
    run(without_streams(place.bare(&program).arg(&report))).expect(0);
    let bare = std::fs::read_to_string(&report).expect("written");
    run(without_streams(place.preloaded(&program).arg(&report))).expect(0);
    assert_eq!(std::fs::read_to_string(&report).expect("written"), bare);
    assert_eq!(bare, "0 1 2\n");
    assert_eq!(place.trace().len(), 5);
}

#[test]
fn a_directory_that_cannot_be_written() {
    let place = Place::new();
    // Not even root can make a file in /proc.
    let program = client("many_calls.c");
    let bare = run(place.bare(&program).arg("100").current_dir("/proc"));
    let recorded = run(place.preloaded(&program).arg("100").current_dir("/proc"));
    place.same(&bare, &recorded);
    assert_eq!(recorded.code(), 0);
    assert_eq!(recorded.stderr.lines().count(), 1, "{}", recorded.stderr);
    assert!(recorded.stderr.starts_with("cutrace: recording is off: /proc/trace.bin: "), "{}", recorded.stderr);
    place.no_traces();
}

/// Runs a program on a file system of `kilobytes`, and brings its traces home. None where mounting is not
/// allowed.
fn on_a_small_disk(place: &Place, kilobytes: u32, program: &[&str]) -> Option<Outcome> {
    let script = format!(
        "mkdir small && mount -t tmpfs -o size={kilobytes}k small small || exit 70
        cd small; \"$@\"; status=$?
        LD_PRELOAD= cp *.bin ..; exit $status"
    );
    let mut shell = place.bare("unshare");
    shell.args(["--user", "--map-root-user", "--mount", "env", "LD_PRELOAD="]).arg("sh").args(["-c", &script, "sh"]);
    shell.arg("env").arg(format!("LD_PRELOAD={}", artifact("libcutrace.so").display())).args(program);
    let ran = run(&mut shell);
    if ran.stderr.contains("unshare: ") || ran.code() == 70 {
        eprintln!("skipped: {}", ran.stderr.lines().next().unwrap_or_default());
        return None;
    }
    Some(ran)
}

#[test]
fn a_full_disk_ends_the_recording_of_calls() {
    let place = Place::new();
    let program = client("many_calls.c");
    let Some(ran) = on_a_small_disk(&place, 600, &[program.to_str().expect("text"), "100000"]) else { return };
    assert_eq!(ran.code(), 0, "{ran:?}");
    assert_eq!(ran.stdout, "done\n");
    check_cut_off(&place.trace(), &ran, 100_004);
}

/// Recording stopped somewhere: what came before is all there, and it was said.
fn check_cut_off(trace: &Trace, ran: &Outcome, made: usize) {
    assert_eq!(ran.said().len(), 1, "{}", ran.stderr);
    assert!(ran.stderr.starts_with("cutrace: recording is off: "), "{}", ran.stderr);
    assert!(trace.len() > 100 && trace.len() < made, "{} calls", trace.len());
    assert_eq!(names(trace)[..4], ["cuInit", "cuDeviceGet", "cuDevicePrimaryCtxRetain", "cuCtxSetCurrent"]);
    assert!(names(trace)[4..].iter().all(|name| *name == "cuCtxSetCurrent"));
}

#[test]
fn a_full_disk_ends_the_recording_of_payloads() {
    let place = Place::new();
    let program = client("copies_blocks.c");
    let Some(ran) = on_a_small_disk(&place, 4000, &[program.to_str().expect("text"), "100"]) else { return };
    assert_eq!(ran.code(), 0, "{ran:?}");
    assert_eq!(ran.stdout, "100 blocks\n");
    let trace = place.trace();
    assert_eq!(trace.len(), 4 + 1 + 200 + 1);
    assert!(ran.stderr.contains("payloads and module images are no longer recorded"), "{}", ran.stderr);
    let stored = trace.blobs().count();
    assert!((10..100).contains(&stored), "{stored} blobs");
    let lost: u64 = trace.losses.iter().map(|(_, count)| count).sum();
    assert_eq!(lost as usize, 100 - stored, "{:?}", trace.losses);
}

#[test]
fn a_file_size_limit() {
    let place = Place::new();
    let program = client("many_calls.c");
    let limit = || {
        let limit = libc::rlimit { rlim_cur: 600 << 10, rlim_max: 600 << 10 };
        // SAFETY: the struct is valid.
        match unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &limit) } {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        }
    };
    let mut command = place.preloaded(&program);
    // SAFETY: setrlimit is async-signal-safe.
    unsafe { command.arg("100000").pre_exec(limit) };
    let ran = run(&mut command).expect(0);
    assert_eq!(ran.stdout, "done\n");
    check_cut_off(&place.trace(), &ran, 100_004);
}

/// After the places of chunks were set aside. What is in shared memory then waits for `repair`.
#[test]
fn a_file_size_limit_that_is_lowered() {
    let program = client("limit_lowered.c");
    for (limit, calls, least) in
        [("16384", "100", 104), ("16384", "100000", 1000), ("0", "100", 104), ("0", "100000", 1000)]
    {
        let place = Place::new();
        let ran = place.unchanged(&program, &[limit, calls]).expect(0);
        assert_eq!(ran.stdout, "done\n");
        // Standard error is a file, too.
        let is_said = ran.stderr.contains("the file-size limit of 16384 bytes is reached");
        assert_eq!(is_said, limit != "0", "{}", ran.stderr);
        run(&mut place.cutrace(["repair", "trace.bin"])).expect(0);
        let trace = place.trace();
        assert!(trace.len() >= least && trace.footer.is_some(), "{} calls", trace.len());
    }
}

/// While nothing is to be written: that is no reason to switch recording off.
#[test]
fn descriptors_that_run_out_for_a_while() {
    let place = Place::new();
    let ran = place.unchanged(client("descriptors_run_out.c"), &[""; 0]).expect(0);
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("done\n", ""));
    assert_eq!(place.trace().len(), 50_004);
}

#[test]
fn a_program_that_closes_our_descriptor() {
    let place = Place::new();
    let ran = place.unchanged(client("closed_descriptors.c"), &[""; 0]).expect(0);
    assert_eq!(ran.stdout, "0 bytes\n");
    assert_eq!(ran.stderr, "");
    // The recorder has opened its file anew.
    assert_eq!(place.trace().len(), 5 + 50_000 + 4);
}

#[test]
fn failing_calls_are_recorded_with_their_results() {
    let place = Place::new();
    let ran = place.unchanged(client("failing_calls.c"), &[""; 0]).expect(0);
    assert_eq!(ran.stderr, "");
    let trace = place.trace();
    let results: Vec<(&str, u32)> = trace.calls().map(|c| (c.name(), c.result.expect("it returned"))).collect();
    let expected = [
        ("cuDeviceGetCount", 3),
        ("cuInit", 1),
        ("cuInit", 0),
        ("cuMemAlloc_v2", 201),
        ("cuDeviceGet", 101),
        ("cuDevicePrimaryCtxRetain", 0),
        ("cuCtxSetCurrent", 0),
        ("cuModuleLoadData", 218),
        ("cuModuleLoadData", 0),
        ("cuModuleGetFunction", 500),
        ("cuStreamSynchronize", 400),
        ("cuMemFree_v2", 1),
        ("cuModuleLoad", 301),
        ("cuMemAlloc_v2", 0),
        ("cuMemsetD32_v2", 0),
        ("cuMemcpyDtoH_v2", 0),
    ];
    assert_eq!(results, expected);
    // What they were asked is there all the same.
    let text = |name: &str, at: usize, argument: &str| {
        let call = calls_named(&trace, name)[at];
        call.text(call.argument(argument).expect("a parameter")).map(|text| text.into_owned())
    };
    assert_eq!(text("cuModuleGetFunction", 0, "name").as_deref(), Some("no_such_kernel"));
    assert_eq!(text("cuModuleLoad", 0, "fname").as_deref(), Some("/nowhere/at/all.ptx"));
}

#[test]
fn out_of_memory_and_again() {
    let place = Place::new();
    let ran = place.unchanged(client("out_of_memory.c"), &[""; 0]).expect(0);
    let trace = place.trace();
    let results: Vec<Option<u32>> = calls_named(&trace, "cuMemAlloc_v2").iter().map(|call| call.result).collect();
    let (last, refused) = results.split_last().expect("calls");
    assert_eq!(*last, Some(0));
    assert!(refused.iter().all(|result| *result == Some(2)));
    assert_eq!(ran.stdout, format!("refused {} times, then 7\n", refused.len()));
}

#[test]
fn errno_is_left_alone() {
    let place = Place::new();
    let ran = place.unchanged(client("errno_kept.c"), &[""; 0]).expect(0);
    assert_eq!(ran.stdout, "changed 0 times\n");
}

#[test]
fn all_descriptors_are_taken() {
    // With none left the simulated driver itself changes errno.
    for left in ["0", "1", "2", "7"] {
        let place = Place::new();
        let ran = place.unchanged(client("no_descriptors.c"), &[left]);
        assert_eq!((ran.code(), ran.stderr.contains("cutrace: ")), (0, false), "{left}: {ran:?}");
        assert!(ran.stdout.ends_with(&format!("{left} left\n")), "{ran:?}");
        assert_eq!(place.trace().len(), 4 + 1000 + 2);
    }
}

#[test]
fn a_sandbox_without_fallocate() {
    let place = Place::new();
    let ran = place.unchanged(client("no_fallocate.c"), &[""; 0]);
    assert_eq!((ran.code(), ran.stderr.contains("cutrace: ")), (0, false), "{ran:?}");
    assert_eq!(place.trace().len(), 4 + 50_000);
}
