//! Which processes of a directory are meant.

use super::{Job, Process, in_words, ranges};
use crate::exit::{UNREADABLE, USAGE, failure, say};
use anyhow::{Context, Result};
use clap::Args;
use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::path::Path;
use std::str::FromStr;

/// Which processes of a directory.
#[derive(Args, Debug, Default)]
pub struct Among {
    /// Of a directory only these ranks: 0,3-5. '%q{VAR}' stands for what a variable holds
    #[arg(long = "rank", value_name = "RANKS")]
    pub ranks: Option<Ranks>,
    /// Of a directory these recordings, as cutrace info DIRECTORY numbers them: 2, 1-3 or all [default: the
    /// newest; repair and pack of a whole directory take all]
    #[arg(long = "recording", value_name = "RECORDINGS")]
    recordings: Option<Recordings>,
}

/// Of those of a directory, by their numbers, which count from 1.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Recordings {
    All,
    These(Vec<RangeInclusive<u64>>),
}

impl Among {
    pub fn is_all(&self) -> bool {
        self.ranks.is_none() && self.recordings.is_none()
    }

    pub fn has(&self, process: &Process) -> bool {
        self.ranks.as_ref().is_none_or(|ranks| ranks.has(process.rank))
    }

    /// What is wrong where no directory is named.
    pub fn refuse(&self) -> Result<()> {
        let option = match self {
            Among { ranks: Some(_), .. } => "--rank",
            Among { recordings: Some(_), .. } => "--recording",
            _ => return Ok(()),
        };
        Err(failure(USAGE, format_args!("{option}: chooses among the traces of a directory, and none is named")))
    }

    /// Of a directory the recordings that are meant, with all their ranks.
    pub fn job(&self, directory: &Path) -> Result<Job> {
        let mut job = Job::open(directory).with_context(|| directory.display().to_string())?;
        let there = job.recordings.len() as u64;
        match &self.recordings {
            None => job.keep(|number| number == there),
            Some(Recordings::All) => job.keep(|_| true),
            Some(Recordings::These(ranges)) => {
                let is_there = |range: &&RangeInclusive<u64>| *range.start() > 0 && *range.end() <= there;
                if let Some(wrong) = ranges.iter().find(|range| !is_there(range)) {
                    let wrong = if *wrong.start() == 0 { 0 } else { *wrong.end() };
                    let (shown, held) = (directory.display(), job.recordings_held());
                    return Err(failure(USAGE, format_args!("--recording {wrong}: {shown} {held}")));
                }
                job.keep(|number| ranges.iter().any(|range| range.contains(&number)));
            }
        }
        job.judge(None);
        Ok(job)
    }

    /// Says what is wrong with it, and which of its recordings is read.
    pub fn tell(&self, job: &Job) {
        let recordings = job.recordings_in_words().filter(|_| self.recordings.is_none());
        job.troubles.iter().chain(&recordings).for_each(say);
    }

    /// Of a job these processes only. What is wrong with it is said.
    pub fn of(&self, directory: &Path) -> Result<Job> {
        let mut job = self.job(directory)?;
        let there = |process: &&Process| process.trace.is_some();
        self.choose(&mut job, there)?;
        self.tell(&job);
        match job.processes.iter().any(|process| there(&process)) {
            true => Ok(job),
            false => Err(job.has_no_trace()),
        }
    }

    /// Leaves out the ranks that are not meant. `counts`: the processes of which one has to be left.
    pub fn choose(&self, job: &mut Job, counts: impl Fn(&&Process) -> bool) -> Result<()> {
        let Some(asked) = &self.ranks else { return Ok(()) };
        asked.are_of(job)?;
        // One that is left out may be one whose trace is lost.
        job.is_chosen =
            job.is_incomplete() || job.processes.iter().any(|process| process.trace.is_some() && !self.has(process));
        job.judge(Some(asked));
        job.processes.retain(|process| self.has(process));
        match job.processes.iter().any(|process| counts(&process)) {
            true => Ok(()),
            false => {
                let (directory, why) = (job.directory.display(), job.missing.join("; "));
                Err(failure(UNREADABLE, format_args!("{directory}: nothing is left of what --rank names: {why}")))
            }
        }
    }
}

/// Numbers of processes in their job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ranks {
    ranges: Vec<RangeInclusive<u64>>,
    /// A variable has named them, which a launcher sets for each process that it starts.
    pub are_launched: bool,
}

impl Ranks {
    pub fn has(&self, rank: Option<u64>) -> bool {
        rank.is_some_and(|rank| self.ranges.iter().any(|range| range.contains(&rank)))
    }

    /// Whether all are ranks of the job, be it that no trace is of them.
    pub fn are_of(&self, job: &Job) -> Result<()> {
        let known = job.ranks();
        let beyond = self.beyond(&known);
        if beyond.is_empty() {
            return Ok(());
        }
        let (which, known) = (in_words(beyond), known.into_iter().collect::<Vec<_>>());
        let why = match &known[..] {
            [] => "none of its processes has a rank: without --rank they are all read".into(),
            known => format!("of this job the ranks are {}", ranges(known)),
        };
        Err(failure(USAGE, format_args!("{}: no rank {which}; {why}", job.directory.display())))
    }

    /// What of these ranges is not known, by the first and the last of each.
    fn beyond(&self, known: &BTreeSet<u64>) -> Vec<(u64, u64)> {
        let mut beyond = Vec::new();
        for range in &self.ranges {
            let mut from = Some(*range.start());
            for &rank in known.range(range.clone()) {
                beyond.extend(from.filter(|from| *from < rank).map(|from| (from, rank - 1)));
                from = rank.checked_add(1);
            }
            beyond.extend(from.filter(|from| from <= range.end()).map(|from| (from, *range.end())));
        }
        beyond
    }
}

/// With what variables hold for `%q{VARIABLE}`.
fn with_variables(text: &str) -> Result<String, String> {
    let (mut out, mut rest) = (String::new(), text);
    while let Some((before, name)) = rest.split_once("%q{") {
        let (name, behind) = name.split_once('}').ok_or("expected %q{VARIABLE}")?;
        let value = std::env::var(name).map_err(|_| format!("the variable {name} is not set here"))?;
        out += before;
        out += &value;
        rest = behind;
    }
    Ok(out + rest)
}

impl FromStr for Ranks {
    type Err = String;

    fn from_str(text: &str) -> Result<Ranks, String> {
        let named = with_variables(text)?;
        let ranges = numbers(&named).ok_or_else(|| format!("{named:?}: expected ranks as 3 or 0,3-5"))?;
        Ok(Ranks { ranges, are_launched: named != text })
    }
}

impl FromStr for Recordings {
    type Err = String;

    fn from_str(text: &str) -> Result<Recordings, String> {
        match text {
            "all" => Ok(Recordings::All),
            _ => numbers(text).map(Recordings::These).ok_or("expected recordings as 2, 1-3 or all".into()),
        }
    }
}

/// `0,3-5`.
fn numbers(text: &str) -> Option<Vec<RangeInclusive<u64>>> {
    let number = |text: &str| text.trim().parse::<u64>().ok();
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        number(first).zip(number(last)).filter(|(first, last)| first <= last).map(|(first, last)| first..=last)
    };
    text.split(',').map(range).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_that_a_job_does_not_have() {
        let beyond = |text: &str, known: &[u64]| {
            let ranks: Ranks = text.parse().expect("ranks");
            in_words(ranks.beyond(&known.iter().copied().collect()))
        };
        assert_eq!(beyond("0-2,9", &[0, 1, 2]), "9");
        assert_eq!(beyond("0-2", &[0, 1, 2, 3]), "");
        assert_eq!(beyond("1-6,9-11", &[0, 3, 9]), "1-2,4-6,10-11");
        let most = u64::MAX;
        assert_eq!(beyond(&format!("5-{most}"), &[0, most]), format!("5-{}", most - 1));
    }
}
