//! `cutrace export`: a trace in the formats of other tools.

mod device;
mod directories;
mod event;
mod field;
mod jsonl;
mod nsys;
mod nvtx;
mod parquet;
mod perfetto;
mod placed;
mod proto;
mod sink;
mod sqlite;
mod track;
mod walk;

use crate::exit;
use crate::figures::{counted, size};
use crate::latest::Files;
use crate::output::Output;
use crate::reading::Reading;
use crate::results::Results;
use anyhow::{Context, Result};
use directories::Directories;
use jsonl::Jsonl;
use nsys::Nsys;
use parquet::Parquet;
use perfetto::Perfetto;
use serde_json::json;
use sink::Sink;
use sqlite::Sqlite;
use std::io::Write;
use std::path::{Path, PathBuf};
use trace::Trace;
use viewer::kernel_name::{Names, Style};
use walk::{Needs, walk};

/// Write a trace in a format of other tools
///
/// perfetto is for ui.perfetto.dev and trace_processor: a track for each thread, a slice for each call with
/// its arguments; of a trace with device times (replay --profile, record --gpu-times) a track for each
/// stream, and flows from calls to what the device did for them. jsonl is one JSON object a line for each
/// call, as cutrace dump --json prints them. sqlite is a database with the tables, columns and labels of
/// Nsight Systems' exports (schema 3.16), for scripts and tools that read those; what is not known is NULL,
/// and a trace without device times has no tables of kernels, copies and fills. parquet is the same tables,
/// one file each, in OUT/host=HOST/rank=RANK/pid=PID: of one trace or many, which DuckDB, Polars and others
/// read as one table. docs/exports.md tells more.
///
/// What is held in memory grows slowly with the trace. The file is written under a temporary name and gets its own when it
/// is whole; like a trace it holds the application's data, and only its owner may read it. --grep is matched
/// against function names and, for launches, "FUNCTION KERNEL", with the kernel's name as recorded or as
/// shown.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  cutrace export --to perfetto -o app.pftrace           trace.bin, for ui.perfetto.dev
  cutrace export app.bin --to perfetto --no-args -o app.pftrace
                                                        without arguments: smaller, faster
  cutrace export timed.bin --to sqlite -o timed.sqlite  for scripts that read Nsight Systems' exports
  cutrace export run/*.bin --to parquet -o tables/      for DuckDB, Polars and others, all processes as one
  cutrace export --to jsonl -o calls.jsonl --force      replaces calls.jsonl
  cutrace export --to jsonl --grep Memcpy -o - | jq -r .function | sort | uniq -c

Exit status: 0 written, 1 the file exists or cannot be written, 2 usage, 3 the trace cannot be read (or not all of it).")]
pub struct Arguments {
    /// The format
    #[arg(long, value_enum, value_name = "FORMAT")]
    to: Format,
    /// The file to write; - for stdout. The directory, for parquet
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Replace the file if it exists
    #[arg(long)]
    force: bool,
    /// Leave out the arguments of the calls (perfetto)
    #[arg(long)]
    no_args: bool,
    #[command(flatten)]
    files: Files,
    #[command(flatten)]
    pub reading: Reading,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// For ui.perfetto.dev and trace_processor
    Perfetto,
    /// One JSON object a line
    Jsonl,
    /// A database with the tables of Nsight Systems' exports
    Sqlite,
    /// The same tables as files of Apache Parquet, in a directory for each process
    Parquet,
}

impl Format {
    fn name(self) -> &'static str {
        match self {
            Format::Perfetto => "perfetto",
            Format::Jsonl => "jsonl",
            Format::Sqlite => "sqlite",
            Format::Parquet => "parquet",
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
    arguments.check()?;
    let paths = arguments.files.paths()?;
    let (path, more) = paths.split_first().expect("one at least");
    if !more.is_empty() && *to != Format::Parquet {
        let why = format_args!("{} traces: --to {} takes one at a time, --to parquet more", paths.len(), to.name());
        return Err(exit::failure(exit::USAGE, why));
    }
    let Written { calls, bytes, status } = match to {
        Format::Sqlite => as_sqlite(&arguments, path)?,
        Format::Parquet => as_parquet(&arguments, &paths)?,
        Format::Perfetto | Format::Jsonl => as_stream(&arguments, path)?,
    };
    if reading.json {
        let path = output.display().to_string();
        let told = json!({ "schema": SCHEMA, "output": path, "format": to.name(), "calls": calls, "bytes": bytes });
        writeln!(Results::begin(), "{told}")?;
    } else if !arguments.is_stdout() {
        let said = format!("{}: {}, {}, {}", output.display(), to.name(), counted(calls, "call"), size(bytes));
        writeln!(Results::begin(), "{}", trace::text::plain(&said))?;
    }
    Ok(status)
}

/// What was written, and how the command ends by the damage of the traces.
#[derive(Default)]
struct Written {
    calls: u64,
    bytes: u64,
    status: u8,
}

impl Arguments {
    fn is_stdout(&self) -> bool {
        self.output.as_os_str() == "-"
    }

    /// Flags that contradict each other.
    fn check(&self) -> Result<()> {
        let wrong = if self.no_args && self.to != Format::Perfetto {
            "--no-args is for --to perfetto; the other formats have arguments always, or never"
        } else if self.is_stdout() && self.reading.json {
            "--json tells on stdout what was written: give -o a file"
        } else if self.is_stdout() && self.to == Format::Sqlite {
            "-o -: a database is not written from front to back; give a file"
        } else if self.is_stdout() && self.to == Format::Parquet {
            "-o -: there are several files; give a directory"
        } else {
            return Ok(());
        };
        Err(exit::failure(exit::USAGE, wrong))
    }
}

/// Formats that are written from front to back.
fn as_stream(arguments: &Arguments, path: &Path) -> Result<Written> {
    let Arguments { to, output, reading, .. } = arguments;
    let sink = Sink::create(output, arguments.force, *to == Format::Perfetto, path)?;
    let trace = Trace::open(path)?;
    let mut out = Counted { sink, bytes: 0 };
    // What follows the last call was asked for, too.
    let is_whole = |calls| reading.end() >= trace.len() as u64 && reading.limit.is_none_or(|limit| calls < limit);
    let calls = match to {
        Format::Jsonl => {
            let mut jsonl = Jsonl::new(&trace, reading)?;
            let needs = Needs { arguments: true, model: false };
            let walked = walk(&trace, reading, needs, |event| jsonl.call(&mut out, event))?;
            if is_whole(walked.calls) {
                jsonl.finish(&mut out, &walked.objects)?;
            }
            walked.made
        }
        _ => {
            let needs = Needs { arguments: !arguments.no_args, model: false };
            let mut perfetto = Perfetto::new(&trace, reading, needs.arguments, Names::new(Style::Full))?;
            perfetto.begin(&mut out)?;
            let walked = walk(&trace, reading, needs, |event| perfetto.call(&mut out, event))?;
            perfetto.finish(&mut out, reading.limit == Some(walked.calls))?;
            walked.made
        }
    };
    let Counted { sink, bytes } = out;
    sink.finish()?;
    Ok(Written { calls, bytes, status: exit::damage(&trace, 0) })
}

fn as_sqlite(arguments: &Arguments, path: &Path) -> Result<Written> {
    let output = Output::create("-o", &arguments.output, arguments.force, path)?;
    sink::remove_when_interrupted(output.partial());
    let trace = Trace::open(path)?;
    let shown = || arguments.output.display().to_string();
    let store = Sqlite::create(output.partial()).with_context(shown)?;
    let mut tables = Nsys::new(&trace, store)?;
    let needs = Needs { arguments: false, model: true };
    let walked = walk(&trace, &arguments.reading, needs, |event| tables.call(event))?;
    tables.finish(&arguments.reading)?.finish().with_context(shown)?;
    let bytes = output.file().metadata().with_context(shown)?.len();
    output.finish()?;
    Ok(Written { calls: walked.made, bytes, status: exit::damage(&trace, 0) })
}

/// Each trace in a directory of its own; none has its name before all are whole.
fn as_parquet(arguments: &Arguments, paths: &[PathBuf]) -> Result<Written> {
    let shown = || arguments.output.display().to_string();
    let traces = paths.iter().map(Trace::open).collect::<Result<Vec<_>, _>>()?;
    let mut set = Directories::create(&arguments.output, arguments.force)?;
    let mut all = Written::default();
    for trace in &traces {
        let store = Parquet::new(set.add(parquet::partition(&trace.preamble))?.as_path());
        let mut tables = Nsys::new(trace, store)?;
        let needs = Needs { arguments: false, model: true };
        let walked = walk(trace, &arguments.reading, needs, |event| tables.call(event))?;
        all.bytes += tables.finish(&arguments.reading)?.finish().with_context(shown)?;
        all.calls = all.calls.saturating_add(walked.made);
        all.status = all.status.max(exit::damage(trace, 0));
    }
    set.finish()?;
    Ok(all)
}
