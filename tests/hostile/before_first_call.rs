//! What a program takes away before its first driver call: the trace is made all the same, or the closing line says
//! why not. It is never false.

use std::process::Command;
use std::time::Duration;
use tests::*;

const PROGRAM: &str = "changed_before_first_call.c";

/// As bare, with one line, which begins like this.
#[track_caller]
fn said_once(place: &Place, ran: &Outcome, way: &str, begins: &str) {
    assert_eq!(ran.stdout, format!("{way}: 7\n"), "{}", ran.stderr);
    let last = ran.said().last().copied().unwrap_or_default().replace(&place.path().display().to_string(), "HERE");
    assert!(last.starts_with(begins), "{}", ran.stderr);
}

#[test]
fn an_environment_that_is_emptied() {
    let place = Place::new();
    let mut record = place.cutrace(["record", "--driver", "sim", "-o", "named.bin", "--data", "all", "--"]);
    let ran = run(record.arg(client(PROGRAM)).arg("environment")).expect(0);
    said_once(&place, &ran, "environment", "cutrace: named.bin: 7 calls, ");
    let trace = place.trace();
    assert_eq!(trace.preamble.data, trace::file::preamble::Data::All);
    assert!(trace.footer.is_some());
}

/// Only root may change its root directory.
#[test]
fn another_root_directory() {
    // SAFETY: a question.
    if unsafe { libc::geteuid() } != 0 {
        eprintln!("skipped: only root can change its root directory");
        return;
    }
    let place = Place::new();
    std::fs::create_dir(place.join("empty")).expect("our own directory");
    let ran = run(place.recorded(client(PROGRAM)).arg("root").arg(place.join("empty"))).expect(0);
    said_once(&place, &ran, "root", "cutrace: trace.bin: 7 calls, ");
    assert!(place.trace().preamble.program.ends_with("changed_before_first_call"), "{:?}", place.trace().preamble);
}

#[test]
fn no_file_can_be_made() {
    let ways = [
        ("files", "HERE/trace.bin: Permission denied (os error 13)"),
        ("descriptors", "HERE/trace.bin: Too many open files (os error 24)"),
        ("size", "HERE/trace.bin: the file-size limit of 4096 bytes is reached"),
    ];
    for (way, why) in ways {
        let place = Place::new();
        let ran = run(place.recorded(client(PROGRAM)).arg(way));
        if ran.code() == 77 {
            eprintln!("skipped: {way}: {}", ran.stdout);
            continue;
        }
        assert_eq!(ran.code(), 1, "{ran:?}");
        let name = client(PROGRAM).display().to_string();
        let begins = format!("cutrace: {name} called the CUDA driver, and nothing was recorded: {why}");
        said_once(&place, &ran, way, &begins);
        place.no_traces();
    }
}

#[test]
fn a_child_that_is_not_to_be_recorded() {
    let place = Place::new();
    let script = format!("CUTRACE_DISABLE=1 {}", client(PROGRAM).display());
    let ran = run(place.recorded("sh").args(["-c", &script])).expect(0);
    assert_eq!(ran.said(), ["cutrace: CUTRACE_DISABLE was 1 when sh called the CUDA driver; nothing was recorded"]);
    place.no_traces();
}

/// Whatever it was doing: either there is a trace that can be read, or no file, and the line says which.
#[test]
fn killed_at_its_start() {
    let program = client("many_calls.c");
    for step in 0..24u64 {
        let place = Place::new();
        let mut running = place.recorded("sh");
        let script = r#""$0" 1000000 & sleep "$1"; kill -9 $!; wait $! 2>/dev/null; exit 0"#;
        let wait = format!("0.{:04}", step * 10);
        let ran = run(running.args(["-c", script]).arg(&program).arg(wait)).expect(0);
        let [line] = ran.said()[..] else { panic!("{}", ran.stderr) };
        match place.trace_paths().len() {
            0 => {
                let known = ["sh made no CUDA driver call; ", "sh ended inside its first CUDA driver call; "];
                assert!(known.iter().any(|known| line.starts_with(&format!("cutrace: {known}"))), "{line}");
            }
            _ => assert!(line.starts_with("cutrace: trace.bin: "), "{line}"),
        }
        assert!(place.traces().iter().all(|trace| trace.footer.is_some()));
    }
}

/// Where `record` and its processes have no shared memory between them, nothing is claimed.
#[test]
fn what_is_not_known_is_not_said() {
    let place = Place::new();
    let mut inner = Command::new("unshare");
    inner.args(["--ipc", "sh", "-c", "echo 0 >/proc/sys/kernel/shmmni && exec \"$@\"", "sh"]);
    inner.arg(artifact("cutrace")).args(["record", "--driver", "sim", "true"]).current_dir(place.path());
    let ran = run_within(&mut inner, Duration::from_secs(60));
    if !ran.stderr.contains("nothing was recorded") {
        eprintln!("skipped: no IPC namespace of our own here: {}", ran.stderr);
        return;
    }
    assert!(
        ran.stderr.contains("whether true called the CUDA driver is unknown: no shared memory: "),
        "{}",
        ran.stderr
    );
}
