//! The coordinator of a job's replays: it passes messages between them and decides when each is ended.

use super::process::{self, Process, Running};
use super::protocol::{self, FromReplay, Part, Told};
use crate::commands::replay::together::progress::Page;
use crate::terminal::exit::say;
use analysis::text::shell::shell;
use anyhow::Result;
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, Instant};
use trace::Trace;

/// So long may no replay come further before that is said, and before they are ended.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);
const MOST: Duration = Duration::from_secs(600);

/// What calls have exported, and the descriptors that go with it.
type Exported = (Result<Told, String>, Vec<OwnedFd>);

pub(super) struct Together<'a> {
    parts: &'a [Part],
    processes: &'a [Process],
    pub running: Vec<Running>,
    page: Page,
    /// By process and call.
    told: HashMap<(u32, u64), Exported>,
    /// Who waits for what.
    wanted: Vec<(usize, (u32, u64))>,
    /// The first calls whose outcome was another than recorded, by process.
    differs: BTreeMap<usize, u64>,
    /// Why processes failed.
    failed: Vec<String>,
    files: Shared<'a>,
    /// So long may none come further, if that was asked for.
    limit: Option<Duration>,
}

/// Files that several replays map as host memory, each made on its first request.
pub(super) struct Shared<'a> {
    lens: &'a [u64],
    made: HashMap<u32, OwnedFd>,
    /// Each is a descriptor of this process.
    most: usize,
}

impl<'a> Shared<'a> {
    pub(super) fn of(lens: &'a [u64]) -> Shared<'a> {
        Shared { lens, made: HashMap::new(), most: 1024 }
    }

    fn get(&mut self, file: u32) -> Result<&OwnedFd, String> {
        let len = self.lens.get(file as usize).ok_or("no such shared file")?;
        let (most, is_full) = (self.most, self.made.len() >= self.most);
        match self.made.entry(file) {
            Entry::Occupied(made) => Ok(made.into_mut()),
            Entry::Vacant(_) if is_full => {
                Err(format!("the processes of the job share more than {most} files as host memory"))
            }
            Entry::Vacant(place) => match protocol::memory(*len) {
                Ok(made) => Ok(place.insert(made)),
                Err(error) => Err(format!("cannot allocate {len} bytes of shared host memory: {error}")),
            },
        }
    }
}

impl<'a> Together<'a> {
    pub(super) fn of(
        parts: &'a [Part],
        processes: &'a [Process],
        running: Vec<Running>,
        page: Page,
        files: Shared<'a>,
        limit: Option<Duration>,
    ) -> Together<'a> {
        let (told, wanted, differs, failed) = Default::default();
        Together { parts, processes, running, page, told, wanted, differs, failed, files, limit }
    }

    /// Until all have ended. Which one has failed first, and why, if one has.
    pub(super) fn attend(&mut self) -> Result<Option<String>> {
        let mut why = None;
        let (mut reached, mut since, mut is_said) = (Vec::new(), Instant::now(), false);
        while self.running.iter().any(Running::is_running) {
            let pause = self.patience().min(PATIENCE) / 60;
            for process in process::ready(&self.running, pause)? {
                match self.running[process].receive() {
                    Ok(Some((message, files))) => self.hear(process, message, files),
                    Ok(None) => self.ended(process, &mut why)?,
                    Err(error) => {
                        self.running[process].kill(format!("invalid message from its replay: {error}"));
                        self.ended(process, &mut why)?;
                    }
                }
            }
            let now = self.page.all();
            if now != reached {
                (reached, since, is_said) = (now, Instant::now(), false);
            } else if since.elapsed() > self.patience() {
                let hung = self.hung(self.patience());
                why.get_or_insert(hung);
                self.running.iter_mut().for_each(|running| running.kill("killed, as the job hung".into()));
            } else if since.elapsed() > PATIENCE && !is_said {
                is_said = true;
                say(self.hung(PATIENCE));
            }
        }
        Ok(why)
    }

    /// So long may none come further. Whoever waits for one that did something else may wait for ever. One that
    /// has made no call yet is still being started.
    fn patience(&self) -> Duration {
        let is_likely = !self.differs.is_empty() || self.running.iter().any(|of| of.has_diverged());
        let patience = self.limit.unwrap_or(if is_likely { PATIENCE } else { MOST });
        let begins = |(at, of): (usize, &Running)| of.is_running() && self.page.get(at) == 0;
        if self.running.iter().enumerate().any(begins) { patience.max(PATIENCE) } else { patience }
    }

    fn hear(&mut self, process: usize, message: FromReplay, files: Vec<OwnedFd>) {
        match message {
            FromReplay::Exported { call, live } => {
                self.told.insert((process as u32, call), (live, files));
            }
            FromReplay::Wants { process: of, call } => self.wanted.push((process, (of, call))),
            FromReplay::WantsFile { file } => {
                let file = self.files.get(file);
                let (answer, files) = match &file {
                    Ok(file) => (Ok(Told::File), std::slice::from_ref(*file)),
                    Err(why) => (Err(why.clone()), &[][..]),
                };
                // One that has ended needs no answer.
                let _ended = self.running[process].send(&answer, files);
            }
            FromReplay::Differs { call } => _ = self.differs.entry(process).or_insert(call),
            FromReplay::Finished => self.running[process].finish(files),
        }
        self.answer();
    }

    /// All that can be.
    fn answer(&mut self) {
        let Together { told, wanted, running, processes, .. } = self;
        wanted.retain(|(by, what)| {
            let of = what.0 as usize;
            let gone = || running.get(of).is_none_or(|of| !of.is_running());
            let name = || processes.get(of).map_or_else(String::new, Process::name);
            let (answer, files): (_, &[OwnedFd]) = match told.get(what) {
                Some((live, files)) => (live.clone(), files),
                None if gone() => (Err(format!("{}, which shares it, has ended", name())), &[]),
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
            let is_ended = |peer: &usize| self.running[*peer].is_running();
            let ended: Vec<usize> = self.tied_to(process).into_iter().filter(is_ended).collect();
            for peer in &ended {
                self.running[*peer].kill(format!("killed, as {name} failed"));
            }
            let others = self.running.iter().zip(self.parts);
            let others = others.filter(|(of, part)| of.is_running() && !ended.contains(&(part.process as usize)));
            let others = others.map(|(_, part)| part.process as usize).collect::<Vec<_>>();
            let with = match (&ended[..], &others[..]) {
                ([], _) => String::new(),
                (ended, []) => format!("; killed as they share memory or handles with it: {}", self.names(ended)),
                (ended, others) => {
                    let (ended, others) = (self.names(ended), self.names(others));
                    format!("; killed as they share memory or handles with it: {ended}; still running: {others}")
                }
            };
            let line = format!("{name} failed: {failed}{with}");
            let is_told = self.failed.contains(&failed) && ended.is_empty();
            match why {
                None => *why = Some(line),
                // What failed alike is named in the end.
                Some(_) if !is_told => say(line),
                Some(_) => {}
            }
            self.failed.push(failed);
        }
        // Nobody waits for it any more.
        self.page.advance(process, u64::MAX);
        self.answer();
        Ok(())
    }

    /// Who cannot come to its end without this one. Of one that has made no call yet (its device is not
    /// there) those that use what it would have shared; they may share that again.
    fn tied_to(&self, process: usize) -> Vec<usize> {
        if self.page.get(process) != 0 {
            return self.parts[process].peers.iter().map(|peer| *peer as usize).collect();
        }
        let mut tied = vec![process];
        let mut at = 0;
        while let Some(of) = tied.get(at).copied() {
            at += 1;
            let imports = |part: &&Part| part.imports.iter().any(|import| import.process as usize == of);
            let found: Vec<usize> = self.parts.iter().filter(imports).map(|part| part.process as usize).collect();
            found.into_iter().for_each(|one| {
                if !tied.contains(&one) {
                    tied.push(one);
                }
            });
        }
        tied.split_off(1)
    }

    /// `rank 0 (process 12), rank 2 (process 14) and 61 more`.
    fn names(&self, all: &[usize]) -> String {
        const NAMED: usize = 8;
        let named: Vec<String> = all.iter().take(NAMED).map(|process| self.processes[*process].name()).collect();
        match all.len().saturating_sub(NAMED) {
            0 => named.join(", "),
            more => format!("{} and {more} more", named.join(", ")),
        }
    }

    /// That none comes further, where each is, and which did something else than was recorded.
    fn hung(&self, limit: Duration) -> String {
        let differ = self.differs.iter().map(|(process, call)| {
            let (name, call) = (self.processes[*process].name(), self.called(*process, *call));
            format!("{name} differs from its recording, first in {call}")
        });
        let running = self.running.iter().zip(self.processes).enumerate();
        let running = running.filter(|(_, (running, _))| running.is_running());
        let said = running.map(|(at, (running, process))| {
            let said = running.last_said().map_or_else(String::new, |said| format!(" ({said})"));
            format!("{} is in {}{said}", process.name(), self.inside(at))
        });
        let all = differ.chain(said).collect::<Vec<_>>().join("; ");
        let alone = self.alone().unwrap_or_default();
        format!("no process made progress for {} s: {all}{alone}", limit.as_secs_f64())
    }

    /// How one that may wait for a process that is not here is replayed without it, if its trace has what it
    /// takes.
    fn alone(&self) -> Option<String> {
        let running = self.running.iter().zip(self.parts).filter(|(of, _)| of.is_running() && self.differs.is_empty());
        let keeps = |path: &Path| Trace::open(path).is_ok_and(|trace| trace.keeps_collectives());
        let mut paths = running.map(|(_, part)| self.processes[part.process as usize].path.as_path());
        let path = paths.find(|path| keeps(path))?;
        let command = ["cutrace", "replay", &path.display().to_string(), "--alone"].map(str::to_owned);
        Some(format!("; {} uses recorded results of its collectives", shell(&command)))
    }

    /// The first call of a process that has not returned, as far as that is known.
    fn inside(&self, process: usize) -> String {
        let reached = self.page.get(process);
        if reached == 0 {
            return "its start".into();
        }
        let Ok(trace) = Trace::open(&self.processes[process].path) else { return "its replay".into() };
        let is_open = |call: &trace::Call| !call.inner && call.end.is_none_or(|end| end >= reached);
        let first = trace.calls().find(is_open).map(|call| format!("call {} {}", call.number, call.name()));
        first.unwrap_or_else(|| "its end".into())
    }

    fn called(&self, process: usize, call: u64) -> String {
        let trace = Trace::open(&self.processes[process].path).ok();
        let function = trace.as_ref().and_then(|trace| Some(trace.call(call)?.name().to_owned()));
        format!("call {call} {}", function.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_shared_is_refused_by_itself() {
        let mut shared = Shared { most: 2, ..Shared::of(&[4096, u64::MAX, 4096, 4096]) };
        assert!(shared.get(1).is_err_and(|why| why.starts_with("cannot allocate 18446744073709551615 bytes")));
        assert!(shared.get(0).is_ok() && shared.get(2).is_ok() && shared.get(0).is_ok());
        let full = "the processes of the job share more than 2 files as host memory";
        assert_eq!(shared.get(3).err().as_deref(), Some(full));
        assert_eq!(shared.get(4).err().as_deref(), Some("no such shared file"));
    }
}
