//! `cutrace repair`: it changes only what it may, and its verdict is that on the repaired trace.

use serde_json::Value;
use std::path::PathBuf;
use tests::forge::Forge;
use tests::*;
use trace::Trace;
use trace::file::segment::{HEADER, Kind};

fn recorded() -> (Place, PathBuf, Vec<u8>) {
    let place = Place::new();
    run(&mut place.recorded(client("vector_add.c"))).expect(0);
    let path = place.join("trace.bin");
    let bytes = std::fs::read(&path).expect("a trace");
    (place, path, bytes)
}

fn json(ran: &Outcome) -> Value {
    serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran:?}"))
}

#[test]
fn without_its_second_preamble_a_trace_keeps_its_first_chunk() {
    let (place, path, bytes) = recorded();
    let [(_, first), (second, _)] = Forge::open(&path).segments(Kind::Preamble)[..] else { panic!("two preambles") };
    let mut shorter = bytes.clone();
    shorter.drain(second..second + first.size as usize);
    std::fs::write(&path, shorter).expect("written");
    let calls = |file: &str| run(&mut place.cutrace(["dump", file])).stdout;
    let before = calls("trace.bin");
    assert!(before.contains("cuLaunchKernel"), "{before}");
    // The footer stands elsewhere now, and what it lists, too: all that is made anew.
    run(&mut place.cutrace(["repair", "trace.bin", "-o", "other.bin"])).expect(0);
    assert_eq!(calls("other.bin"), before);
    run(&mut place.cutrace(["repair", "trace.bin"])).expect(0);
    assert_eq!(calls("trace.bin"), before);
}

#[test]
fn a_verdict_is_that_on_the_repaired_trace() {
    let (place, path, bytes) = recorded();
    let forge = Forge::open(&path);
    let chunk = forge.segments(Kind::Chunk)[0].0;
    let blob = forge.segments(Kind::Blob)[0].0;
    let second = forge.segments(Kind::Preamble)[1].0;
    for (damaged, is_mended) in [(0, true), (second, true), (chunk, false), (blob, false)] {
        for within in [0, HEADER + 1] {
            let mut bytes = bytes.clone();
            bytes[damaged + within..][..4].copy_from_slice(b"XXXX");
            std::fs::write(&path, &bytes).expect("written");
            let ran = run(&mut place.cutrace(["repair", "--json", "trace.bin", "-o", "repaired.bin", "--force"]));
            let whole = std::fs::read(place.join("repaired.bin")).expect("a trace");
            let info = run(&mut place.cutrace(["info", "--json", "repaired.bin"]));
            let (said, known) = (json(&ran), json(&info));
            assert_eq!((&said["verdict"], &said["reasons"]), (&known["verdict"], &known["reasons"]), "{damaged}");
            let footer = Trace::open(place.join("repaired.bin")).expect("a trace").footer.expect("closed");
            assert_eq!(said["verdict"], footer.verdict, "{damaged}+{within}: {ran:?}");
            assert_eq!(said["verdict"] == "replayable", is_mended, "{damaged}+{within}: {ran:?}");
            // What is lost stays so, for whoever reads it.
            assert_eq!(info.code(), ran.code(), "{damaged}+{within}: {info:?}");
            // In place it is the same.
            run(&mut place.cutrace(["repair", "trace.bin"])).expect(ran.code());
            assert!(whole == std::fs::read(&path).expect("a trace"), "{damaged}+{within}");
        }
    }
}

#[test]
fn a_trace_is_replaced_and_never_changed() {
    let (place, path, mut bytes) = recorded();
    bytes[..4].copy_from_slice(b"XXXX");
    std::fs::write(&path, &bytes).expect("written");
    std::fs::hard_link(&path, place.join("before.bin")).expect("a link");
    std::os::unix::fs::symlink("trace.bin", place.join("link.bin")).expect("a link");
    let ran = run(&mut place.cutrace(["repair", "link.bin"])).expect(0);
    assert!(ran.stdout.contains("its copy was used; repaired"), "{}", ran.stdout);
    assert!(std::fs::read(place.join("before.bin")).expect("there") == bytes);
    assert!(place.join("link.bin").is_symlink());
    run(&mut place.cutrace(["info"])).expect(0);
    assert_eq!(std::fs::read_dir(place.path()).expect("a directory").count(), 3);
}

#[test]
fn a_trace_that_lost_its_beginning_cannot_be_replayed() {
    let place = Place::new();
    run(place.recorded(client("copies_blocks.c")).arg("400")).expect(0);
    let path = place.join("trace.bin");
    let mut forge = Forge::open(&path);
    let chunks = forge.segments(Kind::Chunk);
    let (first, _) = chunks.iter().min_by_key(|(_, header)| (header.thread, header.ordinal())).expect("a chunk");
    assert!(chunks.iter().filter(|(_, header)| header.thread == 0).count() > 1);
    forge.flip(first + HEADER + 40);
    forge.write(&path);
    let info = json(&run(&mut place.cutrace(["info", "--json"])).expect(3));
    assert_eq!(info["verdict"], "no", "{}", info["reasons"]);
    assert!(
        info["reasons"].to_string().contains("the calls that initialised the driver are missing"),
        "{}",
        info["reasons"]
    );
    run(&mut place.cutrace(["repair", "trace.bin"])).expect(3);
    let again = run(&mut place.cutrace(["repair", "trace.bin"])).expect(3).stdout;
    assert!(again.contains("closed, incomplete") && again.contains("lost: at offset "), "{again}");
    let ran = run(&mut place.cutrace(["replay", "--driver", "sim"])).expect(1);
    assert!(ran.stdout.starts_with("verdict: not replayable"), "{}", ran.stdout);
}

/// Each trace of a job; one that a process still writes, or that is none any more, does not keep the others.
#[test]
fn the_traces_of_a_directory_are_repaired_one_by_one() {
    let place = Place::new();
    let script = "for rank in 0 1 2; do RANK=$rank WORLD_SIZE=3 \"$0\" > out$rank; done";
    let record = ["record", "--driver", "sim", "-o", "run/", "--", "sh", "-c", script];
    run(place.cutrace(record).arg(client("vector_add.c"))).expect(0);
    let all = json(&run(&mut place.cutrace(["info", "run/", "--json"])).expect(0));
    let names = all["processes"].as_array().expect("processes").iter().filter_map(|of| of["trace"].as_str());
    let names: Vec<String> = names.map(str::to_owned).collect();
    let [first, second, third] = &names[..] else { panic!("{all}") };
    let whole = std::fs::read(place.join(second)).expect("a trace");
    std::fs::write(place.join(second), &whole[..whole.len() / 2]).expect("our own file");

    let ran = run(&mut place.cutrace(["repair", "run/"])).expect(3);
    let lines: Vec<&str> = ran.stdout.lines().collect();
    assert!(lines[0].starts_with(&format!("{first}: closed and complete: 19 calls, ")), "{}", ran.stdout);
    assert!(lines[1].starts_with(&format!("{second}: ")) && lines[1].ends_with("; index written"), "{}", ran.stdout);
    assert!(ran.stdout.contains("\nlost: ") || ran.stdout.contains("\ndamage: "), "{}", ran.stdout);
    assert!(lines.iter().any(|line| line.starts_with(&format!("{third}: closed and complete: "))), "{}", ran.stdout);
    assert_eq!(lines.last(), Some(&"run/: 3 traces: 1 newly closed, 1 incomplete; verdict: cutrace info run/"));
    let again = run(&mut place.cutrace(["repair", "run/"])).expect(3).stdout;
    assert!(again.ends_with("run/: 3 traces: 0 newly closed, 1 incomplete; verdict: cutrace info run/\n"), "{again}");
    // Of the job it is still known.
    let told = run(&mut place.cutrace(["info", "run/"])).expect(3).stderr;
    assert!(told.contains(&format!("{second}: ")), "{told}");
    run(&mut place.cutrace(["report", "run/", "-r", "ranks"])).expect(3);
    run(&mut place.cutrace(["report", "run/", "-r", "ranks", "--rank", "0,2"])).expect(0);

    let some = run(&mut place.cutrace(["repair", "run/", "--rank", "0,2"])).expect(0).stdout;
    assert!(some.ends_with("run/: 2 traces: 0 newly closed, 0 incomplete; verdict: cutrace info run/\n"), "{some}");
    let one = run(&mut place.cutrace(["repair", "run/", "--rank", "1", "-o", "one.bin"])).expect(3).stdout;
    assert!(one.starts_with("one.bin: "), "{one}");

    std::fs::write(place.join(third), "no trace any more").expect("our own file");
    let ran = json(&run(&mut place.cutrace(["repair", "run/", "--json"])).expect(3));
    let paths: Vec<_> = ran["traces"].as_array().expect("a list").iter().map(|of| of["path"].clone()).collect();
    assert_eq!(paths, [first.as_str(), second.as_str()]);
    assert!(ran["warnings"].to_string().contains("not a cutrace trace"), "{ran}");
    let refused = run(&mut place.cutrace(["repair", "run/", "-o", "other.bin"])).expect(2).stderr;
    assert!(refused.contains("-o other.bin: the traces of a directory are repaired in place"), "{refused}");
}

/// A job of some ranks, none of whose traces is closed.
fn unclosed(place: &Place, ranks: &str) -> Vec<PathBuf> {
    let script = format!("for rank in {ranks}; do RANK=$rank \"$0\" > out$rank; done");
    let record = ["record", "--driver", "sim", "-o", "run/", "--", "sh", "-c", &script];
    run(place.cutrace(record).arg(client("vector_add.c"))).expect(0);
    let all = json(&run(&mut place.cutrace(["info", "run/", "--json"])).expect(0));
    let names = all["processes"].as_array().expect("processes").iter().filter_map(|of| of["trace"].as_str());
    let traces: Vec<PathBuf> = names.map(|name| place.join(name)).collect();
    for trace in &traces {
        let whole = std::fs::read(trace).expect("a trace");
        std::fs::write(trace, &whole[..whole.len() - 8]).expect("our own file");
    }
    traces
}

#[test]
fn a_link_out_of_a_directory_is_not_followed() {
    let place = Place::new();
    let traces = unclosed(&place, "0 1");
    let elsewhere = place.join("elsewhere.bin");
    std::fs::rename(&traces[1], &elsewhere).expect("our own file");
    std::os::unix::fs::symlink(&elsewhere, &traces[1]).expect("a link");
    let before = std::fs::read(&elsewhere).expect("a trace");
    let ran = run(&mut place.cutrace(["repair", "run/"])).expect(1);
    assert!(
        ran.stderr.contains(": a link to ") && ran.stderr.contains(": pass that file to repair it"),
        "{}",
        ran.stderr
    );
    assert!(ran.stdout.contains("run/: 2 traces: 1 newly closed, 0 incomplete, 1 not repaired"), "{}", ran.stdout);
    assert!(std::fs::read(&elsewhere).expect("a trace") == before);
    run(&mut place.cutrace(["repair", "elsewhere.bin"])).expect(0);
    let ran = run(&mut place.cutrace(["repair", "run/"])).expect(0);
    assert!(ran.stdout.contains("run/: 2 traces: 0 newly closed, 0 incomplete; "), "{}", ran.stdout);
}

/// It waits between two traces, for the one who reads what it says of the second.
#[test]
fn an_interrupted_repair_tells_what_was_written() {
    use std::io::{Read, Write};
    use std::os::fd::AsRawFd;
    let place = Place::new();
    let traces = unclosed(&place, "0 1 2");
    let elsewhere = place.join("elsewhere.bin");
    std::fs::rename(&traces[1], &elsewhere).expect("our own file");
    std::os::unix::fs::symlink(&elsewhere, &traces[1]).expect("a link");
    let [first, last] = [0, 2].map(|at: usize| std::fs::read(&traces[at]).expect("a trace"));
    let (mut reads, mut writes) = std::io::pipe().expect("a pipe");
    // SAFETY: a plain call on a pipe of ours.
    let full = unsafe { libc::fcntl(writes.as_raw_fd(), libc::F_SETPIPE_SZ, 4096) };
    writes.write_all(&vec![b'x'; full as usize]).expect("a full pipe");
    let mut command = place.cutrace(["repair", "run/"]);
    let mut child = command.stdout(std::process::Stdio::null()).stderr(writes).spawn().expect("started");
    drop(command);
    until("the first trace is closed", || std::fs::read(&traces[0]).expect("a trace") != first);
    // SAFETY: the child is ours and has not been waited for.
    unsafe { libc::kill(child.id() as i32, libc::SIGTERM) };
    until("it has taken the signal", || !is_pending(child.id(), libc::SIGTERM) && is_asleep(child.id()));
    let mut told = String::new();
    reads.read_to_string(&mut told).expect("text");
    assert_eq!(child.wait().expect("our child").code(), Some(128 + libc::SIGTERM), "{told}");
    assert!(told.ends_with("cutrace: interrupted by SIGTERM; 1 trace written\n"), "{told}");
    assert!(std::fs::read(&traces[2]).expect("a trace") == last);
}
