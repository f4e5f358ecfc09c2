//! `cutrace repair`: closes a trace that was never closed.

use crate::arguments::input::{self, is_there};
use crate::arguments::rank_filter::{self, Among};
use crate::commands::info::footer_summary;
use crate::files::output::Output;
use crate::terminal::exit;
use crate::terminal::exit::{FAILED, USAGE, failure};
use crate::terminal::standard_output::{Results, print_json};
use crate::verdict;
use analysis::text::figures::{counted, grouped, size};
use analysis::text::shell::shell;
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::collections::HashSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use trace::Trace;
use trace::file::preamble::Data;
use trace::read::call::{Content, Image};
use trace::show::text::plain;
use trace::write::finish::{self, Finished, finish};
use trace::write::pack;

/// Close a trace: write its index and missing checksums
///
/// A trace that `cutrace record` did not close (bare LD_PRELOAD, a crash of the launcher) can be read as it
/// is; closing it makes it open faster and shows damage. Damaged parts are removed from the index and listed
/// among the losses. The repaired copy replaces the trace when it is complete. A closed, complete trace is
/// not changed. A damaged packed trace is written unpacked. In a directory each trace is repaired in place:
/// of all recordings, or those of --rank and --recording.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  cutrace repair trace.bin               in place
  cutrace repair damaged.bin -o good.bin
  cutrace repair run/                    each trace of a job, in place
  cutrace repair run/ --rank 0,2         those of two ranks
  cutrace repair run/ --rank 2 -o rank2.bin

Exit status:
  0 closed and complete
  1 OUT exists or cannot be written, or a process is writing the trace, or
    the directory has only a link to it
  2 usage
  3 closed, but a part was damaged and is lost; or a trace is missing, or
    the file is not one
Commands that read a trace with lost parts also end with 3.")]
pub(crate) struct Arguments {
    /// The trace, or a directory of traces
    #[arg(value_name = "FILE|DIR")]
    file: PathBuf,
    #[command(flatten)]
    among: Among,
    /// Write the repaired trace to this new file and do not change FILE
    #[arg(short, long, value_name = "OUT")]
    output: Option<PathBuf>,
    /// Replace OUT if it exists
    #[arg(long, requires = "output")]
    force: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Pieces of data that calls name and the file lacks, as one that was cut off before it was closed.
fn missing(trace: &Trace) -> u64 {
    if trace.preamble.data == Data::None {
        return 0;
    }
    let is_missing = |image: &Image| matches!(image.content, Content::Blob(hash) if trace.lacks(hash));
    trace.calls().map(|call| call.images().filter(is_missing).count() as u64).sum()
}

/// Version of the JSON form. Fields may be added within a version.
const SCHEMA: u32 = 1;
const MISSING: &str = "recorded data that is not in the file";

pub(crate) fn run(arguments: Arguments) -> Result<u8> {
    let mut out = Results::begin();
    is_there(&arguments.file)?;
    let is_all = arguments.among.is_all();
    // With -o it is one that is chosen.
    let (object, status) = match arguments.file.is_dir() && (is_all || arguments.output.is_none()) {
        true => each(&mut out, &arguments)?,
        false => {
            let (path, status) = match is_all {
                true => (arguments.file.clone(), exit::DONE),
                false => input::File::one(&arguments.file, &arguments.among)?,
            };
            let (trace, told) = repaired(&arguments, &path)?;
            if !arguments.json {
                told.tell(&mut out, &trace)?;
                writeln!(out, "verdict: {}", verdict::describe(&told.done.verdict))?;
            }
            (told.object(), told.status().max(status))
        }
    };
    if arguments.json {
        print_json(&object)?;
    }
    Ok(status)
}

/// The traces of a directory, of all its recordings unless some are chosen. One that cannot be repaired does not keep the others
/// from it.
fn each(out: &mut Results, arguments: &Arguments) -> Result<(Value, u8)> {
    let directory = arguments.file.display().to_string();
    if let Some(output) = &arguments.output {
        let why = "the traces of a directory are repaired in place; pass one of them, or choose it with --rank";
        return Err(failure(USAGE, format_args!("-o {}: {why}", output.display())));
    }
    let job = match arguments.among.is_all() {
        true => rank_filter::whole(&arguments.file)?,
        false => arguments.among.of(&arguments.file)?,
    };
    let (mut objects, mut errors, mut status) = (Vec::new(), Vec::new(), rank_filter::status(&job));
    let (mut closed, mut lacking) = (0, 0);
    for path in job.traces() {
        match repaired(arguments, path) {
            Ok((trace, told)) => {
                closed += u64::from(told.done.written);
                lacking += u64::from(!told.is_whole);
                status = status.max(told.status());
                objects.push(told.object());
                if !arguments.json {
                    told.tell(out, &trace)?;
                }
            }
            Err(error) => {
                exit::say(exit::in_full(&error));
                status = status.max(exit::status_of(&error));
                errors.push(exit::in_full(&error));
            }
        }
    }
    if !arguments.json {
        let (name, traces) = (plain(&directory), counted((objects.len() + errors.len()) as u64, "trace"));
        let shell = shell(std::slice::from_ref(&directory));
        let failed = if errors.is_empty() { String::new() } else { format!(", {} not repaired", errors.len()) };
        writeln!(
            out,
            "{name}: {traces}: {closed} newly closed, {lacking} incomplete{failed}; verdict: cutrace info {shell}"
        )?;
    }
    let object = json!({
        "schema": SCHEMA, "directory": directory, "traces": objects, "errors": errors, "warnings": job.warnings,
    });
    Ok((object, status))
}

/// What came of one trace.
struct Repaired {
    name: String,
    done: Finished,
    /// Pieces of data.
    missing: u64,
    is_whole: bool,
}

fn repaired(arguments: &Arguments, path: &Path) -> Result<(Trace, Repaired)> {
    let mut trace = Trace::open(path)?;
    let wrong = trace.wrong_blobs();
    trace.leave_out(&wrong);
    let output = output(arguments, path, &trace)?;
    let mut original = None;
    if let Some(output) = &output {
        copy(path, &trace, output)?;
        // Of a trace with many segments two are much memory.
        if arguments.output.is_none() && trace.has_memory() {
            original = Some(trace);
        } else {
            drop(trace);
        }
        trace = Trace::open(output.partial())?;
        trace.leave_out(&wrong);
    }
    let mut done = finish(&trace, |trace| footer_summary::judge(trace, None))?;
    // A long trace is closed without one.
    if done.verdict.is_empty() {
        (done.verdict, done.reasons) = verdict::in_words(&trace);
    }
    if let Some(output) = output {
        output.finish()?;
    }
    original.iter().for_each(Trace::release_memory);
    // Damage stands among the losses of a footer, so that it is still known the next time.
    let missing = missing(&trace);
    let is_whole = missing == 0 && !done.losses.iter().any(|(what, _)| finish::is_damage(what));
    let name = arguments.output.as_deref().unwrap_or(path).display().to_string();
    Ok((trace, Repaired { name, done, missing, is_whole }))
}

/// Where the repaired trace goes; none for one that is closed and whole, which stays as it is.
fn output(arguments: &Arguments, file: &Path, trace: &Trace) -> Result<Option<Output>> {
    Ok(match &arguments.output {
        Some(path) => Some(Output::create("-o", path, arguments.force, file)?),
        None if finish::is_whole(trace) => None,
        None => {
            if let Some(target) = linked_out_of(&arguments.file, file) {
                let (file, target) = (file.display(), target.display());
                return Err(failure(FAILED, format_args!("{file}: a link to {target}: pass that file to repair it")));
            }
            finish::not_in_use(trace)?;
            Some(Output::replacing(file)?)
        }
    })
}

/// What a link in a directory names elsewhere: who names the directory does not mean that.
fn linked_out_of(directory: &Path, file: &Path) -> Option<PathBuf> {
    let target = file.canonicalize().ok().filter(|_| directory.is_dir())?;
    (!target.starts_with(directory.canonicalize().ok()?)).then_some(target)
}

/// Writes what there is of the trace; an interruption from here on leaves nothing behind.
fn copy(file: &Path, trace: &Trace, output: &Output) -> Result<()> {
    output.remove_when_interrupted();
    let mut from = std::fs::File::open(file).context(file.display().to_string())?;
    // What is missing of a packed trace is left out of a plain one.
    let copied = match trace.is_packed() && !finish::is_whole(trace) {
        true => pack::unpack(trace, output.file()),
        false => std::io::copy(&mut from, &mut output.file()),
    };
    copied.with_context(|| output.path().display().to_string())?;
    Ok(())
}

impl Repaired {
    fn status(&self) -> u8 {
        if self.is_whole { exit::DONE } else { exit::UNREADABLE }
    }

    fn object(&self) -> Value {
        let Repaired { name, done, missing, .. } = self;
        let losses = done.losses.iter().map(|(what, count)| json!({ "what": what, "count": count }));
        json!({
            "schema": SCHEMA,
            "path": name,
            "written": done.written,
            "calls": done.calls,
            "segments": done.segments,
            "sealed": done.sealed,
            "bytes": done.bytes,
            "missing": missing,
            "losses": losses.collect::<Vec<_>>(),
            "verdict": done.verdict,
            "reasons": done.reasons,
        })
    }

    /// What was done with it, and what of it is lost.
    fn tell(&self, out: &mut Results, trace: &Trace) -> Result<()> {
        let Finished { segments, sealed, losses, .. } = &self.done;
        let (name, calls, bytes) = (plain(&self.name), counted(self.done.calls, "call"), size(self.done.bytes));
        if !self.done.written {
            let whole = if self.is_whole { " and complete" } else { ", incomplete" };
            writeln!(out, "{name}: closed{whole}: {calls}, {segments} segments, {bytes}")?;
            for (what, count) in losses.iter().filter(|(what, _)| finish::is_damage(what)) {
                tell_lost(out, what, *count)?;
            }
            return tell_lost(out, MISSING, self.missing);
        }
        writeln!(out, "{name}: {calls}, {segments} segments ({sealed} sealed now), {bytes}; index written")?;
        let lost: HashSet<&str> = losses.iter().map(|(what, _)| what.as_str()).collect();
        for damage in &trace.damage {
            let at = format!("at offset {}: {}", damage.offset, damage.what);
            let mended = if lost.contains(at.as_str()) { "" } else { "; repaired" };
            writeln!(out, "damage: {}{mended}", plain(&at))?;
        }
        for (what, count) in &trace.losses {
            tell_lost(out, what, *count)?;
        }
        tell_lost(out, MISSING, self.missing)
    }
}

fn tell_lost(out: &mut Results, what: &str, count: u64) -> Result<()> {
    if count != 0 {
        writeln!(out, "lost: {} ({})", plain(what), grouped(count))?;
    }
    Ok(())
}
