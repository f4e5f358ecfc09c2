//! Problems of a job, in words.

use super::ranks::Ranks;
use super::{Job, Process};
use crate::error::Error;
use crate::text::figures::{counted, ranks};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use trace::base::job::PROCESSES;

/// Ranks that are looked for: what a trace claims is anybody's.
const MOST_RANKS: u64 = 1 << 16;

/// Copies that are named one by one.
const NAMED: usize = 4;

impl Job {
    /// Says what is wrong with the recordings that are read, with all ranks or with these alone.
    pub fn judge(&mut self, asked: Option<&Ranks>) {
        let mut missing: Vec<String> =
            self.selected_processes(asked).filter_map(|process| process.trouble.clone()).collect();
        let mut warnings = Vec::new();
        let read: Vec<u64> = (1..).zip(&self.recordings).filter(|(_, of)| of.is_read).map(|(n, _)| n).collect();
        for &number in &read {
            let of = if read.len() > 1 { format!("recording {number}: ") } else { String::new() };
            missing.extend(self.without_traces(number, asked).map(|what| format!("{of}{what}")));
            warnings.extend(self.twice(number, asked).into_iter().map(|what| format!("{of}{what}")));
        }
        // It may be of any rank that is missing.
        if asked.is_none() || !missing.is_empty() {
            missing.splice(..0, self.unread.iter().cloned());
        }
        warnings.extend(self.copied(asked));
        let recorded = self.selected_processes(asked).filter(|process| process.trace.is_some());
        let hosts: BTreeSet<&str> = recorded.map(|process| process.host.as_str()).collect();
        if hosts.len() > 1 {
            // A redacted trace does not tell its own.
            let named = |host| if str::is_empty(host) { "a redacted name" } else { host };
            let hosts = hosts.into_iter().map(named).collect::<Vec<_>>().join(", ");
            warnings.push(format!(
                "several hosts ({hosts}), each with its own clock: times are comparable within one host only"
            ));
        }
        warnings.extend(self.strange.clone());
        self.warnings = missing.iter().cloned().chain(warnings).collect();
        self.missing = missing;
    }

    /// The ranks of the recordings that are read: those that are told of, and those that there were besides.
    pub fn ranks(&self) -> BTreeSet<u64> {
        let told = self.processes.iter().filter_map(|process| process.rank);
        let most = self.processes.iter().filter_map(|process| process.ranks).max().unwrap_or(0);
        told.chain(0..most.min(MOST_RANKS)).collect()
    }

    /// That there is nothing to read: what is there instead, and what to do.
    pub fn has_no_trace(&self) -> Error {
        let shown = self.directory.display().to_string();
        let name = shown.trim_end_matches('/');
        let why = match (self.recordings.len(), self.processes.len() as u64) {
            (0 | 1, 0) => {
                let (found, below) = (describe_contents(&self.directory), holds_a_job(&self.directory));
                let to_do = below.map(|below| format!("{name}/{below}/ has the traces of a job: pass that directory"));
                let to_do = to_do.unwrap_or_else(|| format!("cutrace record -o {name}/ PROGRAM records some"));
                format!("no trace in it ({found}); {to_do}")
            }
            (0 | 1, told) => format!("{} without a trace; cutrace info {name}/ says why", counted(told, "process")),
            _ => "no trace in the selected recording; --recording chooses another".into(),
        };
        Error::Unreadable(format!("{shown}: {why}"))
    }

    fn selected_processes<'j>(&'j self, asked: Option<&'j Ranks>) -> impl Iterator<Item = &'j Process> {
        self.processes.iter().filter(move |process| asked.is_none_or(|asked| asked.has(process.rank)))
    }

    fn recorded(&self, recording: u64) -> impl Iterator<Item = &Process> {
        self.processes.iter().filter(move |process| process.recording == recording && process.trace.is_some())
    }

    /// The ranks of a recording that no trace is of: of as many as a trace says there were, else of those that
    /// are asked for.
    fn without_traces(&self, recording: u64, asked: Option<&Ranks>) -> Option<String> {
        let recorded: BTreeSet<u64> = self.recorded(recording).filter_map(|process| process.rank).collect();
        let count = self.recorded(recording).filter_map(|process| process.ranks).max();
        let without = |ranks: &mut dyn Iterator<Item = u64>| -> Vec<u64> {
            let is_asked = |rank: &u64| asked.is_none_or(|asked| asked.has(Some(*rank)));
            ranks.filter(|rank| !recorded.contains(rank)).filter(is_asked).collect()
        };
        let (what, without) = match (count, asked) {
            (Some(count), _) => (counted(count, "rank"), without(&mut (0..count.min(MOST_RANKS)))),
            (None, None) => return None,
            (None, Some(_)) => ("the selected ranks".into(), {
                let of = |process: &&Process| process.recording == recording && process.trouble.is_none();
                let told: BTreeSet<u64> = self.processes.iter().filter(of).filter_map(|process| process.rank).collect();
                without(&mut told.into_iter())
            }),
        };
        (!without.is_empty()).then(|| format!("no trace for {} of {what}", ranks(&without)))
    }

    /// Ranks that several processes are.
    fn twice(&self, recording: u64, asked: Option<&Ranks>) -> Vec<String> {
        let mut by_rank: BTreeMap<u64, Vec<String>> = BTreeMap::new();
        for process in self.recorded(recording).filter(|process| asked.is_none_or(|asked| asked.has(process.rank))) {
            let of_rank = process.rank.map(|rank| by_rank.entry(rank).or_default());
            of_rank.into_iter().for_each(|pids| pids.push(process.pid.to_string()));
        }
        let several = by_rank.into_iter().filter(|(_, pids)| pids.len() > 1);
        let told = |(rank, pids): (u64, Vec<String>)| {
            format!("rank {rank} has {} processes with traces: {}", pids.len(), pids.join(", "))
        };
        several.map(told).collect()
    }

    /// Files that are left out, as they hold what another one does.
    fn copied(&self, asked: Option<&Ranks>) -> Option<String> {
        let name = |process: &Process| {
            let name = process.trace.as_ref().and_then(|path| path.file_name()).unwrap_or_default();
            name.to_string_lossy().into_owned()
        };
        let of = |process: &Process| {
            let name = name(process);
            process.copies.iter().map(move |copy| format!("{copy} ({name})")).collect::<Vec<_>>()
        };
        let mut all: Vec<String> = self.selected_processes(asked).flat_map(of).collect();
        let more = all.len().saturating_sub(NAMED);
        all.truncate(NAMED);
        let more = if more > 0 { format!(", and {more} more") } else { String::new() };
        (!all.is_empty()).then(|| format!("ignored, another file has the same process: {}{more}", all.join(", ")))
    }
}

/// What a directory holds, in words.
fn describe_contents(directory: &Path) -> String {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let (directories, files): (Vec<_>, Vec<_>) =
        entries.partition(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    let counts = [(files.len(), "other file"), (directories.len(), "directory")];
    let counts = counts.map(|(count, what)| (count > 0).then(|| counted(count as u64, what)));
    match counts.into_iter().flatten().collect::<Vec<_>>().join(" and ") {
        nothing if nothing.is_empty() => "the directory is empty".into(),
        counts => counts,
    }
}

/// The first directory in this one that `record` has put traces into, by name.
fn holds_a_job(directory: &Path) -> Option<String> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let jobs = entries.filter(|entry| entry.path().join(PROCESSES).is_dir());
    jobs.map(|entry| entry.file_name().to_string_lossy().into_owned()).min()
}
