//! The recordings of one directory, told apart: each `record` into it has a session of its own, and so has
//! each rank of one under `mpirun`.

use super::Process;
use crate::figures::counted;
use std::collections::{HashMap, HashSet};

/// What was recorded into the directory by one launch.
#[derive(Debug, Default)]
pub struct Recording {
    /// Nanoseconds since 1970, as `until`, when the last of it was told.
    pub began: u64,
    until: u64,
    ranks: HashSet<u64>,
    pub processes: u64,
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
pub fn told_apart(processes: &mut [Process]) -> Vec<Recording> {
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

/// In words, if there is more than one.
pub fn in_words(all: &[Recording]) -> Option<String> {
    let one = |(n, recording): (usize, &Recording)| {
        format!("{}: {}, from {}", n + 1, counted(recording.processes, "process"), date(recording.began))
    };
    let each: Vec<String> = all.iter().enumerate().map(one).collect();
    let n = counted(all.len() as u64, "recording");
    (all.len() > 1).then(|| format!("holds {n} (--recording N chooses one): {}", each.join("; ")))
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
        told_apart(&mut all);
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
