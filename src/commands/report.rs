//! `cutrace report`: tables about the program of a trace.

use crate::arguments::input::{Chosen, Files};
use crate::arguments::reading::Reading;
use crate::files::directories::Set;
use crate::terminal::bar::Bar;
use crate::terminal::exit::{self, FAILED, USAGE, failure};
use crate::terminal::standard_output::Results;
use analysis::job::recordings::{Recordings, of_traces};
use analysis::job::time_axis::{Process, by_time};
use analysis::report::request::{Request, about};
use analysis::report::selection::{Report, ReportRequest};
use analysis::tables::render::{Format, Output};
use analysis::tables::unit::Unit;
use analysis::text::kernel_name::Style;
use anyhow::Result;
use clap::builder::{PossibleValue, TypedValueParser};
use clap::error::{Error, ErrorKind};
use clap::{Arg, Command};
use serde_json::json;
use std::ffi::OsStr;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use trace::Trace;
use trace::file::preamble::{Preamble, RANK};
use trace::show::text::plain;

/// Report time, memory and findings
///
/// Without -r: one page with the host time, the memory and the findings. Times of calls are host times of the
/// recording; device times are those of a replay (replay --profile) or of the recording (record --gpu-times).
///
/// --grep matches function names and, for launches, "FUNCTION KERNEL", with the kernel's name as recorded or
/// as shown; --limit is the number of rows of each table. Reports with the names of Nsight Systems' have the
/// same columns.
#[derive(clap::Args)]
#[command(after_help = help())]
pub(crate) struct Arguments {
    /// Reports to print, separated by commas; may be repeated (see --list)
    ///
    /// NAME:base uses short kernel names as --short, NAME:mangled mangled ones as --mangled, and
    /// NAME:nvtx-name RANGE/KERNEL with the innermost NVTX range.
    #[arg(short, long = "report", value_name = "NAME", value_delimiter = ',', default_value = analysis::report::list::SUMMARY)]
    #[arg(value_parser = Parser, hide_possible_values = true)]
    report: Vec<ReportRequest>,
    /// List the reports and exit (also -r help)
    #[arg(long)]
    list: bool,
    /// Output format; --json is short for --format json
    #[arg(long, value_enum, value_name = "FORMAT", conflicts_with = "json")]
    format: Option<Written>,
    /// Print mangled kernel names
    #[arg(long, hide_short_help = true, conflicts_with = "short")]
    mangled: bool,
    /// Print short kernel names
    ///
    /// Short names have no namespaces, template arguments and parameters.
    #[arg(long)]
    short: bool,
    /// Print all times in one unit: ns, us, ms or s
    #[arg(long = "timeunit", hide_short_help = true, value_name = "UNIT")]
    unit: Option<Unit>,
    /// Write each table to its own file: PREFIX_cuda_api_sum.csv
    #[arg(short, long, value_name = "PREFIX")]
    output: Option<PathBuf>,
    /// Replace existing files
    #[arg(long, hide_short_help = true, requires = "output")]
    force: bool,
    #[command(flatten)]
    files: Files,
    #[command(flatten)]
    pub reading: Reading,
}

/// How reports are written.
#[derive(Clone, Copy, clap::ValueEnum)]
enum Written {
    /// Columns for the eye, in fitting units
    Table,
    /// Comma-separated values: plain numbers, bytes and nanoseconds
    Csv,
    /// One object with all reports
    Json,
}

impl From<Written> for Format {
    fn from(written: Written) -> Format {
        match written {
            Written::Table => Format::Table,
            Written::Csv => Format::Csv,
            Written::Json => Format::Json,
        }
    }
}

/// Reads the names of reports.
#[derive(Debug, Clone, Copy)]
struct Parser;

impl TypedValueParser for Parser {
    type Value = ReportRequest;

    fn parse_ref(&self, command: &Command, _: Option<&Arg>, value: &OsStr) -> Result<ReportRequest, Error> {
        let text = value.to_string_lossy();
        analysis::report::selection::parse(&text).map_err(|why| {
            let why = format!("invalid value '{text}' for '--report <NAME>'\n  {why}");
            command.clone().error(ErrorKind::InvalidValue, why)
        })
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(
            analysis::report::list::names().chain([analysis::report::selection::HELP]).map(PossibleValue::new),
        ))
    }
}

impl Arguments {
    fn request(self) -> Request {
        let (style, format) = (self.style(), self.format());
        let mut reports = Vec::new();
        for asked in &self.report {
            if let ReportRequest::Report(report) = asked
                && !reports.contains(report)
            {
                reports.push(*report);
            }
        }
        let colored = self.reading.colored();
        Request { reports, selection: self.reading.selection, style, format, unit: self.unit, colored }
    }

    fn format(&self) -> Format {
        match self.reading.json {
            true => Format::Json,
            false => self.format.map_or(Format::Table, Into::into),
        }
    }

    /// What kernels are called.
    fn style(&self) -> Style {
        match self {
            Arguments { mangled: true, .. } => Style::Mangled,
            Arguments { short: true, .. } => Style::Short,
            _ => Style::Full,
        }
    }

    pub(crate) fn is_json(&self) -> bool {
        self.format() == Format::Json
    }
}

fn help() -> String {
    format!(
        "Reports:\n{}\n\
Examples:
  cutrace report                                  one page about the latest trace
  cutrace report app.bin -r cuda_api_sum          driver functions, by time
  cutrace report -r sync,transfers --limit 5      the top five rows of two reports
  cutrace report -r sync --window 1.5s..2s        the half second selected in cutrace view
  cutrace report run/ -r ranks                    a job: work and waits of each rank
  cutrace report run/ --rank 0,3-5                these ranks, one after the other
  cutrace report -r launches --short --grep gemm  kernels with gemm in their names, short names
  cutrace report -r memory --json | jq '.reports[].rows'
  cutrace report -r cuda_api_trace --format csv > calls.csv
  cutrace report -r memory,sync --format csv -o app      app_memory.csv, app_memory_left.csv, ... app_sync.csv
  cutrace report timed.bin -r cuda_gpu_kern_sum:nvtx-name:base --timeunit us

Exit status:
  0 done
  1 an output exists or cannot be written, or a thread cannot be started
  2 usage
  3 a trace is missing, or cannot be read completely",
        analysis::report::list::described()
    )
}

pub(crate) fn run(arguments: Arguments) -> Result<u8> {
    if arguments.list || arguments.report.contains(&ReportRequest::List) {
        return say_reports(&arguments);
    }
    // Before anything is written: if nothing can be read, there is no half a document.
    let (Chosen { paths, recordings, mut status, .. }, traces) = arguments.files.opened()?;
    let (output, force) = (arguments.output.clone(), arguments.force);
    let request = arguments.request();
    let (format, mut bar) = (request.format, Bar::new());
    let mut out = BufWriter::with_capacity(1 << 16, Results::begin());
    let is_list = paths.len() > 1 && format == Format::Json;
    let starts = Process::starts(&traces);
    let (traces, ended) = request.selection.of_window(traces, &starts);
    ended.iter().for_each(exit::say);
    // Of several traces some have one table for all, which comes before what is told of each.
    let is_of_all =
        |report: &Report| traces.len() > 1 && analysis::report::list::TOGETHER.contains(&report.chosen.name());
    let of_each = |report: &Report| !is_of_all(report);
    let of_all = request.reports.iter().any(is_of_all);
    let is_of_all_alone = of_all && !request.reports.iter().any(of_each);
    if let Some(prefix) = output.filter(|_| !is_of_all_alone) {
        into_files(&traces, &recordings, &request, (&prefix, force))?;
        return Ok(damage(&traces, status));
    }
    if of_all {
        let recordings = if recordings.is_empty() { of_traces(&paths) } else { recordings.clone() };
        out.write_all(if is_list && !is_of_all_alone { b"[" } else { b"" })?;
        analysis::report::merged::write(&mut out, &traces, &recordings, &request, &mut bar)?;
    }
    if is_of_all_alone {
        out.flush()?;
        return Ok(damage(&traces, status));
    }
    for (index, trace) in traces.iter().enumerate() {
        let between = match index + usize::from(of_all) {
            0 if is_list => "[",
            0 => "",
            _ if is_list => ",",
            _ => "\n",
        };
        out.write_all(between.as_bytes())?;
        if paths.len() > 1 && !is_list {
            let comment = if format == Format::Csv { "# " } else { "" };
            let Preamble { pid, program, .. } = &trace.preamble;
            let rank = trace.preamble.number(RANK).map_or(String::new(), |rank| format!("rank {rank}, "));
            let of = recordings.get(&trace.path).map_or(String::new(), |number| format!("recording {number}, "));
            writeln!(
                out,
                "{comment}{of}{rank}process {pid} {} ({})",
                plain(program),
                plain(&trace.path.display().to_string())
            )?;
        }
        request.write(&mut out, trace, &about(trace, &recordings), &of_each, &mut bar)?;
        status = status.max(exit::damage(trace, 0));
    }
    if is_list {
        writeln!(out, "]")?;
    }
    out.flush()?;
    Ok(status)
}

/// Each table in a file; none has its name before all are whole.
fn into_files(
    traces: &[Trace],
    recordings: &Recordings,
    request: &Request,
    (prefix, force): (&Path, bool),
) -> Result<()> {
    let Some(name) = prefix.file_name().map(|name| name.to_string_lossy().into_owned()) else {
        let why = format_args!("-o {}: expected the beginning of file names", prefix.display());
        return Err(failure(USAGE, why));
    };
    let directory = prefix.parent().filter(|parent| *parent != Path::new("")).unwrap_or(Path::new("."));
    if !directory.is_dir() {
        let why = format_args!("-o {}: directory {} does not exist", prefix.display(), directory.display());
        return Err(failure(FAILED, why));
    }
    let mut set = Set::create(directory, force)?;
    let (mut files, mut bar) = (0, Bar::new());
    let ending = request.format.ending();
    let numbers = by_time(traces, |about| about.pid);
    for (trace, number) in traces.iter().zip(numbers) {
        let of = match (traces.len(), trace.preamble.pid, number) {
            (1, ..) => String::new(),
            (_, pid, 1) => format!("_{pid}"),
            // A process that became another program by exec, or one of another host.
            (_, pid, number) => format!("_{pid}_{number}"),
        };
        let mut begin = |report: &str, part: &str| -> Result<Output<BufWriter<std::fs::File>>> {
            let part = if part.is_empty() { String::new() } else { format!("_{}", part.replace(' ', "_")) };
            let file = set.file(format!("{name}{of}_{report}{part}.{ending}").into())?;
            files += 1;
            let out = BufWriter::with_capacity(1 << 16, file);
            Ok(request.output(out, false, &about(trace, recordings))?)
        };
        for (report, tables) in request.make(trace, &|_| true, &mut bar)? {
            for table in tables.iter().flatten() {
                let mut out = begin(table.head.report, table.head.part)?;
                out.table(table)?;
                out.finish()?;
            }
            if tables.is_none() {
                let mut out = begin(report.chosen.name(), "")?;
                request.stream(trace, &report, &mut out, &mut bar)?;
                out.finish()?;
            }
        }
    }
    set.finish()?;
    let said = format!("{}_*.{ending}: {}", prefix.display(), analysis::text::figures::counted(files, "table"));
    writeln!(Results::begin(), "{}", plain(&said))?;
    Ok(())
}

/// Tells of it, and how the command ends.
fn damage(traces: &[Trace], status: u8) -> u8 {
    traces.iter().map(|trace| exit::damage(trace, 0)).fold(status, u8::max)
}

fn say_reports(arguments: &Arguments) -> Result<u8> {
    let mut out = Results::begin();
    match arguments.is_json() {
        true => writeln!(out, "{}", json!({ "schema": 1, "reports": analysis::report::list::objects() }))?,
        false => out.write_all(analysis::report::list::described().as_bytes())?,
    }
    Ok(exit::DONE)
}
