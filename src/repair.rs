//! `cutrace repair`: closes a trace that nobody closed.

use crate::exit::{FAILED, failure};
use crate::figures::{counted, grouped, size};
use crate::{exit, verdict};
use anyhow::{Context, Result};
use std::io::Write;
use std::path::PathBuf;
use trace::Trace;
use trace::finish::finish;
use trace::text::plain;

/// Close a trace: checksums for what was left open, and the index at its end
///
/// A trace that `cutrace record` did not close (bare LD_PRELOAD, a crash of the launcher) can be read as it is; closing
/// it makes opening faster and damage visible. Damaged pieces are left out of the index and listed among the losses. A
/// trace that is closed and whole is left alone.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  cutrace repair trace.bin               in place
  cutrace repair damaged.bin -o good.bin")]
pub struct Arguments {
    /// The trace
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Write the repaired trace to this new file and leave FILE as it is
    #[arg(short, long, value_name = "OUT")]
    output: Option<PathBuf>,
}

pub fn run(arguments: Arguments) -> Result<u8> {
    let mut trace = Trace::open(&arguments.file)?;
    if let Some(output) = &arguments.output {
        let mut from = std::fs::File::open(&arguments.file).context(arguments.file.display().to_string())?;
        let mut to = match std::fs::File::create_new(output) {
            Ok(to) => to,
            Err(error) => return Err(failure(FAILED, format_args!("{}: {error}", output.display()))),
        };
        std::io::copy(&mut from, &mut to).with_context(|| output.display().to_string())?;
        trace = Trace::open(output)?;
    }
    trace.check_blobs();
    let done = finish(&trace, verdict::in_words)?;
    let mut out = std::io::stdout().lock();
    let name = trace.path.display().to_string();
    let name = plain(&name);
    let (calls, bytes) = (counted(done.calls, "call"), size(done.bytes));
    if !done.written {
        writeln!(out, "{name}: closed and whole: {calls}, {} segments, {bytes}", done.segments)?;
        return Ok(exit::DONE);
    }
    writeln!(out, "{name}: {calls}, {} segments ({} sealed now), {bytes}; footer written", done.segments, done.sealed)?;
    for damage in &trace.damage {
        writeln!(out, "damage: at offset {}: {}", damage.offset, plain(&damage.what))?;
    }
    for (what, count) in &trace.losses {
        writeln!(out, "lost: {} ({})", plain(what), grouped(*count))?;
    }
    writeln!(out, "verdict: {}", done.verdict)?;
    Ok(exit::DONE)
}
