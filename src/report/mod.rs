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
mod lost;
mod memory;
mod modules;
mod pending;
mod ranks;
mod refused;
pub mod render;
mod repeated_launches;
mod summary;
mod sync;
pub mod table;
mod tally;
mod transfers;
pub mod walk;

use crate::exit;
use crate::latest::Files;
use crate::progress::Progress;
use crate::reading::Reading;
use crate::results::Results;
use anyhow::Result;
use clap::builder::PossibleValuesParser;
use device::Scope;
use list::{Stream, Way};
use render::{Format, Output};
use serde_json::json;
use std::io::{BufWriter, Write};
use table::Table;
use trace::Trace;
use trace::preamble::Preamble;
use trace::text::plain;
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
    /// Which reports: names from the list below, separated by commas; may be given again
    #[arg(short, long = "report", value_name = "NAME", value_delimiter = ',', default_value = list::SUMMARY)]
    #[arg(value_parser = PossibleValuesParser::new(list::names()), hide_possible_values = true)]
    report: Vec<String>,
    /// How they are written; --json is short for --format json
    #[arg(long, value_enum, value_name = "FORMAT", conflicts_with = "json")]
    format: Option<Format>,
    /// Names of kernels as the compiler made them
    #[arg(long, conflicts_with = "short")]
    mangled: bool,
    /// Names of kernels without namespaces, template arguments and parameters
    #[arg(long)]
    short: bool,
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
  cutrace report run/ -r ranks                    of a job: who works, who waits
  cutrace report run/ --rank 0,3-5                these ranks, one after the other
  cutrace report -r launches --short --grep gemm  kernels with gemm in their names, in short
  cutrace report -r memory --json | jq '.reports[].rows'
  cutrace report -r cuda_api_trace --format csv > calls.csv",
        list::described()
    )
}

pub fn run(arguments: Arguments) -> Result<u8> {
    let paths = arguments.files.paths()?;
    let format = arguments.format();
    let mut out = BufWriter::with_capacity(1 << 16, Results::begin());
    let is_list = paths.len() > 1 && format == Format::Json;
    let mut status = exit::DONE;
    // Before anything is written: one that cannot be read leaves no half a document.
    let traces = paths.iter().map(Trace::open).collect::<Result<Vec<_>, _>>()?;
    if traces.len() > 1 && arguments.report.iter().all(|name| list::TOGETHER.contains(&name.as_str())) {
        together(&mut out, &traces, &arguments, format)?;
        out.flush()?;
        return Ok(traces.iter().map(|trace| exit::damage(trace, 0)).max().unwrap_or(exit::DONE));
    }
    for (index, (path, trace)) in paths.iter().zip(&traces).enumerate() {
        let between = match index {
            0 if is_list => "[",
            0 => "",
            _ if is_list => ",",
            _ => "\n",
        };
        out.write_all(between.as_bytes())?;
        if paths.len() > 1 && !is_list {
            let comment = if format == Format::Csv { "# " } else { "" };
            let Preamble { pid, program, .. } = &trace.preamble;
            writeln!(out, "{comment}process {pid} {} ({})", plain(program), plain(&path.display().to_string()))?;
        }
        one(&mut out, trace, &arguments, format)?;
        status = status.max(exit::damage(trace, 0));
    }
    if is_list {
        writeln!(out, "]")?;
    }
    out.flush()?;
    Ok(status)
}

/// The processes of several traces in one table.
fn together(out: &mut impl Write, traces: &[Trace], arguments: &Arguments, format: Format) -> Result<()> {
    let reading = &arguments.reading;
    let mut by_trace = Vec::new();
    for trace in traces {
        let mut reports = vec![ranks::make(trace), collectives::make(trace)];
        let ending = walk::walk(trace, reading, Style::Full, progress(trace), &mut reports)?;
        by_trace.push((trace, reports.iter_mut().map(|report| report.tables(&ending)).collect::<Vec<_>>()));
    }
    let about = traces.iter().map(about).collect();
    let mut tables = Vec::new();
    for name in list::TOGETHER.iter().filter(|name| arguments.report.iter().any(|asked| asked == *name)) {
        let of = |at: usize| by_trace.iter().map(move |(trace, tables)| (*trace, tables[at].clone()));
        match *name {
            list::RANKS => tables.push(ranks::together(of(0).flat_map(|(_, tables)| tables))),
            _ => tables.extend(collectives::together(of(1))),
        }
    }
    let mut out = Output::new(out, format, reading.colored(), tables.len() > 1, &about)?;
    for mut table in tables {
        table.limit(limit(reading, format, &table));
        out.table(&table)?;
    }
    out.finish()
}

/// Rows that a table may have.
fn limit(reading: &Reading, format: Format, table: &Table) -> u64 {
    let is_long = format == Format::Table && table.head.part == collectives::OPERATIONS.part;
    reading.limit.unwrap_or(if is_long { collectives::SHOWN } else { u64::MAX })
}

/// All reports on one trace.
fn one(out: &mut impl Write, trace: &Trace, arguments: &Arguments, format: Format) -> Result<()> {
    let reading = &arguments.reading;
    let chosen = list::choose(&arguments.report);
    let style = match arguments {
        Arguments { mangled: true, .. } => Style::Mangled,
        Arguments { short: true, .. } => Style::Short,
        _ => Style::Full,
    };
    chosen.iter().try_for_each(|chosen| chosen.check(trace))?;
    let mut reports = Vec::new();
    for chosen in &chosen {
        if let Way::Walk(make) = chosen.way() {
            reports.push(make(trace));
        }
    }
    let ending = match reports.is_empty() {
        true => None,
        false => Some(walk::walk(trace, reading, style, progress(trace), &mut reports)?),
    };
    let scope = Scope::new(trace, reading, Names::new(style))?;
    let mut reports = reports.into_iter();
    let mut made = Vec::new();
    for chosen in &chosen {
        made.push(match (chosen.way(), &ending) {
            (Way::Walk(_), Some(ending)) => reports.next().map(|mut report| report.tables(ending)),
            (Way::Measured(make), _) => Some(make(&scope)),
            _ => None,
        });
    }
    let many = made.iter().map(|tables| tables.as_ref().map_or(1, Vec::len)).sum::<usize>() > 1;
    let mut out = Output::new(out, format, reading.colored(), many, &about(trace))?;
    let limit = reading.limit.unwrap_or(u64::MAX);
    for (chosen, tables) in chosen.iter().zip(made) {
        match (chosen.way(), tables) {
            (Way::Stream(Stream::Calls), _) => api_trace::write(trace, reading, &mut out)?,
            (Way::Stream(Stream::Works), _) => device::trace::write(&scope, limit, &mut out)?,
            (Way::Stream(Stream::Launches), _) => device::exec::write(&scope, limit, &mut out)?,
            (_, tables) => {
                for mut table in tables.into_iter().flatten() {
                    table.limit(self::limit(reading, format, &table));
                    out.table(&table)?;
                }
            }
        }
    }
    out.finish()
}

fn progress(trace: &Trace) -> Progress {
    Progress::new("reading", trace.len() as u64)
}

fn about(trace: &Trace) -> serde_json::Value {
    json!({
        "path": trace.path.display().to_string(),
        "calls": trace.calls_made(),
        "program": trace.preamble.program,
        "pid": trace.preamble.pid,
        "closed": trace.footer.is_some(),
        "ended": crate::json::ended(trace),
        "losses": trace.losses.iter().map(|(what, count)| json!({ "what": what, "count": count })).collect::<Vec<_>>(),
    })
}
