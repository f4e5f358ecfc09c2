//! `cutrace report`: what a trace says about the program, in tables.

mod api_sum;
mod api_trace;
mod collectives;
pub mod device;
mod durations;
mod errors;
pub mod findings;
mod host;
mod launches;
mod leaks;
mod list;
mod lost_calls;
mod memory;
mod merged;
mod modules;
mod pending;
mod ranks;
mod reasons;
mod refused_launches;
pub mod render;
mod repeated_launches;
mod selection;
mod summary;
mod sync;
pub mod table;
mod tally;
mod transfers;
mod unit;
pub mod walk;

use crate::exit::{self, FAILED, USAGE, failure};
use crate::export::directories::Set;
use crate::export::process::{Process, by_time};
use crate::input::{Chosen, Files, Recordings};
use crate::job::recordings::of_traces;
use crate::progress::Progress;
use crate::reading::Reading;
use crate::standard_output::Results;
use anyhow::Result;
use device::Scope;
use list::{Stream, Way};
use render::{Format, Output};
use selection::{Asked, Report};
use serde_json::json;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use table::Table;
use trace::Trace;
use trace::file::preamble::{Preamble, RANK};
use trace::show::text::plain;
use unit::Unit;
use viewer::kernel_name::{Names, Style};

/// Say where a program's time and memory went
///
/// Without -r: one page on what ran, where the host's time went, and what to look at. Times of calls are the
/// host's, as recorded; those of devices are a replay's, in a trace made by replay --profile, or recorded,
/// too (record --gpu-times).
///
/// --grep is matched against function names and, for launches, "FUNCTION KERNEL", with the kernel's name as
/// recorded or as shown; --limit is the number of rows of each table. Names of Nsight Systems' reports give
/// its columns.
#[derive(clap::Args)]
#[command(after_help = help())]
pub struct Arguments {
    /// Which reports: names from the list below, separated by commas; may be given again. Kernels are
    /// called as with --short by NAME:base, as with --mangled by NAME:mangled, and RANGE/KERNEL by
    /// NAME:nvtx-name, of the innermost NVTX range
    #[arg(short, long = "report", value_name = "NAME", value_delimiter = ',', default_value = list::SUMMARY)]
    #[arg(value_parser = selection::Parser, hide_possible_values = true)]
    report: Vec<Asked>,
    /// Which reports there are, and nothing else (also -r help)
    #[arg(long)]
    list: bool,
    /// How they are written; --json is short for --format json
    #[arg(long, value_enum, value_name = "FORMAT", conflicts_with = "json")]
    format: Option<Format>,
    /// Names of kernels as the compiler made them
    #[arg(long, conflicts_with = "short")]
    mangled: bool,
    /// Names of kernels without namespaces, template arguments and parameters
    #[arg(long)]
    short: bool,
    /// All times in ns, us, ms or s
    #[arg(long = "timeunit", value_name = "UNIT")]
    unit: Option<Unit>,
    /// Write each table into a file of its own: PREFIX_cuda_api_sum.csv
    #[arg(short, long, value_name = "PREFIX")]
    output: Option<PathBuf>,
    /// Replace files that exist
    #[arg(long, requires = "output")]
    force: bool,
    #[command(flatten)]
    files: Files,
    #[command(flatten)]
    pub reading: Reading,
}

impl Arguments {
    fn format(&self) -> Format {
        match self.reading.json {
            true => Format::Json,
            false => self.format.unwrap_or(Format::Table),
        }
    }

    /// Each once.
    fn reports(&self) -> impl Iterator<Item = Report> {
        let reports = self.report.iter().enumerate().filter(|(at, asked)| !self.report[..*at].contains(asked));
        reports.filter_map(|(_, asked)| match asked {
            Asked::Report(report) => Some(*report),
            Asked::List => None,
        })
    }

    /// What kernels are called.
    fn style(&self) -> Style {
        match self {
            Arguments { mangled: true, .. } => Style::Mangled,
            Arguments { short: true, .. } => Style::Short,
            _ => Style::Full,
        }
    }

    fn scope<'t>(&'t self, trace: &'t Trace, report: &Report) -> Result<Scope<'t>> {
        let scope = Scope::new(trace, &self.reading, Names::new(report.style.unwrap_or(self.style())))?;
        Ok(if report.in_ranges { scope.in_ranges() } else { scope })
    }

    pub fn is_json(&self) -> bool {
        self.format() == Format::Json
    }
}

fn help() -> String {
    format!(
        "Reports:\n{}\n\
Examples:
  cutrace report                                  one page about the latest trace
  cutrace report app.bin -r cuda_api_sum          the functions, by the time they took
  cutrace report -r sync,transfers --limit 5      the five most of each
  cutrace report -r sync --window 1.5s..2s        the half second that was looked at in cutrace view
  cutrace report run/ -r ranks                    of a job: who works, who waits
  cutrace report run/ --rank 0,3-5                these ranks, one after the other
  cutrace report -r launches --short --grep gemm  kernels with gemm in their names, in short
  cutrace report -r memory --json | jq '.reports[].rows'
  cutrace report -r cuda_api_trace --format csv > calls.csv
  cutrace report -r memory,sync --format csv -o app      app_memory.csv, app_memory_left.csv, ... app_sync.csv
  cutrace report timed.bin -r cuda_gpu_kern_sum:nvtx-name:base --timeunit us

Exit status:
  0 done
  1 an output exists or cannot be written, or a thread cannot be started
  2 usage
  3 a trace cannot be read, or not all of it; or a directory lacks one",
        list::described()
    )
}

pub fn run(arguments: Arguments) -> Result<u8> {
    if arguments.list || arguments.report.contains(&Asked::List) {
        return say_reports(&arguments);
    }
    // Before anything is written: if nothing can be read, there is no half a document.
    let (Chosen { paths, recordings, mut status, .. }, traces) = arguments.files.opened()?;
    let format = arguments.format();
    let mut out = BufWriter::with_capacity(1 << 16, Results::begin());
    let is_list = paths.len() > 1 && format == Format::Json;
    let starts = Process::starts(&traces);
    let traces = arguments.reading.of_window(traces, &starts);
    // Of several traces some have one table for all, which comes before what is told of each.
    let is_of_all = |report: &Report| traces.len() > 1 && list::TOGETHER.contains(&report.chosen.name());
    let (of_all, of_each) =
        (arguments.reports().any(|report| is_of_all(&report)), |report: &Report| !is_of_all(report));
    let is_of_all_alone = of_all && !arguments.reports().any(|report| of_each(&report));
    if let Some(prefix) = arguments.output.as_ref().filter(|_| !is_of_all_alone) {
        into_files(&traces, &recordings, &arguments, prefix)?;
        return Ok(damage(&traces, status));
    }
    if of_all {
        let recordings = if recordings.is_empty() { of_traces(&paths) } else { recordings.clone() };
        out.write_all(if is_list && !is_of_all_alone { b"[" } else { b"" })?;
        merged::write(&mut out, &traces, &recordings, &arguments)?;
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
        one(&mut out, trace, &arguments, &about(trace, &recordings), &of_each)?;
        status = status.max(exit::damage(trace, 0));
    }
    if is_list {
        writeln!(out, "]")?;
    }
    out.flush()?;
    Ok(status)
}

/// Rows that a table may have.
fn limit(reading: &Reading, format: Format, table: &Table) -> u64 {
    let is_long = format == Format::Table && table.head.part == collectives::OPERATIONS.part;
    reading.limit.unwrap_or(if is_long { collectives::SHOWN } else { u64::MAX })
}

/// A report, and its tables if it is not written row by row.
type Made = (Report, Option<Vec<Table>>);

/// These reports on one trace.
fn one(
    out: &mut impl Write,
    trace: &Trace,
    arguments: &Arguments,
    about: &serde_json::Value,
    which: &dyn Fn(&Report) -> bool,
) -> Result<()> {
    let made = make(trace, arguments, which)?;
    let many = made.iter().map(|(_, tables)| tables.as_ref().map_or(1, Vec::len)).sum::<usize>() > 1;
    let colored = arguments.reading.colored();
    let mut out = Output::new(out, arguments.format(), colored, many, about)?.in_unit(arguments.unit);
    for (report, tables) in &made {
        match tables {
            Some(tables) => tables.iter().try_for_each(|table| out.table(table))?,
            None => stream(trace, arguments, report, &mut out)?,
        }
    }
    out.finish()
}

fn make(trace: &Trace, arguments: &Arguments, which: &dyn Fn(&Report) -> bool) -> Result<Vec<Made>> {
    let reading = &arguments.reading;
    let asked: Vec<Report> = arguments.reports().filter(|report| which(report)).collect();
    asked.iter().try_for_each(|report| report.check(trace))?;
    let mut walked = Vec::new();
    for report in &asked {
        if let Way::Walk(make) = report.chosen.way() {
            walked.push(make(trace));
        }
    }
    let ending = match walked.is_empty() {
        true => None,
        false => Some(walk::walk(trace, reading, arguments.style(), progress(trace), &mut walked)?),
    };
    let mut walked = walked.into_iter();
    let mut made = Vec::new();
    for report in asked {
        let mut tables = match (report.chosen.way(), &ending) {
            (Way::Walk(_), Some(ending)) => walked.next().map(|mut report| report.tables(ending)),
            (Way::Measured(make), _) => Some(make(&arguments.scope(trace, &report)?)),
            _ => None,
        };
        tables.iter_mut().flatten().for_each(|table| table.limit(limit(reading, arguments.format(), table)));
        made.push((report, tables));
    }
    Ok(made)
}

fn stream(trace: &Trace, arguments: &Arguments, report: &Report, out: &mut Output<impl Write>) -> Result<()> {
    let limit = arguments.reading.limit.unwrap_or(u64::MAX);
    match report.chosen.way() {
        Way::Stream(Stream::Calls) => api_trace::write(trace, &arguments.reading, out),
        Way::Stream(Stream::Works) => device::trace::write(&arguments.scope(trace, report)?, limit, out),
        Way::Stream(Stream::Launches) => device::exec::write(&arguments.scope(trace, report)?, limit, out),
        Way::Stream(Stream::Pushed) => device::ranges::pushed(&arguments.scope(trace, report)?, limit, out),
        Way::Stream(Stream::Projected) => device::ranges::projected(&arguments.scope(trace, report)?, limit, out),
        Way::Walk(_) | Way::Measured(_) => Ok(()),
    }
}

/// Each table in a file; none has its name before all are whole.
fn into_files(traces: &[Trace], recordings: &Recordings, arguments: &Arguments, prefix: &Path) -> Result<()> {
    let Some(name) = prefix.file_name().map(|name| name.to_string_lossy().into_owned()) else {
        let why = format_args!("-o {}: the names of files begin with it, and it has none", prefix.display());
        return Err(failure(USAGE, why));
    };
    let directory = prefix.parent().filter(|parent| *parent != Path::new("")).unwrap_or(Path::new("."));
    if !directory.is_dir() {
        let why = format_args!("-o {}: there is no directory {}", prefix.display(), directory.display());
        return Err(failure(FAILED, why));
    }
    let mut set = Set::create(directory, arguments.force)?;
    let mut files = 0;
    let ending = arguments.format().ending();
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
            Ok(Output::new(out, arguments.format(), false, false, &about(trace, recordings))?.in_unit(arguments.unit))
        };
        for (report, tables) in make(trace, arguments, &|_| true)? {
            for table in tables.iter().flatten() {
                let mut out = begin(table.head.report, table.head.part)?;
                out.table(table)?;
                out.finish()?;
            }
            if tables.is_none() {
                let mut out = begin(report.chosen.name(), "")?;
                stream(trace, arguments, &report, &mut out)?;
                out.finish()?;
            }
        }
    }
    set.finish()?;
    let said = format!("{}_*.{ending}: {}", prefix.display(), crate::figures::counted(files, "table"));
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
        true => writeln!(out, "{}", json!({ "schema": 1, "reports": list::objects() }))?,
        false => out.write_all(list::described().as_bytes())?,
    }
    Ok(exit::DONE)
}

fn progress(trace: &Trace) -> Progress {
    Progress::new("reading", trace.len() as u64)
}

fn about(trace: &Trace, recordings: &Recordings) -> serde_json::Value {
    let mut about = json!({
        "path": trace.path.display().to_string(),
        "calls": trace.calls_made(),
        "program": trace.preamble.program,
        "pid": trace.preamble.pid,
        "closed": trace.footer.is_some(),
        "ended": crate::json::ended(trace),
        "losses": trace.losses.iter().map(|(what, count)| json!({ "what": what, "count": count })).collect::<Vec<_>>(),
        "damage": crate::json::damage(trace),
    });
    if let Some(recording) = recordings.get(&trace.path) {
        about["recording"] = (*recording).into();
    }
    about
}
