//! `cutrace export`: a trace in the formats of other tools.

use crate::arguments::input::Files;
use crate::arguments::reading::Reading;
use crate::files::directories::Set;
use crate::files::output::{Output, are_same};
use crate::files::sink::Sink;
use crate::terminal::bar::Bar;
use crate::terminal::exit;
use crate::terminal::standard_output::Results;
use analysis::error::Error;
use analysis::filter::selection::Selection;
use analysis::job::time_axis::Process;
use analysis::text::figures::{counted, size};
use anyhow::{Context, Result};
use export::streams;
use export::tables::csv::{self, Csv};
use export::tables::nsys;
use export::tables::nsys::rows::Store;
use export::tables::parquet::{Parquet, partitions};
use export::tables::sqlite::Sqlite;
use serde_json::json;
use std::io::Write;
use std::path::{Path, PathBuf};
use trace::Trace;

/// Write a trace in a format of other tools
///
/// perfetto is for ui.perfetto.dev and trace_processor: a track for each thread, a slice for each call with
/// its arguments, and counters; with device times (replay --profile, record --gpu-times) also a track for
/// each stream and flows from calls to device work. chrome has the same as JSON events, as PyTorch's profiler
/// writes them. jsonl has one JSON object a line, as cutrace dump --json prints them: the "kind" of the first
/// is header, of the others call, annotation, kernel, copy, fill or graph. sqlite is a database with the
/// tables, columns and labels of Nsight Systems' exports (schema 3.16); unknown values are NULL, and a trace
/// without device times has no tables of kernels, copies and fills. parquet has the same tables, one file
/// each, in OUT/host=HOST/rank=RANK/pid=PID/image=N, which DuckDB, Polars and others read as one table; csv
/// has them as OUT/TABLE.csv. See docs/exports.md.
///
/// All processes of several traces, or of a directory, share one time axis. A file gets its name when it is
/// complete; like a trace it contains the program's data, and only its owner can read it. Memory use grows
/// slowly with the trace. --grep matches function names and, for launches, "FUNCTION KERNEL", with the
/// kernel's name as recorded or as shown; --limit applies to each process.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  cutrace export --to perfetto -o app.pftrace           trace.bin, for ui.perfetto.dev
  cutrace export app.bin --to perfetto --no-args -o app.pftrace.gz
                                                        without arguments, compressed: smaller, faster
  cutrace export run/ --to perfetto -o run.pftrace      all processes of a directory
  cutrace export run/ --rank 0 --to chrome -o rank0.json
                                                        for HTA and TensorBoard
  cutrace export timed.bin --to sqlite -o timed.sqlite  for scripts that read Nsight Systems' exports
  cutrace export run/ --to parquet -o tables/           all processes as one table, for DuckDB and Polars
  cutrace export --to jsonl -o calls.jsonl --force      replace calls.jsonl
  cutrace export --to jsonl --grep Memcpy -o - | jq -r 'select(.kind == \"call\").function' | sort | uniq -c

Exit status:
  0 written
  1 the file exists or cannot be written
  2 usage
  3 a trace cannot be read completely")]
pub(crate) struct Arguments {
    /// Output format
    #[arg(long, value_enum, value_name = "FORMAT")]
    to: Format,
    /// The file to write, compressed if it ends in .gz; - for stdout; a directory for parquet and csv
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Replace existing files
    #[arg(long)]
    force: bool,
    /// Omit the arguments of calls (perfetto, chrome)
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
    /// JSON events as PyTorch's profiler writes them, for HTA, TensorBoard and chrome://tracing
    Chrome,
    /// One JSON object a line
    Jsonl,
    /// A database with the tables of Nsight Systems' exports
    Sqlite,
    /// The same tables as files of Apache Parquet, in a directory for each process
    Parquet,
    /// The same tables as files of comma-separated values, in a directory
    Csv,
}

impl Format {
    fn name(self) -> &'static str {
        match self {
            Format::Perfetto => "perfetto",
            Format::Chrome => "chrome",
            Format::Jsonl => "jsonl",
            Format::Sqlite => "sqlite",
            Format::Parquet => "parquet",
            Format::Csv => "csv",
        }
    }
}

/// Version of the JSON form of what is said at the end. Fields may be added within a version.
const SCHEMA: u32 = 1;

pub(crate) fn run(arguments: Arguments) -> Result<u8> {
    let Arguments { to, output, reading, .. } = &arguments;
    arguments.check()?;
    let chosen = arguments.files.chosen()?;
    let paths = chosen.paths;
    let Written { calls, bytes, status } = match to {
        Format::Sqlite => as_sqlite(&arguments, &paths)?,
        Format::Parquet => as_parquet(&arguments, &paths)?,
        Format::Csv => as_csv(&arguments, &paths)?,
        Format::Perfetto => as_stream(&arguments, &paths, streams::Format::Perfetto)?,
        Format::Chrome => as_stream(&arguments, &paths, streams::Format::Chrome)?,
        Format::Jsonl => as_stream(&arguments, &paths, streams::Format::Jsonl)?,
    };
    let status = status.max(chosen.status);
    if reading.json {
        let (path, is_whole) = (output.display().to_string(), status != exit::UNREADABLE);
        let told = json!({
            "schema": SCHEMA, "output": path, "format": to.name(), "calls": calls, "bytes": bytes, "whole": is_whole,
        });
        writeln!(Results::begin(), "{told}")?;
    } else if !arguments.is_stdout() {
        let said = format!("{}: {}, {}, {}", output.display(), to.name(), counted(calls, "call"), size(bytes));
        writeln!(Results::begin(), "{}", trace::show::text::plain(&said))?;
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
        let wrong = if self.no_args && !matches!(self.to, Format::Perfetto | Format::Chrome) {
            "--no-args applies to --to perfetto and chrome only"
        } else if self.is_stdout() && self.reading.json {
            "--json prints its summary to stdout: give -o a file"
        } else if crate::files::sink::is_packed(&self.output)
            && matches!(self.to, Format::Sqlite | Format::Parquet | Format::Csv)
        {
            "-o NAME.gz applies to --to perfetto, chrome and jsonl only"
        } else if self.is_stdout() && self.to == Format::Sqlite {
            "-o -: a database cannot be streamed; give a file"
        } else if self.is_stdout() && matches!(self.to, Format::Parquet | Format::Csv) {
            "-o -: the format has several files; give a directory"
        } else {
            return Ok(());
        };
        Err(exit::failure(exit::USAGE, wrong))
    }
}

impl Written {
    fn add(&mut self, calls: u64, trace: &Trace) {
        self.calls = self.calls.saturating_add(calls);
        self.status = self.status.max(exit::damage(trace, 0));
    }
}

fn open(paths: &[PathBuf], selection: &Selection) -> Result<Vec<Trace>> {
    let traces = paths.iter().map(Trace::open).collect::<Result<Vec<_>, _>>()?;
    let starts = Process::starts(&traces);
    let (traces, ended) = selection.of_window(traces, &starts);
    ended.iter().for_each(exit::say);
    Ok(traces)
}

/// On the time axis of the whole job, also if the first of it has no call in the window.
fn processes<'t>(traces: &'t [Trace], selection: &Selection) -> Vec<Process<'t>> {
    let mut all = Process::all(traces);
    let first = traces.iter().map(|trace| selection.start(trace)).min().unwrap_or(0);
    all.iter_mut().for_each(|process| process.begin_later(first));
    all
}

/// That of the traces which the output would replace, if it is one.
fn source<'x>(arguments: &Arguments, paths: &'x [PathBuf]) -> &'x Path {
    paths.iter().find(|path| are_same(path, &arguments.output)).unwrap_or(&paths[0])
}

/// Formats that are written from front to back.
fn as_stream(arguments: &Arguments, paths: &[PathBuf], format: streams::Format) -> Result<Written> {
    let Arguments { output, reading: Reading { selection, .. }, .. } = arguments;
    let is_binary = format == streams::Format::Perfetto;
    let mut out = Sink::create(output, arguments.force, is_binary, source(arguments, paths))?;
    let traces = open(paths, selection)?;
    let mut written = Written::default();
    let request = streams::Request { format, selection, arguments: !arguments.no_args };
    let each = |trace: &Trace, calls| written.add(calls, trace);
    streams::write(&mut out, &processes(&traces, selection), &request, &mut Bar::new(), each)?;
    out.finish()?;
    if !arguments.is_stdout() {
        written.bytes = std::fs::metadata(output).with_context(|| output.display().to_string())?.len();
    }
    Ok(written)
}

fn as_sqlite(arguments: &Arguments, paths: &[PathBuf]) -> Result<Written> {
    let output = Output::create("-o", &arguments.output, arguments.force, source(arguments, paths))?;
    crate::files::sink::remove_when_interrupted(output.partial(), None);
    let traces = open(paths, &arguments.reading.selection)?;
    let processes = processes(&traces, &arguments.reading.selection);
    let shown = || arguments.output.display().to_string();
    let store = Sqlite::create(output.partial()).with_context(shown)?;
    let (store, written) = as_tables(&arguments.reading.selection, &processes, store)?;
    store.finish().with_context(shown)?;
    let bytes = output.file().metadata().with_context(shown)?.len();
    crate::files::sink::finish_when_interrupted();
    output.finish()?;
    Ok(Written { bytes, ..written })
}

/// All processes in the same tables.
fn as_tables<S: Store>(selection: &Selection, processes: &[Process], store: S) -> Result<(S, Written)> {
    let mut written = Written::default();
    let each = |trace: &Trace, calls| written.add(calls, trace);
    let store = nsys::write(processes, store, selection, &mut Bar::new(), each)?;
    Ok((store, written))
}

fn as_csv(arguments: &Arguments, paths: &[PathBuf]) -> Result<Written> {
    let traces = open(paths, &arguments.reading.selection)?;
    let Arguments { output, force, .. } = arguments;
    // Tables of another export are in the way there, all of them: the two would be taken for one.
    let there = csv::names().map(|name| output.join(name)).find(|path| path.symlink_metadata().is_ok());
    if let Some(there) = there.filter(|_| !force) {
        let why = format_args!("{} exists already; --force replaces it", there.display());
        return Err(exit::failure(exit::FAILED, why));
    }
    let mut set = Set::create(output, *force)?;
    let store = Csv::new(|name: &str| set.file(name.into()).map_err(|error| Error::Format(error.into())));
    let selection = &arguments.reading.selection;
    let (store, written) = as_tables(selection, &processes(&traces, selection), store)?;
    let (bytes, others) = store.finish().with_context(|| output.display().to_string())?;
    set.finish().with_context(|| output.display().to_string())?;
    others.iter().for_each(|name| _ = std::fs::remove_file(output.join(name)));
    Ok(Written { bytes, ..written })
}

/// Each trace in a directory of its own; none has its name before all are whole.
fn as_parquet(arguments: &Arguments, paths: &[PathBuf]) -> Result<Written> {
    let shown = || arguments.output.display().to_string();
    let traces = open(paths, &arguments.reading.selection)?;
    let processes = processes(&traces, &arguments.reading.selection);
    let mut set = Set::create(&arguments.output, arguments.force)?;
    let mut written = Written::default();
    for (process, partition) in processes.iter().zip(partitions(&traces)) {
        let directory = set.directory(partition)?;
        let store = Parquet::new(|name: &str| Ok(crate::files::directories::create(&directory.join(name))?));
        let (store, of_one) = as_tables(&arguments.reading.selection, std::slice::from_ref(process), store)?;
        written.bytes += store.finish().with_context(shown)?;
        written.calls = written.calls.saturating_add(of_one.calls);
        written.status = written.status.max(of_one.status);
    }
    set.finish()?;
    Ok(written)
}
