//! `cutrace export`: a trace in the formats of other tools.

mod device;
mod event;
mod field;
mod jsonl;
mod nvtx;
mod perfetto;
mod placed;
mod proto;
mod sink;
mod track;

use crate::exit;
use crate::figures::{counted, size};
use crate::grep::Grep;
use crate::latest::File;
use crate::progress::Progress;
use crate::reading::Reading;
use crate::results::{self, Results};
use anyhow::{Context, Result};
use event::Event;
use jsonl::Jsonl;
use perfetto::Perfetto;
use serde_json::json;
use sink::Sink;
use std::io::Write;
use std::path::PathBuf;
use trace::Trace;
use trace::decode::decode;
use trace::objects::Objects;
use viewer::kernel_name::{Names, Style};

/// Write a trace in a format of other tools
///
/// perfetto is for ui.perfetto.dev and trace_processor: a track for each thread, a slice for each call with
/// its arguments; of a trace with device times (replay --profile, record --gpu-times) a track for each
/// stream, and flows from calls to what the device did for them. jsonl is one JSON object a line for each
/// call, as cutrace dump --json prints them.
///
/// Memory does not grow with the trace. The file is written under a temporary name and gets its own when it
/// is whole; like a trace it holds the application's data, and only its owner may read it. --grep is matched
/// against function names and, for launches, "FUNCTION KERNEL", with the kernel's name as recorded or as
/// shown.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  cutrace export --to perfetto -o app.pftrace           trace.bin, for ui.perfetto.dev
  cutrace export app.bin --to perfetto --no-args -o app.pftrace
                                                        without arguments: smaller, faster
  cutrace export --to jsonl -o calls.jsonl --force      replaces calls.jsonl
  cutrace export --to jsonl --grep Memcpy -o - | jq -r .function | sort | uniq -c

Exit status: 0 written, 1 the file exists or cannot be written, 2 usage, 3 the trace cannot be read (or not all of it).")]
pub struct Arguments {
    /// The format
    #[arg(long, value_enum, value_name = "FORMAT")]
    to: Format,
    /// The file to write; - for stdout
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Replace the file if it exists
    #[arg(long)]
    force: bool,
    /// Leave out the arguments of the calls (perfetto)
    #[arg(long)]
    no_args: bool,
    #[command(flatten)]
    file: File,
    #[command(flatten)]
    pub reading: Reading,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// For ui.perfetto.dev and trace_processor
    Perfetto,
    /// One JSON object a line
    Jsonl,
}

impl Format {
    fn name(self) -> &'static str {
        match self {
            Format::Perfetto => "perfetto",
            Format::Jsonl => "jsonl",
        }
    }
}

/// Version of the JSON form of what is said at the end. Fields may be added within a version.
const SCHEMA: u32 = 1;

/// Counts what goes through.
struct Counted {
    sink: Sink,
    bytes: u64,
}

impl Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let written = self.sink.write(bytes)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.sink.flush()
    }
}

pub fn run(arguments: Arguments) -> Result<u8> {
    let Arguments { to, output, reading, .. } = &arguments;
    if arguments.no_args && *to != Format::Perfetto {
        return Err(exit::failure(
            exit::USAGE,
            "--no-args is for --to perfetto; calls in JSON Lines have their arguments",
        ));
    }
    let is_stdout = output.as_os_str() == "-";
    if is_stdout && reading.json {
        return Err(exit::failure(exit::USAGE, "--json tells on stdout what was written: give -o a file"));
    }
    let path = arguments.file.path()?;
    let sink = Sink::create(output, arguments.force, *to == Format::Perfetto, &path)?;
    let trace = Trace::open(&path)?;
    let mut out = Counted { sink, bytes: 0 };
    // What follows the last call was asked for, too.
    let is_whole = |calls| reading.end() >= trace.len() as u64 && reading.limit.is_none_or(|limit| calls < limit);
    let made = match to {
        Format::Perfetto => {
            let mut perfetto = Perfetto::new(&trace, reading, !arguments.no_args, Names::new(Style::Full))?;
            perfetto.begin(&mut out)?;
            let (calls, made, _) = each(&trace, reading, !arguments.no_args, |event| perfetto.call(&mut out, event))?;
            perfetto.finish(&mut out, reading.limit == Some(calls))?;
            made
        }
        Format::Jsonl => {
            let mut jsonl = Jsonl::new(&trace, reading)?;
            let (calls, made, objects) = each(&trace, reading, true, |event| jsonl.call(&mut out, event))?;
            if is_whole(calls) {
                jsonl.finish(&mut out, &objects)?;
            }
            made
        }
    };
    let Counted { sink, bytes } = out;
    sink.finish()?;
    if reading.json {
        let path = output.display().to_string();
        println_json(&json!({ "schema": SCHEMA, "output": path, "format": to.name(), "calls": made, "bytes": bytes }))?;
    } else if !is_stdout {
        let said = format!("{}: {}, {}, {}", output.display(), to.name(), counted(made, "call"), size(bytes));
        writeln!(Results::begin(), "{}", trace::text::plain(&said))?;
    }
    Ok(exit::damage(&trace, 0))
}

fn println_json(value: &serde_json::Value) -> Result<()> {
    Ok(writeln!(Results::begin(), "{value}")?)
}

/// Hands over the calls that are asked for; how many there were, how many they stand for, and what is alive
/// behind them.
fn each<'t>(
    trace: &'t Trace,
    reading: &Reading,
    arguments: bool,
    mut see: impl FnMut(&Event<'_, 't>) -> Result<()>,
) -> Result<(u64, u64, Objects)> {
    let (wanted, grep) = (reading.selection(trace)?, Grep::new(reading));
    let mut objects = Objects::default();
    let mut progress = Progress::new("writing", (trace.len() as u64).min(reading.end()));
    let (most, mut written, mut made) = (reading.limit.unwrap_or(u64::MAX), 0, 0u64);
    for call in trace.calls().take_while(|call| call.number < reading.end()) {
        progress.advance();
        if written == most || results::are_unread() {
            break;
        }
        let selected = wanted(&call) && grep.matches(&call);
        let decoded = (selected && arguments || objects.concerned(&call)).then(|| decode(&call)).flatten();
        objects.advance(&call, decoded.as_ref());
        if selected {
            written += 1;
            made = made.saturating_add(call.count());
            see(&Event { call, decoded, objects: &objects }).context("writing the export")?;
        }
    }
    Ok((written, made, objects))
}
