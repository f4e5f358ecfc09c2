//! One replay of a job, from outside.

use super::protocol::{self, FromReplay, Part, ToReplay};
use super::request::ReplayRequest;
use crate::commands::replay::as_json::ReplaySummary;
use crate::commands::replay::together::child::PART;
use crate::commands::replay::together::launcher::rank_process::Launched;
use crate::terminal::exit;
use analysis::job;
use anyhow::{Context, Result};
use replayer::Verdict;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::fs::FileExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

/// One recorded process.
pub(super) struct Process {
    pub path: PathBuf,
    pub about: job::Process,
}

impl Process {
    pub(super) fn name(&self) -> String {
        self.about.name()
    }
}

/// How the verdict `no` is told.
pub(super) const NOT_REPLAYABLE: &str = "it cannot be replayed";

const SILENT: &str = "its replay ended without reporting a status";

/// Who started it, and waits for it.
enum Parent {
    This(Child),
    /// Another process of a launcher's.
    Launched(Launched),
}

/// Its replay.
pub(super) struct Running {
    parent: Parent,
    /// None when it has ended.
    socket: Option<OwnedFd>,
    said: File,
    summary: Option<ReplaySummary>,
    status: Option<ExitStatus>,
    killed: Option<String>,
}

/// The result of its replay.
pub(super) struct ProcessOutcome {
    pub status: u8,
    /// None if it has not come to its end: why stands in `failed`.
    pub summary: Option<ReplaySummary>,
    pub failed: Option<String>,
    /// It was ended, as another failed or none came further.
    pub was_ended: bool,
    /// Something with another process.
    pub shares: bool,
    /// The last that it wrote on stderr.
    pub said: Vec<String>,
}

/// A started replay, and the file for its stderr.
pub(super) struct Spawned {
    pub child: Child,
    pub said: File,
}

/// Starts the replay of a trace as a part of a job. `inherited`: its socket, its part, and how far all have
/// come.
pub(super) fn spawn(request: &ReplayRequest, trace: &Path, inherited: [RawFd; 3]) -> Result<Spawned> {
    let said = tempfile::tempfile().context("a temporary file")?;
    let mut command = Command::new(std::env::current_exe().context("the path of cutrace")?);
    command.arg("replay").arg("--no-explain").args(&request.options).arg("--").arg(trace);
    command.env(PART, inherited.map(|file| file.to_string()).join(","));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(said.try_clone()?);
    // SAFETY: what is called between fork and exec are plain system calls.
    unsafe {
        command.pre_exec(move || {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            let kept = inherited.into_iter().all(|file| libc::fcntl(file, libc::F_SETFD, 0) == 0);
            if kept { Ok(()) } else { Err(io::Error::last_os_error()) }
        })
    };
    let child = command.spawn().context("a replay of the job")?;
    Ok(Spawned { child, said })
}

/// What a replay is told before it begins, as a file; and both ends of its socket.
fn begun(part: &Part) -> Result<(File, OwnedFd, OwnedFd)> {
    let mut told = tempfile::tempfile().context("a temporary file")?;
    told.write_all(&serde_json::to_vec(part)?).context("a temporary file")?;
    let (socket, other) = protocol::pair().context("a pair of sockets")?;
    Ok((told, socket, other))
}

impl Running {
    pub(super) fn start(request: &ReplayRequest, process: &Process, part: &Part, times: &File) -> Result<Running> {
        let (told, socket, other) = begun(part)?;
        let inherited = [other.as_raw_fd(), told.as_raw_fd(), times.as_raw_fd()];
        let Spawned { child, said } = spawn(request, &process.path, inherited)?;
        Ok(Running::new(Parent::This(child), socket, said))
    }

    /// Has another process of a launcher's start it.
    pub(super) fn launch(launched: Launched, part: &Part, times: &File) -> Result<Running> {
        let (told, socket, other) = begun(part)?;
        let said = launched.begin([other, told.into(), times.try_clone()?.into()])?;
        Ok(Running::new(Parent::Launched(launched), socket, said))
    }

    fn new(parent: Parent, socket: OwnedFd, said: File) -> Running {
        Running { parent, socket: Some(socket), said, summary: None, status: None, killed: None }
    }

    /// Reads the summary that came with the message.
    pub(super) fn finish(&mut self, files: Vec<OwnedFd>) {
        let file = files.into_iter().next().map(File::from);
        self.summary = file.and_then(|file| serde_json::from_slice(&contents(&file)).ok());
    }

    pub(super) fn is_running(&self) -> bool {
        self.socket.is_some()
    }

    /// None: it has ended.
    pub(super) fn receive(&self) -> io::Result<Option<(FromReplay, Vec<OwnedFd>)>> {
        self.socket.as_ref().map_or(Ok(None), protocol::receive)
    }

    pub(super) fn send(&self, message: &ToReplay, files: &[OwnedFd]) -> io::Result<()> {
        self.socket.as_ref().map_or(Ok(()), |socket| protocol::send(socket, message, files))
    }

    /// Ends it, if it has not ended.
    pub(super) fn kill(&mut self, why: String) {
        if self.is_running() && self.killed.is_none() {
            self.killed = Some(why);
            // One that has ended meanwhile is told apart by its status.
            let _ended = match &mut self.parent {
                Parent::This(child) => child.kill(),
                Parent::Launched(launched) => launched.end(),
            };
        }
    }

    pub(super) fn wait(&mut self) -> Result<()> {
        self.socket = None;
        self.status = match &mut self.parent {
            Parent::This(child) => Some(child.wait().context("a replay of the job")?),
            Parent::Launched(launched) => launched.wait(),
        };
        if self.status.is_none() {
            self.killed.get_or_insert_with(|| SILENT.into());
        }
        Ok(())
    }

    /// Whether it has ended, and differed.
    pub(super) fn has_diverged(&self) -> bool {
        self.status.and_then(|status| status.code()) == Some(exit::DIVERGED.into())
    }

    /// Why it has not come to its end, if it has ended so by itself.
    pub(super) fn failed(&self) -> Option<String> {
        let status = self.status.filter(|_| self.killed.is_none())?;
        let is_end =
            |code: i32| [exit::DONE, exit::DIVERGED, exit::UNVERIFIED].iter().any(|end| i32::from(*end) == code);
        if status.code().is_some_and(is_end) {
            return None;
        }
        let signal = || status.signal().map(|signal| format!("signal {signal}"));
        let first = match &self.summary {
            Some(ReplaySummary::Planned(planned)) if planned.verdict == Verdict::No => planned.reasons.first(),
            _ => None,
        };
        let reason = first.map(|first| format!("{NOT_REPLAYABLE}: {first}"));
        Some(reason.or_else(|| self.last_said()).or_else(signal).unwrap_or_else(|| "no message".into()))
    }

    /// The last line that it wrote on stderr.
    pub(super) fn last_said(&self) -> Option<String> {
        self.said().pop()
    }

    /// The last lines that it wrote there.
    fn said(&self) -> Vec<String> {
        const MOST: usize = 5;
        let text = contents(&self.said);
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.trim().lines().collect();
        let last = lines.iter().skip(lines.len().saturating_sub(MOST));
        last.map(|line| line.trim_start_matches("cutrace: ").to_owned()).collect()
    }

    pub(super) fn outcome(&mut self, shares: bool) -> ProcessOutcome {
        let failed = self.killed.clone().or_else(|| self.failed());
        let code = self.status.and_then(|status| status.code());
        let status = code.and_then(|code| u8::try_from(code).ok()).filter(|_| self.killed.is_none());
        let (summary, said) = (self.summary.take().filter(|_| failed.is_none()), self.said());
        let was_ended = self.killed.is_some();
        ProcessOutcome { status: status.unwrap_or(exit::FAILED), summary, failed, was_ended, shares, said }
    }
}

/// At their places: whoever writes it goes on where it was.
fn contents(file: &File) -> Vec<u8> {
    let mut bytes = vec![0; file.metadata().map_or(0, |about| about.len() as usize)];
    // What cannot be read is no message.
    let read = file.read_exact_at(&mut bytes, 0);
    if read.is_ok() { bytes } else { Vec::new() }
}

/// Those of which something is to be received, or that have ended. Waits so long for it.
pub(super) fn ready(all: &[Running], limit: Duration) -> Result<Vec<usize>> {
    let open: Vec<(usize, &OwnedFd)> =
        all.iter().enumerate().filter_map(|(n, running)| Some((n, running.socket.as_ref()?))).collect();
    let sockets: Vec<RawFd> = open.iter().map(|(_, socket)| socket.as_raw_fd()).collect();
    Ok(protocol::ready(&sockets, limit)?.into_iter().map(|at| open[at].0).collect())
}
