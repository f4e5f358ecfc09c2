//! `cutrace dump`: one line a call.

use crate::annotations::Annotations;
use crate::exit;
use crate::latest::File;
use crate::line;
use crate::reading::Reading;
use crate::results::{self, Results};
use crate::works;
use crate::writes;
use anyhow::Result;
use std::io::{BufWriter, Write};
use trace::decode::decode;
use trace::objects::Objects;
use trace::timed::ByCall;
use trace::value::Value;

/// Print the calls, one line each
///
/// A line holds the call's number, seconds since the start of the trace, the thread, the function with its
/// arguments by name, what it wrote behind the arrow, its result and how long it took. An ampersand stands
/// for memory that the call fills. Annotations by NVTX and what the CPU wrote without a call stand between
/// the calls, and below a call what a device did for it, if a replay has measured that (replay --profile) or
/// the recording (record --gpu-times). Handles are named by kind and number (ctx#1, stream#3), addresses by
/// the allocation they lie in (mem#2+0x40).
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  cutrace dump --calls ..20              the first 20 calls of trace.bin
  cutrace dump app.bin --grep Launch     the launches, with kernel names and arguments
  cutrace dump --grep '!!'               the calls that failed
  cutrace dump --json | jq .function     one object a line")]
pub struct Arguments {
    #[command(flatten)]
    file: File,
    #[command(flatten)]
    pub reading: Reading,
    /// Of what the CPU wrote without a call, every range with what it holds, rather than how many there are
    #[arg(long)]
    writes: bool,
}

pub fn run(arguments: Arguments) -> Result<u8> {
    let reading = &arguments.reading;
    let trace = arguments.file.open()?;
    let wanted = reading.selection(&trace)?;
    let mut out = BufWriter::with_capacity(1 << 16, Results::begin());
    let mut annotations = Annotations::of(&trace, reading, reading.json)?;
    let works = ByCall::of(&trace);
    let mut objects = Objects::default();
    let (mut line, mut left, mut missing) = (String::new(), reading.limit.unwrap_or(u64::MAX), 0);
    let colored = reading.colored();
    let matches = |line: &str| reading.grep.as_ref().is_none_or(|pattern| pattern.is_match(line));
    for call in trace.calls().take_while(|call| call.number < reading.end()) {
        annotations.print(&mut out, call.begin, &objects, &mut left)?;
        if left == 0 || results::are_unread() {
            break;
        }
        let selected = wanted(&call);
        if !selected && !objects.concerned(&call) {
            objects.until(&call);
            continue;
        }
        let decoded = decode(&call);
        objects.advance(&call, decoded.as_ref());
        if !selected {
            continue;
        }
        let told = |lines: Vec<String>| -> Vec<String> { lines.into_iter().filter(|line| matches(line)).collect() };
        let (mut before, mut behind) = (Vec::new(), Vec::new());
        if !reading.json {
            before = told(writes::before(&trace, &call, &objects, arguments.writes));
            behind = told(writes::behind(&trace, &call, &objects, arguments.writes));
        }
        before.iter().try_for_each(|line| writeln!(out, "{line}"))?;
        if reading.grep.is_some() && behind.is_empty() {
            line.clear();
            line::text(&mut line, &trace, &call, decoded.as_ref(), &objects, false)?;
            if !matches(&line) {
                continue;
            }
        }
        if reading.json {
            let line = line::object(&trace, &call, decoded.as_ref(), &objects);
            serde_json::to_writer(&mut out, &line)?;
        } else {
            line.clear();
            line::text(&mut line, &trace, &call, decoded.as_ref(), &objects, colored)?;
            out.write_all(line.as_bytes())?;
            behind.iter().try_for_each(|line| write!(out, "\n{line}"))?;
        }
        out.write_all(b"\n")?;
        left -= 1;
        for work in works.call(call.number) {
            match reading.json {
                true => serde_json::to_writer(&mut out, &works::object(&work))?,
                false => out.write_all(works::text(&work, trace.nanoseconds(call.begin)).as_bytes())?,
            }
            out.write_all(b"\n")?;
        }
        let values = decoded.iter().flat_map(|d| d.arguments.iter().chain(&d.outputs));
        missing += values.map(|(_, value)| missing_in(value)).sum::<u64>();
    }
    if reading.end() >= trace.len() as u64 {
        annotations.print(&mut out, u64::MAX, &objects, &mut left)?;
    }
    out.flush()?;
    Ok(exit::damage(&trace, missing))
}

/// Pieces of data that the trace should hold and does not.
fn missing_in(value: &Value) -> u64 {
    match value {
        Value::Payload { missing, .. } => (*missing).into(),
        Value::Struct(fields) => fields.iter().map(|(_, value)| missing_in(value)).sum(),
        Value::List(all) => all.iter().map(missing_in).sum(),
        Value::Options(pairs) => pairs.iter().map(|(_, value)| missing_in(value)).sum(),
        _ => 0,
    }
}
