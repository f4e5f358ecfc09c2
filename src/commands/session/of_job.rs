//! The processes of this recording, as listed in the directory of a job.

use super::{Asked, relative};
use crate::commands::info::verdicts::{Judged, judge_together};
use crate::verdict;
use analysis::job::{Job, Process};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::Path;
use trace::write::finish::Finished;

pub(super) struct OfJob {
    pub name: String,
    job: Job,
    /// That never called the driver.
    pub silent: u64,
    /// Those that failed, in words.
    pub failed: String,
    /// What the verdicts are of, if it is not each process by itself.
    pub whose: String,
}

impl OfJob {
    pub(super) fn of(directory: &Path, asked: &Asked) -> OfJob {
        const NAMED: usize = 3;
        let session = asked.session.display().to_string();
        let mut job = Job::open(directory).unwrap_or_default();
        job.processes.retain(|process| process.session == session);
        let recordings: BTreeSet<u64> = job.processes.iter().map(|process| process.recording).collect();
        job.keep(|number| recordings.contains(&number));
        job.judge(None);
        let all = &job.processes;
        let silent = all.iter().filter(|process| process.is_silent()).count() as u64;
        let is_other = |process: &&Process| process.pid != asked.pid && process.trace.is_some();
        let failed = all.iter().filter(is_other).filter_map(|process| {
            let ended = process.ended.filter(|ended| !ended.is_success())?;
            let rank = process.rank.map_or(String::new(), |rank| format!(" (rank {rank})"));
            Some(format!("process {}{rank}: {ended}", process.pid))
        });
        let mut failed: Vec<String> = failed.collect();
        let more = failed.len().saturating_sub(NAMED);
        failed.truncate(NAMED);
        failed.extend((more > 0).then(|| format!("and {more} more failed")));
        let failed = failed.iter().map(|one| format!("; {one}")).collect();
        OfJob { name: relative(directory) + "/", job, silent, failed, whose: String::new() }
    }

    /// As `info` does, those that this `record` has closed: whoever has recorded waits for this, so longer
    /// traces are left to it.
    pub(super) fn judge(&mut self, closed: &mut [(String, Finished)]) {
        if closed.iter().map(|(_, finished)| finished.calls).sum::<u64>() > verdict::JUDGED as u64 {
            return;
        }
        let file_name = |path: &Path| path.file_name().map(OsStr::to_owned);
        let mut all: Vec<Option<Judged>> = Vec::new();
        for process in &self.job.processes {
            let name = process.trace.as_deref().and_then(file_name);
            let finished = closed.iter().find(|(of, _)| name.is_some() && file_name(Path::new(of)) == name);
            let alone = |(_, Finished { verdict, reasons, .. }): &(String, Finished)| {
                let (verdict, reasons) = (verdict.clone(), reasons.clone());
                Judged { verdict, reasons, alone: None }
            };
            all.push(finished.map(alone));
        }
        judge_together(&self.job, all.iter_mut().map(Option::as_mut));
        let ranks = self.job.processes.iter().filter_map(|process| process.ranks).max().unwrap_or(0);
        let judged = self.job.processes.iter().zip(&all).filter(|(_, judged)| judged.is_some());
        let ranks_judged: BTreeSet<u64> = judged.filter_map(|(process, _)| process.rank).collect();
        let is_any = |is_it: fn(&Judged) -> bool| all.iter().flatten().any(is_it);
        if ranks > ranks_judged.len() as u64 && is_any(|judged| judged.verdict == "partly") {
            // Each rank may have a `record` of its own.
            self.whose = format!(" without the other ranks; cutrace info {} judges them together", self.name);
        } else if is_any(|judged| judged.alone.is_some()) {
            self.whose = " together".into();
        }
        for (process, judged) in self.job.processes.iter().zip(all) {
            let Some((judged, path)) = judged.zip(process.trace.as_deref()) else { continue };
            let of_it = closed.iter_mut().find(|(of, _)| file_name(Path::new(of)) == file_name(path));
            if let Some((_, finished)) = of_it {
                (finished.verdict, finished.reasons) = (judged.verdict, judged.reasons);
            }
        }
    }
}
