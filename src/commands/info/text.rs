//! The contents of a trace, for people.

use super::counts::{Counts, Functions};
use crate::commands::info::summary::Summary;
use crate::verdict::{Said, describe};
use analysis::calls::device_work::{self, SIMULATED};
use analysis::calls::unfinished::{Unfinished, not_closed};
use analysis::text::figures::{counted, grouped, size};
use analysis::text::shell::shell;
use anyhow::Result;
use std::io::Write;
use trace::Trace;
use trace::file::preamble::Data;
use trace::file::record::no_replay_needs;
use trace::show::text::plain;

/// Threads that are listed; the others are summed up.
const THREADS: usize = 16;
/// The same of files that have what the trace only names.
const SOURCES: usize = 16;

/// `verbose`: with all of the recorded environment.
pub(super) fn text(
    out: &mut impl Write,
    trace: &Trace,
    summary: &Summary,
    functions: &Functions,
    (colored, verbose): (bool, bool),
) -> Result<()> {
    verdict(out, &summary.said, colored)?;
    line(out, String::new())?;
    origin(out, trace)?;
    line(out, String::new())?;
    data(out, trace, summary)?;
    lacks(out, trace)?;
    line(out, String::new())?;
    calls(out, &summary.counts, functions)?;
    line(out, String::new())?;
    threads(out, trace)?;
    environment(out, trace, verbose)
}

/// What was recorded, where, and with what.
fn origin(out: &mut impl Write, trace: &Trace) -> Result<()> {
    let about = &trace.preamble;
    let packed = if trace.is_packed() { format!(" packed, of {}", size(trace.length())) } else { String::new() };
    let closed = not_closed(trace);
    line(out, format!("trace        {} ({}{packed}{closed})", trace.path.display(), size(trace.bytes_on_disk())))?;
    // A redacted trace has no host.
    let on = if about.host.is_empty() { String::new() } else { format!(" on {}", about.host) };
    line(out, format!("program      {} (process {}{on})", about.program, about.pid))?;
    line(out, format!("command      {}", shell(&about.command_line)))?;
    if !about.directory.is_empty() {
        line(out, format!("directory    {}", about.directory))?;
    }
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
    if trace.is_simulated() {
        line(out, format!("times        {SIMULATED}"))?;
    }
    line(
        out,
        format!("recorded     by cutrace {}, data: {}, clock: {}", about.writer, about.data.name(), about.clock),
    )?;
    if let Some(ended) = trace.ended {
        line(out, format!("ended        {ended}"))?;
    }
    for (name, value) in &about.more {
        match name.as_str() {
            Trace::FOLLOWS => line(out, "CPU writes   recorded".into())?,
            _ => line(out, format!("{name:<12} {value}"))?,
        }
    }
    Ok(())
}

/// Variables that may change what the driver or the program does, but for the recorder's own and for long lists
/// of what an image requires.
fn environment(out: &mut impl Write, trace: &Trace, verbose: bool) -> Result<()> {
    const LONGEST: usize = 200;
    let of_recorder = |name: &str, value: &str| match name {
        "LD_PRELOAD" => value.split([':', ' ']).all(|path| path.is_empty() || path.contains("/libcutrace")),
        _ => name.starts_with("CUTRACE_"),
    };
    let is_long = |name: &str, value: &str| name.starts_with("NVIDIA_REQUIRE_") || value.len() > LONGEST;
    let mut left_out = 0;
    for (name, value) in &trace.preamble.environment {
        match verbose {
            false if of_recorder(name, value) => {}
            false if is_long(name, value) => left_out += 1,
            _ => line(out, format!("environment  {name}={value}"))?,
        }
    }
    if left_out > 0 {
        line(out, format!("environment  and {} (-v)", counted(left_out, "more variable")))?;
    }
    Ok(())
}

fn threads(out: &mut impl Write, trace: &Trace) -> Result<()> {
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
    Ok(())
}

/// Memory that was recorded, annotations, and times of devices.
fn data(out: &mut impl Write, trace: &Trace, summary: &Summary) -> Result<()> {
    let Summary { counts, sources, annotated, collectives, shared_memory, works, .. } = summary;
    for (what, amount) in [
        ("module images", counts.module_images),
        ("to the device", counts.to_device),
        ("from the device", counts.from_device),
        ("results hashed", counts.results_hashed),
        ("kernel arguments", counts.arguments),
        ("not recorded", counts.not_recorded),
        ("not completed", counts.not_arrived),
        (if trace.preamble.data == Data::None { "without data" } else { "lost or truncated" }, counts.missing),
    ] {
        if amount.pieces != 0 {
            line(out, format!("{what:<17} {:>9} in {}", size(amount.bytes), counted(amount.pieces, "piece")))?;
        }
    }
    for (source, pieces, bytes) in sources.iter().take(SOURCES) {
        let (pieces, file) = (counted(*pieces, "piece"), size(source.size));
        line(out, format!("{:<17} {:>9} in {pieces} of {} ({file})", "by reference", size(*bytes), source.path))?;
    }
    if let Some(more @ [_, ..]) = sources.get(SOURCES..) {
        let bytes = more.iter().fold(0u64, |sum, (_, _, bytes)| sum.saturating_add(*bytes));
        let files = counted(more.len() as u64, "more file");
        line(out, format!("{:<17} {:>9} of {files}", "by reference", size(bytes)))?;
    }
    if annotated.all != 0 {
        let open =
            if annotated.open == 0 { String::new() } else { format!(" ({} not ended)", grouped(annotated.open)) };
        let (ranges, marks) = (counted(annotated.ranges, "range"), counted(annotated.marks, "mark"));
        let (names, domains) = (counted(annotated.names, "name"), counted(annotated.domains, "domain"));
        line(out, format!("annotations       {ranges}{open}, {marks}, {names}, in {domains}"))?;
    }
    if collectives.communicators != 0 {
        let communicators = counted(collectives.communicators, "communicator");
        let operations = counted(collectives.operations, "operation");
        line(out, format!("collectives       {communicators} of NCCL, {operations}"))?;
    }
    if collectives.is_kept {
        let (kept, lost) = (counted(collectives.delivered, "operation"), collectives.lost);
        let lost = if lost == 0 { String::new() } else { format!(", {} without results", grouped(lost)) };
        let bytes = size(collectives.delivered_bytes);
        line(out, format!("{:<17} {bytes:>9} of {kept}{lost} (for replay --alone)", "NCCL results"))?;
    }
    if shared_memory.is_kept && shared_memory.calls + shared_memory.lost != 0 {
        let (calls, bytes) = (counted(shared_memory.calls, "call"), size(shared_memory.bytes));
        let lost = match shared_memory.lost {
            0 => String::new(),
            lost => format!(", not before {}", grouped(lost)),
        };
        line(out, format!("{:<17} {bytes:>9} before {calls}{lost}", "imported memory"))?;
    }
    for text in trace.profile.iter().flat_map(|profile| device_work::lines(profile, *works)) {
        line(out, text)?;
    }
    Ok(())
}

/// What the trace lacks, and what is noteworthy.
fn lacks(out: &mut impl Write, trace: &Trace) -> Result<()> {
    if let Some(why) = trace.no_device_times.as_ref().filter(|_| trace.profile.is_none()) {
        line(out, format!("device times      none: {why}"))?;
    }
    if !trace.left_out.is_empty() {
        let calls = counted(trace.calls_left_out(), "call");
        line(out, format!("outside range     {calls}, {} of them device work", grouped(trace.works_left_out())))?;
    }
    if let Some(stretches) = stretches(trace) {
        line(out, format!("recorded          {stretches}"))?;
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
                true => format!("note: not recorded: {what} ({count}); replay does not need it"),
                false => format!("lost: {what} ({count})"),
            },
        )?;
    }
    for damage in &trace.damage {
        line(out, format!("damage: at offset {}: {}", damage.offset, damage.what))?;
    }
    for unfinished in Unfinished::find(trace).into_iter().flat_map(|unfinished| unfinished.lines(trace)) {
        line(out, format!("unfinished: {unfinished}"))?;
    }
    Ok(())
}

/// When a recording that was switched on or off from outside was on.
fn stretches(trace: &Trace) -> Option<String> {
    const LISTED: usize = 8;
    trace.switched.first()?;
    let stretches = trace.switched_on();
    let at = |time: u64| format!("{:.3} s", trace.nanoseconds(time) as f64 / 1e9);
    let words = stretches.iter().take(LISTED).map(|(from, to)| match to {
        Some(to) => format!("{} to {}", at(*from), at(*to)),
        None => format!("{} to the end", at(*from)),
    });
    let more = stretches.len().saturating_sub(LISTED);
    let more = (more > 0).then(|| format!("and {}", counted(more as u64, "more range")));
    Some(words.chain(more).collect::<Vec<_>>().join(", "))
}

fn calls(out: &mut impl Write, counts: &Counts, functions: &Functions) -> Result<()> {
    let in_flight =
        if counts.in_flight == 0 { String::new() } else { format!(", {} did not return", counts.in_flight) };
    line(out, format!("{}, {} failed{in_flight}", counted(counts.calls, "call"), grouped(counts.failed)))?;
    for (name, (calls, failed)) in functions {
        let failed = if *failed == 0 { String::new() } else { format!("  ({} failed)", grouped(*failed)) };
        line(out, format!("{:>12}  {name}{failed}", grouped(*calls)))?;
    }
    Ok(())
}

fn verdict(out: &mut impl Write, said: &Said, colored: bool) -> Result<()> {
    let (on, off) = match (colored, said.verdict.as_str()) {
        (false, _) => ("", ""),
        (true, "replayable") => ("\x1b[32m", "\x1b[0m"),
        (true, "partly") => ("\x1b[33m", "\x1b[0m"),
        (true, _) => ("\x1b[31m", "\x1b[0m"),
    };
    writeln!(out, "verdict: {on}{}{off}", describe(&said.verdict))?;
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

/// `13000` as `13.0`.
fn version(number: i32) -> String {
    format!("{}.{}", number / 1000, number % 1000 / 10)
}
