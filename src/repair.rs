//! `cutrace repair`: closes a trace that nobody closed.

use crate::figures::{counted, grouped, size};
use crate::output::Output;
use crate::results::Results;
use crate::{exit, signals, verdict};
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::io::Write;
use std::path::PathBuf;
use trace::call::{Content, Image};
use trace::finish::{self, Finished, finish};
use trace::preamble::Data;
use trace::text::plain;
use trace::{Trace, pack};

/// Close a trace: checksums for what was left open, and the index at its end
///
/// A trace that `cutrace record` did not close (bare LD_PRELOAD, a crash of the launcher) can be read as it
/// is; closing it makes opening faster and damage visible. Damaged pieces are left out of the index and
/// listed among the losses. The trace is replaced, once its repaired copy is whole. One that is closed and
/// whole is left alone. What is left of a damaged packed trace is written unpacked.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  cutrace repair trace.bin               in place
  cutrace repair damaged.bin -o good.bin

Exit status:
  0 closed, and nothing is missing
  1 OUT exists or cannot be written, or a process still writes the trace
  2 usage
  3 closed, but something of it was damaged and is lost; or no trace at all")]
pub struct Arguments {
    /// The trace
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Write the repaired trace to this new file and leave FILE as it is
    #[arg(short, long, value_name = "OUT")]
    output: Option<PathBuf>,
    /// Replace OUT if it exists
    #[arg(long, requires = "output")]
    force: bool,
    /// As JSON
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
const MISSING: &str = "pieces of data of these calls, not in the file";

pub fn run(arguments: Arguments) -> Result<u8> {
    let mut trace = Trace::open(&arguments.file)?;
    trace.check_blobs();
    let output = output(&arguments, &trace)?;
    let mut original = None;
    if let Some(output) = &output {
        copy(&arguments, &trace, output)?;
        original = Some(std::mem::replace(&mut trace, Trace::open(output.partial())?));
        trace.check_blobs();
    }
    let done = finish(&trace, verdict::in_words)?;
    if let Some(output) = output {
        output.finish()?;
    }
    if let Some(replaced) = original.filter(|_| arguments.output.is_none()) {
        replaced.release_memory();
    }
    // Damage stands among the losses of a footer, so that it is still known the next time.
    let missing = missing(&trace);
    let is_whole = missing == 0 && !done.losses.iter().any(|(what, _)| what.starts_with("at offset "));
    let mut out = Results::begin();
    let name = arguments.output.as_ref().unwrap_or(&arguments.file).display().to_string();
    if arguments.json {
        serde_json::to_writer_pretty(&mut out, &object(&name, &done, missing))?;
        writeln!(out)?;
    } else if done.written {
        tell_closed(&mut out, &trace, &name, &done, missing)?;
    } else {
        tell_left_alone(&mut out, &name, &done, missing, is_whole)?;
    }
    Ok(if is_whole { exit::DONE } else { exit::UNREADABLE })
}

/// Where the repaired trace goes; none for one that is closed and whole, which stays as it is.
fn output(arguments: &Arguments, trace: &Trace) -> Result<Option<Output>> {
    Ok(match &arguments.output {
        Some(path) => Some(Output::create("-o", path, arguments.force, &arguments.file)?),
        None if finish::is_whole(trace) => None,
        None => {
            finish::not_in_use(trace)?;
            Some(Output::replacing(&arguments.file)?)
        }
    })
}

/// Writes what there is of the trace; an interruption from here on leaves nothing behind.
fn copy(arguments: &Arguments, trace: &Trace, output: &Output) -> Result<()> {
    let partial = output.partial().to_path_buf();
    signals::on_interruption(move |signal| {
        let _gone_already = std::fs::remove_file(&partial);
        exit::say(format_args!("interrupted by {signal}; nothing was written"));
    });
    let mut from = std::fs::File::open(&arguments.file).context(arguments.file.display().to_string())?;
    // What is missing of a packed trace is left out of a plain one.
    let copied = match trace.is_packed() && !finish::is_whole(trace) {
        true => pack::unpack(trace, output.file()),
        false => std::io::copy(&mut from, &mut output.file()),
    };
    copied.with_context(|| output.path().display().to_string())?;
    Ok(())
}

fn object(name: &str, done: &Finished, missing: u64) -> Value {
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

fn tell_left_alone(out: &mut Results, name: &str, done: &Finished, missing: u64, is_whole: bool) -> Result<()> {
    let (name, calls, bytes) = (plain(name), counted(done.calls, "call"), size(done.bytes));
    let whole = if is_whole { " and whole" } else { ", not whole" };
    writeln!(out, "{name}: closed{whole}: {calls}, {} segments, {bytes}", done.segments)?;
    for (what, count) in done.losses.iter().filter(|(what, _)| what.starts_with("at offset ")) {
        tell_lost(out, what, *count)?;
    }
    tell_lost(out, MISSING, missing)
}

fn tell_closed(out: &mut Results, trace: &Trace, name: &str, done: &Finished, missing: u64) -> Result<()> {
    let (name, calls, bytes) = (plain(name), counted(done.calls, "call"), size(done.bytes));
    writeln!(out, "{name}: {calls}, {} segments ({} sealed now), {bytes}; footer written", done.segments, done.sealed)?;
    for damage in &trace.damage {
        let at = format!("at offset {}: {}", damage.offset, damage.what);
        let mended = if done.losses.iter().any(|(what, _)| *what == at) { "" } else { "; mended" };
        writeln!(out, "damage: {}{mended}", plain(&at))?;
    }
    for (what, count) in &trace.losses {
        tell_lost(out, what, *count)?;
    }
    tell_lost(out, MISSING, missing)?;
    writeln!(out, "verdict: {}", done.verdict)?;
    Ok(())
}

fn tell_lost(out: &mut Results, what: &str, count: u64) -> Result<()> {
    if count != 0 {
        writeln!(out, "lost: {} ({})", plain(what), grouped(count))?;
    }
    Ok(())
}
