//! A job: the traces of a directory, and the processes that it says there were. Traces say of themselves what
//! they are, so that one is found without its process's lines, and one process without the others.

pub mod lines;
mod recordings;
pub mod watch;

use crate::figures::counted;
use lines::{Began, Line};
use recordings::Recording;
use std::collections::HashMap;
use std::io::{self, Read, Seek};
use std::path::{Path, PathBuf};
use trace::Trace;
use trace::preamble::{LOCAL_RANK, Preamble, RANK, RANKS};
use trace::record::Ended;
use trace::segment::MAGIC;

pub struct Job {
    pub directory: PathBuf,
    /// By rank, and when they began.
    pub processes: Vec<Process>,
    /// In the order in which they began.
    pub recordings: Vec<Recording>,
    /// What is not as it should be, in words.
    pub troubles: Vec<String>,
    /// A trace that should be there is not, or cannot be read.
    pub is_incomplete: bool,
}

/// A process that recorded, or that could have.
#[derive(Debug, Default, Clone)]
pub struct Process {
    pub host: String,
    /// The run of that host's system, if it is known.
    pub boot: String,
    pub pid: u32,
    /// In ticks since the machine was started; 0 if it is not known.
    start: u64,
    pub parent: u32,
    pub rank: Option<u64>,
    pub ranks: Option<u64>,
    pub local_rank: Option<u64>,
    pub program: String,
    pub command: Vec<String>,
    /// Nanoseconds since 1970.
    pub began: u64,
    /// Whether it is a fork that has become no other program.
    pub is_forked: bool,
    /// None while it runs, or where it is not known.
    pub ended: Option<Ended>,
    /// Its trace, if it called the driver, and it could have one.
    pub trace: Option<PathBuf>,
    /// Why it could have none.
    pub untraced: Option<String>,
    /// The file of its `record`.
    pub session: String,
    /// When the last was told of it, in nanoseconds since 1970.
    until: u64,
    /// Its number among those of the directory, from 1.
    pub recording: u64,
}

impl Job {
    pub fn open(directory: &Path) -> io::Result<Job> {
        let mut troubles = Vec::new();
        let (told, unread) = lines::read(&directory.join(trace::job::PROCESSES))?;
        if unread > 0 {
            let lines = counted(unread, "line");
            troubles.push(format!("{lines} about processes cannot be read; what traces say of themselves counts"));
        }
        let mut processes = processes(told, directory);
        adopt(&mut processes, directory, &mut troubles)?;
        let is_incomplete = !troubles.is_empty();
        processes.sort_by(|a, b| {
            let rank = |process: &Process| process.rank.map_or((0, 0), |rank| (1, rank));
            (rank(a), a.began, a.pid).cmp(&(rank(b), b.began, b.pid))
        });
        let recordings = recordings::told_apart(&mut processes);
        let job = Job { directory: directory.to_path_buf(), processes, recordings, troubles, is_incomplete };
        Ok(job.judged())
    }

    /// With what is wrong with the ranks.
    fn judged(mut self) -> Job {
        let recorded = || self.processes.iter().filter(|process| process.trace.is_some());
        let mut troubles = Vec::new();
        for number in 1..=self.recordings.len() as u64 {
            let of = if self.recordings.len() > 1 { format!("recording {number}: ") } else { String::new() };
            let mut by_rank: HashMap<u64, Vec<&Process>> = HashMap::new();
            let recorded = || recorded().filter(|process| process.recording == number);
            for (rank, process) in recorded().filter_map(|process| Some((process.rank?, process))) {
                by_rank.entry(rank).or_default().push(process);
            }
            let mut twice: Vec<_> = by_rank.iter().filter(|(_, all)| all.len() > 1).collect();
            twice.sort_by_key(|(rank, _)| **rank);
            for (rank, all) in twice {
                let pids: Vec<String> = all.iter().map(|process| process.pid.to_string()).collect();
                troubles.push(format!("{of}rank {rank} is {} processes with traces: {}", all.len(), pids.join(", ")));
            }
            let Some(ranks) = recorded().filter_map(|process| process.ranks).max() else { continue };
            let missing: Vec<u64> = (0..ranks.min(MOST_RANKS)).filter(|rank| !by_rank.contains_key(rank)).collect();
            if !missing.is_empty() {
                self.is_incomplete = true;
                troubles.push(format!("{of}of {} no trace is here: {}", counted(ranks, "rank"), ranges(&missing)));
            }
        }
        let mut hosts: Vec<&str> = recorded().map(|process| process.host.as_str()).collect();
        hosts.sort_unstable();
        hosts.dedup();
        if hosts.len() > 1 {
            let hosts = hosts.join(", ");
            troubles
                .push(format!("several hosts ({hosts}), each with a clock of its own: times are compared within one"));
        }
        self.troubles.extend(troubles);
        self
    }
}

impl Job {
    /// That it holds several recordings, if it does.
    pub fn recordings_in_words(&self) -> Option<String> {
        let directory = self.directory.display();
        recordings::in_words(&self.recordings).map(|words| format!("{directory} {words}"))
    }

    /// Whether processes of several hosts are in it.
    pub fn has_hosts(&self) -> bool {
        self.processes.windows(2).any(|two| two[0].host != two[1].host)
    }
}

impl Process {
    /// Whether it is seen to run, here.
    pub fn is_running(&self) -> bool {
        let boot = || std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let stat = || std::fs::read(format!("/proc/{}/stat", self.pid)).unwrap_or_default();
        self.start != 0 && self.boot == boot().trim() && {
            let stat = stat();
            trace::job::start_in(&stat) == Some(self.start) && !watch::is_zombie(&stat)
        }
    }
}

/// Ranks that are looked for: what a trace claims is anybody's.
const MOST_RANKS: u64 = 1 << 16;

/// `0-2,5`.
pub fn ranges(all: &[u64]) -> String {
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for &number in all {
        match runs.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(number) => *last = number,
            _ => runs.push((number, number)),
        }
    }
    let run = |(first, last): (u64, u64)| if first == last { first.to_string() } else { format!("{first}-{last}") };
    runs.into_iter().map(run).collect::<Vec<_>>().join(",")
}

/// What the lines say. A process that becomes another program has a trace for each that calls the driver.
fn processes(told: HashMap<lines::Key, Vec<Line>>, directory: &Path) -> Vec<Process> {
    let mut all = Vec::new();
    for (key, mut lines) in told {
        // Written by several, whose clock is one.
        lines.sort_by_key(|line| line.time);
        let mut images: Vec<Process> = Vec::new();
        for line in lines {
            let time = line.time;
            match (line.what, images.last_mut()) {
                (lines::What::Began(began), last) => {
                    let process = process(&key, line.time, began);
                    match last {
                        // The program before it called no driver, or could not be recorded.
                        Some(last) if last.trace.is_none() => *last = process,
                        _ => images.push(process),
                    }
                }
                (lines::What::Recorded { trace }, Some(last)) => {
                    last.trace = Path::new(&trace).file_name().map(|name| directory.join(name));
                }
                (lines::What::NotRecorded { why }, Some(last)) => last.untraced = Some(why),
                (lines::What::Ended(ended), Some(last)) => last.ended = Some(ended),
                (_, None) => {}
            }
            images.last_mut().into_iter().for_each(|last| last.until = time);
        }
        all.extend(images);
    }
    all
}

fn process(key: &lines::Key, time: u64, began: Began) -> Process {
    let Began { host, boot, parent, forked, rank, ranks, local_rank, session, program, command } = began;
    Process {
        host,
        boot,
        pid: key.pid,
        start: key.start,
        parent,
        rank,
        ranks,
        local_rank,
        program,
        command,
        began: time,
        is_forked: forked,
        ended: None,
        trace: None,
        untraced: None,
        session,
        until: time,
        recording: 0,
    }
}

/// Adds what the traces say of themselves.
fn adopt(processes: &mut Vec<Process>, directory: &Path, troubles: &mut Vec<String>) -> io::Result<()> {
    let mut traces: Vec<PathBuf> = std::fs::read_dir(directory)?.flatten().map(|entry| entry.path()).collect();
    traces.retain(|path| begins_as_one(path));
    traces.sort();
    for process in processes.iter_mut() {
        let Some(path) = process.trace.clone() else { continue };
        traces.retain(|other| *other != path);
        let why = match Trace::preamble_of(&path) {
            Ok(preamble) => {
                says(process, &preamble);
                continue;
            }
            Err(_) if !path.exists() => {
                let (name, pid) = (shown(&path), process.pid);
                troubles.push(format!("{name}, the trace of process {pid}, is not there"));
                "its trace is not there"
            }
            Err(error) => {
                troubles.push(error.to_string());
                "its trace cannot be read"
            }
        };
        (process.trace, process.untraced) = (None, Some(why.into()));
    }
    for path in traces {
        match Trace::preamble_of(&path) {
            Ok(preamble) => {
                let mut process = Process { trace: Some(path), ..Process::default() };
                says(&mut process, &preamble);
                processes.push(process);
            }
            Err(error) => troubles.push(error.to_string()),
        }
    }
    Ok(())
}

/// The variable that names the file of a process's `record`.
pub const SESSION: &str = "CUTRACE_SESSION";

/// What was true when the recording began.
fn says(process: &mut Process, preamble: &Preamble) {
    process.host.clone_from(&preamble.host);
    process.program.clone_from(&preamble.program);
    process.command.clone_from(&preamble.command_line);
    (process.pid, process.parent) = (preamble.pid, preamble.parent);
    process.rank = preamble.number(RANK).or(process.rank);
    process.ranks = preamble.number(RANKS).or(process.ranks);
    process.local_rank = preamble.number(LOCAL_RANK).or(process.local_rank);
    if process.began == 0 {
        (process.began, process.until) = (preamble.created, preamble.created);
    }
    if process.session.is_empty() {
        let session = preamble.environment.iter().find(|(name, _)| name == SESSION);
        process.session = session.map_or_else(String::new, |(_, value)| value.clone());
    }
}

fn shown(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

/// Traces of this directory that are whole.
pub fn closed_traces(directory: &Path) -> u64 {
    let is_closed = |path: &PathBuf| {
        let mut last = [0; MAGIC.len()];
        let end = |mut file: std::fs::File| file.seek(io::SeekFrom::End(-(last.len() as i64))).map(|_| file);
        let read = std::fs::File::open(path).and_then(end).and_then(|mut file| file.read_exact(&mut last));
        read.is_ok() && last == MAGIC
    };
    let paths = std::fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
    paths.filter(|path| begins_as_one(path) && is_closed(path)).count() as u64
}

/// Most files of a directory are no traces.
pub fn begins_as_one(path: &Path) -> bool {
    let mut first = [0; MAGIC.len()];
    let is_file = std::fs::metadata(path).is_ok_and(|found| found.is_file());
    is_file && std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut first)).is_ok() && first == MAGIC
}

#[cfg(test)]
mod tests {
    #[test]
    fn ranges_of_ranks() {
        assert_eq!(super::ranges(&[0, 1, 2, 5, 7, 8]), "0-2,5,7-8");
        // What a trace claims is anybody's.
        assert_eq!(super::ranges(&[u64::MAX, u64::MAX]), format!("{0},{0}", u64::MAX));
    }
}
