//! What is read if no file is named: the latest trace of this directory. A recording does not replace
//! `trace.bin`.

use crate::exit::{UNREADABLE, USAGE, failure, say};
use crate::figures::counted;
use crate::job::{Job, Process, SESSION, ranges};
use crate::layout;
use anyhow::{Context, Result};
use clap::Args;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::UNIX_EPOCH;
use trace::{Error, Trace};

const DEFAULT: &str = "trace.bin";

#[derive(Args)]
pub struct File {
    /// The trace [default: the latest here of trace.bin, trace.1.bin, ...]
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
}

#[derive(Args)]
pub struct Files {
    /// The trace, or more than one [default: the latest here of trace.bin, trace.1.bin, ...]
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    pub among: Among,
}

/// Which processes of a directory.
#[derive(Args, Debug, Default)]
pub struct Among {
    /// Of a directory only these ranks: 0,3-5. '%q{VAR}' stands for what a variable holds
    #[arg(long = "rank", value_name = "RANKS")]
    pub ranks: Option<Ranks>,
    /// Of a directory only this recording, as cutrace info DIRECTORY numbers them
    #[arg(long, value_name = "N")]
    recording: Option<u64>,
}

impl Among {
    pub fn is_all(&self) -> bool {
        self.ranks.is_none() && self.recording.is_none()
    }

    pub fn has(&self, process: &Process) -> bool {
        self.ranks.as_ref().is_none_or(|ranks| ranks.has(process.rank)) && self.is_of_recording(process)
    }

    pub fn is_of_recording(&self, process: &Process) -> bool {
        self.recording.is_none_or(|recording| recording == process.recording)
    }

    /// What is wrong where no directory is named.
    pub fn refuse(&self) -> Result<()> {
        let option = match self {
            Among { ranks: Some(_), .. } => "--rank",
            Among { recording: Some(_), .. } => "--recording",
            _ => return Ok(()),
        };
        Err(failure(USAGE, format_args!("{option}: chooses among the traces of a directory, and none is named")))
    }

    /// Of a job these processes only. What is wrong with it is said.
    pub fn of(&self, directory: &Path) -> Result<Job> {
        let mut job = Job::open(directory).with_context(|| directory.display().to_string())?;
        job.troubles.iter().for_each(say);
        job.recordings_in_words().filter(|_| self.recording.is_none()).iter().for_each(say);
        let there = |process: &&Process| process.trace.is_some();
        let ranks: Vec<u64> = job.processes.iter().filter(there).filter_map(|process| process.rank).collect();
        let (shown, recordings) = (job.directory.display().to_string(), job.recordings.len() as u64);
        job.processes.retain(|process| self.has(process));
        match (job.processes.iter().any(|process| there(&process)), self) {
            (true, _) => Ok(job),
            (false, Among { recording: Some(n), .. }) if !(1..=recordings).contains(n) => {
                let there = counted(recordings, "recording");
                Err(failure(USAGE, format_args!("--recording {n}: {shown} holds {there}")))
            }
            (false, Among { ranks: Some(_), .. }) => {
                let known = match ranks.is_empty() {
                    true => "none of its processes has a rank: without --rank they are all read".into(),
                    false => format!("there are {}", ranges(&ranks)),
                };
                Err(failure(USAGE, format_args!("{shown}: no trace of these ranks; {known}")))
            }
            _ => {
                let directory = shown.trim_end_matches('/');
                let hint = format_args!("cutrace record -o {directory}/ PROGRAM makes some").to_string();
                Err(failure(UNREADABLE, format_args!("{shown}: no trace in it; {hint}")))
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
        let number = |text: &str| text.trim().parse::<u64>().ok();
        let range = |part: &str| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let range = number(first).zip(number(last)).filter(|(first, last)| first <= last);
            range.map(|(first, last)| first..=last).ok_or_else(|| format!("{named:?}: expected ranks as 3 or 0,3-5"))
        };
        let ranges = named.split(',').map(range).collect::<Result<_, _>>()?;
        Ok(Ranks { ranges, are_launched: named != text })
    }
}

impl File {
    /// A directory of more than one trace, or that should have more; any, if not all of it is asked for.
    pub fn job(&self, is_all: bool) -> Result<Option<&Path>> {
        let Some(directory) = self.file.as_deref().filter(|path| path.is_dir()) else { return Ok(None) };
        if !is_all {
            return Ok(Some(directory));
        }
        let job = Job::open(directory).with_context(|| directory.display().to_string())?;
        let recorded = job.processes.iter().filter(|process| process.trace.is_some()).count();
        Ok((recorded > 1 || recorded == 1 && job.is_incomplete).then_some(directory))
    }

    /// Of a directory, the trace of one process. Of several of a rank the one that used NCCL is meant.
    pub fn choose(&mut self, among: &Among) -> Result<()> {
        let Some(directory) = self.file.as_deref().filter(|path| path.is_dir()) else { return among.refuse() };
        let mut all = traces(directory, among)?;
        if all.len() > 1 {
            let uses_nccl = |path: &PathBuf| Trace::open(path).is_ok_and(|trace| !trace.communicators.is_empty());
            let found: Vec<PathBuf> = all.iter().filter(|path| uses_nccl(path)).cloned().collect();
            all = if found.is_empty() { all } else { found };
        }
        match &mut all[..] {
            [only] => self.file = Some(std::mem::take(only)),
            _ => {
                let why = format!("{}: {}; --rank says which one", directory.display(), one_of(&all));
                return Err(failure(USAGE, why));
            }
        }
        Ok(())
    }

    pub fn path(&self) -> Result<PathBuf> {
        let path = self.file.clone().map_or_else(latest, Ok)?;
        if !path.is_dir() {
            return Ok(path);
        }
        match &traces(&path, &Among::default())?[..] {
            [only] => Ok(only.clone()),
            all => Err(failure(USAGE, format!("{}: {}", path.display(), one_of(all)))),
        }
    }

    pub fn open(&self) -> Result<Trace> {
        Ok(Trace::open(self.path()?)?)
    }
}

impl Files {
    /// Traces; those of a directory instead of it, by rank.
    pub fn paths(&self) -> Result<Vec<PathBuf>> {
        let mut all = Vec::new();
        for path in self.named()? {
            match path.is_dir() {
                true => all.extend(traces(&path, &self.among)?),
                false => all.push(path),
            }
        }
        Ok(all)
    }

    /// The only thing that is named, if it is a directory.
    pub fn directory(&self) -> Option<&Path> {
        match &self.files[..] {
            [directory] if directory.is_dir() => Some(directory),
            _ => None,
        }
    }

    /// Traces, and directories of them.
    pub fn named(&self) -> Result<Vec<PathBuf>> {
        if !self.files.iter().any(|path| path.is_dir()) {
            self.among.refuse()?;
        }
        if self.files.is_empty() { Ok(vec![latest()?]) } else { Ok(self.files.clone()) }
    }
}

fn one_of(all: &[PathBuf]) -> String {
    const NAMED: usize = 8;
    let named = all.iter().take(NAMED).map(|path| path.display().to_string());
    let more = if all.len() > NAMED { ", ..." } else { "" };
    format!("{} traces; name one: {}{more}", all.len(), named.collect::<Vec<_>>().join(", "))
}

/// The traces of a job. What is wrong with others is said.
fn traces(directory: &Path, among: &Among) -> Result<Vec<PathBuf>> {
    Ok(among.of(directory)?.processes.into_iter().filter_map(|process| process.trace).collect())
}

/// A trace by its default name.
struct Found {
    /// Its number; 0 for `trace.bin`.
    number: u64,
    name: String,
    /// When the recording began, in nanoseconds since 1970; of what cannot be read, when the file was
    /// changed.
    begun: u64,
    /// What the traces of one `cutrace record` have in common.
    session: Option<String>,
}

/// The one that was begun last; of a recording of several processes the first.
fn latest() -> Result<PathBuf> {
    let entries = std::fs::read_dir(".").into_iter().flatten().flatten();
    let mut all: Vec<Found> = entries.filter_map(|entry| Found::of(entry.file_name().into_string().ok()?)).collect();
    all.sort_by_key(|found| (found.begun, found.number));
    let Some(last) = all.last() else {
        let why = "name a trace, or make one: cutrace record PROGRAM";
        return Err(failure(UNREADABLE, format_args!("no file is named, and there is no {DEFAULT} here; {why}")));
    };
    let is_beside = |found: &&Found| found.session.is_some() && found.session == last.session;
    // By its number: two that begin at once may stamp and name their traces in another order.
    let found = all.iter().filter(is_beside).min_by_key(|found| found.number).unwrap_or(last);
    if found.number != 0 && layout::is_first() {
        say(format_args!("no file is named: reading {}, the latest of {} traces here", found.name, all.len()));
    }
    Ok(PathBuf::from(&found.name))
}

impl Found {
    fn of(name: String) -> Option<Found> {
        let number = match name.strip_prefix("trace.")?.strip_suffix("bin")? {
            "" => 0,
            number => {
                number.strip_suffix('.').filter(|digits| digits.bytes().all(|b| b.is_ascii_digit()))?.parse().ok()?
            }
        };
        let path = Path::new(&name);
        let preamble = match Trace::preamble_of(path) {
            // A broken one is meant, too; a directory, or a link to something else, is not.
            Err(Error::NotAFile { .. }) => return None,
            Err(_) if path.is_symlink() => return None,
            preamble => preamble.ok(),
        };
        let changed = || path.metadata().ok()?.modified().ok()?.duration_since(UNIX_EPOCH).ok();
        let begun = match &preamble {
            Some(preamble) => preamble.created,
            None => changed().map_or(0, |since| since.as_nanos() as u64),
        };
        let variables = preamble.map_or_else(Vec::new, |preamble| preamble.environment);
        let session = variables.into_iter().find(|(name, _)| name == SESSION).map(|(_, value)| value);
        Some(Found { number, name, begun, session })
    }
}
