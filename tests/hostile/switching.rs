//! `record --paused`, `cutrace on` and `cutrace off`: recording is switched from outside.

use serde_json::Value;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdout, Command, Stdio};
use tests::*;
use trace::Trace;

/// A program that works when it is told to. It ends when this does.
struct Stepped {
    child: Child,
    said: BufReader<ChildStdout>,
    /// One for each of its processes.
    asked: Vec<File>,
    pids: Vec<u32>,
}

impl Stepped {
    /// `command`: all but the names of the FIFOs.
    #[track_caller]
    fn begin(place: &Place, mut command: Command, processes: usize) -> Stepped {
        let fifos: Vec<_> = (0..processes).map(|n| place.join(&format!("fifo{n}"))).collect();
        for fifo in &fifos {
            assert!(Command::new("mkfifo").arg(fifo).status().is_ok_and(|made| made.success()));
        }
        // For reading, too: it does not wait for the program then.
        let open = |path| File::options().read(true).write(true).open(path).expect("our own");
        let asked: Vec<File> = fifos.iter().map(open).collect();
        command.args(&fifos).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("it runs");
        let said = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut stepped = Stepped { child, said, asked, pids: Vec::new() };
        stepped.pids = (0..processes).map(|_| stepped.line().0).collect();
        // The child is the one whose parent is another of them.
        let parent = |pid: &u32| std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("it runs");
        let parents: Vec<String> = stepped.pids.iter().map(parent).collect();
        if processes == 2 && parents[0].contains(&format!(" {} ", stepped.pids[1])) {
            stepped.pids.reverse();
        }
        stepped
    }

    /// A process, and what it says.
    #[track_caller]
    fn line(&mut self) -> (u32, String) {
        let mut line = String::new();
        assert!(self.said.read_line(&mut line).expect("text") > 0, "it has ended");
        let (pid, said) = line.trim_end().split_once(' ').expect("two words");
        (pid.parse().expect("a process"), said.to_owned())
    }

    #[track_caller]
    fn step(&mut self, process: usize) {
        self.asked[process].write_all(b"\n").expect("it reads");
        assert_eq!(self.line().0, self.pids[process]);
    }

    /// What was said on stderr.
    #[track_caller]
    fn end(self) -> String {
        let Stepped { child, asked, said, .. } = self;
        drop(asked);
        let ended = child.wait_with_output().expect("it ends");
        drop(said);
        let told = String::from_utf8(ended.stderr).expect("text");
        assert!(ended.status.success(), "{told}");
        told
    }
}

fn recorded(place: &Place, options: &[&str]) -> Command {
    let mut command = place.cutrace(["record", "--driver", "sim"]);
    command.args(options).arg("--").arg(client("stepped.c"));
    command
}

#[track_caller]
fn switch(place: &Place, way: &str, pid: u32, code: i32) -> String {
    let ran = run(&mut place.cutrace([way, &pid.to_string()])).expect(code);
    match code {
        0 => ran.stdout,
        _ => ran.stderr,
    }
}

/// Work and waits are there of as many steps; what makes and ends memory, of all.
#[track_caller]
fn has_steps(trace: &Trace, recorded: usize, all: usize) {
    for name in ["cuLaunchKernel", "cuMemcpyDtoH_v2"] {
        assert_eq!(calls_named(trace, name).len(), recorded, "{name}");
    }
    assert_eq!(calls_named(trace, "cuMemAlloc_v2").len(), 3 * all);
    // One is a question before the first step.
    let (left, before) = ((all - recorded) as u64, u64::from(calls_named(trace, "cuDeviceGet").is_empty()));
    assert_eq!((trace.calls_left_out(), trace.works_left_out()), (7 * left + before, 5 * left));
}

#[test]
fn a_recording_that_begins_paused() {
    let place = Place::new();
    let mut program = Stepped::begin(&place, recorded(&place, &["--paused"]), 1);
    let pid = program.pids[0];
    program.step(0);
    assert_eq!(switch(&place, "off", pid, 1), format!("cutrace: process {pid} is off already\n"));
    assert_eq!(switch(&place, "on", pid, 0), format!("process {pid} is on\n"));
    assert_eq!(switch(&place, "on", pid, 1), format!("cutrace: process {pid} is recording already\n"));
    program.step(0);
    // Linux has no process of the second number.
    let ran = run(&mut place.cutrace(["off", "--json", &pid.to_string(), "99999999"])).expect(1);
    let told: Value = serde_json::from_str(&ran.stdout).expect("JSON");
    assert_eq!(told["processes"][0], serde_json::json!({ "pid": pid, "state": "off" }));
    assert!(told["processes"][1]["error"].is_string() && told["processes"][1]["pid"] == 99_999_999, "{told}");
    program.step(0);
    let told = program.end();
    assert!(!told.contains("never began"), "{told}");

    has_steps(&place.trace(), 1, 3);
    let info = run(&mut place.cutrace(["info"])).expect(0).stdout;
    assert!(
        info.contains("range        from cutrace on to cutrace off\n") && info.contains("outside range     15 calls")
    );
    let recorded = info.lines().find(|line| line.starts_with("recorded          ")).expect("the stretches");
    assert!(recorded.contains(" s to ") && recorded.ends_with(" s"), "{recorded}");
    let told: Value =
        serde_json::from_str(&run(&mut place.cutrace(["info", "--json"])).expect(0).stdout).expect("JSON");
    let on: Vec<&Value> = told["switched"].as_array().expect("a list").iter().map(|one| &one["on"]).collect();
    assert_eq!(on, [true, false]);
    // The stretch fills what it uses.
    assert_eq!(told["verdict"], "replayable", "{told}");
    let replayed = run(&mut place.cutrace(["replay", "--driver", "sim"])).expect(0).stdout;
    assert!(is_verified(&replayed) && replayed.contains("1 copy to the host (256 B)"), "{replayed}");
}

#[test]
fn a_whole_recording_is_switched_off_and_on() {
    for way in ["record", "preload"] {
        let place = Place::new();
        let command = match way {
            "record" => recorded(&place, &[]),
            _ => place.preloaded(client("stepped.c")),
        };
        let mut program = Stepped::begin(&place, command, 1);
        let pid = program.pids[0];
        program.step(0);
        switch(&place, "off", pid, 0);
        program.step(0);
        switch(&place, "on", pid, 0);
        program.step(0);
        program.end();
        has_steps(&place.trace(), 2, 3);
        let info = run(&mut place.cutrace(["info"])).expect(0).stdout;
        let recorded = info.lines().find(|line| line.starts_with("recorded          ")).expect("the stretches");
        assert!(
            recorded.starts_with("recorded          0.000 s to ") && recorded.ends_with(" s to the end"),
            "{recorded}"
        );
        run(&mut place.cutrace(["replay", "--driver", "sim"])).expect(0);
    }
}

#[test]
fn processes_of_a_recording() {
    let place = Place::new();
    let mut program = Stepped::begin(&place, recorded(&place, &["--paused"]), 2);
    let (parent, child, record) = (program.pids[0], program.pids[1], program.child.id());
    let step = |program: &mut Stepped| (0..2).for_each(|process| program.step(process));
    // `record` itself is not recorded: it stands for what it has started.
    assert_eq!(switch(&place, "on", record, 0).lines().count(), 2);
    step(&mut program);
    switch(&place, "off", child, 0);
    step(&mut program);
    assert_eq!(switch(&place, "off", record, 0), format!("process {parent} is off\n"));
    let told = switch(&place, "off", record, 1);
    assert_eq!(told, "cutrace: each of 2 processes is off already\n");
    step(&mut program);
    run(&mut place.cutrace(["on", "--all", &parent.to_string()])).expect(0);
    step(&mut program);
    program.end();
    for trace in place.traces() {
        has_steps(&trace, if trace.preamble.pid == parent { 3 } else { 2 }, 4);
    }
}

#[test]
fn nothing_to_switch() {
    let place = Place::new();
    let mut program = Stepped::begin(&place, recorded(&place, &["--paused"]), 1);
    assert!(switch(&place, "on", u32::MAX >> 1, 1).contains("no such process"));
    for wrong in [&[][..], &["x"], &["-1"], &["--all"]] {
        run(place.cutrace(["on"]).args(wrong)).expect(2);
    }
    let mut alone = Command::new("sleep").arg("60").spawn().expect("it runs");
    let told = switch(&place, "off", alone.id(), 1);
    assert!(told.contains(" nor any descendant is being recorded: "), "{told}");
    alone.kill().expect("it runs");
    // SAFETY: waits for our own child, which is left to be waited for.
    unsafe { libc::waitid(libc::P_PID, alone.id(), &mut std::mem::zeroed(), libc::WEXITED | libc::WNOWAIT) };
    assert!(switch(&place, "off", alone.id(), 1).contains("has ended\n"));
    alone.wait().expect("our own");
    // Another user's, if there is one: root becomes nobody, and for others it is that of the first process.
    // SAFETY: a question.
    let own = unsafe { libc::geteuid() };
    let pid = if own == 0 { program.pids[0] } else { 1 };
    let mut other = place.cutrace(["on", &pid.to_string()]);
    if own == 0 {
        other.uid(65534).gid(65534).current_dir("/");
    }
    let is_another = own == 0 || std::fs::metadata("/proc/1").is_ok_and(|of| of.uid() != own);
    match other.output() {
        Ok(_) if !is_another => eprintln!("skipped: the first process is this user's"),
        Err(why) => eprintln!("skipped: {why}"),
        Ok(ran) => {
            let told = String::from_utf8_lossy(&ran.stderr).into_owned();
            assert_eq!(ran.status.code(), Some(1), "{told}");
            assert!(told.contains(&format!("process {pid} belongs to another user: only that user")), "{told}");
        }
    }
    program.step(0);
    let told = program.end();
    assert!(
        told.ends_with("cutrace: no device work was recorded, as the range never began: cutrace on was not called\n"),
        "{told}"
    );
    has_steps(&place.trace(), 0, 1);
}

#[test]
fn a_recording_that_has_ended() {
    let place = Place::new();
    let mut command = place.preloaded(client("stepped.c"));
    command.env("CUTRACE_MAX_SIZE", "1M").env("CUTRACE_PAUSED", "1");
    let mut program = Stepped::begin(&place, command, 1);
    let pid = program.pids[0];
    switch(&place, "on", pid, 0);
    while place.join("trace.bin").metadata().expect("a trace").len() < 600_000 {
        program.step(0);
    }
    let told = loop {
        program.step(0);
        let ran = run(&mut place.cutrace(["off", &pid.to_string()]));
        if ran.code() != 0 {
            break ran.stderr;
        }
        run(&mut place.cutrace(["on", &pid.to_string()]));
    };
    assert_eq!(told, format!("cutrace: process {pid}: its recording has ended, or cannot be switched\n"));
    program.end();
    assert!(place.trace().size_limit_reached().is_some());
}
