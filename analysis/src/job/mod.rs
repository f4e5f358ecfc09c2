//! A job: the traces of a directory, and the processes listed there. Traces identify themselves, so that a
//! trace is found without its process's lines, and one process without the others.

pub mod lines;
pub mod ranks;
pub mod recordings;
pub mod time_axis;
mod traces;
mod verdicts;

pub use traces::{begins_as_one, closed_traces};

use crate::text::figures::counted;
use lines::{Began, Line};
use recordings::Recording;
use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use trace::file::preamble::{LOCAL_RANK, Preamble, RANK, RANKS};
use trace::file::record::Ended;

/// A directory of recordings, with the processes in it.
#[derive(Default)]
pub struct Job {
    /// Path of the directory.
    pub directory: PathBuf,
    /// By rank, and when they began.
    pub processes: Vec<Process>,
    /// In the order in which they began.
    pub recordings: Vec<Recording>,
    /// What is not as it should be, in words.
    pub warnings: Vec<String>,
    /// Of those the traces that should be there and are not, or cannot be read.
    pub missing: Vec<String>,
    /// Whether one of those that can be read is damaged.
    is_damaged: bool,
    /// What was found in the directory and cannot be read, in words: of which process is not known.
    unread: Vec<String>,
    /// What it holds besides that is nothing of a job, in words.
    strange: Option<String>,
    /// Processes with traces have been left out of it, by choice.
    pub is_chosen: bool,
}

/// A process that recorded, or that could have.
#[derive(Debug, Default, Clone)]
pub struct Process {
    /// Name of the host.
    pub host: String,
    /// The run of that host's system, if it is known.
    pub boot: String,
    /// The process id.
    pub pid: u32,
    /// In ticks since the machine was started; 0 if it is not known.
    start: u64,
    /// The parent's process id; 0 if it is unknown.
    pub parent: u32,
    /// Rank in the job, if its launcher set one.
    pub rank: Option<u64>,
    /// Number of ranks, as the launcher set it.
    pub ranks: Option<u64>,
    /// Rank among the processes of its host.
    pub local_rank: Option<u64>,
    /// Path of the executable.
    pub program: String,
    /// The command line, program included.
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
    /// Others of the directory are read, too.
    is_among_several: bool,
    /// What is wrong with its trace, in words.
    trouble: Option<String>,
    /// Other files with the same trace, by name.
    copies: Vec<String>,
}

impl Job {
    /// All that is in the directory, and not judged.
    pub fn open(directory: &Path) -> io::Result<Job> {
        let folder = directory.join(trace::base::job::PROCESSES);
        let lines::ProcessLines { by_process, unread: lines, strange } = lines::read(&folder)?;
        let mut processes = processes(by_process, directory);
        let mut unread = traces::adopt(&mut processes, directory)?;
        if lines > 0 {
            let lines = counted(lines, "line");
            unread
                .insert(0, format!("{lines} about processes cannot be read; the traces' own process details are used"));
        }
        let strange = (strange > 0)
            .then(|| format!("{}: ignored, it describes no process: {}", folder.display(), counted(strange, "file")));
        processes.sort_by(|a, b| {
            let rank = |process: &Process| process.rank.map_or((0, 0), |rank| (1, rank));
            (rank(a), a.began, a.pid).cmp(&(rank(b), b.began, b.pid))
        });
        let recordings = recordings::number_recordings(&mut processes);
        Ok(Job {
            directory: directory.to_path_buf(),
            processes,
            recordings,
            warnings: Vec::new(),
            missing: Vec::new(),
            is_damaged: false,
            unread,
            strange,
            is_chosen: false,
        })
    }

    /// Its traces, by rank.
    pub fn traces(&self) -> impl Iterator<Item = &Path> {
        self.processes.iter().filter_map(|process| process.trace.as_deref())
    }

    /// Leaves out other recordings.
    pub fn keep(&mut self, is_wanted: impl Fn(u64) -> bool) {
        self.processes.retain(|process| is_wanted(process.recording));
        for (recording, number) in self.recordings.iter_mut().zip(1..) {
            recording.is_read = is_wanted(number);
        }
        let has_several = self.has_several();
        self.processes.iter_mut().for_each(|process| process.is_among_several = has_several);
    }

    /// Whether nothing of it is missing or damaged.
    pub fn is_whole(&self) -> bool {
        !self.is_incomplete() && !self.is_damaged
    }

    /// One of its traces cannot be opened, for what reason.
    pub fn lacks(&mut self, why: String) {
        self.warnings.push(why.clone());
        self.missing.push(why);
    }

    /// One of its traces is found to be damaged when it is read, which need not have cost anything.
    pub fn is_damaged_by(&mut self, damage: String) {
        self.warnings.push(damage);
        self.is_damaged = true;
    }

    /// A trace that should be there is not, or cannot be read.
    pub fn is_incomplete(&self) -> bool {
        !self.missing.is_empty()
    }

    /// That it holds several recordings, if it does, and which are read.
    pub fn recordings_in_words(&self) -> Option<String> {
        let (directory, held) = (self.directory.display(), self.list_recordings());
        let read = recordings::read(&self.recordings);
        (self.recordings.len() > 1).then(|| format!("{directory} {held}; {read}"))
    }

    /// `holds 2 recordings: 1: ...`.
    pub fn list_recordings(&self) -> String {
        recordings::list(&self.recordings)
    }

    /// Whether several of its recordings are read.
    pub fn has_several(&self) -> bool {
        self.recordings.iter().filter(|recording| recording.is_read).count() > 1
    }

    /// Whether processes of several hosts are in it.
    pub fn has_hosts(&self) -> bool {
        self.processes.windows(2).any(|two| two[0].host != two[1].host)
    }
}

impl Process {
    /// `rank 3 (process 12)`, `recording 2, process 12`.
    pub fn name(&self) -> String {
        let of = if self.is_among_several { format!("recording {}, ", self.recording) } else { String::new() };
        match self.rank {
            Some(rank) => format!("{of}rank {rank} (process {})", self.pid),
            None => format!("{of}process {}", self.pid),
        }
    }

    /// Whether it had a trace that is not there any more, or cannot be read.
    pub fn is_lost(&self) -> bool {
        self.trouble.is_some()
    }

    /// Whether it never called the driver.
    pub fn is_silent(&self) -> bool {
        self.trace.is_none() && self.untraced.is_none()
    }

    /// Whether it is seen to run, here.
    pub fn is_running(&self) -> bool {
        let boot = || std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let stat = || std::fs::read(format!("/proc/{}/stat", self.pid)).unwrap_or_default();
        self.start != 0 && self.boot == boot().trim() && {
            let stat = stat();
            trace::base::job::start_in(&stat) == Some(self.start) && !is_zombie(&stat)
        }
    }
}

/// Whether it has ended, and nobody has asked how.
pub fn is_zombie(stat: &[u8]) -> bool {
    stat.iter().rposition(|byte| *byte == b')').is_some_and(|at| stat.get(at + 2) == Some(&b'Z'))
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
        is_among_several: false,
        trouble: None,
        copies: Vec::new(),
    }
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
