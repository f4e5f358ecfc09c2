//! Jobs whose processes share something, recorded into a directory and replayed together.

use crate::workloads::on;
use serde_json::Value;
use std::process::Command;
use tests::*;

fn recorded(place: &Place, app: &str) -> Outcome {
    let mut record = place.cutrace(["record", "--driver", "sim", "-o", "run/", "--"]);
    run(on(record.arg(client(app)), "1"))
}

fn replay<'c>(command: &'c mut Command, seed: &str) -> &'c mut Command {
    on(command.args(["replay", "run/", "--driver", "sim"]), seed)
}

/// Records, and replays with memory elsewhere each time.
fn together(app: &str, processes: usize, opened: u64) -> Place {
    let place = Place::new();
    let bare = run(on(&mut Place::new().bare(client(app)), "1")).expect(0);
    place.same(&bare, &recorded(&place, app));
    for seed in ["1", "2", "99"] {
        let ran = run(replay(&mut place.cutrace([""; 0]), seed)).expect(0);
        let lines: Vec<&str> = ran.stdout.lines().collect();
        assert_eq!(lines.len(), processes + 1, "{}", ran.stdout);
        assert!(lines[..processes].iter().all(|line| line.contains(": verified: ")), "{}", ran.stdout);
        assert!(lines[processes].starts_with(&format!("verified: {processes} processes in ")), "{}", ran.stdout);
        let json = run(replay(&mut place.cutrace([""; 0]), seed).arg("--json")).expect(0);
        let whole: Value = serde_json::from_str(&json.stdout).expect("JSON");
        assert_eq!((&whole["outcome"], &whole["handles_opened"]), (&"verified".into(), &opened.into()));
        for process in whole["processes"].as_array().expect("processes") {
            assert_eq!(process["replay"]["refused"], 0, "{process}");
            assert_eq!(process["replay"]["placement"]["translated"], 0, "{process}");
        }
    }
    place
}

#[test]
fn memory_and_an_event_of_the_parent() {
    together("ipc_memory_of_parent.c", 2, 2);
}

/// By the files behind the descriptors: all of them are one file's, as on a real driver.
#[test]
fn memory_by_descriptors_of_other_numbers() {
    let place = together("descriptors_by_socket.c", 2, 6);
    let traces = std::fs::read_dir(place.join("run")).expect("ours").flatten().map(|entry| entry.path());
    let traces: Vec<_> = traces.filter(|path| path.extension().is_some_and(|end| end == "bin")).map(sound).collect();
    let importer = traces.iter().find(|trace| !calls_named(trace, "cuMemImportFromShareableHandle").is_empty());
    let importer = importer.expect("the child's").path.display().to_string();
    // Alone it knows that the memory is none of its own.
    let alone = run(on(&mut place.cutrace(["replay", "--no-explain", "--driver", "sim", &importer]), "1"));
    assert_ne!(alone.code(), 0);
    let why = "cuMemImportFromShareableHandle (6, first call ";
    assert!(alone.stdout.contains(why) && alone.stdout.contains("whose trace is not there"), "{}", alone.stdout);
}

/// Only the order of the calls of all processes makes the sums what they were.
#[test]
fn a_ring_of_three_processes() {
    let place = together("ipc_ring.c", 3, 3);
    let ran = run(replay(&mut place.cutrace([""; 0]), "5").args(["--rank", "0-1"])).expect(4);
    let [first, second, whole] = ran.stdout.lines().collect::<Vec<_>>()[..] else { panic!("{}", ran.stdout) };
    assert!(first.starts_with("rank 0 (process ") && second.starts_with("rank 1 (process "), "{}", ran.stdout);
    assert!(
        first.contains("call that was refused") && whole.starts_with("diverged: 2 processes in "),
        "{}",
        ran.stdout
    );
    let one = run(&mut place.cutrace(["replay", "run/", "--driver", "sim", "--profile"])).expect(2);
    assert!(one.stderr.contains("--profile is for one process: name its trace"), "{}", one.stderr);
}

#[test]
fn what_is_wrong_with_one_process_is_said_in_a_line() {
    let place = Place::new();
    recorded(&place, "ipc_ring.c").expect(0);
    let traces: Vec<_> =
        std::fs::read_dir(place.join("run")).expect("ours").flatten().map(|entry| entry.path()).collect();
    let of = |rank: &str| traces.iter().find(|path| path.to_string_lossy().contains(rank)).expect("a trace");
    let nowhere = run(replay(&mut place.cutrace([""; 0]), "1").args(["--device", "7"])).expect(5);
    let lines: Vec<&str> = nowhere.stdout.lines().collect();
    let is_named = |line: &&&str| line.contains("no device 7 here") || line.contains("ended, as rank ");
    assert_eq!(lines.iter().take(3).filter(is_named).count(), 3, "{}", nowhere.stdout);
    assert!(
        lines[3].starts_with("failed: 3 processes in ") && lines[3].contains("no device 7 here"),
        "{}",
        nowhere.stdout
    );

    // Of a trace that is cut a replay would not know what was after that.
    let text = std::fs::read(of("rank1")).expect("a trace");
    std::fs::write(of("rank1"), &text[..text.len() / 2]).expect("ours");
    let cut = run(replay(&mut place.cutrace([""; 0]), "1"));
    assert_eq!(cut.stdout.lines().count(), 3, "{}", cut.stdout);
    assert!(cut.said().iter().any(|line| line.ends_with("it is not replayed")), "{}", cut.stderr);
    std::fs::remove_file(of("rank1")).expect("ours");
    let missing = run(replay(&mut place.cutrace([""; 0]), "1")).expect(4);
    assert!(missing.said().iter().any(|line| line.ends_with("of 3 ranks no trace is here: 1")), "{}", missing.stderr);
    let refused: Vec<&str> = missing.stdout.lines().filter(|line| line.contains("call that was refused")).collect();
    assert!(refused.len() == 1 && refused[0].starts_with("rank 2 "), "{}", missing.stdout);
}

/// What verifies is not the job.
#[test]
fn a_job_without_one_of_its_traces_is_incomplete() {
    let place = Place::new();
    let mut record = place.cutrace(["record", "--driver", "sim", "-o", "run/", "--", "sh", "-c", "$0 && $0 && $0"]);
    run(on(record.arg(client("vector_add.c")), "1")).expect(0);
    let traces: Vec<_> =
        std::fs::read_dir(place.join("run")).expect("ours").flatten().map(|entry| entry.path()).collect();
    let mut traces = traces.into_iter().filter(|path| path.is_file());
    let (first, second) = (traces.next().expect("a trace"), traces.next().expect("a trace"));
    let text = std::fs::read(&first).expect("a trace");
    std::fs::write(&first, &text[..text.len() / 2]).expect("ours");
    let two = run(replay(&mut place.cutrace([""; 0]), "1")).expect(3);
    let whole = two.stdout.lines().last().expect("lines");
    assert!(whole.starts_with("incomplete: 2 processes in ") && whole.ends_with("cannot be read"), "{}", two.stdout);
    for lost in [first, second] {
        std::fs::remove_file(lost).expect("ours");
    }
    let one = run(replay(&mut place.cutrace([""; 0]), "1").arg("--json")).expect(3);
    assert!(one.stdout.contains("\"outcome\": \"incomplete\""), "{}", one.stdout);
}

/// What is asked of a replay is asked of each.
#[test]
fn each_is_filled_and_compared_as_asked() {
    let place = Place::new();
    let mut record = place.cutrace(["record", "--driver", "sim", "-o", "run/", "--", "sh", "-c", "$0 && $0"]);
    run(on(record.arg(client("uninitialised.c")), "1")).expect(0);
    let filled = run(replay(&mut place.cutrace([""; 0]), "1").args(["--fill", "0xa5"])).expect(4);
    assert_eq!(filled.stdout.matches(": diverged: ").count(), 2, "{}", filled.stdout);
    // The traces hold hashes alone: numbers cannot be compared.
    let numbers = run(replay(&mut place.cutrace([""; 0]), "1").args(["--verify", "1e-3,1e-3"])).expect(2);
    assert!(numbers.stdout.contains("failed: 2 processes"), "{}", numbers.stdout);
}

/// Two of one name are two all the same.
#[test]
fn two_processes_of_one_rank() {
    let place = Place::new();
    let mut record = place.cutrace(["record", "--driver", "sim", "-o", "run/", "--", "sh", "-c", "$0 && $0"]);
    run(on(record.arg(client("ipc_ring.c")), "1")).expect(0);
    let ran = run(replay(&mut place.cutrace([""; 0]), "3")).expect(0);
    assert!(ran.stdout.lines().filter(|line| line.starts_with("rank 1 ")).count() == 2, "{}", ran.stdout);
    assert!(ran.stdout.lines().last().is_some_and(|line| line.starts_with("verified: 6 processes")), "{}", ran.stdout);
    assert!(ran.said().iter().any(|line| line.contains("rank 1 is 2 processes with traces")), "{}", ran.stderr);
}
