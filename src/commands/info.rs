//! `cutrace info`: the contents of a trace, and whether it can be replayed.

mod as_json;
mod counts;
pub(crate) mod footer_summary;
mod job;
pub(crate) mod summary;
mod text;
pub(crate) mod verdicts;

use crate::arguments::input::{Files, readable};
use crate::arguments::reading::Reading;
use crate::terminal::exit;
use crate::terminal::standard_output::{Results, print_json};
use analysis::filter::selection::Selection;
use anyhow::Result;
use as_json::SCHEMA;
use serde_json::{Value, json};
use std::io::{BufWriter, Write};
use std::path::Path;
use summary::Summary;
use trace::Trace;

/// Show whether a trace can be replayed, and what was recorded
///
/// Counts cover the calls selected by --calls, --window, --thread and --grep (which here matches function
/// names); --limit is the number of functions listed. `record` writes a summary into a long trace when it
/// closes it, so that `info` of all calls answers at once.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  cutrace info                            the latest trace in the working directory
  cutrace info app.bin --limit 10         only the ten most frequent functions
  cutrace info run.bin run.1.bin          several processes, one after the other
  cutrace info run/                       a job, one line a process
  cutrace info --json | jq .functions

Exit status:
  0 done
  2 usage
  3 a trace is missing, or cannot be read completely")]
pub(crate) struct Arguments {
    #[command(flatten)]
    files: Files,
    #[command(flatten)]
    pub reading: Reading,
    /// Print all recorded environment variables in full
    #[arg(short, long, conflicts_with = "json")]
    verbose: bool,
    /// Read the whole trace instead of its summary
    #[arg(long, hide_short_help = true)]
    no_index: bool,
}

/// A trace with its calls, or without them and with its summary.
enum Opened {
    Read(Trace),
    Summarised(Trace, Box<Summary>),
}

impl Opened {
    fn of(path: &Path, arguments: &Arguments) -> Result<Opened, trace::Error> {
        let is_whole = !arguments.no_index && arguments.reading.selection.selects_all();
        match Some(path).filter(|_| is_whole).and_then(footer_summary::find) {
            Some((trace, summary)) => Ok(Opened::Summarised(trace, Box::new(summary))),
            None => Ok(Opened::Read(Trace::open(path)?)),
        }
    }

    fn summary(self, selection: &Selection) -> Result<(Trace, Summary)> {
        match self {
            Opened::Summarised(trace, summary) => Ok((trace, *summary)),
            Opened::Read(mut trace) => {
                trace.check_blobs();
                let summary = Summary::of_selected(&trace, selection)?;
                Ok((trace, summary))
            }
        }
    }
}

/// What is named.
enum Subject {
    Trace(Box<Opened>),
    Job(job::Whole),
}

impl Subject {
    fn of(path: &Path, arguments: &Arguments) -> Result<Subject> {
        Ok(match path.is_dir() {
            true => Subject::Job(job::Whole::of(path, &arguments.files.among)?),
            false => Subject::Trace(Box::new(Opened::of(path, arguments)?)),
        })
    }
}

pub(crate) fn run(arguments: Arguments) -> Result<u8> {
    let reading = &arguments.reading;
    let paths = arguments.files.named()?;
    let mut out = BufWriter::new(Results::begin());
    // Before anything is written: if nothing can be read, there is no half a document.
    let (all, mut status) = readable(&paths, |path| Subject::of(path, &arguments))?;
    let mut objects = Vec::new();
    for (index, subject) in all.into_iter().enumerate() {
        if index > 0 && !reading.json {
            writeln!(out)?;
        }
        let (object, ended) = match subject {
            Subject::Trace(opened) => {
                let (trace, summary) = opened.summary(&reading.selection)?;
                one(&mut out, &trace, &summary, &arguments)?
            }
            Subject::Job(job) => job.tell(&mut out, reading)?,
        };
        objects.extend(object);
        status = status.max(ended);
    }
    let whole = match &mut objects[..] {
        [] => None,
        [only] if paths.len() == 1 => Some(only.take()),
        _ => Some(json!({ "schema": SCHEMA, "traces": objects })),
    };
    if let Some(whole) = whole {
        print_json(&whole)?;
    }
    out.flush()?;
    Ok(status)
}

/// Of one trace: it is written, or else its JSON form comes back. With the exit status.
fn one(out: &mut impl Write, trace: &Trace, summary: &Summary, arguments: &Arguments) -> Result<(Option<Value>, u8)> {
    let reading = &arguments.reading;
    let mut functions: Vec<_> = summary.counts.functions.iter().map(|(name, n)| (&**name, *n)).collect();
    functions.sort_by_key(|(name, (calls, _))| (std::cmp::Reverse(*calls), *name));
    functions.truncate(reading.selection.limit.unwrap_or(u64::MAX) as usize);
    let object = match reading.json {
        true => Some(as_json::object(trace, summary, &functions)),
        false => {
            text::text(out, trace, summary, &functions, (reading.colored(), arguments.verbose))?;
            None
        }
    };
    Ok((object, exit::damage(trace, summary.counts.missing.pieces)))
}
