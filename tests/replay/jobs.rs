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
    assert!(alone.stdout.contains(why) && alone.stdout.contains("is not replayed beside this one"), "{}", alone.stdout);
}

/// Only the order of the calls of all processes makes the sums what they were.
#[test]
fn a_ring_of_three_processes() {
    let place = together("ipc_ring.c", 3, 3);
    let ran = run(replay(&mut place.cutrace([""; 0]), "5").args(["--rank", "0-1"])).expect(4);
    let lines: Vec<&str> = ran.stdout.lines().filter(|line| !line.starts_with("  ")).collect();
    let [first, second, whole] = lines[..] else { panic!("{}", ran.stdout) };
    assert!(first.starts_with("rank 0 (process ") && second.starts_with("rank 1 (process "), "{}", ran.stdout);
    assert!(
        first.contains("1 call that was refused (cuIpcOpenMemHandle") && whole.starts_with("diverged: 2 processes"),
        "{}",
        ran.stdout
    );
    let further = ran.stdout.lines().find(|line| line.starts_with("  what led there: cutrace dump run/"));
    assert!(
        further.is_some_and(|line| line.contains("-rank0-ipc_ring-") && line.contains(" --calls ")),
        "{}",
        ran.stdout
    );
    let one = run(&mut place.cutrace(["replay", "run/", "--driver", "sim", "--profile"])).expect(2);
    assert!(one.stderr.contains("--profile is for one process: name its trace"), "{}", one.stderr);
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
    let lines: Vec<&str> = nowhere.stdout.lines().filter(|line| !line.starts_with("  ")).collect();
    let is_named = |line: &&&str| line.contains("no device 7 here") || line.contains("ended, as rank ");
    assert_eq!(lines.iter().take(3).filter(is_named).count(), 3, "{}", nowhere.stdout);
    assert!(lines[3].starts_with("failed: 3 processes") && lines[3].contains("no device 7 here"), "{}", nowhere.stdout);

    // Of a trace that is cut a replay would not know what was after that.
    let text = std::fs::read(of("rank1")).expect("a trace");
    std::fs::write(of("rank1"), &text[..text.len() / 2]).expect("ours");
    let cut = run(replay(&mut place.cutrace([""; 0]), "1"));
    assert_eq!(cut.stdout.lines().filter(|line| !line.starts_with("  ")).count(), 3, "{}", cut.stdout);
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
    assert!(whole.starts_with("incomplete: 2 processes") && whole.ends_with("cannot be read"), "{}", two.stdout);
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
    assert!(second.contains("there is no device 1 here") && whole.contains("(1 failed, 1 verified)"), "{}", ran.stdout);
    assert!(ran.stdout.contains("  its trace: run/") && whole.contains("rank 1 (process "), "{}", ran.stdout);
}

/// A kernel that waits for what a rank did otherwise than recorded is not waited for without end.
#[test]
fn a_rank_that_waits_for_one_that_diverged_is_ended() {
    let place = together("ipc_flag.c", 2, 1);
    let mut filled = place.cutrace(["replay", "run/", "--driver", "sim", "--fill", "0xa5", "--timeout", "2"]);
    let ran = run(on(&mut filled, "1")).expect(1);
    let whole = ran.stdout.lines().last().expect("lines");
    let (differs, waits) = (whole.find("rank 0 (process "), whole.find("rank 1 (process "));
    // Rank 0 waits, too: its last call came behind the end of the other.
    assert!(whole.starts_with("failed: 2 processes in "), "{}", ran.stdout);
    assert!(whole.contains(": no process came further for 2 s: ") && differs < waits, "{}", ran.stdout);
    assert!(
        whole.contains("did not do what was recorded, first in call ") && whole.contains(" cuMemcpyDtoH"),
        "{whole}"
    );
    assert!(whole.ends_with(" cuCtxSynchronize"), "{whole}");
    let alone = run(&mut place.cutrace(["replay", "--timeout", "2", "t.bin"])).expect(2);
    assert!(alone.stderr.contains("--timeout: is for the replays of a directory"), "{}", alone.stderr);
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
    assert!(lines[6].ends_with(", 3 handles of one process opened by another"), "{}", ran.stdout);
    let unset = run(&mut place.cutrace(["replay", "run/", "--rank", "%q{NO_RANK}"])).expect(2);
    assert!(unset.stderr.contains("the variable NO_RANK is not set here"), "{}", unset.stderr);
    let none = launched(&place, "7", "");
    assert!(none.stderr.contains("no trace of this rank; there are 0-2"), "{}", none.stderr);
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

#[test]
fn a_rank_that_does_not_come_is_named() {
    let place = Place::new();
    recorded(&place, "ipc_ring.c").expect(0);
    let ran = launched(&place, "0 1", "--timeout 1");
    assert_eq!(ran.stdout, "1\n1\n", "{}", ran.stderr);
    let why = "rank 2 did not come in time, ranks 0-1 did; --timeout SECONDS waits longer";
    assert!(ran.said().iter().all(|line| line.ends_with(why)), "{}", ran.stderr);
}

/// One that has come and is stopped then, as by a debugger.
#[test]
fn a_launched_rank_that_does_nothing_is_named() {
    let place = Place::new();
    recorded(&place, "ipc_ring.c").expect(0);
    let script = "RANK=0 $0 $1 > out0 2> said0 & first=$!; sleep 1; RANK=1 $0 $1 > out1 2> said1 & idle=$!; sleep 1; \
                  kill -STOP $idle; RANK=2 $0 $1 > out2 2> said2; echo $?; wait $first; echo $?; kill -KILL $idle; \
                  cat said0 >&2";
    let mut shell = std::process::Command::new("sh");
    shell
        .current_dir(place.path())
        .args(["-c", &script.replace("$1", "replay run/ --driver sim --timeout 4 --rank '%q{RANK}'")]);
    let ran = run(on(shell.arg(artifact("cutrace")), "3")).expect(0);
    assert_eq!(ran.stdout, "1\n1\n", "{}", ran.stderr);
    let line = ran.said().last().copied().unwrap_or_default();
    assert!(line.starts_with("cutrace: rank 1 (process "), "{}", ran.stderr);
    assert!(line.ends_with("): its process did not begin its replay within 4 s"), "{}", ran.stderr);
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
    assert!(whole.contains("rank 1 (process ") && whole.contains("there is no device 7 here"), "{}", ran.stdout);
    assert!(ran.stdout.contains(" ipc_ring: ended, as rank 1 (process "), "{}", ran.stdout);

    // Killed while the others run.
    let place = Place::new();
    recorded(&place, "ipc_flag.c").expect(0);
    let script = "for rank in 0 1; do RANK=$rank \"$0\" replay run/ --driver sim --fill 0xa5 --rank '%q{RANK}' \
                  > out$rank 2>&1 & eval pid$rank=$!; done; sleep 2; kill -9 $pid1; wait $pid0; echo $?; cat out0";
    let mut shell = std::process::Command::new("sh");
    shell.current_dir(place.path()).args(["-c", script]).arg(artifact("cutrace"));
    let ran = run(on(&mut shell, "3")).expect(0);
    let is_told = ran.stdout.contains("rank 1 (process ") && ran.stdout.contains(" failed: signal 9");
    let is_led = ran.stdout.contains("the process that leads the replay of the job has ended");
    assert!(ran.stdout.lines().next() != Some("0") && (is_told || is_led), "{}{}", ran.stdout, ran.stderr);
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
