//! The traces of a job's directory, and the process of each.

use super::{Process, says};
use crate::calls::losses::has_lost;
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::{Path, PathBuf};
use trace::Trace;
use trace::file::preamble::Preamble;
use trace::file::segment::MAGIC;

/// What no two processes of a job have in common, nor what one was before and after an exec: host, process
/// and nanosecond. A copy of a trace, one that was repaired, packed or given device times has the same.
type Identity = (String, u32, u64);

/// A trace, and what it says of itself.
type TraceFile = (PathBuf, Preamble);

fn identity(preamble: &Preamble) -> Identity {
    (preamble.host.clone(), preamble.pid, preamble.created)
}

/// Adds what the traces say of themselves. What of them cannot be read, in words, of files that no process
/// names as its own.
pub(super) fn adopt(processes: &mut Vec<Process>, directory: &Path) -> io::Result<Vec<String>> {
    let (mut others, unread) = unlisted(processes, directory)?;
    let mut known: HashMap<Identity, usize> = HashMap::new();
    for (at, process) in processes.iter_mut().enumerate() {
        let Some(path) = process.trace.clone() else { continue };
        let why = match Trace::preamble_of(&path) {
            Ok(preamble) => {
                known.insert(identity(&preamble), at);
                says(process, &preamble);
                continue;
            }
            Err(_) if !path.exists() => {
                if let Some(renamed) = others.iter().position(|(_, preamble)| process.wrote(preamble)) {
                    let (path, preamble) = others.remove(renamed);
                    known.insert(identity(&preamble), at);
                    process.trace = Some(path);
                    says(process, &preamble);
                    continue;
                }
                let (name, pid) = (file_name(&path), process.pid);
                process.trouble = Some(format!("{name}, the trace of process {pid}, is missing"));
                "its trace is missing"
            }
            Err(error) => {
                process.trouble = Some(error.to_string());
                "its trace cannot be read"
            }
        };
        (process.trace, process.untraced) = (None, Some(why.into()));
    }
    for (path, preamble) in others {
        match known.entry(identity(&preamble)) {
            Entry::Occupied(at) => processes[*at.get()].has_copy(path),
            Entry::Vacant(free) => {
                free.insert(processes.len());
                processes.push(of_preamble(path, &preamble));
            }
        }
    }
    Ok(unread)
}

/// Traces that no process names as its own, those first that have the name which the recorder gives them.
/// What of them cannot be read, in words.
fn unlisted(processes: &[Process], directory: &Path) -> io::Result<(Vec<TraceFile>, Vec<String>)> {
    let mut paths: Vec<PathBuf> = std::fs::read_dir(directory)?.flatten().map(|entry| entry.path()).collect();
    let listed: HashSet<&PathBuf> = processes.iter().filter_map(|process| process.trace.as_ref()).collect();
    paths.retain(|path| !listed.contains(path) && begins_as_one(path));
    paths.sort();
    let (mut traces, mut unread) = (Vec::new(), Vec::new());
    for path in paths {
        match Trace::preamble_of(&path) {
            Ok(preamble) => traces.push((path, preamble)),
            Err(error) => unread.push(error.to_string()),
        }
    }
    traces.sort_by_key(|(path, preamble)| !is_named_for(path, preamble.pid));
    Ok((traces, unread))
}

/// `HOST-PROGRAM-PID.bin`, `HOST-PROGRAM-PID.1.bin`.
fn is_named_for(path: &Path, pid: u32) -> bool {
    let name = file_name(path);
    let stem = name.strip_suffix(".bin").unwrap_or(&name);
    let mut numbers = stem.rsplit('-').next().unwrap_or(stem).split('.');
    numbers.next() == Some(&pid.to_string()) && numbers.all(|number| number.parse::<u32>().is_ok())
}

fn of_preamble(path: PathBuf, preamble: &Preamble) -> Process {
    let mut process = Process { trace: Some(path), ..Process::default() };
    says(&mut process, preamble);
    process
}

impl Process {
    /// What a trace says of its process.
    pub fn of_trace(path: &Path) -> Result<Process, trace::Error> {
        Ok(of_preamble(path.to_path_buf(), &Trace::preamble_of(path)?))
    }

    /// Another file is its trace as well: the one that has lost less is read.
    fn has_copy(&mut self, path: PathBuf) {
        let is_better = self.trace.as_deref().is_some_and(|known| lost(&path) < lost(known));
        let other = if is_better { self.trace.replace(path) } else { Some(path) };
        self.copies.extend(other.map(|other| file_name(&other)));
    }

    /// Whether this is its trace, by another name.
    fn wrote(&self, preamble: &Preamble) -> bool {
        let is_same = preamble.host == self.host && preamble.pid == self.pid;
        is_same && (self.began..=self.until).contains(&preamble.created)
    }
}

/// How much of a trace is gone: nothing, what a repair has counted, parts of the file, or all.
fn lost(path: &Path) -> u8 {
    match Trace::open(path) {
        Ok(trace) if trace.damage.iter().any(|damage| damage.loses) => 2,
        Ok(trace) => has_lost(&trace).into(),
        Err(_) => 3,
    }
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

/// Traces of this directory that are whole.
pub fn closed_traces(directory: &Path) -> u64 {
    let is_closed = |path: &PathBuf| {
        let mut last = [0; MAGIC.len()];
        let end = |mut file: File| file.seek(io::SeekFrom::End(-(last.len() as i64))).map(|_| file);
        let read = File::open(path).and_then(end).and_then(|mut file| file.read_exact(&mut last));
        read.is_ok() && last == MAGIC
    };
    let paths = std::fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
    paths.filter(|path| begins_as_one(path) && is_closed(path)).count() as u64
}

/// Most files of a directory are no traces.
pub fn begins_as_one(path: &Path) -> bool {
    let mut first = [0; MAGIC.len()];
    let is_file = std::fs::metadata(path).is_ok_and(|found| found.is_file());
    is_file && File::open(path).and_then(|mut file| file.read_exact(&mut first)).is_ok() && first == MAGIC
}
