//! Changes to its process that a program makes before its first driver call: the trace is made all the same,
//! or the closing line says why not. That line is never false.

use std::path::PathBuf;
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

#[test]
fn another_root_directory() {
    if !may_change_root() {
        return;
    }
    let place = Place::new();
    std::fs::create_dir(place.join("empty")).expect("our own directory");
    let ran = run(place.recorded(client(PROGRAM)).arg("root").arg(place.join("empty"))).expect(0);
    said_once(&place, &ran, "root", "cutrace: trace.bin: 7 calls, ");
    assert!(place.trace().preamble.program.ends_with("changed_before_first_call"), "{:?}", place.trace().preamble);
}

fn may_change_root() -> bool {
    // SAFETY: a question.
    let may = unsafe { libc::geteuid() } == 0;
    if !may {
        eprintln!("skipped: only root can change its root directory");
    }
    may
}

/// The directory of the trace by name, below another root directory.
fn same_name(place: &Place, root: &str) -> PathBuf {
    let inner = place.join(root).join(place.path().strip_prefix("/").expect("an absolute path"));
    std::fs::create_dir_all(&inner).expect("our own directory");
    inner
}

#[test]
fn two_processes_below_another_root_directory() {
    if !may_change_root() {
        return;
    }
    for with_same_name in [false, true] {
        let place = Place::new();
        std::fs::create_dir(place.join("root")).expect("our own directory");
        let inner = with_same_name.then(|| same_name(&place, "root"));
        let script = r#""$0" root "$1" && "$0" root "$1""#;
        let ran = run(place.recorded("sh").args(["-c", script]).arg(client(PROGRAM)).arg(place.join("root"))).expect(0);
        let [line] = ran.said()[..] else { panic!("{}", ran.stderr) };
        assert!(line.starts_with("cutrace: 2 processes: trace.bin, trace.1.bin: 14 calls, "), "{line}");
        assert_eq!(place.traces().len(), 2);
        assert!(inner.is_none_or(|inner| std::fs::read_dir(inner).expect("a directory").next().is_none()));
    }
}

/// The process ended with its trace below another root directory, and its path names another file here.
#[test]
fn a_file_of_the_program_stays() {
    if !may_change_root() {
        return;
    }
    let place = Place::new();
    let inner = same_name(&place, "root");
    let script = r#""$0" ended "$1"; echo own >trace.bin"#;
    let ran = run(place.recorded("sh").args(["-c", script]).arg(client(PROGRAM)).arg(place.join("root"))).expect(0);
    assert!(inner.join("trace.bin").exists(), "{ran:?}");
    assert_eq!(std::fs::read_to_string(place.join("trace.bin")).expect("not removed"), "own\n");
    let line = "cutrace: sh ended inside its first CUDA driver call; nothing was recorded";
    assert_eq!(ran.said(), [line], "{}", ran.stderr);
}

#[test]
fn a_path_with_a_line_feed() {
    let place = Place::new();
    let mut record = place.cutrace(["record", "--driver", "sim", "-o", "a\nb\\n.bin", "--"]);
    let ran = run(record.arg(client(PROGRAM)).arg("line")).expect(0);
    assert!(ran.stderr.contains("b\\n.bin: 7 calls, ") && !ran.stderr.contains("removed"), "{}", ran.stderr);
    assert!(place.trace().footer.is_some());
}

#[test]
fn the_number_of_the_recorder_s_descriptor() {
    let place = Place::new();
    let ran = run(place.recorded(client(PROGRAM)).arg("number").arg(place.path())).expect(0);
    said_once(&place, &ran, "number", "cutrace: trace.bin: 7 calls, ");
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
        let begins = format!("cutrace: {name} called the CUDA driver, but nothing was recorded: {why}");
        said_once(&place, &ran, way, &begins);
        assert_eq!(ran.said().len(), 1, "{}", ran.stderr);
        place.no_traces();
    }
}

#[test]
fn one_of_two_processes_makes_no_file() {
    let place = Place::new();
    let script = r#""$0" size; "$0""#;
    let ran = run(place.recorded("sh").args(["-c", script]).arg(client(PROGRAM))).expect(1);
    let [line] = ran.said()[..] else { panic!("{}", ran.stderr) };
    assert!(line.starts_with("cutrace: trace.bin: 7 calls, "), "{line}");
    let why = "; 1 process with driver calls but without a trace: ";
    assert!(line.contains(why) && line.ends_with("the file-size limit of 4096 bytes is reached"), "{line}");
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
                let known = ["sh made no CUDA driver call", "sh ended inside its first CUDA driver call; "];
                assert!(known.iter().any(|known| line.starts_with(&format!("cutrace: {known}"))), "{line}");
            }
            _ => assert!(line.starts_with("cutrace: trace.bin: "), "{line}"),
        }
        assert!(place.traces().iter().all(|trace| trace.footer.is_some()));
    }
}

/// Only a program that ends by `exit` is known not to have become another one.
#[test]
fn execution_without_the_recorder() {
    let place = Place::new();
    let unloaded = format!("exec env -u LD_PRELOAD {}", client(PROGRAM).display());
    let ran = run(place.recorded("sh").args(["-c", &unloaded]).env("LD_LIBRARY_PATH", driver_directory())).expect(0);
    assert_eq!(ran.stdout, ": 7\n");
    let [line] = ran.said()[..] else { panic!("{}", ran.stderr) };
    let begins = "cutrace: sh made no CUDA driver call that the recorder saw; nothing was recorded. ";
    assert!(line.starts_with(begins) && line.ends_with("may have executed a program without the recorder"), "{line}");
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
        ran.stderr.contains("it is unknown whether true called the CUDA driver: no shared memory: "),
        "{}",
        ran.stderr
    );
}
