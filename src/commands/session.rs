//! The end of a recording: closes the traces of all its processes and summarises the recording in one line.

mod announcements;
mod of_job;

use crate::commands::info::footer_summary;
use crate::commands::pack;
use crate::files::output::is_left;
use crate::terminal::exit::{self, say};
use crate::verdict::describe;
use analysis::job::begins_as_one;
use analysis::text::figures::{counted, grouped, size};
use announcements::Facts;
use of_job::OfJob;
use std::collections::{HashMap, HashSet};
use std::env;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;
use trace::api::effect::Effect;
use trace::api::roles::Class;
use trace::base::announcements::{Announcements, unescape};
use trace::file::preamble::{Data, Preamble};
use trace::file::record::no_replay_needs;
use trace::file::record::{self, Ended, Printed, with_body};
use trace::file::shared_memory;
use trace::read::annotation::{Range, Wanted};
use trace::show::text::plain;
use trace::write::finish::{self, Finished, finish_with};
use trace::{Call, Trace};

/// The recording and its options.
pub(crate) struct Asked<'a> {
    /// The file in which each process has announced its trace, a line each: its id, a space, the path.
    pub session: &'a Path,
    /// What they have said of themselves; where there is no memory for that, why.
    pub announcements: &'a io::Result<Announcements>,
    pub program: &'a OsStr,
    /// The default name, if it was taken.
    pub existing: Option<&'a Path>,
    /// Where all traces are, if that is one directory.
    pub directory: Option<PathBuf>,
    /// What was to be recorded alone.
    pub range: Option<&'a str>,
    /// In seconds.
    pub delay: Option<f64>,
    pub paused: bool,
    /// Whether traces are packed when they are closed.
    pub pack: bool,
    /// What went to standard output, if that is known.
    pub printed: Option<Printed>,
    /// The process that was started, how it ended, and when, in nanoseconds of CLOCK_MONOTONIC_RAW.
    pub pid: u32,
    pub ended: Ended,
    pub ended_at: u64,
    /// The directory of a job, and how and when other processes of it ended.
    pub job: Option<&'a Path>,
    /// The directory that could have been named where one file was.
    pub instead: Option<String>,
    pub others: HashMap<u32, (Ended, u64)>,
}

/// What could not be made, and where.
pub(crate) fn temporary(what: &str) -> String {
    format!("a temporary {what} in {} (set TMPDIR to use another directory)", env::temp_dir().display())
}

const PREFIX: &str = "cutrace-";
/// A file for what the processes of this recording announce, locked as long as this process lives.
pub(crate) fn begin() -> io::Result<NamedTempFile> {
    let session = tempfile::Builder::new().prefix(PREFIX).tempfile()?;
    // Where there are no locks, one that is left stays.
    let _unsupported = session.as_file().try_lock();
    Ok(session)
}

/// Removes what a `record` has left that was killed. Processes that it had started then close their traces
/// themselves.
pub(crate) fn remove_left() {
    let entries = std::fs::read_dir(env::temp_dir()).into_iter().flatten().flatten();
    for path in entries.map(|entry| entry.path()) {
        let name = path.file_name().and_then(OsStr::to_str).and_then(|name| name.strip_prefix(PREFIX));
        let is_one = name.is_some_and(|rest| rest.len() == 6 && rest.bytes().all(|byte| byte.is_ascii_alphanumeric()));
        if is_one && is_left(&path) {
            let _gone_already = std::fs::remove_file(&path);
        }
    }
}

/// How many processes could have no trace.
pub(crate) fn close(asked: &Asked) -> u64 {
    let Asked { session, range, delay, paused, .. } = *asked;
    let printed = asked.printed.as_ref().map(|printed| with_body(record::PRINTED, printed)).unwrap_or_default();
    let announced = std::fs::read(session).unwrap_or_default();
    let mut closed: Vec<(String, Finished)> = Vec::new();
    let (mut open, mut empty) = (Vec::new(), Vec::new());
    // A process that could not create its trace has said why, and announces no path.
    let lines = announced.split(|byte| *byte == b'\n');
    let mut untraced = lines.filter(|line| !line.is_empty() && announced_path(line).is_none()).count() as u64;
    let facts = Facts::of(asked.announcements, &announced.split(|byte| *byte == b'\n').filter_map(process).collect());
    untraced += facts.refused.len() as u64;
    let mut paths: Vec<PathBuf> = announced.split(|byte| *byte == b'\n').filter_map(announced_path).collect();
    paths.extend(facts.paths.iter().cloned());
    let mut seen = HashSet::new();
    paths.retain(|path| seen.insert(path.clone()));
    let more = asked.directory.as_ref().map_or(Vec::new(), |directory| unannounced(directory, session));
    let more: Vec<PathBuf> = more.into_iter().filter(|path| !paths.contains(path)).collect();
    let mut renamed = more.len();
    paths.extend(more);
    for path in &facts.elsewhere {
        // What has another name beside it names this session.
        untraced += u64::from(renamed == 0);
        renamed = renamed.saturating_sub(1);
        say_elsewhere(path);
    }
    let ended_by = ended_by(asked, &paths);
    for path in paths {
        let name = relative(&path);
        let finish = |trace: Trace| {
            let why = (paused && never_switched_on(&trace)).then(|| "cutrace on was not called".into());
            let why = why.or_else(|| never_opened(&trace, range?));
            let why = why.or_else(|| ended_before(&trace, delay?));
            // That of a program that still runs may begin yet.
            // Nothing of the program's own without being asked for: not even what its lines are like.
            let printed = if trace.preamble.data == Data::None { &[] } else { &printed[..] };
            let ended = ended_by.get(&trace.path).map(|ended| with_body(record::ENDED, ended));
            let records = [printed, &ended.unwrap_or_default()].concat();
            let judge = |trace: &Trace| footer_summary::judge(trace, ended_by.get(&trace.path).copied());
            let finished = finish_with(&trace, &records, judge).inspect(|_| empty.push(why))?;
            // A process that was killed may have had memory that its trace did not name yet.
            if let Ok(about) = std::fs::metadata(&trace.path) {
                shared_memory::remove_left((about.dev(), about.ino()));
            }
            Ok(finished)
        };
        match Trace::open(&path).map_err(anyhow::Error::from).map(finish) {
            Ok(Ok(mut finished)) => {
                if asked.pack {
                    match pack::in_place(&path) {
                        Ok(bytes) => finished.bytes = bytes,
                        Err(error) => say(format_args!("{name}: not packed: {}", exit::in_full(&error))),
                    }
                }
                closed.push((name, finished));
            }
            Ok(Err(finish::Error::InUse { pid, .. })) => open.push(format!("{name} (process {pid})")),
            Ok(Err(finish::Error::Io { source, .. })) => say(format_args!("{name}: not closed: {source}")),
            Ok(Err(error @ (finish::Error::Replaced { .. } | finish::Error::Packed { .. }))) => {
                untraced += 1;
                say(error);
            }
            Err(_) if !path.exists() => {
                // What has another name beside it names this session.
                untraced += u64::from(renamed == 0);
                renamed = renamed.saturating_sub(1);
                say_elsewhere(&path);
            }
            Err(error) => say(format_args!("{name} was recorded, but not closed: {}", exit::in_full(&error))),
        }
    }
    if !closed.is_empty() || !open.is_empty() {
        say_recorded(asked, &mut closed, &open, empty, &facts);
    } else if announced.is_empty() {
        facts.say_nothing_recorded(asked, running(asked.session));
    }
    untraced
}

/// `empty`: why the range of each closed trace never began, where it did not.
fn say_recorded(
    asked: &Asked,
    closed: &mut [(String, Finished)],
    open: &[String],
    empty: Vec<Option<String>>,
    facts: &Facts,
) {
    let kept =
        asked.existing.map_or(String::new(), |path| format!("; {} existed already and was kept", relative(path)));
    let ended = asked.ended;
    let how = if ended.is_success() { String::new() } else { format!("; the program ended: {ended}") };
    let mut job = asked.job.map(|directory| OfJob::of(directory, asked));
    job.iter_mut().for_each(|job| job.judge(closed));
    let others = job.as_ref().map_or("", |job| &job.failed);
    let instead = asked.instead.as_ref().filter(|_| closed.len() + open.len() > 1);
    let instead =
        instead.map_or(String::new(), |name| format!("; record with -o {name} to put all into one directory"));
    let mut inside = match facts.inside {
        0 => String::new(),
        n => format!("; {} ended inside its first driver call, without a trace", counted(n, "process")),
    };
    if let Some(why) = facts.refused.first() {
        let processes = counted(facts.refused.len() as u64, "process");
        inside += &format!("; {processes} with driver calls but without a trace: {why}");
    }
    if facts.unclear > 0 {
        inside += &format!("; unknown whether {} more was recorded", counted(facts.unclear, "process"));
    }
    say(closing_line(closed, open, job.as_ref()) + &how + others + &inside + &kept + &instead);
    // Of several processes one may be the launcher of the others.
    if let Some(why) = empty.into_iter().collect::<Option<Vec<_>>>().and_then(|all| all.into_iter().next()) {
        say(format_args!("no device work was recorded, as the range never began: {why}"));
    }
}

/// How the processes of these traces ended, as far as it is known. One that has become other programs ended
/// with the last.
fn ended_by(asked: &Asked, paths: &[PathBuf]) -> HashMap<PathBuf, (Ended, u64)> {
    let mut ended = asked.others.clone();
    ended.insert(asked.pid, (asked.ended, asked.ended_at));
    let mut last: HashMap<u32, (u64, &PathBuf)> = HashMap::new();
    for path in paths {
        let Ok(Preamble { pid, created, .. }) = Trace::preamble_of(path) else { continue };
        if last.get(&pid).is_none_or(|(before, _)| *before < created) {
            last.insert(pid, (created, path));
        }
    }
    last.into_iter().filter_map(|(pid, (_, path))| Some((path.clone(), *ended.get(&pid)?))).collect()
}

/// Why the range began too late for every call.
fn ended_before(trace: &Trace, delay: f64) -> Option<String> {
    let last = trace.len().checked_sub(1).and_then(|last| trace.call(last as u64));
    let is_within =
        last.is_none_or(|last| ((trace.nanoseconds(last.begin) - trace.first_clock()) as f64) < delay * 1e9);
    is_within.then(|| format!("no driver call was later than {delay} s after the first"))
}

fn never_switched_on(trace: &Trace) -> bool {
    trace.calls_left_out() > 0 && !trace.switched.iter().any(|switched| switched.is_on)
}

/// Whether all work was left out.
fn has_no_work(trace: &Trace) -> bool {
    let works = |call: Call| call.function().is_some_and(|f| matches!(f.class, Class::launch | Class::submit));
    trace.works_left_out() > 0 && !trace.calls().any(works)
}

/// Why the range that was asked for is empty, if the trace tells.
fn never_opened(trace: &Trace, range: &str) -> Option<String> {
    const NAMED: usize = 8;
    let Some(wanted) = range.strip_prefix("nvtx:").and_then(Wanted::parse) else {
        if range == "signals" {
            return has_no_work(trace).then(|| "SIGUSR1 was not received".into());
        }
        let begins = Effect::ProfilerRange { begins: true };
        let is_it = |call: Call| call.function().is_some_and(|function| function.effect == begins);
        return (range == "profiler" && !trace.calls().any(is_it)).then(|| "cuProfilerStart was not called".into());
    };
    let mut names: Vec<String> = Vec::new();
    for Range { opened, .. } in trace.annotated_ranges() {
        if wanted.covers(&opened) {
            return None;
        }
        let name = opened.wanted().to_string();
        if !names.contains(&name) && names.len() <= NAMED {
            names.push(name);
        }
    }
    let more = if names.len() > NAMED { ", ..." } else { "" };
    names.truncate(NAMED);
    let there = match names.is_empty() {
        true => "the program has none".into(),
        false => format!("it has {}{more}", plain(&names.join(", "))),
    };
    Some(format!("no NVTX range is {}; {there}", &range["nvtx:".len()..]))
}

/// Traces that name this session as theirs: a program that has given up its rights may not announce any. By
/// name.
fn unannounced(directory: &Path, session: &Path) -> Vec<PathBuf> {
    let began = std::fs::metadata(session).and_then(|found| found.created().or_else(|_| found.modified())).ok();
    let session = session.to_string_lossy();
    let is_ours = |path: &PathBuf| {
        let is_new = std::fs::metadata(path).is_ok_and(|found| found.is_file() && found.modified().ok() >= began);
        let names_us = |(name, value): &(String, String)| name == "CUTRACE_SESSION" && *value == session;
        is_new
            && begins_as_one(path)
            && Trace::preamble_of(path).is_ok_and(|preamble| preamble.environment.iter().any(names_us))
    };
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(is_ours).collect();
    found.sort();
    found
}

/// A trace that is not where its process made it, as far as this process sees.
fn say_elsewhere(path: &Path) {
    let name = relative(path);
    if path.symlink_metadata().is_ok() {
        say(format_args!("{name}: not the trace, which was replaced or has another root directory"));
    } else {
        say(format_args!("{name}: was removed or renamed while recording"));
    }
}

fn process(line: &[u8]) -> Option<u32> {
    let space = line.iter().position(|byte| *byte == b' ')?;
    std::str::from_utf8(&line[..space]).ok()?.parse().ok()
}

fn announced_path(line: &[u8]) -> Option<PathBuf> {
    let space = line.iter().position(|byte| *byte == b' ')?;
    let path = unescape(&line[space + 1..]);
    (!path.is_empty()).then(|| OsString::from_vec(path).into())
}

/// Processes that were started in this recording and have not ended: its session is in their environment,
/// whoever their parent is by now.
fn running(session: &Path) -> u64 {
    let mark = [b"CUTRACE_SESSION=", session.as_os_str().as_bytes()].concat();
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    // A zombie has no environment any more, and that of other users' processes cannot be read.
    let environments = processes.filter_map(|process| std::fs::read(process.path().join("environ")).ok());
    environments.filter(|all| all.split(|byte| *byte == 0).any(|variable| variable == mark)).count() as u64
}

fn closing_line(closed: &[(String, Finished)], open: &[String], job: Option<&OfJob>) -> String {
    const NAMED: usize = 5;
    let mut line = String::new();
    if !closed.is_empty() {
        let mut names: Vec<&str> = closed.iter().take(NAMED).map(|(name, _)| name.as_str()).collect();
        let more = format!("and {} more", closed.len().saturating_sub(NAMED));
        if closed.len() > NAMED {
            names.push(&more);
        }
        let processes = if closed.len() == 1 { String::new() } else { format!("{} processes: ", closed.len()) };
        let calls: u64 = closed.iter().map(|(_, f)| f.calls).sum();
        let bytes: u64 = closed.iter().map(|(_, f)| f.bytes).sum();
        let whose = job.map_or("", |job| &job.whose);
        let (calls, bytes, verdicts) = (counted(calls, "call"), size(bytes), verdicts(closed, whose));
        let whose = match job {
            Some(OfJob { name, silent, .. }) => {
                let recorded = counted(closed.len() as u64, "process");
                let silent = match silent {
                    0 => String::new(),
                    n => format!(", {} recorded no driver call", grouped(*n)),
                };
                format!("{name}: {recorded} recorded{silent}")
            }
            None => format!("{processes}{}", names.join(", ")),
        };
        line = format!("{whose}: {calls}, {bytes}, {verdicts}");
        // What no replay needs, info notes.
        let matters = |(what, _): &&(String, u64)| !no_replay_needs(what);
        let lost: u64 = closed
            .iter()
            .flat_map(|(_, f)| &f.losses)
            .filter(matters)
            .fold(0, |all, (_, count)| all.saturating_add(*count));
        if lost != 0 {
            let losses = if lost == 1 { "loss" } else { "losses" };
            line += &format!(", {} {losses} (see cutrace info)", grouped(lost));
        }
    }
    if !open.is_empty() {
        let separator = if line.is_empty() { "" } else { "; " };
        line += &format!("{separator}still running (close later with cutrace repair): {}", open.join(", "));
    }
    line
}

/// How many traces have which verdict, and why the first of the worst has it.
fn verdicts(closed: &[(String, Finished)], whose: &str) -> String {
    const KINDS: [&str; 4] = ["", "replayable", "partly", "no"];
    let kind = |finished: &Finished| KINDS.iter().position(|kind| *kind == finished.verdict).unwrap_or(KINDS.len() - 1);
    let described = KINDS.map(|kind| match kind {
        "" => "not judged yet (long trace: see cutrace info)",
        kind => describe(kind),
    });
    let mut counts = [0u64; KINDS.len()];
    closed.iter().for_each(|(_, finished)| counts[kind(finished)] += 1);
    let of_kind = |(count, name): (u64, &str)| match (count, closed.len()) {
        (0, _) => None,
        (_, 1) => Some(name.to_string()),
        (count, all) if count == all as u64 => Some(format!("all {name}")),
        (count, _) => Some(format!("{} {name}", grouped(count))),
    };
    let mut text = counts.into_iter().zip(described).filter_map(of_kind).collect::<Vec<_>>().join(", ");
    text += whose;
    let worst = counts.iter().rposition(|count| *count != 0).unwrap_or(0);
    let first = closed.iter().find(|(_, finished)| kind(finished) == worst);
    if let Some((name, Finished { reasons, .. })) = first {
        let whose = if closed.len() == 1 { String::new() } else { format!("{name}: ") };
        text += &reasons.first().map_or(String::new(), |reason| format!(" ({whose}{reason})"));
    }
    text
}

fn relative(path: &Path) -> String {
    let here = env::current_dir().ok();
    let short = here.and_then(|here| path.strip_prefix(here).ok().map(Path::to_path_buf));
    short.unwrap_or_else(|| path.to_path_buf()).display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn closed(verdicts: &[&str]) -> Vec<(String, Finished)> {
        let finished = |verdict: &str| Finished {
            calls: 10,
            bytes: 1000,
            segments: 1,
            sealed: 0,
            written: true,
            losses: Vec::new(),
            verdict: verdict.into(),
            reasons: if ["", "replayable"].contains(&verdict) { Vec::new() } else { vec![format!("why {verdict}")] },
        };
        verdicts.iter().enumerate().map(|(n, verdict)| (format!("{n}.bin"), finished(verdict))).collect()
    }

    #[test]
    fn the_closing_line_counts_losses_that_matter() {
        let mut all = closed(&["replayable"]);
        all[0].1.losses = vec![("payloads of annotations of a type unknown to this cutrace".into(), 404)];
        assert_eq!(closing_line(&all, &[], None), "0.bin: 10 calls, 1.0 kB, replayable");
        all[0].1.losses.push(("memory that could not be read".into(), 1));
        assert_eq!(closing_line(&all, &[], None), "0.bin: 10 calls, 1.0 kB, replayable, 1 loss (see cutrace info)");
    }

    #[test]
    fn the_closing_line_has_a_verdict_for_each_kind() {
        let of = |verdicts: &[&str]| closing_line(&closed(verdicts), &[], None);
        assert_eq!(of(&["replayable"]), "0.bin: 10 calls, 1.0 kB, replayable");
        assert_eq!(of(&["no"]), "0.bin: 10 calls, 1.0 kB, not replayable (why no)");
        assert_eq!(of(&[""]), "0.bin: 10 calls, 1.0 kB, not judged yet (long trace: see cutrace info)");
        assert_eq!(of(&["replayable", "replayable"]), "2 processes: 0.bin, 1.bin: 20 calls, 2.0 kB, all replayable");
        assert_eq!(
            of(&["no", "partly", "no"]),
            "3 processes: 0.bin, 1.bin, 2.bin: 30 calls, 3.0 kB, \
             1 partly replayable, 2 not replayable (0.bin: why no)"
        );
    }
}
