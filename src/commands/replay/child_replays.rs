//! Further replays of the same trace in child processes, and their results.

use crate::terminal::exit;
use anyhow::{Context, Result, anyhow};
use parking_lot::Mutex;
use replayer::bisection::{self, Entry};
use replayer::{Divergence, Options, Outcome, Report};
use serde::{Deserialize, Serialize};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use std::{env, thread};

/// The process of such a replay.
static UNDER_WAY: Mutex<Option<u32>> = Mutex::new(None);

/// How often it is looked whether it has ended.
const PACE: Duration = Duration::from_millis(10);

/// The trace and the options of a child replay.
pub(super) struct Again<'a> {
    pub file: &'a Path,
    /// As `--weights` names them.
    pub weights: &'a [PathBuf],
    pub options: &'a Options,
    pub alone: bool,
    /// The last launch that is followed, if launches are.
    pub followed: u64,
    /// When a replay that has not ended is given up.
    pub deadline: Option<Instant>,
}

/// The results of one child replay.
pub(super) struct Found {
    /// What every launch made of memory, if that was asked for.
    pub trail: Vec<Entry>,
    /// The first difference from the recording.
    pub first: Option<Divergence>,
}

/// What such a replay writes on standard output, with lines for every launch behind it.
#[derive(Serialize, Deserialize)]
struct Evidence {
    outcome: Outcome,
    first_divergence: Option<Divergence>,
}

/// Writes what an explanation needs of this replay.
pub(super) fn write_evidence(out: &mut impl Write, report: &Report) -> Result<()> {
    let evidence = Evidence { outcome: report.outcome, first_divergence: report.tally.first.clone() };
    writeln!(out, "{}", analysis::text::json::text(&evidence)?)?;
    Ok(out.write_all(bisection::write(&report.trail).as_bytes())?)
}

/// A replay that has exceeded its time limit.
#[derive(Debug)]
pub(super) struct TooLong;

impl std::fmt::Display for TooLong {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.write_str("another replay exceeded its time limit")
    }
}

impl std::error::Error for TooLong {}

/// Ends what is under way, at an interruption.
pub(super) fn interrupt() {
    if let Some(pid) = *UNDER_WAY.lock() {
        // SAFETY: a plain system call; the child has not been waited for while its number stands here.
        unsafe { libc::kill(pid as i32, libc::SIGKILL) };
    }
}

impl Again<'_> {
    /// As the program had it: nothing is waited for.
    pub(super) fn plainly(&self) -> Result<Found> {
        self.run(&[], self.options.tools.fill)
    }

    /// With other contents of memory before the program writes it.
    pub(super) fn filled(&self, fill: u8) -> Result<Found> {
        self.run(&[], Some(fill))
    }

    /// Launches one by one, with what each made of memory.
    pub(super) fn followed(&self) -> Result<Found> {
        self.run(&["--bisect".into(), "--trail-end".into(), self.followed.to_string()], self.options.tools.fill)
    }

    fn run(&self, how: &[String], fill: Option<u8>) -> Result<Found> {
        // Without names: nothing is left behind, however this ends.
        let temporary = || tempfile::tempfile().context("a temporary file");
        let (mut out, mut said) = (temporary()?, temporary()?);
        let program = env::current_exe().context("the path of cutrace")?;
        let mut command = Command::new(program);
        command.arg("replay").args(["--json", "--again"]);
        command.arg("--driver").arg(&self.options.driver).args(self.asked(fill)).args(how);
        command.args(self.weights.iter().flat_map(|weights| [OsStr::new("--weights"), weights.as_os_str()]));
        command.arg("--").arg(self.file);
        // Its layout is its own affair.
        command
            .env_remove(crate::process::layout::TRIES)
            .env_remove(crate::process::layout::REFUSED)
            .stdin(Stdio::null());
        command.stdout(out.try_clone()?).stderr(said.try_clone()?);
        let status = self.wait(&mut command)?;
        let out = contents(&mut out)?;
        let mut values = serde_json::Deserializer::from_slice(&out).into_iter();
        // Of a replay that failed there is JSON, too: of why.
        let evidence = values.next().and_then(Result::<Evidence, _>::ok);
        let Some(evidence) = evidence.filter(|_| has_compared(status.code())) else {
            let said = contents(&mut said)?;
            let said = String::from_utf8_lossy(&said);
            let last = said.trim().lines().last().unwrap_or("no message");
            return Err(anyhow!("another replay failed ({status}): {}", last.trim_start_matches("cutrace: ")));
        };
        let trail =
            str::from_utf8(&out[values.byte_offset()..]).ok().and_then(|text| bisection::read(text.trim_start()));
        let trail = trail.context("the result file of another replay is damaged")?;
        Ok(Found { trail, first: evidence.first_divergence })
    }

    /// What the first replay was asked for, as far as it changes what is found.
    fn asked(&self, fill: Option<u8>) -> Vec<String> {
        let Options { devices, place, tools, .. } = self.options;
        let mut asked = Vec::new();
        if !devices.is_empty() {
            let map: Vec<String> = devices.iter().map(|(recorded, here)| format!("{recorded}={here}")).collect();
            asked.extend(["--device".into(), map.join(",")]);
        }
        asked.extend((!place).then(|| "--no-placement".into()));
        asked.extend(self.alone.then(|| "--alone".into()));
        asked.extend(tools.end.iter().flat_map(|end| ["--until".into(), (end - 1).to_string()]));
        asked.extend(fill.iter().flat_map(|fill| ["--fill".into(), fill.to_string()]));
        if let Some(tolerance) = &tools.tolerance {
            let (relative, absolute) = (tolerance.relative, tolerance.absolute);
            asked.extend(["--verify".into(), format!("{relative:e},{absolute:e},{}", tolerance.float.name())]);
        }
        asked
    }

    fn wait(&self, command: &mut Command) -> Result<ExitStatus> {
        let mut under_way = UNDER_WAY.lock();
        let mut child = command.spawn().context("another replay")?;
        *under_way = Some(child.id());
        drop(under_way);
        loop {
            let mut under_way = UNDER_WAY.lock();
            let is_late = self.deadline.is_some_and(|deadline| Instant::now() > deadline);
            if is_late {
                let _ended_already = child.kill();
            }
            let ended = if is_late { child.wait().map(Some) } else { child.try_wait() };
            if !matches!(ended, Ok(None)) {
                *under_way = None;
                let ended = ended.context("another replay")?;
                return ended.filter(|_| !is_late).ok_or_else(|| TooLong.into());
            }
            drop(under_way);
            thread::sleep(PACE);
        }
    }
}

/// Whether a replay that ended so has compared: a launch that fails as recorded is a failure that has a
/// report.
fn has_compared(status: Option<i32>) -> bool {
    let statuses = [exit::DONE, exit::FAILED, exit::DIVERGED, exit::UNVERIFIED];
    status.is_some_and(|status| statuses.iter().any(|known| i32::from(*known) == status))
}

fn contents(file: &mut File) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.rewind().and_then(|()| file.read_to_end(&mut bytes)).context("the result file of another replay")?;
    Ok(bytes)
}

/// Says on a terminal that the answer takes longer than one replay.
pub(super) fn say_so() {
    if std::io::IsTerminal::is_terminal(&std::io::stderr()) {
        exit::say("it diverged; replaying again to find out why (--no-explain skips this)");
    }
}
