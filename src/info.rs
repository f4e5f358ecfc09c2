//! `cutrace info`: what a trace holds, and whether it can be replayed.

use crate::figures::{counted, grouped, size};
use crate::latest::Files;
use crate::line::NOT_READY;
use crate::reading::Reading;
use crate::shell::shell;
use crate::unfinished::Unfinished;
use crate::verdict::Said;
use crate::{exit, verdict, works};
use anyhow::Result;
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::collections::{HashMap, HashSet};
use std::io::{BufWriter, Write};
use trace::Trace;
use trace::annotation::Annotation;
use trace::api::roles::Side;
use trace::call::Content;
use trace::decode::decode;
use trace::hash::Hash;
use trace::preamble::Data;
use trace::record::annotated::MARK;
use trace::record::no_replay_needs;
use trace::text::plain;
use trace::value::Value as Shown;

/// Show what was recorded, and the verdict on its replay
///
/// Counts are of the calls selected by --calls, --thread and --grep (which here is matched against function names);
/// --limit is the number of functions listed.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  cutrace info                            of the latest trace in the working directory
  cutrace info app.bin --limit 10         only the ten functions called most
  cutrace info run.bin run.1.bin          of several processes, one after the other
  cutrace info --json | jq .functions")]
pub struct Arguments {
    #[command(flatten)]
    files: Files,
    #[command(flatten)]
    pub reading: Reading,
}

/// Version of the JSON form. Fields may be added within a version.
const SCHEMA: u32 = 1;

#[derive(Default)]
struct Counts<'a> {
    calls: u64,
    functions: HashMap<&'a str, (u64, u64)>,
    failed: u64,
    in_flight: u64,
    module_images: Amount,
    to_device: Amount,
    from_device: Amount,
    results_hashed: Amount,
    not_recorded: Amount,
    missing: Amount,
    arguments: Amount,
}

/// Pieces of memory, and their bytes.
#[derive(Default, Clone, Copy, Serialize)]
struct Amount {
    pieces: u64,
    bytes: u64,
}

impl Amount {
    fn add(&mut self, bytes: u64) {
        self.pieces += 1;
        self.bytes += bytes;
    }
}

pub fn run(arguments: Arguments) -> Result<u8> {
    let reading = &arguments.reading;
    let paths = arguments.files.paths()?;
    let mut out = BufWriter::new(std::io::stdout().lock());
    let (mut objects, mut status) = (Vec::new(), exit::DONE);
    let mut traces = paths.iter().map(Trace::open).collect::<Result<Vec<_>, _>>()?;
    for (index, trace) in traces.iter_mut().enumerate() {
        if index > 0 && !reading.json {
            writeln!(out)?;
        }
        trace.check_blobs();
        let (object, ended) = one(&mut out, trace, reading)?;
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
        true => Some(object(trace, &counts, &functions, &said)),
        false => {
            text(out, trace, &counts, &functions, &said, reading.colored())?;
            None
        }
    };
    Ok((object, exit::damage(trace, counts.missing.pieces)))
}

fn count<'a>(trace: &'a Trace, reading: &Reading) -> Result<Counts<'a>> {
    let wanted = reading.selection(trace)?;
    let mut counts = Counts::default();
    let mut images = HashSet::new();
    for call in trace.calls().filter(wanted) {
        if reading.grep.as_ref().is_some_and(|pattern| !pattern.is_match(call.name())) {
            continue;
        }
        let made = call.count();
        counts.calls = counts.calls.saturating_add(made);
        let entry = counts.functions.entry(call.name()).or_default();
        entry.0 = entry.0.saturating_add(made);
        match call.result {
            Some(0 | NOT_READY) => {}
            Some(_) => {
                entry.1 = entry.1.saturating_add(made);
                counts.failed = counts.failed.saturating_add(made);
            }
            None => {}
        }
        counts.in_flight += u64::from(call.inside_since().is_some());
        for image in call.images() {
            match image.content {
                Content::Arguments { packed, .. } => counts.arguments.add(packed.len() as u64),
                Content::Hash { .. } => counts.results_hashed.add(image.len),
                Content::Lost | Content::Pending => counts.not_recorded.add(image.len),
                Content::Blob(hash) if trace.blob(hash).is_none() => counts.missing.add(image.len),
                Content::Bytes(_) | Content::Blob(_) => {}
            }
        }
        let decoded = decode(&call);
        for (_, value) in decoded.iter().flat_map(|d| d.arguments.iter().chain(&d.outputs)) {
            counts.payloads(value, &mut images);
        }
    }
    Ok(counts)
}

impl Counts<'_> {
    fn payloads(&mut self, value: &Shown, images: &mut HashSet<Hash>) {
        match value {
            Shown::Payload { side: Some(Side::Source), len, .. } => self.to_device.add(*len),
            Shown::Payload { side: Some(Side::Destination), len, .. } => self.from_device.add(*len),
            Shown::Payload { side: None, len, content, .. } => match content {
                Content::Blob(hash) if !images.insert(*hash) => {}
                _ => self.module_images.add(*len),
            },
            Shown::Struct(fields) => fields.iter().for_each(|(_, v)| self.payloads(v, images)),
            Shown::List(all) => all.iter().for_each(|v| self.payloads(v, images)),
            _ => {}
        }
    }
}

/// Annotations by NVTX, of all threads: they are no calls, and not selected by what selects calls.
#[derive(Serialize)]
struct Annotated {
    all: u64,
    ranges: u64,
    /// Ranges that the trace ends in.
    open: u64,
    marks: u64,
    names: u64,
    /// That anything was annotated in, the default one included.
    domains: u64,
}

impl Annotated {
    fn of(trace: &Trace) -> Annotated {
        let ranges = trace.annotated_ranges();
        let count = |test: &dyn Fn(&Annotation) -> bool| trace.annotations().filter(|a| test(a)).count() as u64;
        let domains: HashSet<u32> = trace.annotations().map(|annotation| annotation.about.domain).collect();
        Annotated {
            all: count(&|_| true),
            ranges: ranges.len() as u64,
            open: ranges.iter().filter(|range| range.end.is_none()).count() as u64,
            marks: count(&|annotation| annotation.about.what == MARK),
            names: count(&|annotation| annotation.is_name()),
            domains: domains.len() as u64,
        }
    }
}

/// `13000` as `13.0`.
fn version(number: i32) -> String {
    format!("{}.{}", number / 1000, number % 1000 / 10)
}

/// Threads that are listed; the others are summed up.
const THREADS: usize = 16;

type Functions<'a> = [(&'a str, (u64, u64))];

fn object(trace: &Trace, counts: &Counts, functions: &Functions, said: &Said) -> Value {
    let about = &trace.preamble;
    let by_name = |pick: fn(&(u64, u64)) -> u64| {
        let all = functions.iter().filter(|(_, n)| pick(n) != 0).map(|(name, n)| (name.to_string(), pick(n).into()));
        Value::Object(Map::from_iter(all))
    };
    json!({
        "schema": SCHEMA,
        "calls": counts.calls,
        "functions": by_name(|n| n.0),
        "verdict": said.verdict,
        "reasons": said.reasons,
        "notes": said.notes,
        "failed": { "calls": counts.failed, "functions": by_name(|n| n.1) },
        "in_flight": counts.in_flight,
        "unfinished": Unfinished::of(trace).map(|unfinished| unfinished.json(trace)),
        "file": {
            "path": trace.path.display().to_string(),
            "bytes": trace.bytes_on_disk(),
            "closed": trace.footer.is_some(),
            "writer": about.writer,
            "data": about.data.name(),
            "clock": about.clock,
        },
        "program": {
            "path": about.program,
            "command_line": about.command_line,
            "directory": about.directory,
            "host": about.host,
            "pid": about.pid,
            "parent": about.parent,
            "started_ns": about.created,
            "environment": Map::from_iter(about.environment.iter().map(|(k, v)| (k.clone(), v.clone().into()))),
        },
        "driver": { "path": about.driver_path, "version": about.driver_version },
        "more": Map::from_iter(about.more.iter().map(|(k, v)| (k.clone(), v.clone().into()))),
        "devices": trace.devices.iter().map(|d| json!({
            "ordinal": d.ordinal,
            "name": d.name,
            "uuid": hex(&d.uuid),
            "memory": d.memory,
            "compute": [d.compute.0, d.compute.1],
        })).collect::<Vec<_>>(),
        "threads": trace.threads.iter().map(|t| json!({
            "os_id": t.os_id,
            "name": t.name,
            "calls": t.calls.saturating_add(t.repeated),
        })).collect::<Vec<_>>(),
        "kernels": trace.kernels.len(),
        "data": {
            "module_images": counts.module_images,
            "to_device": counts.to_device,
            "from_device": counts.from_device,
            "results_hashed": counts.results_hashed,
            "kernel_arguments": counts.arguments,
            "not_recorded": counts.not_recorded,
            "missing": counts.missing,
        },
        "annotations": Annotated::of(trace),
        "no_device_times": trace.no_device_times,
        "device_times": trace.profile.as_ref().map(|profile| works::profile_object(profile, trace)),
        "adopted": trace.adopted.iter().map(|a| json!({
            "module": format!("{:#x}", a.module),
            "images": a.images.iter().map(|hash| Hash::from_bytes(*hash).to_string()).collect::<Vec<_>>(),
            "origin": a.origin,
        })).collect::<Vec<_>>(),
        "left_out": {
            "calls": trace.calls_left_out(),
            "works": trace.works_left_out(),
        },
        "losses": trace.losses.iter().map(|(what, count)| json!({
            "what": what, "count": count, "replay_needs_it": !no_replay_needs(what),
        })).collect::<Vec<_>>(),
        "damage": trace.damage.iter().map(|d| json!({ "offset": d.offset, "what": d.what })).collect::<Vec<_>>(),
    })
}

fn text(
    out: &mut impl Write,
    trace: &Trace,
    counts: &Counts,
    functions: &Functions,
    said: &Said,
    colored: bool,
) -> Result<()> {
    let about = &trace.preamble;
    let closed = if trace.footer.is_some() { "" } else { ", not closed (see cutrace repair)" };
    line(out, format!("trace        {} ({}{closed})", trace.path.display(), size(trace.bytes_on_disk())))?;
    line(out, format!("program      {} (process {} on {})", about.program, about.pid, about.host))?;
    line(out, format!("command      {}", shell(&about.command_line)))?;
    line(out, format!("directory    {}", about.directory))?;
    let driver = match about.driver_version {
        0 => "version unknown".into(),
        number => format!("CUDA {}", version(number)),
    };
    line(out, format!("driver       {} ({driver})", about.driver_path))?;
    for device in &trace.devices {
        let (major, minor) = device.compute;
        let memory = size(device.memory);
        line(
            out,
            format!("device {:<5} {} ({memory}, compute capability {major}.{minor})", device.ordinal, device.name),
        )?;
    }
    line(
        out,
        format!("recorded     by cutrace {}, data: {}, clock: {}", about.writer, about.data.name(), about.clock),
    )?;
    for (name, value) in &about.more {
        line(out, format!("{name:<12} {value}"))?;
    }
    for (name, value) in &about.environment {
        line(out, format!("environment  {name}={value}"))?;
    }
    for (index, thread) in trace.threads.iter().take(THREADS).enumerate() {
        let calls = counted(thread.calls.saturating_add(thread.repeated), "call");
        line(out, format!("thread {:<5} {:?} (id {}), {calls}", format!("t{index}"), thread.name, thread.os_id))?;
    }
    if let Some(more @ [_, ..]) = trace.threads.get(THREADS..) {
        let calls =
            more.iter().fold(0u64, |all, thread| all.saturating_add(thread.calls).saturating_add(thread.repeated));
        let threads = counted(more.len() as u64, "thread");
        line(out, format!("and {threads} more, {}", counted(calls, "call")))?;
    }
    line(out, String::new())?;
    for (what, amount) in [
        ("module images", counts.module_images),
        ("to the device", counts.to_device),
        ("from the device", counts.from_device),
        ("results hashed", counts.results_hashed),
        ("kernel arguments", counts.arguments),
        ("not recorded", counts.not_recorded),
        (if about.data == Data::None { "data left out" } else { "lost or cut off" }, counts.missing),
    ] {
        if amount.pieces != 0 {
            line(out, format!("{what:<17} {:>9} in {}", size(amount.bytes), counted(amount.pieces, "piece")))?;
        }
    }
    let annotated = Annotated::of(trace);
    if annotated.all != 0 {
        let open =
            if annotated.open == 0 { String::new() } else { format!(" ({} not ended)", grouped(annotated.open)) };
        let (ranges, marks) = (counted(annotated.ranges, "range"), counted(annotated.marks, "mark"));
        let (names, domains) = (counted(annotated.names, "name"), counted(annotated.domains, "domain"));
        line(out, format!("annotations       {ranges}{open}, {marks}, {names}, in {domains}"))?;
    }
    for told in trace.profile.iter().flat_map(|profile| works::lines(profile, trace)) {
        line(out, told)?;
    }
    if let Some(why) = trace.no_device_times.as_ref().filter(|_| trace.profile.is_none()) {
        line(out, format!("device times      none: {why}"))?;
    }
    if !trace.left_out.is_empty() {
        let calls = counted(trace.calls_left_out(), "call");
        line(
            out,
            format!("left out          {calls} by the range, {} of work for devices", grouped(trace.works_left_out())),
        )?;
    }
    for module in &trace.adopted {
        let images = counted(module.images.len() as u64, "image");
        line(out, format!("adopted: module {:#x}, {images} from {}", module.module, module.origin))?;
    }
    for (what, count) in &trace.losses {
        let count = grouped(*count);
        line(
            out,
            match no_replay_needs(what) {
                true => format!("note: not recorded: {what} ({count}); no replay needs it"),
                false => format!("lost: {what} ({count})"),
            },
        )?;
    }
    for damage in &trace.damage {
        line(out, format!("damage: at offset {}: {}", damage.offset, damage.what))?;
    }
    for unfinished in Unfinished::of(trace).into_iter().flat_map(|unfinished| unfinished.lines(trace)) {
        line(out, format!("unfinished: {unfinished}"))?;
    }
    let in_flight =
        if counts.in_flight == 0 { String::new() } else { format!(", {} did not return", counts.in_flight) };
    line(out, String::new())?;
    line(out, format!("{}, {} failed{in_flight}", counted(counts.calls, "call"), grouped(counts.failed)))?;
    for (name, (calls, failed)) in functions {
        let failed = if *failed == 0 { String::new() } else { format!("  ({} failed)", grouped(*failed)) };
        line(out, format!("{:>12}  {name}{failed}", grouped(*calls)))?;
    }
    let (on, off) = match (colored, said.verdict.as_str()) {
        (false, _) => ("", ""),
        (true, "replayable") => ("\x1b[32m", "\x1b[0m"),
        (true, "partly") => ("\x1b[33m", "\x1b[0m"),
        (true, _) => ("\x1b[31m", "\x1b[0m"),
    };
    writeln!(out, "\nverdict: {on}{}{off}", said.verdict)?;
    for reason in &said.reasons {
        line(out, format!("  {reason}"))?;
    }
    for note in &said.notes {
        line(out, format!("  note: {note}"))?;
    }
    Ok(())
}

/// A line in which nothing that a stranger's trace holds gets hold of the terminal.
fn line(out: &mut impl Write, text: String) -> Result<()> {
    Ok(writeln!(out, "{}", plain(&text))?)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
