//! A job replayed: a replay for each of its traces, in a process of its own, and what they need of each other.
//!
//! This process maps nothing and calls no driver. It knows which call opens what which other had exported
//! (by the traces), passes on what the exporting replay says of it, and ends the others where one fails that
//! shares something with them. The order between them is theirs to keep: each writes how far it has come to a
//! page that all of them map, and waits there.

mod link;
mod page;
mod process;
mod protocol;
mod told;

pub use link::Link;

use super::Arguments;
use crate::exit::{self, UNREADABLE, failure, say};
use crate::job::Job;
use anyhow::{Context, Result};
use page::Page;
use process::{Process, Running};
use protocol::{FromReplay, Imported, Part, Told};
use replayer::{Crossings, Imports};
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, Instant};
use trace::Trace;

/// So long may no replay come further before that is said, and before they are ended.
const PATIENCE: Duration = Duration::from_secs(60);
const MOST: Duration = Duration::from_secs(600);

pub fn run(arguments: &Arguments, directory: &Path) -> Result<u8> {
    if let Some(option) = arguments.of_one_process() {
        return Err(failure(
            exit::USAGE,
            format_args!("{option} is for one process: name its trace, and no directory"),
        ));
    }
    let mut job = Job::open(directory).with_context(|| directory.display().to_string())?;
    let ranks = arguments.rank.as_ref();
    job.processes.retain(|process| process.trace.is_some() && ranks.is_none_or(|ranks| ranks.has(process.rank)));
    job.troubles.iter().for_each(say);
    // Who chooses among the ranks does without the others.
    let mut is_incomplete = job.is_incomplete && ranks.is_none();
    let (mut processes, mut crossings) = (Vec::new(), Vec::new());
    for process in std::mem::take(&mut job.processes) {
        let path = process.trace.clone().unwrap_or_default();
        match readable(&path) {
            Ok(trace) => {
                crossings.push(Crossings::of(&trace));
                processes.push(Process { path, about: process });
            }
            Err(why) => {
                is_incomplete = true;
                say(why);
            }
        }
    }
    if processes.is_empty() {
        return Err(failure(UNREADABLE, format_args!("{}: no trace in it that can be replayed", directory.display())));
    }
    protocol::allow_more_descriptors();
    let imports = replayer::matched(&crossings);
    let parts = parts(&imports, &crossings);
    let (page, times) = Page::new(processes.len())?;
    let started = Instant::now();
    let running = processes.iter().zip(&parts).map(|(process, part)| Running::start(arguments, process, part, &times));
    let running = running.collect::<Result<Vec<_>>>()?;
    let mut together =
        Together { parts: &parts, processes: &processes, running, page, told: HashMap::new(), wanted: Vec::new() };
    let why = together.attend()?;
    let outcomes = together.running.into_iter().map(Running::outcome).collect::<Result<Vec<_>>>()?;
    let opened = imports.iter().map(|imports| imports.len() as u64).sum();
    let elapsed = started.elapsed();
    let whole = told::Whole { processes: &processes, outcomes: &outcomes, is_incomplete, why, opened, elapsed };
    whole.tell(arguments.json)?;
    Ok(whole.status())
}

/// A trace, of which a replay needs all.
fn readable(path: &Path) -> Result<Trace, String> {
    let trace = Trace::open(path).map_err(|error| error.to_string())?;
    match exit::damage_of(&trace).filter(|_| trace.damage.iter().any(|damage| damage.loses)) {
        Some(damage) => Err(format!("{damage}; it is not replayed")),
        None => Ok(trace),
    }
}

/// Who shares something with whom, be it through others, and from when on.
fn parts(imports: &[Imports], crossings: &[Crossings]) -> Vec<Part> {
    let mut groups: Vec<usize> = (0..imports.len()).collect();
    for (process, imports) in imports.iter().enumerate() {
        for source in imports.values() {
            let (one, other) = (groups[process], groups[source.process as usize]);
            groups.iter_mut().filter(|group| **group == one).for_each(|group| *group = other);
        }
    }
    let first = |group: usize| {
        let of_group = (0..groups.len()).filter(|process| groups[*process] == group);
        of_group.filter_map(|process| crossings[process].first()).min().unwrap_or(u64::MAX)
    };
    let part = |(process, imports): (usize, &Imports)| {
        let group = groups[process];
        let peers = (0..groups.len()).filter(|other| *other != process && groups[*other] == group);
        let imported = |(by, source): (&u64, &replayer::Source)| {
            let (process, call, address) = (source.process, source.call, source.address);
            Imported { by: *by, process, call, memory: source.memory.clone(), address }
        };
        Part {
            process: process as u32,
            peers: peers.map(|peer| peer as u32).collect(),
            since: first(group),
            imports: imports.iter().map(imported).collect(),
        }
    };
    imports.iter().enumerate().map(part).collect()
}

/// What calls have exported, and the descriptors that go with it.
type Exported = (Result<Told, String>, Vec<OwnedFd>);

struct Together<'a> {
    parts: &'a [Part],
    processes: &'a [Process],
    running: Vec<Running>,
    page: Page,
    /// By process and call.
    told: HashMap<(u32, u64), Exported>,
    /// Who waits for what.
    wanted: Vec<(usize, (u32, u64))>,
}

impl Together<'_> {
    /// Until all have ended. Which one has failed first, and why, if one has.
    fn attend(&mut self) -> Result<Option<String>> {
        let mut why = None;
        let (mut reached, mut since, mut is_said) = (Vec::new(), Instant::now(), false);
        while self.running.iter().any(Running::is_running) {
            for process in process::ready(&self.running, PATIENCE / 60)? {
                match self.running[process].receive() {
                    Ok(Some((message, files))) => self.hear(process, message, files),
                    Ok(None) => self.ended(process, &mut why)?,
                    Err(error) => {
                        self.running[process].kill(format!("what it says cannot be understood: {error}"));
                        self.ended(process, &mut why)?;
                    }
                }
            }
            let now = self.page.all();
            if now != reached {
                (reached, since, is_said) = (now, Instant::now(), false);
            } else if since.elapsed() > PATIENCE && !is_said {
                is_said = true;
                say(format_args!("no process has come further for {} s; {}", PATIENCE.as_secs(), self.waiting()));
            } else if since.elapsed() > MOST {
                why = why
                    .or_else(|| Some(format!("no process came further for {} s; {}", MOST.as_secs(), self.waiting())));
                self.running.iter_mut().for_each(|running| running.kill("it was ended, as the job hung".into()));
            }
        }
        Ok(why)
    }

    fn hear(&mut self, process: usize, message: FromReplay, files: Vec<OwnedFd>) {
        match message {
            FromReplay::Exported { call, live } => {
                self.told.insert((process as u32, call), (live, files));
            }
            FromReplay::Wants { process: of, call } => self.wanted.push((process, (of, call))),
        }
        self.answer();
    }

    /// All that can be.
    fn answer(&mut self) {
        let Together { told, wanted, running, .. } = self;
        wanted.retain(|(by, what)| {
            let gone = || running.get(what.0 as usize).is_none_or(|of| !of.is_running());
            let (answer, files): (_, &[OwnedFd]) = match told.get(what) {
                Some((live, files)) => (live.clone(), files),
                None if gone() => (Err("the process that shares it has ended".into()), &[]),
                None => return true,
            };
            // One that has ended needs no answer.
            let _ended = running[*by].send(&answer, files);
            false
        });
    }

    /// One has ended: where it has not come to its end, those that share something with it cannot either.
    fn ended(&mut self, process: usize, why: &mut Option<String>) -> Result<()> {
        self.running[process].wait()?;
        if let Some(failed) = self.running[process].failed() {
            let name = self.processes[process].name();
            for peer in &self.parts[process].peers {
                self.running[*peer as usize].kill(format!("ended, as {name} failed"));
            }
            why.get_or_insert_with(|| format!("{name} failed: {failed}"));
        }
        // Nobody waits for it any more.
        self.page.advance(process, u64::MAX);
        self.answer();
        Ok(())
    }

    /// Where the replays that have not ended are.
    fn waiting(&self) -> String {
        let running = self.running.iter().zip(self.processes).filter(|(running, _)| running.is_running());
        let said = running.map(|(running, process)| match running.last_said() {
            Some(said) => format!("{}: {said}", process.name()),
            None => format!("{} waits", process.name()),
        });
        said.collect::<Vec<_>>().join("; ")
    }
}
