//! Jobs whose processes share objects, recorded into a directory and replayed together.

use crate::workloads::on;
use serde_json::Value;
use std::process::Command;
use std::time::Duration;
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
    let alone = run(on(&mut place.cutrace(["replay", "--driver", "sim", &importer]), "1")).expect(6);
    for why in [
        "cuMemImportFromShareableHandle (6, first call 8): shared by a process that is not part of this replay",
        "cuLaunchKernel (6, first call 18): uses memory of a process that is not replayed",
        "cuMemSetAccess (6, first call 10): uses memory of a process that is not replayed",
    ] {
        assert!(alone.stdout.contains(why), "{why}: {}", alone.stdout);
    }
}

/// What the others wrote in memory of a process is missing where that one is replayed without them: it is no
/// difference, and no race.
#[test]
fn memory_that_others_write() {
    for (app, export, calls) in [
        ("descriptors_by_socket.c", "cuMemExportToShareableHandle", 6),
        ("ipc_memory_of_parent.c", "cuIpcGetMemHandle", 1),
    ] {
        let place = Place::new();
        recorded(&place, app).expect(0);
        let traces = std::fs::read_dir(place.join("run")).expect("ours").flatten().map(|entry| entry.path());
        let mut traces = traces.filter(|path| path.is_file());
        let exporter = traces.find(|path| !calls_named(&sound(path), export).is_empty()).expect("the parent's");
        let alone = |options: &[&str], code| {
            let mut replay = place.cutrace(["replay", "--driver", "sim"]);
            run(on(replay.arg(&exporter).args(options), "1")).expect(code).stdout
        };
        let text = alone(&[], 6);
        assert!(text.starts_with("unverified: the copies to the host could not be compared\n"), "{text}");
        let named =
            format!("other processes may have written the memory of call {} {export}", first(&exporter, export));
        assert!(text.contains(&named) && !text.contains("no order"), "{text}");
        let report: Value = serde_json::from_str(&alone(&["--json"], 6)).expect("JSON");
        let told = format!(
            "{export}: exported memory may be written by processes that are not replayed: their writes are not in the trace ({calls} call"
        );
        assert!(report["reasons"].to_string().contains(&told), "{report}");
        assert_eq!((&report["verdict"], &report["divergences"]), (&"partly".into(), &0.into()), "{report}");
        let exported = &report["not_compared"]["dependents"][0]["exported"];
        assert_eq!(exported, &first(&exporter, export), "{report}");
    }
}

fn first(trace: &std::path::Path, function: &str) -> u64 {
    calls_named(&sound(trace), function)[0].number
}

/// What it computes of its own memory is compared all the same.
#[test]
fn memory_that_others_only_read() {
    let place = Place::new();
    recorded(&place, "ipc_flag.c").expect(0);
    let mut traces = std::fs::read_dir(place.join("run")).expect("ours").flatten().map(|entry| entry.path());
    let parent = traces.find(|path| path.to_string_lossy().contains("rank0")).expect("a trace");
    let ran = run(on(&mut place.cutrace(["replay", "--driver", "sim", &parent.to_string_lossy()]), "1")).expect(0);
    assert!(is_verified(&ran.stdout) && ran.stdout.contains("partly recorded:\n    cuIpcGetMemHandle: "));
    // The word that differs then was handed out to nobody.
    let mut filled = place.cutrace(["replay", "--no-explain", "--fill", "0xa5", "--driver", "sim"]);
    run(on(filled.arg(&parent), "1")).expect(4);
}

/// Ranks that waited for one that stayed away, and were killed: what was compared agrees, but they had come to
/// no end.
#[test]
fn a_job_that_hung_is_told_to_have_ended_inside_calls() {
    let place = Place::new();
    let library = client("libring.c");
    let program = client_with("collectives.c", &[library.to_str().expect("a plain path")]);
    run(on(&mut hanging_ranks(&place, &program, 2, 1, 6), "1").env("RING_VERSION", "7")).expect(0);
    let ran = run(replay(&mut place.cutrace([""; 0]), "1"));
    let lines: Vec<&str> = ran.stdout.lines().filter(|line| !line.starts_with("  ")).collect();
    let [first, second, whole] = lines[..] else { panic!("{}", ran.stdout) };
    assert!(first.starts_with("rank 0 ") && second.starts_with("rank 1 "), "{}", ran.stdout);
    assert!(
        first.contains("; unfinished when the recording ended: call ") && !second.contains("unfinished"),
        "{first}"
    );
    assert!(first.ends_with(" cuStreamSynchronize"), "{first}");
    assert!(whole.contains("; inside calls when the recording ended: rank 0 (process "), "{whole}");
}

/// What each lacks alone it has beside the others: `info` of the job says so, and of one trace what it is by
/// itself.
#[test]
fn processes_are_judged_as_parts_of_their_job() {
    let place = Place::new();
    recorded(&place, "ipc_ring.c").expect(0);
    let info = |arguments: &[&str]| -> Value {
        let ran = run(place.cutrace(["info", "--json"]).args(arguments)).expect(0);
        serde_json::from_str(&ran.stdout).expect("JSON")
    };
    let all = info(&["run/"]);
    let processes = all["processes"].as_array().expect("processes");
    let verdicts =
        processes.iter().map(|of| (of["verdict"].clone(), of["verdict_alone"].clone(), of["reasons"].clone()));
    assert!(verdicts.eq([0; 3].map(|_| ("replayable".into(), "partly".into(), serde_json::json!([])))), "{all}");
    assert_eq!(all["verdict"], "replayable");
    assert_eq!(info(&[processes[0]["trace"].as_str().expect("a path")])["verdict"], "partly");
    let two = info(&["run/", "--rank", "0-1"]);
    assert_eq!(two["verdict"], "partly");
    let why = "cuIpcOpenMemHandle_v2: shared by a process that is not part of this replay (1 call: ";
    assert!(two["processes"][0]["reasons"].to_string().contains(why), "{two}");
    let text = run(&mut place.cutrace(["info", "run/"])).expect(0).stdout;
    assert!(
        text.contains("verdict: replayable\n  for the whole job (cutrace replay run/); a single process"),
        "{text}"
    );
}

/// Only the order of the calls of all processes makes the sums what they were.
#[test]
fn a_ring_of_three_processes() {
    let place = together("ipc_ring.c", 3, 3);
    let ran = run(replay(&mut place.cutrace([""; 0]), "5").args(["--rank", "0-1"])).expect(6);
    let lines: Vec<&str> = ran.stdout.lines().filter(|line| !line.starts_with("  ")).collect();
    let [first, second, whole] = lines[..] else { panic!("{}", ran.stdout) };
    assert!(first.starts_with("rank 0 (process ") && second.starts_with("rank 1 (process "), "{}", ran.stdout);
    const WHY: &str = ": unverified, the copies to the host could not be compared";
    assert!(
        first.contains(&format!("{WHY}, except for 5 refused calls (cuIpcOpenMemHandle_v2: "))
            && second.contains(&format!("{WHY}: ")),
        "{}",
        ran.stdout
    );
    assert!(whole.starts_with("unverified: 2 processes in "), "{}", ran.stdout);
    let one = run(&mut place.cutrace(["replay", "run/", "--driver", "sim", "--profile"])).expect(2);
    assert!(one.stderr.contains("--profile applies to one process: pass its trace"), "{}", one.stderr);
}

/// What a kernel of one process writes there a kernel of the other reads, and what one's CPU wrote, too.
#[test]
fn host_memory_that_processes_share() {
    let place = together("shared_registered.c", 2, 0);
    let traces = std::fs::read_dir(place.join("run")).expect("ours").flatten().map(|entry| entry.path());
    let traces: Vec<_> = traces.filter(|path| path.extension().is_some_and(|end| end == "bin")).map(sound).collect();
    let parts: Vec<_> = traces.iter().flat_map(|trace| calls_named(trace, "cuMemHostRegister_v2")).collect();
    let [first, second] = [0, 1].map(|at: usize| parts[at].shared_mappings());
    let ([one], [other]) = (first, second) else { panic!("{first:?} {second:?}") };
    assert_eq!((one.device, one.inode), (other.device, other.inode));
    let mut offsets = [one.offset, other.offset];
    offsets.sort_unstable();
    assert_eq!((offsets, one.len, other.len), ([4096, 4096], 4096, 4096));
}

/// Alone a kernel waits for ever for what the other process wrote.
#[test]
fn host_memory_that_a_process_shares_with_one_that_is_not_here() {
    let alone = || {
        let place = Place::new();
        recorded(&place, "shared_registered.c").expect(0);
        let mut traces = std::fs::read_dir(place.join("run")).expect("ours").flatten().map(|entry| entry.path());
        let child = traces.find(|path| path.to_string_lossy().contains("rank1")).expect("a trace");
        let ran = run(on(place.cutrace(["replay", "--driver", "sim", "--timeout", "12"]).arg(&child), "1"));
        (place, child, ran)
    };
    // What the other has written by the time of a scan, the trace has as this one's: which wait is in vain depends on
    // that, and none is where the other was ahead each time.
    let (place, child, ran) =
        std::iter::repeat_with(alone).take(20).find(|(_, _, ran)| ran.code() != 0).expect("a wait");
    let ran = ran.expect(1);
    let [.., waits, ends] = ran.said()[..] else { panic!("{}", ran.stderr) };
    let is_waited_for =
        |call: &u64| waits.contains(&format!("for 10 s; waiting for call {call} cuCtxSynchronize: post of call "));
    let trace = sound(&child);
    let mut calls = calls_named(&trace, "cuCtxSynchronize").into_iter().map(|call| call.number);
    let Some(call) = calls.find(is_waited_for) else { panic!("{waits}") };
    assert!(
        waits.contains(", which is shared with rank 0 (process ") && waits.contains("; cutrace replay "),
        "{waits}"
    );
    assert!(waits.contains(", take of call ") && waits.contains(" may wait for a write to host memory 0x"), "{waits}");
    let so_far = format!("stopped after about {call} of {} calls; no verdict", sound(&child).len());
    assert!(ends.contains(&format!("for 12 s; waiting for call {call} ")) && ends.ends_with(&so_far), "{ends}");
    // Nothing of the others is needed to end it.
    std::fs::copy(&child, place.join("alone.bin")).expect("ours");
    let ran = run(on(&mut place.cutrace(["replay", "--driver", "sim", "--timeout", "1", "alone.bin"]), "1")).expect(1);
    assert!(ran.said().last().is_some_and(|line| line.contains("for 1 s; waiting for call ")), "{}", ran.stderr);
}

/// Ranks whose kernels meet in host memory that all have registered.
#[test]
fn collectives_over_shared_host_memory() {
    let place = Place::new();
    let library = client("libring.c");
    let program = client_with("collectives.c", &[library.to_str().expect("a plain path")]);
    let script =
        "truncate -s 36864 ring; for rank in 0 1 2; do RANK=$rank WORLD_SIZE=3 \"$0\" ring $rank 3 5 & done; wait";
    let mut record = place.cutrace(["record", "--driver", "sim", "-o", "run/", "--", "sh", "-c", script]);
    run(on(record.arg(program), "1")).expect(0);
    for seed in ["1", "2"] {
        let ran = run(replay(&mut place.cutrace([""; 0]), seed)).expect(0);
        assert_eq!(ran.stdout.matches(" collectives: verified: ").count(), 3, "{}", ran.stdout);
        assert!(ran.stdout.contains("\nverified: 3 processes in "), "{}", ran.stdout);
    }
}

#[test]
fn what_is_wrong_with_one_process_is_said_in_a_line() {
    let place = Place::new();
    recorded(&place, "ipc_ring.c").expect(0);
    let traces: Vec<_> =
        std::fs::read_dir(place.join("run")).expect("ours").flatten().map(|entry| entry.path()).collect();
    let of = |rank: &str| traces.iter().find(|path| path.to_string_lossy().contains(rank)).expect("a trace");
    let nowhere = run(replay(&mut place.cutrace([""; 0]), "1").args(["--device", "7"])).expect(5);
    let whole = nowhere.stdout.lines().last().unwrap_or_default();
    assert!(
        whole.starts_with("failed: 3 processes") && nowhere.stdout.contains("device 7 does not exist on this machine"),
        "{}",
        nowhere.stdout
    );
    for rank in ["rank 0 (", "rank 1 (", "rank 2 ("] {
        assert!(nowhere.stdout.contains(rank), "{}", nowhere.stdout);
    }

    // Of a trace that is cut a replay would not know what was after that.
    let text = std::fs::read(of("rank1")).expect("a trace");
    std::fs::write(of("rank1"), &text[..text.len() / 2]).expect("ours");
    let cut = run(replay(&mut place.cutrace([""; 0]), "1")).expect(3);
    let whole = cut.stdout.lines().last().unwrap_or_default();
    assert!(whole.starts_with("incomplete: ") && whole.contains("cannot be read: rank 1 (process "), "{}", cut.stdout);
    assert_eq!(cut.stdout.lines().filter(|line| !line.starts_with("  ")).count(), 3, "{}", cut.stdout);
    assert!(cut.said().iter().any(|line| line.contains("not replayed before ")), "{}", cut.stderr);
    std::fs::remove_file(of("rank1")).expect("ours");
    let missing = run(replay(&mut place.cutrace([""; 0]), "1")).expect(3);
    assert!(missing.said().iter().any(|line| line.ends_with("no trace for rank 1 of 3 ranks")), "{}", missing.stderr);
    let refused: Vec<&str> = missing.stdout.lines().filter(|line| line.contains("refused calls")).collect();
    assert!(refused.len() == 1 && refused[0].starts_with("rank 2 "), "{}", missing.stdout);
}

#[test]
fn what_all_fail_alike_is_said_once() {
    let place = Place::new();
    let script = "for rank in 0 1 2; do RANK=$rank $0; done";
    let mut record = place.cutrace(["record", "--driver", "sim", "-o", "run/", "--", "sh", "-c", script]);
    run(on(record.arg(client("vector_add.c")), "1")).expect(0);
    let ran = run(replay(&mut place.cutrace([""; 0]), "1").args(["--device", "7"])).expect(5);
    let told = format!("{}{}", ran.stdout, ran.stderr);
    assert_eq!(told.matches("device 7 does not exist on this machine").count(), 1, "{told}");
    let [first, whole] = ran.stdout.lines().collect::<Vec<_>>()[..] else { panic!("{told}") };
    let ranks = first.split(": ").next().unwrap_or_default().split(", ").map(|name| &name[..7]);
    assert_eq!(ranks.collect::<Vec<_>>(), ["rank 0 ", "rank 1 ", "rank 2 "], "{told}");
    assert!(whole.starts_with("failed: 3 processes in "), "{told}");
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
    assert!(
        whole.starts_with("incomplete: 2 processes")
            && whole.contains("; a trace of the job is missing or cannot be read: process "),
        "{}",
        two.stdout
    );
    for lost in [first, second] {
        std::fs::remove_file(lost).expect("ours");
    }
    let one = run(replay(&mut place.cutrace([""; 0]), "1").arg("--json")).expect(3);
    assert!(one.stdout.contains("\"outcome\": \"incomplete\""), "{}", one.stdout);
}

/// Whose device is not there is named, and who goes on: the parent, of whose memory nothing is lacking.
#[test]
fn a_rank_without_its_device() {
    let place = Place::new();
    recorded(&place, "ipc_flag.c").expect(0);
    let mut one = place.cutrace(["replay", "run/", "--driver", "sim"]);
    let ran = run(one.env("CUTRACE_SIM_DEVICES", "1").env("CUTRACE_SIM_SEED", "1")).expect(5);
    let lines: Vec<&str> = ran.stdout.lines().filter(|line| !line.starts_with("  ")).collect();
    let [first, second, whole] = lines[..] else { panic!("{}", ran.stdout) };
    assert!(first.starts_with("rank 0 ") && first.contains(": verified: "), "{}", ran.stdout);
    assert!(
        second.contains("device 1 does not exist on this machine") && whole.contains("(1 failed, 1 verified)"),
        "{}",
        ran.stdout
    );
    assert!(ran.stdout.contains("  its trace: run/") && whole.contains("rank 1 (process "), "{}", ran.stdout);
    // By itself it has no memory there: what it uses is the other's.
    let mut alone = place.cutrace(["replay", "run/", "--rank", "1", "--driver", "sim"]);
    let ran = run(alone.env("CUTRACE_SIM_DEVICES", "1")).expect(5);
    assert!(ran.stdout.contains("device 1 does not exist on this machine"), "{}", ran.stdout);
}

/// A kernel that waits for what a rank did otherwise than recorded is not waited for without end.
#[test]
fn a_rank_that_waits_for_one_that_diverged_is_ended() {
    let place = together("ipc_flag.c", 2, 1);
    let mut filled = place.cutrace(["replay", "run/", "--driver", "sim", "--fill", "0xa5", "--timeout", "5"]);
    let ran = run(on(&mut filled, "1")).expect(1);
    let whole = ran.stdout.lines().last().expect("lines");
    let (differs, waits) = (whole.find("rank 0 (process "), whole.find("rank 1 (process "));
    // Rank 0 waits, too: its last call came behind the end of the other.
    assert!(whole.starts_with("failed: 2 processes in "), "{}", ran.stdout);
    assert!(whole.contains(": no process made progress for 5 s: ") && differs < waits, "{}", ran.stdout);
    assert!(whole.contains("differs from its recording, first in call ") && whole.contains(" cuMemcpyDtoH"), "{whole}");
    assert!(whole.ends_with(" cuCtxSynchronize"), "{whole}");
}

/// As torchrun or mpirun do it: a process for each of these ranks, and what each is told.
fn launched(place: &Place, ranks: &str, options: &str) -> Outcome {
    let script = format!(
        "for rank in {ranks}; do RANK=$rank \"$0\" replay run/ --driver sim --rank '%q{{RANK}}' {options} \
         > out$rank 2> said$rank & pids=\"$pids $!\"; done; for pid in $pids; do wait $pid; echo $?; done; \
         cat out*; cat said* >&2"
    );
    let mut shell = std::process::Command::new("sh");
    shell.current_dir(place.path()).args(["-c", &script]).arg(artifact("cutrace"));
    run(on(&mut shell, "3")).expect(0)
}

#[test]
fn ranks_that_a_launcher_starts_replay_together() {
    let place = Place::new();
    recorded(&place, "ipc_ring.c").expect(0);
    let ran = launched(&place, "2 0 1", "");
    let lines: Vec<&str> = ran.stdout.lines().collect();
    assert_eq!(lines[..3], ["0", "0", "0"], "{}{}", ran.stdout, ran.stderr);
    // One of them tells of all.
    let all = lines[3..6].iter().enumerate().all(|(rank, line)| {
        line.starts_with(&format!("rank {rank} (process ")) && line.contains(" ipc_ring: verified: ")
    });
    assert!(all && lines[6].starts_with("verified: 3 processes in ") && lines.len() == 7, "{}", ran.stdout);
    assert!(lines[6].ends_with(", 3 handles shared between processes"), "{}", ran.stdout);
    let unset = run(&mut place.cutrace(["replay", "run/", "--rank", "%q{NO_RANK}"])).expect(2);
    assert!(unset.stderr.contains("the environment variable NO_RANK is not set"), "{}", unset.stderr);
    let none = launched(&place, "7", "");
    assert!(none.stderr.contains("no rank 7; this job has the ranks 0-2"), "{}", none.stderr);
}

/// As `mpirun` and `srun` do it: a `record` and a `replay` for each rank, at once, which know their ranks
/// by the launcher's variables.
#[test]
fn launchers_of_each_kind_record_and_replay() {
    let library = client("libring.c");
    let program = client_with("collectives.c", &[library.to_str().expect("a plain path")]);
    for (rank_of, ranks) in
        [("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"), ("PMI_RANK", "PMI_SIZE"), ("SLURM_PROCID", "SLURM_NTASKS")]
    {
        let place = Place::new();
        std::fs::write(place.join("ring"), vec![0; 36864]).expect("ours");
        let each = |arguments: &dyn Fn(&mut Command, &str)| {
            let launched = ["0", "1"].map(|rank| {
                let mut command = place.cutrace([""; 0]);
                arguments(&mut command, rank);
                on(&mut command, "1").env(rank_of, rank).env(ranks, "2");
                command.stdout(std::fs::File::create(place.join(&format!("out{rank}"))).expect("ours"));
                command.stderr(std::fs::File::create(place.join(&format!("said{rank}"))).expect("ours"));
                command.spawn().expect("started")
            });
            let codes = launched.map(|mut child| child.wait().expect("ours").code());
            let [out, said] = ["out", "said"].map(|name| {
                let of = |rank| std::fs::read_to_string(place.join(&format!("{name}{rank}"))).expect("written");
                of(0) + &of(1)
            });
            assert_eq!(codes, [Some(0), Some(0)], "{rank_of}: {out}{said}");
            out
        };
        each(&|record, rank| {
            record.args(["record", "--driver", "sim", "-o", "run/"]).arg(&program).args(["ring", rank, "2", "5"]);
        });
        let info = run(&mut place.cutrace(["info", "run/", "--json"])).expect(0);
        let info: Value = serde_json::from_str(&info.stdout).expect("JSON");
        let told: Vec<&Value> = info["processes"].as_array().expect("a list").iter().map(|of| &of["rank"]).collect();
        assert_eq!(told, [0, 1], "{rank_of}: {info}");
        let out = each(&|replay, _| {
            replay.args(["replay", "run/", "--driver", "sim", "--rank", &format!("%q{{{rank_of}}}")]);
        });
        assert_eq!(out.matches("\nverified: 2 processes in ").count(), 1, "{rank_of}: {out}");
    }
}

/// The one that leads says what `replay` of the directory says.
#[test]
fn what_is_wrong_with_a_launched_job_is_said_once() {
    let place = Place::new();
    recorded(&place, "ipc_ring.c").expect(0);
    recorded(&place, "ipc_ring.c").expect(0);
    let ran = launched(&place, "0 1 2", "");
    assert_eq!(ran.stderr.matches("run/ holds 2 recordings").count(), 1, "{}{}", ran.stdout, ran.stderr);
    let of = |rank: &str| {
        let traces = std::fs::read_dir(place.join("run")).expect("ours").flatten().map(|entry| entry.path());
        traces.filter(|path| path.to_string_lossy().contains(rank)).collect::<Vec<_>>()
    };
    of("rank1").iter().for_each(|path| std::fs::remove_file(path).expect("ours"));
    let ran = launched(&place, "0 2", "");
    assert_eq!(ran.stderr.matches("no trace for rank 1 of 3 ranks").count(), 1, "{}{}", ran.stdout, ran.stderr);
}

/// Two ranks that are one process come at once.
#[test]
fn a_rank_that_does_not_come_is_named() {
    let place = Place::new();
    recorded(&place, "ipc_ring.c").expect(0);
    let ran = launched(&place, "0-1", "--timeout 2");
    assert_eq!(ran.stdout, "1\n", "{}", ran.stderr);
    let why = "rank 2 did not start in time, ranks 0-1 did; wait longer with --timeout SECONDS";
    assert!(ran.said().iter().all(|line| line.ends_with(why)), "{}", ran.stderr);
}

/// One of those that a launcher starts.
fn launch(place: &Place, rank: &str, options: &[&str]) -> Running {
    let mut replay = place.cutrace(["replay", "run/", "--driver", "sim", "--rank", "%q{RANK}"]);
    begin(on(replay.args(options).env("RANK", rank), "3"))
}

/// One that has come and is stopped then, as by a debugger.
#[test]
fn a_launched_rank_that_does_nothing_is_named() {
    let place = Place::new();
    recorded(&place, "ipc_ring.c").expect(0);
    let launch = |rank: &str| launch(&place, rank, &["--timeout", "8"]);
    let sockets = |replay: &Running| {
        let open = std::fs::read_dir(format!("/proc/{}/fd", replay.pid())).into_iter().flatten().flatten();
        open.filter(|file| file.path().read_link().is_ok_and(|to| to.to_string_lossy().starts_with("socket:"))).count()
    };
    // Its own, where it listens, and one for each rank, of which it is one itself.
    let first = launch("0");
    until("rank 0 leads", || sockets(&first) == 3 && is_asleep(first.pid()));
    let idle = launch("1");
    until("rank 1 has come", || sockets(&first) == 4 && is_asleep(idle.pid()));
    idle.send(libc::SIGSTOP);
    launch("2").end().expect(1);
    let ran = first.end().expect(1);
    let line = ran.said().last().copied().unwrap_or_default();
    assert!(line.starts_with("cutrace: rank 1 (process "), "{}", ran.stderr);
    assert!(line.ends_with("): its process did not begin its replay within 8 s"), "{}", ran.stderr);
}

/// Each rank has the options of its own: one of them has no such driver.
#[test]
fn a_launched_rank_that_ends_early_ends_the_others() {
    let place = Place::new();
    recorded(&place, "ipc_ring.c").expect(0);
    let ran = launched(&place, "0 1 2", "$([ $rank = 1 ] && echo --device 7)");
    let lines: Vec<&str> = ran.stdout.lines().collect();
    assert_eq!(lines[1], "5", "{}", ran.stdout);
    assert!(lines[..3].iter().all(|status| *status != "0"), "{}", ran.stdout);
    let whole = lines.last().expect("lines");
    assert!(whole.starts_with("failed: 3 processes (1 failed, 2 ended) in "), "{}", ran.stdout);
    assert!(
        whole.contains("rank 1 (process ") && whole.contains("device 7 does not exist on this machine"),
        "{}",
        ran.stdout
    );
    assert!(ran.stdout.contains(" ipc_ring: killed, as rank 1 (process "), "{}", ran.stdout);

    // Killed while the others run.
    let place = Place::new();
    recorded(&place, "ipc_flag.c").expect(0);
    let [first, second] = ["0", "1"].map(|rank| launch(&place, rank, &["--fill", "0xa5"]));
    // The second one's kernel spins.
    let computes = |pid: u32| children(pid).iter().any(|replay| computed(*replay) > Duration::from_millis(500));
    until("both are replayed", || !children(first.pid()).is_empty() && computes(second.pid()));
    second.send(libc::SIGKILL);
    let ran = first.end();
    let told = format!("{}{}", ran.stdout, ran.stderr);
    let is_told = told.contains("rank 1 (process ") && told.contains(" failed: signal 9");
    let is_led = told.contains("the coordinating process of the job has ended");
    assert!(ran.code() != 0 && (is_told || is_led), "{told}");
}

/// What is asked of a replay is asked of each.
#[test]
fn each_is_filled_and_compared_as_asked() {
    let place = Place::new();
    let mut record = place.cutrace(["record", "--driver", "sim", "-o", "run/", "--", "sh", "-c", "$0 && $0"]);
    run(on(record.arg(client("uninitialised.c")), "1")).expect(0);
    let filled = run(replay(&mut place.cutrace([""; 0]), "1").args(["--fill", "0xa5"])).expect(4);
    assert_eq!(filled.stdout.matches(": diverged: ").count(), 2, "{}", filled.stdout);
    assert_eq!(filled.stdout.matches("\n  details: cutrace replay run/").count(), 2, "{}", filled.stdout);
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
    assert!(ran.said().iter().any(|line| line.contains("rank 1 has 2 processes with traces")), "{}", ran.stderr);
}
