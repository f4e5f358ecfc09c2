//! `replay --until`, `--break` and `--dump-memory`.

use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use tests::*;

fn recorded(app: &str) -> Place {
    let place = Place::new();
    run(&mut place.recorded(client(app))).expect(0);
    place
}

fn replayed(place: &Place, options: &[&str]) -> Outcome {
    run(place.cutrace(["replay", "--driver", "sim"]).args(options))
}

fn floats(place: &Place, file: &str) -> Vec<f32> {
    let bytes = std::fs::read(place.join(file)).expect("a dump");
    bytes.chunks_exact(4).map(|float| f32::from_le_bytes(float.try_into().expect("4 bytes"))).collect()
}

#[test]
fn memory_before_and_after_a_launch() {
    let place = recorded("vector_add.c");
    let launch = calls_named(&place.trace(), "cuLaunchKernel")[0].number;
    let until = launch.to_string();
    for options in [&[][..], &["--no-placement"]] {
        let before = ["--break", "vector_add", "--dump-memory", "mem#3", "before", "--force"];
        let ran = replayed(&place, &[options, &before].concat()).expect(0);
        assert!(ran.stdout.starts_with("stopped before call "), "{}", ran.stdout);
        assert!(ran.stdout.contains(&format!("before call {launch} cuLaunchKernel")), "{}", ran.stdout);
        let after = ["--until", &until, "--dump-memory", "alloc#3", "after", "--dump-memory", "mem#1", "a", "--force"];
        replayed(&place, &[options, &after].concat()).expect(0);
        assert_eq!(floats(&place, "before"), vec![0.0; 1000]);
        let sum: Vec<f32> = (0..1000).map(|i| 3.0 * i as f32 + 0.5).collect();
        assert_eq!(floats(&place, "after"), sum);
        let parts = ["--dump-memory", "mem#3+0x40", "rest", "--dump-memory", "mem#3+64+8", "two", "--force"];
        replayed(&place, &[options, &["--until", &until], &parts].concat()).expect(0);
        assert_eq!((floats(&place, "rest"), floats(&place, "two")), (sum[16..].to_vec(), sum[16..18].to_vec()));
        let beyond = ["--until", &until, "--dump-memory", "mem#3+3996+8", "x"];
        let told = replayed(&place, &[options, &beyond].concat()).expect(2).stderr;
        assert!(told.contains("mem#3+3996+8: the allocation has only 4000 bytes"), "{told}");
        assert_eq!(floats(&place, "a"), (0..1000).map(|i| i as f32).collect::<Vec<_>>());
    }
    let report = replayed(&place, &["--json", "--break", "cuMemcpyDtoH"]).expect(0).stdout;
    let report: Value = serde_json::from_str(&report).expect("JSON");
    let copy = calls_named(&place.trace(), "cuMemcpyDtoH_v2")[0].number;
    assert_eq!((&report["outcome"], &report["stopped_before"]), (&"stopped".into(), &copy.into()));
    assert_eq!((&report["launches"], &report["checked"]["copies"]), (&1.into(), &0.into()));
}

/// Kernels whose arguments are no array: there are none, or they are packed.
#[test]
fn kernels_are_found_by_name_whatever_they_were_given() {
    for (app, kernel, nth) in [("no_arguments.c", "count_up", 2), ("packed_arguments.c", "scale_quads", 1)] {
        let place = recorded(app);
        let launch = calls_named(&place.trace(), "cuLaunchKernel")[nth - 1].number;
        let stop = replayed(&place, &["--break", &format!("{kernel}#{nth}")]).expect(0).stdout;
        assert!(stop.contains(&format!("before call {launch} cuLaunchKernel")), "{stop}");
        replayed(&place, &["--only-kernel", kernel]).expect(0);
        let told = run(&mut place.cutrace(["report", "-r", "launches", "--json"])).expect(0).stdout;
        let told: Value = serde_json::from_str(&told).expect("JSON");
        let row = &told["reports"][0]["rows"][0];
        assert_eq!((&row["kernel"], &row["launches"]), (&kernel.into(), &nth.into()), "{told}");
    }
}

#[test]
fn a_range_of_recorded_addresses() {
    let place = recorded("late_fault.c");
    let trace = place.trace();
    let sum = trace.calls().filter_map(|call| call.output("dptr")).nth(2).expect("three allocations");
    // The second launch of the kernel brings 999 sums; the first one's stand there before it.
    for (nth, value) in [(1, 0.0), (3, 1.0)] {
        let (stop, file) = (format!("vector_add#{nth}"), format!("dump{nth}"));
        let range = format!("{:#x}+{}", sum + 8, 4 * 10);
        replayed(&place, &["--break", &stop, "--dump-memory", &range, &file]).expect(0);
        assert_eq!(floats(&place, &file), [value; 10]);
    }
    let beyond = format!("{sum:#x}..{:#x}", sum + 4004);
    let told = replayed(&place, &["--dump-memory", &beyond, "x"]).expect(2).stderr;
    assert!(told.contains("the range ends 4 bytes past the end of mem#3 (0x"), "{told}");
    let told = replayed(&place, &["--dump-memory", "0x5+1", "x"]).expect(2).stderr;
    assert!(told.contains("0x5 is in no allocation; "), "{told}");
    assert!(!place.join("x").exists());
}

/// At the end of a program that never frees.
#[test]
fn memory_at_the_end() {
    let place = recorded("fill_and_copy.c");
    replayed(&place, &["--dump-memory", "mem#1", "end"]).expect(0);
    let bytes = std::fs::read(place.join("end")).expect("a dump");
    assert!(!bytes.is_empty() && bytes.iter().all(|byte| *byte == bytes[0] && *byte != 0), "{bytes:?}");
}

#[test]
fn what_is_not_there_is_told() {
    let place = recorded("vector_add.c");
    let trace = place.trace();
    let number = |name, n: usize| calls_named(&trace, name)[n].number;
    let told = |options: &[&str]| {
        let ran = replayed(&place, options).expect(2);
        assert_eq!(ran.said().len(), 1, "{}", ran.stderr);
        ran.stderr
    };
    let first_free = number("cuMemFree_v2", 0);
    let gone = format!(
        "mem#1 no longer exists: call {first_free} cuMemFree_v2 frees it; stop before that call: --until {}",
        first_free - 1
    );
    assert!(told(&["--dump-memory", "mem#1", "x"]).contains(&gone));
    let later = format!("mem#2 does not exist yet: call {} allocates it", number("cuMemAlloc_v2", 1));
    assert!(told(&["--break", "cuMemAlloc#2", "--dump-memory", "mem#2", "x"]).contains(&later));
    let none = told(&["--break", "vector_add", "--dump-memory", "mem#9", "x"]);
    assert!(none.contains("the trace has no mem#9; alive at that point: mem#1, mem#2, mem#3"), "{none}");
    let near = told(&["--break", "vectr_add"]);
    assert!(near.contains("nearest: vector_add, "), "{near}");
    assert!(told(&["--break", "vector_add#2"]).contains("the trace has it once only"));
    assert!(told(&["--until", "999"]).contains("the trace has calls 0 to 18 only"));
    std::fs::write(place.join("x"), "mine").expect("written");
    let ran = replayed(&place, &["--break", "vector_add", "--dump-memory", "mem#1", "x"]).expect(1);
    assert!(ran.stderr.contains("x exists already; --force replaces it"), "{}", ran.stderr);
    assert_eq!(std::fs::read(place.join("x")).expect("still there"), b"mine");
}

/// The trace is mapped while it is replayed: neither it nor any other output may be written over.
#[test]
fn a_dump_replaces_neither_the_trace_nor_another_dump() {
    let place = recorded("vector_add.c");
    let trace = std::fs::read(place.join("trace.bin")).expect("a trace");
    std::os::unix::fs::symlink("trace.bin", place.join("link")).expect("our own directory");
    std::fs::hard_link(place.join("trace.bin"), place.join("second")).expect("our own directory");
    let stop = ["--force", "--break", "vector_add", "--dump-memory", "mem#1"];
    for name in ["trace.bin", "./trace.bin", "link", "second"] {
        let ran = replayed(&place, &[&stop[..], &[name]].concat()).expect(2);
        assert!(ran.stderr.ends_with(&format!("--dump-memory {name}: this is the trace itself\n")), "{}", ran.stderr);
    }
    assert_eq!(std::fs::read(place.join("trace.bin")).expect("a trace"), trace);
    let ran = replayed(&place, &[&stop[..], &["x", "--dump-memory", "mem#2", "./x"]].concat()).expect(2);
    assert!(ran.stderr.contains("./x: the file is given twice") && !place.join("x").exists(), "{}", ran.stderr);
    replayed(&place, &[&stop[..], &["x"]].concat()).expect(0);
    let mode = std::fs::metadata(place.join("x")).expect("a dump").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

/// With several threads, what a call below the stop waits for is below it as well.
#[test]
fn every_stop_of_a_program_with_threads() {
    for app in ["two_contexts.c", "streams_events.c", "graphs.c"] {
        let place = recorded(app);
        for call in (0..place.trace().len()).step_by(3) {
            replayed(&place, &["--until", &call.to_string()]).expect(0);
        }
    }
}

/// A stream waits for a call behind the stop.
#[test]
fn what_waits_at_the_stop_is_named() {
    let place = recorded("stream_value_released.c");
    let wait = calls_named(&place.trace(), "cuStreamWaitValue32_v2")[0].number;
    let stop =
        ["--break", "cuStreamWriteValue32", "--dump-memory", "mem#2", "values", "--dump-memory", "mem#3", "copied"];
    let ran = replayed(&place, &stop).expect(0);
    assert!(ran.stdout.starts_with("stopped before call "), "{}", ran.stdout);
    let what = format!("stream#1 has unfinished work: call {wait} cuStreamWaitValue32_v2 and 1 more");
    assert!(ran.stderr.contains(&format!("warning: at the stop, {what}\n")), "{}", ran.stderr);
    let words = |file: &str| std::fs::read(place.join(file)).expect("a dump")[..4].to_vec();
    assert_eq!((words("values"), words("copied")), (3u32.to_le_bytes().to_vec(), vec![0; 4]));
}

/// The recording had no room for it: the replay is not to blame, nor is a launch.
#[test]
fn before_what_was_not_recorded() {
    let place = Place::new();
    let script = "ulimit -f 1000; exec \"$0\" record --driver sim -- \"$1\" 40";
    run(place.command("bash").args(["-c", script]).arg(artifact("cutrace")).arg(client("copies_blocks.c"))).expect(0);
    let ran = run(&mut place.cutrace(["replay", "--driver", "sim"])).expect(3);
    assert!(ran.stdout.starts_with("stopped: data of call ") && ran.stdout.contains(" is not recorded; "), "{ran:?}");
    assert!(ran.stderr.contains(" cuMemcpyHtoD_v2 needs 65.5 kB that were not recorded"), "{}", ran.stderr);
    let dry = run(&mut place.cutrace(["replay", "--dry-run"])).expect(0).stdout;
    assert!(dry.starts_with("verdict: partly replayable"), "{dry}");
}
