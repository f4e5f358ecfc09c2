//! The selected processes of a directory.

use crate::terminal::exit::{DONE, UNREADABLE, USAGE, failure, say};
use analysis::job::ranks::{Ranks, numbers};
use analysis::job::{Job, Process};
use anyhow::{Context, Result};
use clap::Args;
use std::ops::RangeInclusive;
use std::path::Path;
use std::str::FromStr;

/// Which processes of a directory.
#[derive(Args, Debug, Default)]
pub(crate) struct Among {
    /// In a directory, only these ranks: 0,3-5 or %q{VAR}
    ///
    /// %q{VAR} is replaced by the environment variable VAR.
    #[arg(long = "rank", value_name = "RANKS")]
    pub ranks: Option<Ranks>,
    /// In a directory, only these recordings, as cutrace info DIRECTORY numbers them: 2, 1-3 or all [default:
    /// the newest; repair and pack of a whole directory take all]
    #[arg(long = "recording", hide_short_help = true, value_name = "RECORDINGS")]
    recordings: Option<Recordings>,
}

/// Of those of a directory, by their numbers, which count from 1.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Recordings {
    All,
    These(Vec<RangeInclusive<u64>>),
}

impl Among {
    pub(crate) fn is_all(&self) -> bool {
        self.ranks.is_none() && self.recordings.is_none()
    }

    pub(crate) fn has(&self, process: &Process) -> bool {
        self.ranks.as_ref().is_none_or(|ranks| ranks.has(process.rank))
    }

    /// What is wrong where no directory is named.
    pub(crate) fn refuse(&self) -> Result<()> {
        let option = match self {
            Among { ranks: Some(_), .. } => "--rank",
            Among { recordings: Some(_), .. } => "--recording",
            _ => return Ok(()),
        };
        Err(failure(USAGE, format_args!("{option}: applies to a directory of traces, and none is given")))
    }

    /// Of a directory the recordings that are meant, with all their ranks.
    pub(crate) fn job(&self, directory: &Path) -> Result<Job> {
        let mut job = Job::open(directory).with_context(|| directory.display().to_string())?;
        let there = job.recordings.len() as u64;
        match &self.recordings {
            None => job.keep(|number| number == there),
            Some(Recordings::All) => job.keep(|_| true),
            Some(Recordings::These(ranges)) => {
                let is_there = |range: &&RangeInclusive<u64>| *range.start() > 0 && *range.end() <= there;
                if let Some(wrong) = ranges.iter().find(|range| !is_there(range)) {
                    let wrong = if *wrong.start() == 0 { 0 } else { *wrong.end() };
                    let (shown, held) = (directory.display(), job.list_recordings());
                    return Err(failure(USAGE, format_args!("--recording {wrong}: {shown} {held}")));
                }
                job.keep(|number| ranges.iter().any(|range| range.contains(&number)));
            }
        }
        job.judge(None);
        Ok(job)
    }

    /// Says what is wrong with it, and which of its recordings is read.
    pub(crate) fn tell(&self, job: &Job) {
        let recordings = job.recordings_in_words().filter(|_| self.recordings.is_none());
        job.warnings.iter().chain(&recordings).for_each(say);
    }

    /// Of a job these processes only. What is wrong with it is said.
    pub(crate) fn of(&self, directory: &Path) -> Result<Job> {
        let mut job = self.job(directory)?;
        let there = |process: &&Process| process.trace.is_some();
        self.choose(&mut job, there)?;
        self.tell(&job);
        match job.processes.iter().any(|process| there(&process)) {
            true => Ok(job),
            false => Err(job.has_no_trace().into()),
        }
    }

    /// Leaves out the ranks that are not meant. `counts`: the processes of which one has to be left.
    pub(crate) fn choose(&self, job: &mut Job, counts: impl Fn(&&Process) -> bool) -> Result<()> {
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
                Err(failure(UNREADABLE, format_args!("{directory}: --rank selects no process: {why}")))
            }
        }
    }
}

impl FromStr for Recordings {
    type Err = String;

    fn from_str(text: &str) -> Result<Recordings, String> {
        match text {
            "all" => Ok(Recordings::All),
            _ => numbers(text).map(Recordings::These).ok_or("expected recordings such as 2, 1-3 or all".into()),
        }
    }
}

/// All that is in a directory. What is wrong with it is said.
pub(crate) fn whole(directory: &Path) -> Result<Job> {
    let mut job = Job::open(directory).with_context(|| directory.display().to_string())?;
    job.keep(|_| true);
    job.judge(None);
    job.warnings.iter().for_each(say);
    match job.traces().count() {
        1.. => Ok(job),
        0 => Err(job.has_no_trace().into()),
    }
}

/// How a command ends that has read it, if all else is well.
pub(crate) fn status(job: &Job) -> u8 {
    if job.is_whole() { DONE } else { UNREADABLE }
}
