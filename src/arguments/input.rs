//! The input of a command that names no file: the latest trace of this directory, or the directory of a job,
//! if that was recorded later. A recording does not replace `trace.bin`.

use crate::arguments::rank_filter::{Among, status};
use crate::process::layout;
use crate::terminal::exit::{DONE, UNREADABLE, USAGE, failure, in_full, say, status_of};
use analysis::job::recordings::Recordings;
use analysis::job::{Job, SESSION};
use analysis::text::figures::{counted, ranges};
use anyhow::Result;
use clap::Args;
use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;
use trace::base::job::PROCESSES;
use trace::{Error, Trace};

const DEFAULT: &str = "trace.bin";

#[derive(Args)]
pub(crate) struct File {
    /// The trace [default: the latest one here]
    ///
    /// Without FILE, the latest of trace.bin, trace.1.bin, ... and recorded directories in the working
    /// directory is read.
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
}

#[derive(Args)]
pub(crate) struct Files {
    /// One or more traces [default: the latest one here]
    ///
    /// Without FILE, the latest of trace.bin, trace.1.bin, ... and recorded directories in the working
    /// directory is read.
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    pub among: Among,
}

impl File {
    /// The one trace of a directory that is meant; how the command ends if it ends well.
    pub(crate) fn one(path: &Path, among: &Among) -> Result<(PathBuf, u8)> {
        let mut file = File { file: Some(path.to_path_buf()) };
        let status = file.choose(among)?;
        Ok((file.path()?, status))
    }

    /// Names the latest, if nothing is named.
    pub(crate) fn find(&mut self) -> Result<()> {
        if self.file.is_none() {
            self.file = Some(latest()?);
        }
        Ok(())
    }

    /// A directory of more than one trace, or that should have more; any, if not all of it is asked for.
    pub(crate) fn job(&self, is_all: bool) -> Result<Option<&Path>> {
        let Some(directory) = self.file.as_deref().filter(|path| path.is_dir()) else { return Ok(None) };
        if !is_all {
            return Ok(Some(directory));
        }
        let job = Among::default().job(directory)?;
        let recorded = job.processes.iter().filter(|process| process.trace.is_some()).count();
        Ok((recorded > 1 || recorded == 1 && job.is_incomplete()).then_some(directory))
    }

    /// Of a directory, the trace of one process; how the command ends if it ends well, by what is missing of
    /// the job. Of several of one rank the only one that used NCCL is meant, and that is said.
    pub(crate) fn choose(&mut self, among: &Among) -> Result<u8> {
        let Some(directory) = self.file.as_deref().filter(|path| path.is_dir()) else {
            return among.refuse().map(|()| DONE);
        };
        let job = among.of(directory)?;
        let (shown, status, has_several) = (directory.display(), status(&job), job.has_several());
        let traced = || job.processes.iter().filter(|process| process.trace.is_some());
        let ranks: BTreeSet<Option<u64>> = traced().map(|process| process.rank).collect();
        let known: Vec<u64> = ranks.iter().copied().flatten().collect();
        let all: Vec<PathBuf> = job.traces().map(Path::to_path_buf).collect();
        let which = match (&all[..], &known[..]) {
            ([only], _) => {
                self.file = Some(only.clone());
                return Ok(status);
            }
            (_, []) => "its processes have no ranks".into(),
            (_, [rank]) if ranks.len() == 1 => {
                let uses_nccl = |path: &&PathBuf| Trace::open(path).is_ok_and(|trace| !trace.communicators.is_empty());
                let found: Vec<&PathBuf> = all.iter().filter(|_| !has_several).filter(uses_nccl).collect();
                if let [only] = found[..] {
                    let (traces, only) = (counted(all.len() as u64, "trace"), only.clone());
                    let name = only.display();
                    say(format_args!("{shown}: rank {rank} has {traces}; reading {name}, the one that used NCCL"));
                    self.file = Some(only);
                    return Ok(status);
                }
                format!("all have rank {rank}: pass the file")
            }
            (_, known) => format!("or choose with --rank: {}", ranges(known)),
        };
        Err(failure(USAGE, format!("{shown}: {}; {which}", one_of(&all))))
    }

    pub(crate) fn path(&self) -> Result<PathBuf> {
        self.path_or(|_| String::new())
    }

    /// `of_several`: what is to be said besides of a directory of several traces.
    pub(crate) fn path_or(&self, of_several: impl FnOnce(&Path) -> String) -> Result<PathBuf> {
        let path = self.file.clone().map_or_else(latest, Ok)?;
        is_there(&path)?;
        if !path.is_dir() {
            return Ok(path);
        }
        match &traces(&path, &Among::default())?[..] {
            [only] => Ok(only.clone()),
            all => Err(failure(USAGE, format!("{}: {}{}", path.display(), one_of(all), of_several(&path)))),
        }
    }

    pub(crate) fn open(&self) -> Result<Trace> {
        Ok(Trace::open(self.path()?)?)
    }
}

/// The traces to read.
#[derive(Default)]
pub(crate) struct Chosen {
    pub paths: Vec<PathBuf>,
    /// As many traces are named, also such as cannot be read.
    pub named: usize,
    /// The only thing that is named, if it is a directory.
    pub directory: Option<PathBuf>,
    /// Of the directory, if it is the only thing that is named.
    pub recordings: Recordings,
    /// How the command ends if it ends well: by what is missing of a job.
    pub status: u8,
}

impl Files {
    /// Traces; those of a directory instead of it, by rank. Of what cannot be read it is said why.
    pub(crate) fn chosen(&self) -> Result<Chosen> {
        let named = self.named()?;
        let (mut chosen, mut unopened) = (Chosen { named: named.len(), ..Chosen::default() }, DONE);
        let (_, unread) = readable(&named, |path| {
            let before = chosen.paths.len();
            self.choose(path, named.len() == 1, &mut chosen)?;
            chosen.named += chosen.paths.len().saturating_sub(before + 1);
            // A trace whose preamble can be read can be opened.
            let opened = |path: &Path| Ok(Trace::preamble_of(path).map(|_| path.to_path_buf())?);
            let (there, status) = readable(&chosen.paths.split_off(before), opened)?;
            chosen.paths.extend(there);
            unopened = unopened.max(status);
            Ok(())
        })?;
        chosen.status = chosen.status.max(unread).max(unopened);
        chosen.directory = <[PathBuf; 1]>::try_from(named).ok().map(|[only]| only).filter(|path| path.is_dir());
        Ok(chosen)
    }

    /// The same, with those of the traces that can be opened. Of others it is said why not.
    pub(crate) fn opened(&self) -> Result<(Chosen, Vec<Trace>)> {
        let (named, mut chosen) = (self.named()?, Chosen::default());
        let (mut traces, mut unopened) = (Vec::new(), DONE);
        let (_, unread) = readable(&named, |path| {
            let before = chosen.paths.len();
            self.choose(path, named.len() == 1, &mut chosen)?;
            let (opened, status) = readable(&chosen.paths[before..], |path| Ok(Trace::open(path)?))?;
            traces.extend(opened);
            unopened = unopened.max(status);
            Ok(())
        })?;
        chosen.status = chosen.status.max(unread).max(unopened);
        Ok((chosen, traces))
    }

    /// A trace, or those of a directory.
    fn choose(&self, path: &Path, is_only: bool, chosen: &mut Chosen) -> Result<()> {
        if !path.is_dir() {
            chosen.paths.push(path.to_path_buf());
            return Ok(());
        }
        let job = self.among.of(path)?;
        chosen.status = chosen.status.max(status(&job));
        let has_several = job.has_several() && is_only;
        for process in job.processes {
            let Some(trace) = process.trace else { continue };
            chosen.recordings.extend(has_several.then(|| (trace.clone(), process.recording)));
            chosen.paths.push(trace);
        }
        Ok(())
    }

    /// Traces, and directories of them; whether they are there is not known.
    pub(crate) fn named(&self) -> Result<Vec<PathBuf>> {
        let mut named = if self.files.is_empty() { vec![latest()?] } else { self.files.clone() };
        if !named.iter().any(|path| path.is_dir()) {
            self.among.refuse()?;
        }
        // `run/*` is meant to be the traces of run/.
        if named.iter().any(|path| !is_lines(path)) {
            named.retain(|path| {
                let is_lines = is_lines(path);
                if is_lines {
                    let why = "the list of a directory's processes, not a trace";
                    say(format_args!("{}: ignored: {why}", path.display()));
                }
                !is_lines
            });
        }
        Ok(named)
    }
}

/// Whether it is the folder of a job with lines about its processes.
fn is_lines(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name == PROCESSES) && path.is_dir() && !path.join(PROCESSES).is_dir()
}

/// What can be read of all that is named, and how the command ends by the rest, of which it is said why not; if
/// nothing can be read, that of the last is the error.
pub(crate) fn readable<T>(paths: &[PathBuf], mut read: impl FnMut(&Path) -> Result<T>) -> Result<(Vec<T>, u8)> {
    let (mut all, mut failed) = (Vec::new(), Vec::new());
    for path in paths {
        match is_there(path).and_then(|()| read(path)) {
            Ok(one) => all.push(one),
            Err(error) if status_of(&error) == USAGE => return Err(error),
            Err(error) => failed.push(error),
        }
    }
    let last = if all.is_empty() { failed.pop() } else { None };
    failed.iter().for_each(|error| say(in_full(error)));
    match last {
        Some(error) => Err(error),
        None => Ok((all, if failed.is_empty() { DONE } else { UNREADABLE })),
    }
}

/// Says what is expected where nothing of this name is.
pub(crate) fn is_there(path: &Path) -> Result<()> {
    let expected = "expected a trace, or a directory of traces; record one with cutrace record -o NAME PROGRAM";
    match path.symlink_metadata() {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            Err(failure(UNREADABLE, format_args!("{}: {error}; {expected}", path.display())))
        }
        _ => Ok(()),
    }
}

fn one_of(all: &[PathBuf]) -> String {
    const NAMED: usize = 8;
    let named = all.iter().take(NAMED).map(|path| path.display().to_string());
    let more = if all.len() > NAMED { ", ..." } else { "" };
    format!("{} traces, expected one: pass {}{more}", all.len(), named.collect::<Vec<_>>().join(", "))
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
    let is_later = |(begun, _): &(u64, PathBuf)| all.last().is_none_or(|last| last.begun < *begun);
    if let Some((_, directory)) = latest_job().filter(is_later) {
        if layout::is_first() {
            say(format_args!("no trace given: reading {}/, the latest recording here", directory.display()));
        }
        return Ok(directory);
    }
    let Some(last) = all.last() else {
        let why = "pass a trace, or record one: cutrace record PROGRAM";
        return Err(failure(UNREADABLE, format_args!("no trace given, and no {DEFAULT} here; {why}")));
    };
    let is_beside = |found: &&Found| found.session.is_some() && found.session == last.session;
    // By its number: two that begin at once may stamp and name their traces in another order.
    let found = all.iter().filter(is_beside).min_by_key(|found| found.number).unwrap_or(last);
    if found.number != 0 && layout::is_first() {
        say(format_args!("no trace given: reading {}, the latest of {} trace*.bin files here", found.name, all.len()));
    }
    Ok(PathBuf::from(&found.name))
}

/// The directory in this one with the recording that was begun last, and when it was. A recording adds files to its
/// directory when it begins, so that most directories need not be read.
fn latest_job() -> Option<(u64, PathBuf)> {
    /// Files may be stamped by another machine's clock.
    const SKEW: u64 = 60_000_000_000;
    let entries = std::fs::read_dir(".").into_iter().flatten().flatten();
    // No link to what is elsewhere.
    let directories = entries.filter(|entry| entry.file_type().is_ok_and(|is| is.is_dir()));
    let jobs = directories.map(|entry| PathBuf::from(entry.file_name())).filter(|path| path.join(PROCESSES).is_dir());
    let changed = |path: PathBuf| (changed(&path).max(changed(&path.join(PROCESSES))), path);
    let mut jobs: Vec<(u64, PathBuf)> = jobs.map(changed).collect();
    jobs.sort();
    let mut latest: Option<(u64, PathBuf)> = None;
    for (changed, path) in jobs.into_iter().rev() {
        if latest.as_ref().is_some_and(|(began, _)| changed.saturating_add(SKEW) < *began) {
            break;
        }
        let job = Job::open(&path).ok();
        let began = job.and_then(|job| Some(job.recordings.last()?.began));
        latest = latest.max(began.map(|began| (began, path)));
    }
    latest
}

/// In nanoseconds since 1970; 0 if it cannot be told.
fn changed(path: &Path) -> u64 {
    let changed = path.metadata().and_then(|about| about.modified()).ok();
    changed.and_then(|at| at.duration_since(UNIX_EPOCH).ok()).map_or(0, |since| since.as_nanos() as u64)
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
        let begun = preamble.as_ref().map_or_else(|| changed(path), |preamble| preamble.created);
        let variables = preamble.map_or_else(Vec::new, |preamble| preamble.environment);
        let session = variables.into_iter().find(|(name, _)| name == SESSION).map(|(_, value)| value);
        Some(Found { number, name, begun, session })
    }
}
