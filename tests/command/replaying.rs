//! `cutrace replay` and `cutrace doctor`: all their exit statuses.

use serde_json::Value;
use tests::*;

fn recorded(app: &str, flags: &[&str]) -> Place {
    let place = Place::new();
    let mut record = place.cutrace(["record", "--driver", "sim"]);
    run(record.args(flags).arg("--").arg(client(app)).arg("10")).expect(0);
    place
}

#[test]
fn a_plan_needs_no_driver() {
    let place = recorded("vector_add.c", &[]);
    let ran = run(&mut place.cutrace(["replay", "--dry-run"])).expect(0);
    assert!(ran.stdout.starts_with("verdict: replayable\n"), "{}", ran.stdout);
    let ran = run(&mut place.cutrace(["replay", "--dry-run", "--json"])).expect(0);
    let plan: Value = serde_json::from_str(&ran.stdout).expect("JSON");
    assert_eq!((&plan["verdict"], &plan["calls"]), (&"replayable".into(), &place.trace().len().into()));
}

#[test]
fn without_a_driver() {
    let place = recorded("vector_add.c", &[]);
    let ran = run(&mut place.cutrace(["replay", "--driver", "/nowhere/libcuda.so.1"])).expect(5);
    assert!(ran.stderr.contains("/nowhere/libcuda.so.1"), "{}", ran.stderr);
    // A library, but no driver.
    let library = client("librunpath_inner.c");
    let ran = run(place.cutrace(["replay", "--driver"]).arg(&library)).expect(5);
    assert!(ran.stderr.contains("librunpath_inner.so"), "{}", ran.stderr);
    // A driver without a device.
    run(place.cutrace(["replay", "--driver", "sim"]).env("CUTRACE_SIM_DEVICES", "0")).expect(5);
}

#[test]
fn nothing_to_compare_is_not_a_pass() {
    let place = recorded("many_calls.c", &[]);
    let ran = run(&mut place.cutrace(["replay", "--driver", "sim"])).expect(6);
    assert!(ran.stdout.starts_with("unverified: the program copied no result to the host"), "{}", ran.stdout);
    let ran = run(&mut place.cutrace(["replay", "--driver", "sim", "--no-verify"])).expect(0);
    assert!(ran.stdout.starts_with("replayed, not compared\n"), "{}", ran.stdout);
}

#[test]
fn what_kernels_print_is_not_the_result() {
    let place = recorded("printing.c", &[]);
    let said = ["block 0: value 5", "block 1: value 5"];
    let replay = |more: &[&str]| {
        let ran = run(place.cutrace(["replay", "--driver", "sim"]).args(more)).expect(0);
        assert!(!said.iter().any(|line| ran.stderr.contains(line)), "{ran:?}");
        ran.stdout
    };
    let plainly = replay(&[]);
    assert!(is_verified(&plainly) && !said.iter().any(|line| plainly.contains(line)), "{plainly}");
    // The verdict is the first line all the same.
    let text = replay(&["-v"]);
    assert!(is_verified(&text), "{text}");
    assert!(said.iter().all(|line| text.contains(&format!("\n    | {line}\n"))), "{text}");
    let whole: Value = serde_json::from_str(&replay(&["--json"])).expect("JSON");
    let mut lines: Vec<&str> =
        whole["printed"]["text"].as_array().expect("lines").iter().filter_map(Value::as_str).collect();
    lines.sort_unstable();
    assert_eq!(lines, said);
    // What is repeated prints again, which differs from no recording.
    let repeated = replay(&["--loop", "3"]);
    assert!(is_verified(&repeated) && repeated.contains("not compared: calls were repeated"), "{repeated}");
}

#[test]
fn a_trace_without_data_cannot_be_replayed() {
    let place = recorded("vector_add.c", &["--data", "none"]);
    let ran = run(&mut place.cutrace(["replay", "--driver", "sim"])).expect(1);
    assert!(ran.stdout.starts_with("verdict: not replayable"), "{}", ran.stdout);
    let info = run(&mut place.cutrace(["info", "--json"])).expect(0);
    let info: Value = serde_json::from_str(&info.stdout).expect("JSON");
    assert_eq!(info["verdict"], "no");
    assert!(info["reasons"].as_array().is_some_and(|reasons| !reasons.is_empty()));
}

#[test]
fn all_data_holds_results_too() {
    let place = recorded("vector_add.c", &["--data", "all"]);
    let trace = place.trace();
    let copy = calls_named(&trace, "cuMemcpyDtoH_v2")[0];
    let result = copy.memory(trace::read::call::When::Return, copy.argument("dstHost").expect("a parameter"), 4000);
    let last = result.expect("in the trace")[3996..4000].try_into().expect("4 bytes");
    assert_eq!(f32::from_le_bytes(last), 2997.5);
    drop(trace);
    run(&mut place.cutrace(["replay", "--driver", "sim"])).expect(0);
}

#[test]
fn an_interrupted_replay_says_how_far_it_came() {
    let place = Place::new();
    run(place.recorded(client("many_calls.c")).arg("300000")).expect(0);
    for (name, signal) in [("SIGINT", libc::SIGINT), ("SIGTERM", libc::SIGTERM)] {
        let replay = begin(&mut place.cutrace(["replay", "--driver", "sim"]));
        until("the replay heeds signals", || heeds(replay.pid(), signal));
        replay.send(signal);
        let ran = replay.end().expect(128 + signal);
        assert!(ran.stderr.starts_with(&format!("cutrace: interrupted by {name} ")), "{}", ran.stderr);
    }
}

#[test]
fn the_report_in_json() {
    let place = recorded("vector_add.c", &[]);
    let ran = run(&mut place.cutrace(["replay", "--driver", "sim", "--json"])).expect(0);
    let report: Value = serde_json::from_str(&ran.stdout).expect("JSON");
    assert_eq!((&report["schema"], &report["outcome"]), (&1.into(), &"verified".into()));
}

#[test]
fn doctor_knows_the_driver_and_the_program() {
    let place = Place::new();
    let ran = run(&mut place.cutrace(["doctor", "--driver", "sim"])).expect(0);
    assert!(ran.stdout.contains("CUDA 13.0, 1 device") && ran.stdout.contains("simulated device"), "{}", ran.stdout);
    let good = client("many_calls.c");
    let ran = run(place.cutrace(["doctor", "--driver", "sim"]).arg(&good)).expect(0);
    assert!(ran.stdout.contains("can be recorded"), "{}", ran.stdout);
    let told: Value =
        serde_json::from_str(&run(&mut place.cutrace(["doctor", "--driver", "sim", "--json"])).expect(0).stdout)
            .expect("JSON");
    assert_eq!(told["checks"][0]["ok"], true, "{told}");
    let ran = run(place.cutrace(["doctor", "--driver", "sim"]).arg(client_with("no_driver.c", &["-static"]))).expect(1);
    assert!(ran.stdout.contains("statically linked"), "{}", ran.stdout);
    let ran = run(&mut place.cutrace(["doctor", "--driver", "/nowhere/libcuda.so.1"])).expect(5);
    assert!(ran.stdout.contains("/nowhere/libcuda.so.1"), "{}", ran.stdout);
}

/// What a killed process recorded last stays in shared memory, and nobody finds that behind a trace that is gone.
#[test]
fn doctor_frees_the_shared_memory_of_traces_that_are_gone() {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a file system in memory");
    let (made, moved) = (directory.path().join("trace.bin"), directory.path().join("moved.bin"));
    let place = Place::new();
    let killed = || {
        let mut command = place.preloaded(client("ends.c"));
        run(command.arg("kill").env("CUTRACE_OUTPUT", &made)).expect(128 + libc::SIGKILL);
    };
    let doctor = |more: &[&str]| {
        let ran = run(place.cutrace(["doctor", "--driver", "sim"]).args(more)).expect(0);
        let name = directory.path().display().to_string();
        let lines: Vec<&str> = ran.stdout.lines().map(str::trim).filter(|line| line.contains(&name)).collect();
        lines.join("\n")
    };
    killed();
    let lost = format!("of {}, which no longer exists", made.display());
    let repair = format!("of {0}: cutrace repair {0} closes the trace and frees it", made.display());
    assert!(doctor(&[]).ends_with(&repair), "{}", doctor(&[]));
    assert!(doctor(&["--free"]).ends_with(&repair));
    // It is needed where the trace is now.
    std::fs::rename(&made, &moved).expect("moved");
    assert!(doctor(&[]).ends_with(&lost), "{}", doctor(&[]));
    let told = doctor(&["--free"]);
    assert!(told.contains(&format!("its trace is now {}", moved.display())), "{told}");
    run(place.cutrace(["repair"]).arg(&moved)).expect(0);
    assert_eq!(doctor(&[]), "");
    std::fs::remove_file(&moved).expect("ours");
    killed();
    std::fs::remove_file(&made).expect("ours");
    assert!(doctor(&[]).ends_with(&lost));
    assert!(doctor(&["--free"]).ends_with("which no longer exists: freed"));
    assert_eq!(doctor(&[]), "");
}

/// Most users cannot read all directories. In one that they cannot write to either their traces are not.
#[test]
fn doctor_frees_the_shared_memory_of_an_ordinary_user() {
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::process::CommandExt;
    // SAFETY: a question.
    if unsafe { libc::geteuid() } != 0 {
        eprintln!("skipped: only root can be another user");
        return;
    }
    let (directory, _private) = (tempfile::tempdir_in("/dev/shm"), tempfile::tempdir_in("/dev/shm"));
    let (directory, place) = (directory.expect("a file system in memory"), Place::new());
    for open in [directory.path(), place.path()] {
        std::fs::set_permissions(open, PermissionsExt::from_mode(0o777)).expect("our own directory");
    }
    let made = directory.path().join("trace.bin");
    let mut killed = place.preloaded(client("ends.c"));
    killed.arg("kill").env("CUTRACE_OUTPUT", &made).uid(65534).gid(65534);
    run(&mut killed).expect(128 + libc::SIGKILL);
    std::fs::remove_file(&made).expect("ours");
    let told = run(place.cutrace(["doctor", "--driver", "sim", "--free"]).uid(65534).gid(65534)).expect(0).stdout;
    let line = told.lines().find(|line| line.contains(&made.display().to_string())).unwrap_or(&told);
    assert!(line.ends_with("which no longer exists: freed"), "{told}");
}

#[test]
fn usage_errors() {
    let place = Place::new();
    for arguments in [&["nonsense"][..], &["replay", "--nonsense"], &["record"], &["replay", "--device", "x"]] {
        run(&mut place.cutrace(arguments)).expect(2);
    }
    let place = recorded("vector_add.c", &[]);
    for (arguments, why) in [
        (&["replay", "--dry-run", "--break", "nope"][..], "nearest: "),
        (&["replay", "--dump-memory", "mem#9", "x"], "no mem#9"),
        (&["replay", "--dry-run", "--dump-memory", "mem#1", "x"], "'--dump-memory <MEMORY> <FILE>'"),
        (&["replay", "--dry-run", "--only-kernel", "nope"], "nearest: vector_add\n"),
        (&["replay", "--dry-run", "--bisect"], "--bisect"),
        (&["replay", "--times", "events"], "--times"),
        (&["replay", "--force"], "--force"),
        (&["replay", "--device", "1=0"], "no such device; it has 0"),
        (&["view", "--once", "--at", "foo"], "expected a call"),
        (&["view", "--once", "--filter", "zz("], "--filter \"zz(\": "),
        (&["report", "-r", ""], "possible values: summary, "),
        (&["report", "-r", ","], "possible values: summary, "),
    ] {
        let ran = run(&mut place.cutrace(arguments)).expect(2);
        assert!(ran.stderr.contains(why), "{arguments:?}: {}", ran.stderr);
    }
    let ran = run(&mut place.cutrace(["replay", "--driver", "sim", "--device", "0=7"])).expect(5);
    assert!(ran.stderr.contains("device 7 does not exist on this machine"), "{}", ran.stderr);
}
