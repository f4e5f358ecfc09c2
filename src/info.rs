//! `cutrace info`: what a trace holds, and whether it can be replayed.

mod as_json;
mod counts;
mod job;
mod text;

use crate::latest::Files;
use crate::reading::Reading;
use crate::results::Results;
use crate::{exit, verdict};
use anyhow::Result;
use as_json::SCHEMA;
use counts::count;
use serde_json::{Value, json};
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use trace::Trace;

/// Show what was recorded, and the verdict on its replay
///
/// Counts are of the calls selected by --calls, --thread and --grep (which here is matched against function
/// names); --limit is the number of functions listed.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  cutrace info                            of the latest trace in the working directory
  cutrace info app.bin --limit 10         only the ten functions called most
  cutrace info run.bin run.1.bin          of several processes, one after the other
  cutrace info run/                       of a job, a line each process
  cutrace info --json | jq .functions")]
pub struct Arguments {
    #[command(flatten)]
    files: Files,
    #[command(flatten)]
    pub reading: Reading,
}

pub fn run(arguments: Arguments) -> Result<u8> {
    let reading = &arguments.reading;
    let paths = arguments.files.named()?;
    let mut out = BufWriter::new(Results::begin());
    let (mut objects, mut status) = (Vec::new(), exit::DONE);
    // Before anything is written: one that cannot be read leaves no half a document.
    let is_job = |path: &PathBuf| path.is_dir();
    let opened = paths.iter().map(|path| (!is_job(path)).then(|| Trace::open(path)).transpose());
    let traces = opened.collect::<Result<Vec<_>, _>>()?;
    for (index, (path, trace)) in paths.iter().zip(traces).enumerate() {
        if index > 0 && !reading.json {
            writeln!(out)?;
        }
        let (object, ended) = match trace {
            Some(mut trace) => {
                trace.check_blobs();
                one(&mut out, &trace, reading)?
            }
            None => job::one(&mut out, path, arguments.files.ranks(), reading)?,
        };
        objects.extend(object);
        status = status.max(ended);
    }
    let whole = match &mut objects[..] {
        [] => None,
        [only] => Some(only.take()),
        _ => Some(json!({ "schema": SCHEMA, "traces": objects })),
    };
    if let Some(whole) = whole {
        serde_json::to_writer_pretty(&mut out, &whole)?;
        out.write_all(b"\n")?;
    }
    out.flush()?;
    Ok(status)
}

/// Of one trace: it is written, or else its JSON form comes back. With the exit status.
fn one(out: &mut impl Write, trace: &Trace, reading: &Reading) -> Result<(Option<Value>, u8)> {
    let counts = count(trace, reading)?;
    let said = verdict::of(trace);
    let mut functions: Vec<_> = counts.functions.iter().map(|(name, n)| (*name, *n)).collect();
    functions.sort_by_key(|(name, (calls, _))| (std::cmp::Reverse(*calls), *name));
    functions.truncate(reading.limit.unwrap_or(u64::MAX) as usize);
    let object = match reading.json {
        true => Some(as_json::object(trace, &counts, &functions, &said)),
        false => {
            text::text(out, trace, &counts, &functions, &said, reading.colored())?;
            None
        }
    };
    Ok((object, exit::damage(trace, counts.missing.pieces)))
}
