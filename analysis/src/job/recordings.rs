//! The recordings of one directory: each `record` into it has a session of its own, and so has each rank of
//! one under `mpirun`.

use super::{Job, Process};
use crate::text::figures::{counted, ranges};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};

/// By trace, the number of its recording, of a directory of which several are read.
pub type Recordings = HashMap<PathBuf, u64>;

/// All that one launch recorded into the directory.
#[derive(Debug, Default)]
pub struct Recording {
    /// Nanoseconds since 1970, as `until`, when the last of it was told.
    pub began: u64,
    until: u64,
    ranks: HashSet<u64>,
    /// Number of its processes.
    pub processes: u64,
    /// Rather than left out.
    pub is_read: bool,
}

impl Recording {
    fn add(&mut self, process: &Process) {
        let is_first = self.processes == 0;
        self.began = if is_first { process.began } else { self.began.min(process.began) };
        self.until = if process.is_running() { u64::MAX } else { self.until.max(process.until) };
        self.ranks.extend(process.rank);
        self.processes += 1;
    }

    /// Whether what began later belongs to it: beside it, or the next of its ranks.
    fn goes_on_in(&self, later: &Recording) -> bool {
        let are_ranks = !self.ranks.is_empty() && !later.ranks.is_empty();
        later.began <= self.until || are_ranks && self.ranks.is_disjoint(&later.ranks)
    }

    fn take(&mut self, later: Recording) {
        self.until = self.until.max(later.until);
        self.ranks.extend(later.ranks);
        self.processes += later.processes;
    }
}

/// In the order in which they began. Gives each process its recording's number, from 1.
pub fn number_recordings(processes: &mut [Process]) -> Vec<Recording> {
    let mut sessions: HashMap<&str, Recording> = HashMap::new();
    for process in processes.iter() {
        sessions.entry(&process.session).or_default().add(process);
    }
    let mut sessions: Vec<(String, Recording)> = sessions.into_iter().map(|(of, all)| (of.to_owned(), all)).collect();
    sessions.sort_by(|(one, a), (other, b)| (a.began, one).cmp(&(b.began, other)));
    let (mut all, mut numbers): (Vec<Recording>, HashMap<String, u64>) = Default::default();
    for (session, recording) in sessions {
        match all.last_mut().filter(|last| last.goes_on_in(&recording)) {
            Some(last) => last.take(recording),
            None => all.push(recording),
        }
        numbers.insert(session, all.len() as u64);
    }
    for process in processes {
        process.recording = numbers.get(&process.session).copied().unwrap_or(1);
    }
    all
}

/// The number of the recording of each trace, where several are read; in one directory those that it has
/// for `info`. Empty of one recording.
pub fn of_traces(paths: &[PathBuf]) -> Recordings {
    let place = |path: &Path| {
        let parent = path.parent().filter(|parent| *parent != Path::new("")).unwrap_or(Path::new("."));
        (parent.to_path_buf(), parent.join(path.file_name().unwrap_or_default()))
    };
    let parents: BTreeSet<PathBuf> = paths.iter().map(|path| place(path).0).collect();
    let jobs = parents.iter().filter_map(|parent| Job::open(parent).ok());
    let told = jobs.flat_map(|job| job.processes).filter_map(|process| Some((process.trace.clone()?, process)));
    let mut told: HashMap<PathBuf, Process> = told.collect();
    // Of a copy all is known that its trace says.
    let mut process = |path: &PathBuf| told.remove(&place(path).1).or_else(|| Process::of_trace(path).ok());
    let (paths, mut processes): (Vec<&PathBuf>, Vec<Process>) =
        paths.iter().filter_map(|path| Some((path, process(path)?))).unzip();
    if parents.len() > 1 || processes.iter().any(|process| process.recording == 0) {
        number_recordings(&mut processes);
    }
    let numbers: BTreeSet<u64> = processes.iter().map(|process| process.recording).collect();
    match numbers.len() {
        0 | 1 => HashMap::new(),
        _ => paths.into_iter().cloned().zip(processes.iter().map(|process| process.recording)).collect(),
    }
}

/// Recordings that are named one by one: the newest.
const NAMED: usize = 8;

/// `holds 2 recordings: 1: 3 processes, from 2026-11-26 07:31:05 UTC; 2: ...`.
pub fn list(all: &[Recording]) -> String {
    let left_out = all.len().saturating_sub(NAMED);
    let one = |(n, recording): (usize, &Recording)| {
        format!("{}: {}, from {}", n + 1, counted(recording.processes, "process"), date(recording.began))
    };
    let mut each: Vec<String> = all.iter().enumerate().skip(left_out).map(one).collect();
    if left_out > 0 {
        each.insert(0, "...".into());
    }
    format!("holds {}: {}", counted(all.len() as u64, "recording"), each.join("; "))
}

/// `2 is read, the newest; --recording chooses others (1, 1-2, all)`.
pub fn read(all: &[Recording]) -> String {
    let newest = all.len() as u64;
    let read: Vec<u64> = (1..).zip(all).filter(|(_, recording)| recording.is_read).map(|(number, _)| number).collect();
    let which = match &read[..] {
        [number] if *number == newest => format!("the newest, {number}, is read"),
        [number] => format!("{number} is read"),
        read if read.len() as u64 == newest => "all are read".into(),
        read => format!("{} are read", ranges(read)),
    };
    format!("{which}; --recording chooses others (1, 1-{newest}, all)")
}

/// `2026-11-26 07:31:05 UTC`.
fn date(ns: u64) -> String {
    let seconds = (ns / 1_000_000_000) as libc::time_t;
    // SAFETY: a struct of numbers, which the call fills.
    let utc = unsafe {
        let mut utc: libc::tm = std::mem::zeroed();
        libc::gmtime_r(&raw const seconds, &raw mut utc);
        utc
    };
    let (year, month, day) = (utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday);
    format!("{year}-{month:02}-{day:02} {:02}:{:02}:{:02} UTC", utc.tm_hour, utc.tm_min, utc.tm_sec)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        assert_eq!(date(0), "1970-01-01 00:00:00 UTC");
        assert_eq!(date(951_782_399_000_000_000), "2000-02-28 23:59:59 UTC");
        assert_eq!(date(1_709_164_800_000_000_000), "2024-02-29 00:00:00 UTC");
        assert!(date(u64::MAX).starts_with("2554-07-21"));
    }

    fn process(session: &str, rank: Option<u64>, began: u64, until: u64) -> Process {
        Process { session: session.into(), rank, began, until, ..Process::default() }
    }

    fn numbers(mut all: Vec<Process>) -> Vec<u64> {
        number_recordings(&mut all);
        all.iter().map(|process| process.recording).collect()
    }

    #[test]
    fn recordings_are_told_apart() {
        let ranks = |session: &str, at: u64| [0, 1].map(|rank| process(session, Some(rank), at + rank, at + 50));
        assert_eq!(numbers([ranks("a", 10), ranks("b", 100)].concat()), [1, 1, 2, 2]);
        // Each rank has a `record`, and they end before others begin.
        let each = [process("a", Some(0), 1, 2), process("b", Some(1), 5, 6), process("c", Some(0), 9, 12)];
        assert_eq!(numbers(each.to_vec()), [1, 1, 2]);
        // Without ranks what overlaps is one.
        let programs = [process("a", None, 1, 4), process("b", None, 3, 6), process("c", None, 9, 12)];
        assert_eq!(numbers(programs.to_vec()), [1, 1, 2]);
    }
}
