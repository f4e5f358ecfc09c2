//! `cutrace on` and `cutrace off`: make running processes resume or pause recording.

use crate::terminal::exit::{DONE, FAILED, explain, failure, in_full};
use crate::terminal::standard_output::Results;
use analysis::job::begins_as_one;
use anyhow::{Result, bail};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::time::Duration;
use trace::Trace;
use trace::file::control::{Answer, Command, Remote};
use trace::show::text::plain;
use trace::write::finish::lock_holder;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  cutrace record --paused -- ./server &         start without recording
  cutrace on $!                                 record from here on
  cutrace off $!                                pause again

Calls that create, change or destroy objects, and captures, are recorded while paused, too.
A process can be switched from its first driver call on, by its user or root.

Exit status:
  0 switched      1 no process to switch, or not possible      2 usage")]
pub(crate) struct Arguments {
    /// A recorded process, or a parent of recorded processes (`cutrace record`, a shell)
    #[arg(value_name = "PID", required = true, value_parser = pid)]
    pids: Vec<u32>,
    /// Include all recorded descendants of PID
    #[arg(long)]
    all: bool,
    /// Print the new state of each process as JSON
    #[arg(long)]
    pub json: bool,
}

pub(crate) fn run(arguments: Arguments, command: Command) -> Result<u8> {
    let (mut status, mut all) = (DONE, Vec::new());
    for pid in arguments.pids {
        let done = recorded(pid, arguments.all).and_then(|found| switch(&found, command, &mut all));
        if let Err(error) = done {
            all.push(json!({ "pid": pid, "error": in_full(&error) }));
            explain(error, false);
            status = FAILED;
        }
    }
    let mut out = Results::begin();
    match arguments.json {
        true => writeln!(out, "{}", analysis::text::json::text(&json!({ "schema": 1, "processes": all }))?)?,
        false => all.iter().filter_map(said).try_for_each(|line| writeln!(out, "{line}"))?,
    }
    Ok(status)
}

fn pid(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| "expected a process id".into())
}

/// Of a process that was switched.
fn said(process: &Value) -> Option<String> {
    let (pid, state) = (&process["pid"], process["state"].as_str()?);
    let waits = if process["in_range"] == false { "; its range has not begun, or is over" } else { "" };
    Some(format!("process {pid} is {state}{waits}"))
}

/// A process and the trace that it writes.
struct Recorded {
    pid: u32,
    trace: File,
}

/// What the process of this id stands for.
fn recorded(pid: u32, all: bool) -> Result<Vec<Recorded>> {
    // One that nobody has waited for is still listed.
    if stat(pid).is_none_or(|(state, _)| ["Z", "X"].contains(&state.as_str())) {
        bail!("process {pid}: no such process, or it has ended");
    }
    let own = trace_of(pid)?;
    if let (Some(trace), false) = (own, all) {
        return Ok(vec![Recorded { pid, trace }]);
    }
    let family = family(pid);
    let found = |pid: u32| trace_of(pid).ok().flatten().map(|trace| Recorded { pid, trace });
    let found: Vec<Recorded> = family.into_iter().filter_map(found).collect();
    if found.is_empty() {
        let why = "recording begins with the first driver call of a process under cutrace";
        bail!("neither process {pid} nor any descendant is being recorded: {why}");
    }
    Ok(found)
}

/// A process and all that descend from it.
fn family(pid: u32) -> Vec<u32> {
    let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(child) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        if let Some((_, parent)) = stat(child) {
            children.entry(parent).or_default().push(child);
        }
    }
    let (mut all, mut next) = (vec![pid], 0);
    while let Some(one) = all.get(next) {
        all.extend(children.remove(one).unwrap_or_default());
        next += 1;
    }
    all
}

/// The state of a process, and its parent.
fn stat(pid: u32) -> Option<(String, u32)> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, in parentheses, may hold anything.
    let mut words = stat.rsplit_once(')')?.1.split_whitespace();
    Some((words.next()?.to_owned(), words.next()?.parse().ok()?))
}

/// The trace that a process writes, if it does.
fn trace_of(pid: u32) -> Result<Option<File>> {
    let open = match std::fs::read_dir(format!("/proc/{pid}/fd")) {
        Ok(open) => open,
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            bail!("process {pid} belongs to another user: only that user and root can switch it")
        }
        Err(_) => bail!("process {pid} has ended"),
    };
    for path in open.flatten().map(|link| link.path()) {
        // To open a pipe or a device might wait, or do something.
        if std::fs::metadata(&path).is_ok_and(|found| found.is_file())
            && let Ok(file) = File::open(&path)
            && begins_as_one(&path)
            && let Ok(preamble) = Trace::preamble_of(&path)
            && lock_holder(&file).map_or(preamble.pid == pid, |holder| holder == pid)
        {
            return Ok(Some(file));
        }
    }
    Ok(None)
}

/// `told`: what each process is now.
fn switch(all: &[Recorded], command: Command, told: &mut Vec<Value>) -> Result<()> {
    let is_on = command == Command::On;
    let already = if is_on { "is recording already" } else { "is off already" };
    let state = if is_on { "on" } else { "off" };
    let mut switched = 0;
    for Recorded { pid, trace } in all {
        match asked(*pid, trace, command)? {
            Answer::Already if all.len() == 1 => bail!("process {pid} {already}"),
            Answer::Already => continue,
            Answer::Ended => bail!("process {pid}: its recording has ended, or cannot be switched"),
            Answer::Unknown => {
                bail!("process {pid} is recorded by another version of cutrace, which cannot be switched")
            }
            Answer::Closed => told.push(json!({ "pid": pid, "state": "on", "in_range": false })),
            Answer::Done => told.push(json!({ "pid": pid, "state": state })),
        }
        switched += 1;
    }
    match switched {
        0 => bail!("each of {} processes {already}", all.len()),
        _ => Ok(()),
    }
}

fn asked(pid: u32, trace: &File, command: Command) -> Result<Answer> {
    const PATIENCE: Duration = Duration::from_secs(5);
    let remote = match Remote::find(trace) {
        Ok(Some(remote)) => remote,
        Ok(None) => {
            bail!("process {pid}: its shared memory is not accessible (another container?)")
        }
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            bail!("process {pid} was started by another user: only that user and root can switch it")
        }
        Err(error) => bail!("process {pid}: its trace: {}", plain(&error.to_string())),
    };
    let answer = remote.ask(command, PATIENCE);
    answer.ok_or_else(|| failure(FAILED, format_args!("process {pid} does not answer: it has ended or is stopped")))
}
