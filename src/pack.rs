//! `cutrace pack`: a trace in a tenth of its space, or what such a one stands for.

use crate::exit::{FAILED, failure};
use crate::figures::{counted, size};
use crate::output::Output;
use crate::results::Results;
use crate::{exit, references, signals, verdict};
use anyhow::{Context, Result};
use serde_json::json;
use std::io::Write;
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;
use trace::extend::Extension;
use trace::text::plain;
use trace::{Trace, pack};

/// Compress a trace; every command reads the result as it is
///
/// Calls take a tenth to a thirtieth of their space, data what zstd makes of it. Nothing is left out:
/// --unpack gives back the same file, byte for byte. A trace is packed when it is closed. What a trace only
/// names as part of other files (`record --weights reference`) stays there, unless --weights names them.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  cutrace pack trace.bin -o packed.bin
  cutrace pack --unpack packed.bin -o trace.bin
  cutrace record --pack ./app            packed as soon as the program has ended
  cutrace pack --weights model.gguf trace.bin -o whole.bin
                                         with the data that it only names

Exit status:
  0 written
  1 OUT exists or cannot be written, or FILE is packed already, not packed
    (--unpack) or not closed, or names data that --weights does not
  2 usage
  3 written, but something of the trace is damaged; or no trace at all, or
    a file of --weights has changed")]
pub struct Arguments {
    /// The trace
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Write it to this new file
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,
    /// Write the trace as it was before it was packed
    #[arg(long)]
    unpack: bool,
    /// Make the trace whole: put in the data that it only names, read from this file, or from files below
    /// this directory; more than one may be named
    #[arg(long, value_name = "FILE|DIR", conflicts_with = "unpack")]
    weights: Vec<PathBuf>,
    /// Replace OUT if it exists
    #[arg(long)]
    force: bool,
    /// As JSON
    #[arg(long)]
    pub json: bool,
}

/// Version of the JSON form. Fields may be added within a version.
const SCHEMA: u32 = 1;

pub fn run(arguments: Arguments) -> Result<u8> {
    let mut trace = Trace::open(&arguments.file)?;
    let refuse = |why: &str| Err(failure(FAILED, format_args!("{}: {why}", arguments.file.display())));
    if arguments.unpack && !trace.is_packed() {
        return refuse("it is not packed");
    }
    let makes_whole = !arguments.weights.is_empty();
    if !arguments.unpack && !makes_whole && trace.is_packed() {
        return refuse("it is packed already");
    }
    if !arguments.unpack && trace.footer.is_none() {
        return refuse("it is not closed: cutrace repair closes it, if no process still writes it");
    }
    if makes_whole {
        references::follow(&mut trace, &arguments.weights)?;
    }
    let output = Output::create("-o", &arguments.output, arguments.force, &arguments.file)?;
    let whole = if makes_whole { Some(output.another()?) } else { None };
    let partial = [Some(output.partial()), whole.as_ref().map(NamedTempFile::path)];
    let partial: Vec<PathBuf> = partial.into_iter().flatten().map(Path::to_path_buf).collect();
    signals::on_interruption(move |signal| {
        for partial in &partial {
            let _gone_already = std::fs::remove_file(partial);
        }
        exit::say(format_args!("interrupted by {signal}; nothing was written"));
    });
    let written = match &whole {
        _ if arguments.unpack => pack::unpack(&trace, output.file()),
        Some(whole) => packed_whole(&trace, whole, output.file()),
        None => pack::pack(&trace, output.file()),
    };
    let bytes = written.with_context(|| arguments.output.display().to_string())?;
    output.finish()?;
    let name = arguments.output.display().to_string();
    let mut out = Results::begin();
    if arguments.json {
        let whole = json!({
            "schema": SCHEMA, "path": name, "calls": trace.calls_made(), "bytes": bytes, "from_bytes": trace.bytes_on_disk(),
        });
        serde_json::to_writer_pretty(&mut out, &whole)?;
        writeln!(out)?;
    } else {
        let (calls, before) = (counted(trace.calls_made(), "call"), size(trace.bytes_on_disk()));
        writeln!(out, "{}: {calls}, {} from {before}", plain(&name), size(bytes))?;
    }
    Ok(exit::damage(&trace, 0))
}

/// Packs a copy of the trace that has what this one only names.
fn packed_whole(trace: &Trace, whole: &NamedTempFile, packed: &std::fs::File) -> std::io::Result<u64> {
    Extension::with_references(trace, whole.as_file().try_clone()?)?.finish(trace, verdict::in_words)?;
    pack::pack(&Trace::open(whole.path()).map_err(std::io::Error::other)?, packed)
}

/// Puts a packed trace into the place of one that was just closed; its size.
pub fn in_place(path: &Path) -> Result<u64> {
    let output = Output::replacing(path)?;
    let bytes = pack::pack(&Trace::open(path)?, output.file()).with_context(|| path.display().to_string())?;
    output.finish()?;
    Ok(bytes)
}
