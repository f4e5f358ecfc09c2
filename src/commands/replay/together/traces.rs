//! The traces of a job: the processes that share objects, their replays, and the combined result.

use super::coordinator::{PATIENCE, Shared, Together};
use super::process::{Process, ProcessOutcome, Running};
use super::progress::Page;
use super::protocol::{self, Imported, Part, Registered};
use super::request::ReplayRequest;
use super::summary;
use crate::terminal::exit::{UNREADABLE, failure, say};
use analysis::calls::losses;
use analysis::job::Job;
use analysis::text::shell::shell;
use anyhow::Result;
use replayer::{HostPart, Imports, MissingPeers, Ranks, SharedHandles, SharedHost};
use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Instant;
use trace::Trace;

/// The result of a job, and of each trace of it.
pub(super) struct Replayed {
    pub status: u8,
    pub each: Vec<(PathBuf, u8)>,
}

/// How a replay is started, as this part, with the file of how far all have come.
pub(super) type Start<'s> = dyn Fn(&Process, &Part, &File) -> Result<Running> + 's;

pub(super) fn replay(request: &ReplayRequest, job: Job, start: &Start) -> Result<Replayed> {
    let mut missing = job.missing;
    let (mut processes, mut crossings, mut communicators) = (Vec::new(), Vec::new(), Vec::new());
    let mut is_incomplete = job.is_chosen;
    for process in job.processes {
        let Some(path) = process.trace.clone() else { continue };
        match readable(&path, &job.directory) {
            Ok(trace) => {
                // As `info` judges it: what this one wrote for the others may be gone.
                is_incomplete |= losses::has_lost(&trace);
                crossings.push(SharedHandles::from_trace(&trace));
                communicators.push(trace.communicators.clone());
                processes.push(Process { path, about: process });
            }
            Err(why) => {
                say(&why);
                missing.push(format!("{}: {why}", process.name()));
            }
        }
    }
    if processes.is_empty() {
        let directory = job.directory.display();
        return Err(failure(UNREADABLE, format_args!("{directory}: no replayable trace")));
    }
    is_incomplete |= !missing.is_empty();
    protocol::allow_more_descriptors();
    let imports = replayer::matched(&crossings);
    // A file is told from others by its numbers within one run of one host, and may be another in the next.
    let place = |of: &Process| (of.about.host.clone(), of.about.boot.clone(), of.about.recording);
    let host = replayer::shared_host(&crossings, &processes.iter().map(place).collect::<Vec<_>>());
    let ranks = Ranks::from_communicators(&communicators);
    let lacks = communicators.iter().map(|of| MissingPeers { processes: is_incomplete, ranks: ranks.lack_some_of(of) });
    let parts = parts(&imports, &crossings, &host, &lacks.collect::<Vec<_>>());
    let (page, times) = Page::new(processes.len())?;
    let started = Instant::now();
    let running = processes.iter().zip(&parts).map(|(process, part)| start(process, part, &times));
    let running = running.collect::<Result<Vec<_>>>()?;
    // Kernels may wait for what a process writes that is not here.
    let limit = request.timeout.or(is_incomplete.then_some(PATIENCE));
    let processes = &processes[..];
    let mut together = Together::of(&parts, processes, running, page, Shared::of(&host.files), limit);
    let why = together.attend()?;
    let running = together.running.iter_mut().zip(&parts);
    let outcomes: Vec<ProcessOutcome> =
        running.map(|(running, part)| running.outcome(!part.peers.is_empty())).collect();
    let opened = imports.iter().map(|imports| imports.len() as u64).sum();
    let elapsed = started.elapsed();
    let whole = summary::Whole { processes, outcomes: &outcomes, missing, why, opened, elapsed };
    whole.tell(request.json)?;
    let each = processes.iter().zip(&outcomes).map(|(process, of)| (process.path.clone(), whole.status_of(of)));
    Ok(Replayed { status: whole.status(), each: each.collect() })
}

/// A trace, of which a replay needs all.
fn readable(path: &Path, of: &Path) -> Result<Trace, String> {
    let trace = Trace::open(path).map_err(|error| error.to_string())?;
    match losses::damage_that_loses(&trace) {
        Some(damage) => {
            let repair = shell(&["cutrace".into(), "repair".into(), of.display().to_string()]);
            Err(format!("{damage}; not replayed before {repair} has closed it"))
        }
        None => Ok(trace),
    }
}

/// Who shares something with whom, be it through others, and from when on.
fn parts(imports: &[Imports], crossings: &[SharedHandles], host: &SharedHost, lacks: &[MissingPeers]) -> Vec<Part> {
    let mut groups: Vec<usize> = (0..imports.len()).collect();
    let mut join = |process: usize, with: usize| {
        let (one, other) = (groups[process], groups[with]);
        groups.iter_mut().filter(|group| **group == one).for_each(|group| *group = other);
    };
    let mut users: HashMap<u32, usize> = HashMap::new();
    for (process, (imports, host)) in imports.iter().zip(&host.parts).enumerate() {
        imports.values().for_each(|source| join(process, source.process as usize));
        let files = host.values().flatten().map(|part| part.file);
        files.for_each(|file| join(process, *users.entry(file).or_insert(process)));
    }
    let first = |group: usize| {
        let of_group = (0..groups.len()).filter(|process| groups[*process] == group);
        let first = of_group.flat_map(|process| [crossings[process].first(), host.first[process]]);
        first.flatten().min().unwrap_or(u64::MAX)
    };
    let part = |(process, imports): (usize, &Imports)| {
        let group = groups[process];
        let peers = (0..groups.len()).filter(|other| *other != process && groups[*other] == group);
        let imported = |(by, source): (&u64, &replayer::Source)| {
            let (process, call, address) = (source.process, source.call, source.address);
            Imported { by: *by, process, call, memory: source.memory.clone(), address }
        };
        let registered = |(by, parts): (&u64, &Vec<HostPart>)| {
            let registered = |part: &HostPart| {
                let HostPart { memory, file, offset } = part.clone();
                Registered { by: *by, memory, file, offset }
            };
            parts.iter().map(registered).collect::<Vec<_>>()
        };
        Part {
            process: process as u32,
            peers: peers.map(|peer| peer as u32).collect(),
            since: first(group),
            is_incomplete: lacks[process].processes,
            lacks_ranks: lacks[process].ranks,
            imports: imports.iter().map(imported).collect(),
            host: host.parts[process].iter().flat_map(registered).collect(),
        }
    };
    imports.iter().enumerate().map(part).collect()
}
