//! Ranks started by a launcher: one `cutrace replay` for each, of which one leads.
//!
//! Each finds the others by a name derived from the directory and the launch. The first to take the name
//! leads: it acts like a `cutrace replay` of the whole job, but each rank's own process starts that rank's
//! replay, in the environment that the launcher has given it. All wait until all have ended: a launcher ends
//! the others when one fails.

pub(super) mod rank_process;
mod rendezvous;
mod worker;

use super::process::{Process, Running};
use super::protocol;
use super::request::ReplayRequest;
use crate::terminal::exit::{self, FAILED, UNREADABLE, failure};
use analysis::job::{self, Job};
use analysis::text::figures::{self, ranges};
use anyhow::{Context, Result};
use rank_process::{FromLead, Launched, ToLead};
use rendezvous::{Listener, Meeting, Place};
use std::collections::HashMap;
use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::thread::Builder;
use std::time::{Duration, Instant};

/// So long a rank may take to come.
const PATIENCE: Duration = Duration::from_secs(60);

/// Ranks wait for each other, so that none can be done after the other.
const NO_THREAD: &str = "cannot start a thread for a rank";

/// One rank of a directory's, whose number the launcher has told.
pub(super) fn run(request: &ReplayRequest) -> Result<u8> {
    let (directory, among) = (request.directory, request.processes);
    let mut job = among.job(directory)?;
    among.ranks.iter().try_for_each(|ranks| ranks.are_of(&job))?;
    let all = std::mem::take(&mut job.processes);
    let chosen: Vec<job::Process> = all.iter().filter(|process| process.trace.is_some()).cloned().collect();
    let (mine, _): (Vec<_>, Vec<_>) = chosen.iter().cloned().partition(|process| among.has(process));
    let Some(first) = mine.first() else {
        let there: Vec<u64> = chosen.iter().filter_map(|process| process.rank).collect();
        let why = format!("no trace of this rank; the directory has {}", ranges(&there));
        return Err(failure(UNREADABLE, format_args!("{}: {why}", directory.display())));
    };
    let host = first.host.clone();
    // Processes of another host are replayed there.
    let is_here = |process: &&job::Process| process.host == host;
    let (with, without): (Vec<_>, Vec<_>) = chosen.iter().filter(is_here).cloned().partition(|of| of.rank.is_some());
    let until = Instant::now() + request.timeout.unwrap_or(PATIENCE);
    let meeting = Meeting::of(directory, &host).with_context(|| directory.display().to_string())?;
    std::thread::scope(|scope| {
        let place = meeting.place(until).context("finding the job's other ranks")?;
        let lead = match place {
            Place::Leads(listener) => {
                among.tell(&job);
                job.processes = with;
                job.is_chosen = !without.is_empty();
                if !without.is_empty() {
                    let pids: Vec<String> = without.iter().map(|process| process.pid.to_string()).collect();
                    let pids = pids.join(", ");
                    exit::say(format_args!("not replayed, as they have no rank: processes {pids}"));
                }
                let lead = || lead(request, job, listener, until);
                Some(Builder::new().spawn_scoped(scope, lead).context(NO_THREAD)?)
            }
            Place::Joins => None,
        };
        let follow = |process: job::Process| {
            let (meeting, trace) = (&meeting, process.trace.unwrap_or_default());
            let follow = move || worker::follow(request, meeting, &trace, until);
            Builder::new().spawn_scoped(scope, follow).context(NO_THREAD)
        };
        let followers = mine.into_iter().map(follow).collect::<Result<Vec<_>>>()?;
        let followed = followers.into_iter().map(|thread| thread.join().expect("no panic")).collect::<Vec<_>>();
        if let Some(lead) = lead {
            return lead.join().expect("no panic");
        }
        followed.into_iter().try_fold(exit::DONE, |worst, status| Ok(worst.max(status?)))
    })
}

/// Waits for all ranks, and has them replayed.
fn lead(request: &ReplayRequest, job: Job, listener: Listener, until: Instant) -> Result<u8> {
    let mut joined = HashMap::new();
    if let Err(why) = gather(&job, &listener, until, &mut joined) {
        for socket in joined.values() {
            // One that has gone needs no reason.
            let _gone = protocol::send(socket, &FromLead::Refused(why.clone()), &[]);
        }
        return Err(failure(FAILED, format_args!("{}: {why}", request.directory.display())));
    }
    let start = |process: &Process, part: &protocol::Part, times: &File| {
        let name = process.path.file_name().unwrap_or_default();
        let socket = joined.get(Path::new(name)).context("a missing rank")?;
        let patience = request.timeout.unwrap_or(PATIENCE);
        let launched = Launched { socket: socket.try_clone()?, patience };
        Running::launch(launched, part, times).with_context(|| process.name())
    };
    let replayed = super::traces::replay(request, job, &start);
    let (whole, each) = match &replayed {
        Ok(replayed) => (replayed.status, &replayed.each[..]),
        Err(_) => (FAILED, &[][..]),
    };
    for (name, socket) in &joined {
        let own = each.iter().find(|(path, _)| path.file_name() == Some(name.as_os_str()));
        let status = own.map_or(whole, |(_, status)| *status);
        // One that has gone needs no status.
        let _gone = protocol::send(socket, &FromLead::Over(status), &[]);
    }
    replayed.map(|replayed| replayed.status)
}

/// By the names of their traces. Why not all have come, if they have not.
fn gather(
    job: &Job,
    listener: &Listener,
    until: Instant,
    joined: &mut HashMap<PathBuf, OwnedFd>,
) -> Result<(), String> {
    let name_of = |process: &job::Process| {
        let path = process.trace.as_deref().and_then(Path::file_name);
        path.map(PathBuf::from).unwrap_or_default()
    };
    let rank_of = |process: &job::Process| process.rank.unwrap_or(0);
    let expected: HashMap<PathBuf, u64> = job.processes.iter().map(|of| (name_of(of), rank_of(of))).collect();
    let mut coming: Vec<OwnedFd> = Vec::new();
    while joined.len() < expected.len() {
        let left = until.saturating_duration_since(Instant::now());
        let named: Vec<(&PathBuf, &OwnedFd)> = joined.iter().collect();
        let all = std::iter::once(listener.as_raw_fd());
        let all = all.chain(coming.iter().chain(named.iter().map(|(_, socket)| *socket)).map(AsRawFd::as_raw_fd));
        let all: Vec<_> = all.collect();
        let ready = protocol::ready(&all, left).map_err(|error| error.to_string())?;
        if ready.is_empty() && left.is_zero() {
            let is_there = |of: &&job::Process| joined.contains_key(&name_of(of));
            let (there, missing): (Vec<&job::Process>, Vec<_>) = job.processes.iter().partition(is_there);
            let [there, missing] = [there, missing].map(|all| ranks(all.iter().map(|of| rank_of(of)).collect()));
            return Err(format!("{missing} did not start in time, {there} did; wait longer with --timeout SECONDS"));
        }
        // Before it is told to begin, one says nothing: it has ended.
        if let Some(gone) = ready.iter().filter_map(|at| named.get(at.checked_sub(1 + coming.len())?)).next() {
            let rank = expected.get(gone.0).copied().unwrap_or(0);
            return Err(format!("rank {rank} ended before all ranks had started"));
        }
        let mut told: Vec<OwnedFd> = Vec::new();
        let count = coming.len();
        for at in ready.iter().rev().filter_map(|at| at.checked_sub(1)).filter(|at| *at < count) {
            told.push(coming.swap_remove(at));
        }
        for socket in told {
            let Ok(Some((ToLead::Joins { trace }, _))) = protocol::receive(&socket) else { continue };
            let refused = match expected.get(&trace) {
                None => format!("{} is not a trace of this replay", trace.display()),
                Some(rank) if joined.contains_key(&trace) => format!("rank {rank} has already started"),
                Some(_) => {
                    joined.insert(trace, socket);
                    continue;
                }
            };
            // One that has gone needs no reason.
            let _gone = protocol::send(&socket, &FromLead::Refused(refused), &[]);
        }
        if ready.contains(&0) {
            coming.extend(listener.accept());
        }
    }
    Ok(())
}

/// `rank 2`, `ranks 0-1,3`.
fn ranks(mut all: Vec<u64>) -> String {
    all.sort_unstable();
    all.dedup();
    figures::ranks(&all)
}
