//! `cutrace replay`: makes the calls of a trace again and compares what comes back.

mod bisect;
mod compared;
mod culprit;
mod finding;
mod printed;

use crate::driver::{self, Choice};
use crate::exit::{DIVERGED, DONE, FAILED, NO_DRIVER, UNREADABLE, UNVERIFIED, failure};
use crate::figures::{counted, grouped, size};
use crate::{exit, layout, signals};
use anyhow::Result;
use finding::Finding;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use replayer::{Divergence, Options, Outcome, Plan, Progress, Report, Verdict};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::io::Write;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::{Duration, Instant};
use trace::Trace;

/// Make the calls of a trace again and compare results, outputs and bytes
///
/// Needs neither the program nor its data. Memory goes to its recorded addresses where it can, the recorded CUDA_*
/// variables are set where the environment does not set them itself, and every result, output and copy to the host is
/// compared with the recording. A replay of more than a second shows a progress bar on stderr if that is a terminal.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  cutrace replay                         trace.bin, on the machine's driver
  cutrace replay app.bin --dry-run       what would be done, without a driver
  cutrace replay app.bin --device 0=1    what ran on device 0 runs on device 1
  cutrace replay app.bin --driver sim
  cutrace replay --sync-launches         which launch made the program fail
  cutrace replay --bisect                which kernel does not compute the same twice
  cutrace replay --fill 0xa5             does the program read memory that it never wrote?
  cutrace replay --verify 1e-4,1e-6,f32  a trace of record --data=all, compared as numbers
  cutrace replay --break vector_add#2 --dump-memory mem#3 before.bin

Exit status:
  0 verified (or --no-verify, or stopped as asked)
  1 not replayable, or a launch failed as recorded
  2 usage
  3 the trace cannot be read        4 diverged
  5 no usable driver                6 nothing that the device computed could be compared
  128 + signal if interrupted")]
pub struct Arguments {
    /// The trace
    #[arg(value_name = "FILE", default_value = "trace.bin")]
    file: PathBuf,
    /// Do not compare anything
    #[arg(long)]
    no_verify: bool,
    /// Do not put memory back at its recorded addresses: translate all pointers that can be recognised
    #[arg(long)]
    no_placement: bool,
    /// The driver to use: a path, or "sim" for the simulated one
    #[arg(long, value_name = "PATH|sim")]
    driver: Option<Choice>,
    /// Which device stands in for which: 0=1,1=0 (recorded=here), or one number for all
    #[arg(long, value_name = "MAP")]
    device: Option<Devices>,
    /// Plan and verdict only: no driver is needed or loaded
    #[arg(long)]
    dry_run: bool,
    /// As JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    finding: Finding,
}

/// Version of the JSON form. Fields may be added within a version.
const SCHEMA: u32 = 1;

/// `--device`
#[derive(Debug, Clone)]
enum Devices {
    All(i32),
    Each(HashMap<i32, i32>),
}

impl FromStr for Devices {
    type Err = String;

    fn from_str(text: &str) -> Result<Devices, String> {
        let number = |text: &str| match text.trim().parse() {
            Ok(number @ 0..) => Ok(number),
            _ => Err(format!("{text:?} is not a device number")),
        };
        if !text.contains('=') {
            return number(text).map(Devices::All);
        }
        let pair = |pair: &str| match pair.split_once('=') {
            Some((recorded, here)) => Ok((number(recorded)?, number(here)?)),
            None => Err(format!("{pair:?} is not RECORDED=HERE")),
        };
        text.split(',').map(pair).collect::<Result<_, String>>().map(Devices::Each)
    }
}

impl Devices {
    fn map(&self, trace: &Trace, plan: &Plan) -> HashMap<i32, i32> {
        match self {
            Devices::Each(map) => map.clone(),
            Devices::All(here) => {
                let recorded = trace.devices.iter().map(|d| d.ordinal).chain(plan.devices.iter().copied());
                recorded.map(|device| (device, *here)).collect()
            }
        }
    }
}

pub fn run(arguments: Arguments) -> Result<u8> {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
    let shown = bar.clone();
    signals::on_interruption(move |name| {
        let so_far = match (shown.position(), shown.length()) {
            (done, Some(all)) => format!("after about {} of {} calls", grouped(done), grouped(all)),
            (_, None) => "before the first call".into(),
        };
        shown.finish_and_clear();
        exit::say(format_args!("interrupted by {name} {so_far}; there is no verdict"));
    });
    let mut trace = Trace::open(&arguments.file)?;
    let damage = exit::damage_of(&trace);
    // Up to the first call that needs a blob that is damaged, all can be made again.
    trace.check_blobs();
    if let Some(damage) = damage.filter(|_| !arguments.dry_run) {
        let hint = "a replay needs all of it (cutrace repair -o makes a trace of what can be read)";
        return Err(failure(UNREADABLE, format_args!("{damage}; {hint}")));
    }
    let plan = replayer::plan(&trace);
    if arguments.dry_run || plan.verdict == Verdict::No {
        show_plan(&trace, &plan, !arguments.no_placement, arguments.json)?;
        return Ok(match (exit::damage(&trace, 0), plan.verdict) {
            (DONE, Verdict::No) => FAILED,
            (damage, _) => damage,
        });
    }
    let mut tools = arguments.finding.tools(&trace, &plan)?;
    let missing = plan.missing.as_ref().filter(|missing| tools.end.is_none_or(|end| missing.call < end));
    tools.end = missing.map(|missing| missing.call).or(tools.end);
    if !arguments.no_placement {
        layout::make_room(&plan)?;
    }
    layout::set_environment(&plan);
    let found = driver::find(arguments.driver.as_ref().unwrap_or(&Choice::System))
        .map_err(|tried| tried.as_failure("no usable driver"))?;
    let devices = arguments.device.map_or_else(HashMap::new, |devices| devices.map(&trace, &plan));
    // The layout of this process is as good as it gets.
    let options = Options {
        driver: found.path.clone(),
        verify: !arguments.no_verify,
        devices,
        place: !arguments.no_placement,
        translate: true,
        tools,
    };
    let bar = Bar::new(bar, plan.calls());
    let aside = printed::Aside::begin();
    let report = replayer::replay(&trace, &plan, &options, &bar);
    drop(aside);
    bar.bar.finish_and_clear();
    let report = report.map_err(|error| match error {
        replayer::Error::Worker | replayer::Error::Dump { .. } => failure(FAILED, error),
        error => failure(NO_DRIVER, format_args!("{error}; the driver is {} ({})", found.path.display(), found.how)),
    })?;
    let bisection = match &arguments.finding {
        Finding { trail: Some(path), .. } => {
            bisect::leave(path, &report)?;
            None
        }
        Finding { bisect: true, .. } => bisect::second(&report)?,
        _ => None,
    };
    let mut out = std::io::stdout().lock();
    if arguments.json {
        let mut whole = object(&trace, &plan, &report, &options);
        whole["bisection"] = bisection.as_ref().map_or(Value::Null, bisect::object);
        serde_json::to_writer_pretty(&mut out, &whole)?;
        writeln!(out)?;
    } else {
        text(&mut out, &plan, &report)?;
        if arguments.finding.bisect {
            bisect::text(&mut out, bisection.as_ref(), &report)?;
        }
        if report.culprit.is_none() {
            finding::dumped(&mut out, &options.tools)?;
        }
    }
    out.flush()?;
    if let Some(missing) = missing {
        let (call, function, size) = (missing.call, missing.function, size(missing.len));
        let place = exit::damage_of(&trace).unwrap_or_else(|| trace.path.display().to_string());
        let what = format_args!("call {call} {function} needs {size} of blob {}", missing.blob);
        exit::say(format_args!("{place}: stopped: {what}, which is damaged or not in the file"));
    }
    Ok(match report.outcome {
        Outcome::Diverged => DIVERGED,
        _ if missing.is_some() => UNREADABLE,
        Outcome::Unverified => UNVERIFIED,
        Outcome::Faulted => FAILED,
        _ => DONE,
    })
}

/// On stderr, for replays of more than a second.
struct Bar {
    bar: ProgressBar,
    started: Instant,
}

impl Bar {
    fn new(bar: ProgressBar, calls: u64) -> Bar {
        let style = ProgressStyle::with_template("replaying {wide_bar} {human_pos}/{human_len} calls, {eta}");
        bar.set_length(calls);
        Bar { bar: bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar())), started: Instant::now() }
    }
}

impl Progress for Bar {
    fn advance(&self, calls: u64) {
        if self.bar.is_hidden() && self.started.elapsed() > Duration::from_secs(1) {
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        self.bar.inc(calls);
    }

    fn stalled(&self, patience: Duration, waiting: &[(u64, String)]) {
        let calls: Vec<String> = waiting.iter().map(|(call, function)| format!("call {call} {function}")).collect();
        let what = match &calls[..] {
            [] => "the work that the recording left under way".to_owned(),
            calls => calls.join(", "),
        };
        let patience = patience.as_secs();
        self.bar.suspend(|| exit::say(format_args!("nothing has come to an end for {patience} s; waiting for {what}")));
    }

    fn warn(&self, what: &str) {
        self.bar.suspend(|| eprintln!("cutrace: warning: {what}"));
    }
}

fn show_plan(trace: &Trace, plan: &Plan, place: bool, as_json: bool) -> Result<()> {
    let mut out = std::io::stdout().lock();
    let reasons: Vec<String> = plan.reasons.iter().map(ToString::to_string).collect();
    let (device, host) = (plan.device_memory().1, plan.host_memory());
    if as_json {
        let whole = json!({
            "schema": SCHEMA,
            "outcome": Value::Null,
            "verdict": plan.verdict.name(),
            "reasons": reasons,
            "notes": plan.notes.iter().map(ToString::to_string).collect::<Vec<_>>(),
            "calls": trace.len(),
            "launches": plan.launches,
            "unreached_launches": plan.unreached_launches,
            "unfinished": plan.unfinished.len(),
            "overlapping_submissions": plan.overlapping_submissions,
            "device_bytes": device,
            "host_bytes": host,
            "devices": plan.devices,
            "place": place,
        });
        serde_json::to_writer_pretty(&mut out, &whole)?;
        writeln!(out)?;
        return Ok(out.flush()?);
    }
    writeln!(out, "verdict: {}", plan.verdict)?;
    for reason in &reasons {
        writeln!(out, "  {reason}")?;
    }
    for note in &plan.notes {
        writeln!(out, "  note: {note}")?;
    }
    let devices = counted(plan.devices.len() as u64, "device");
    writeln!(out, "{} of {}", counted(trace.len() as u64, "call"), counted(trace.threads.len() as u64, "thread"))?;
    writeln!(out, "{} of device memory on {devices}, {} of pinned host memory", size(device), size(host))?;
    let launches = counted(plan.launches, "launch");
    writeln!(out, "{launches}, of which {} reach no comparison", grouped(plan.unreached_launches))?;
    if !place {
        writeln!(out, "no memory is put back, all addresses are translated: {}", replayer::BLIND)?;
    }
    Ok(out.flush()?)
}

fn text(out: &mut impl Write, plan: &Plan, report: &Report) -> Result<()> {
    let checked = &report.checked;
    match (report.outcome, report.refused()) {
        (Outcome::Replayed, _) => writeln!(out, "replayed, not compared")?,
        (Outcome::Verified, 0) => writeln!(out, "verified")?,
        (Outcome::Verified, 1) => writeln!(out, "verified, except for 1 call that was refused")?,
        (Outcome::Verified, n) => writeln!(out, "verified, except for {} calls that were refused", grouped(n))?,
        (Outcome::Diverged, _) => writeln!(out, "diverged")?,
        (Outcome::Stopped, _) => writeln!(out, "stopped, and nothing up to there differs")?,
        (Outcome::Faulted, _) => writeln!(out, "a launch failed, as recorded")?,
        (Outcome::Unverified, _) => {
            writeln!(out, "unverified: nothing that the device computed could be compared")?;
        }
    }
    if let Some((call, function)) = &report.stopped_before {
        writeln!(out, "  stopped      before call {call} {function}")?;
    }
    let elapsed = report.elapsed.as_secs_f64();
    let (executed, emulated) = (counted(report.executed, "call"), grouped(report.emulated));
    writeln!(out, "  made again   {executed}, {emulated} memory calls by other means, in {elapsed:.2} s")?;
    if report.outcome != Outcome::Replayed {
        let (results, outputs) = (counted(checked.results, "result"), counted(checked.outputs, "output"));
        let copies = counted(checked.copies, "copy");
        writeln!(out, "  compared     {results}, {outputs}, {copies} to the host ({})", size(checked.bytes))?;
        if checked.within_tolerance != 0 {
            let copies = counted(checked.within_tolerance, "copy");
            writeln!(out, "  close        {copies} within the tolerance, not the same byte for byte")?;
        }
        let mut missing = Vec::new();
        if report.unchecked_copies != 0 {
            missing.push(format!("{} to the host", counted(report.unchecked_copies, "copy")));
        }
        if report.unreached_launches != 0 {
            let (some, all) = (grouped(report.unreached_launches), grouped(report.launches));
            missing.push(format!("the effect of {some} of {all} launches"));
        }
        if !missing.is_empty() {
            writeln!(out, "  not compared {}", missing.join(", "))?;
        }
    }
    let placed = &report.placement;
    let moved = placed.translated + placed.host_translated;
    let at_home = grouped(placed.placed + placed.host_placed);
    writeln!(out, "  memory       {at_home} allocations where they were, {} elsewhere", grouped(moved))?;
    for line in report.trust() {
        writeln!(out, "  translated   {line}")?;
    }
    for left in &report.left_out {
        let how = if left.refused { "refused" } else { "skipped" };
        let (count, first) = (grouped(left.count), left.first);
        writeln!(out, "  {how:<12} {} ({count}, first call {first}): {}", left.function, left.reason)?;
    }
    if report.unfinished != 0 {
        writeln!(out, "  unfinished   {} when the recording ended", counted(report.unfinished, "call"))?;
    }
    for (what, count) in [
        ("kernel arguments that look like addresses in no known memory", report.unresolved_pointers),
        ("calls that failed and name an object which is not there (left out)", report.unknown_handles),
        ("texture and surface objects whose numbers are others here", report.other_numbers),
        ("bytes written by the CPU without a call", report.written),
        ("pieces of them written while the device may have been reading", report.written_in_use),
        ("pieces written by the CPU that could not be written again", report.lost_writes),
        ("runs of callbacks that did not come", report.missed_callbacks),
        ("submissions to one stream that overlapped when recorded", report.overlapping_submissions),
        ("allocations of what another stream freed, which do not wait for it here", placed.unordered),
    ] {
        if count != 0 {
            writeln!(out, "  as recorded  {what}: {}", grouped(count))?;
        }
    }
    if plan.verdict != Verdict::Replayable {
        writeln!(out, "  recorded in part:")?;
        for reason in &plan.reasons {
            writeln!(out, "    {reason}")?;
        }
    }
    if let Some(watched) = &report.watched {
        culprit::text(out, watched, report)?;
    }
    if let Some(first) = &report.first {
        divergence(out, first, report.divergences)?;
    }
    Ok(())
}

fn divergence(out: &mut impl Write, first: &Divergence, all: u64) -> Result<()> {
    writeln!(out, "first of {}:", counted(all, "difference"))?;
    writeln!(out, "  call {} {} on thread t{}: {}", first.call, first.function, first.thread, first.what)?;
    if let Some(offset) = first.offset {
        writeln!(out, "  at byte {offset}")?;
    }
    writeln!(out, "  expected {}", first.expected)?;
    writeln!(out, "  found    {}", first.found)?;
    if let Some(extent) = &first.extent {
        compared::text(out, extent)?;
    }
    for (call, kernel) in &first.launches {
        writeln!(out, "  launched before with this memory: call {call} {kernel}")?;
    }
    Ok(())
}

fn object(trace: &Trace, plan: &Plan, report: &Report, options: &Options) -> Value {
    let outcome = match report.outcome {
        Outcome::Verified => "verified",
        Outcome::Diverged => "diverged",
        Outcome::Unverified => "unverified",
        Outcome::Replayed => "replayed",
        Outcome::Faulted => "faulted",
        Outcome::Stopped => "stopped",
    };
    let first = report.first.as_ref().map(|first| {
        json!({
            "call": first.call,
            "function": first.function,
            "thread": first.thread,
            "what": first.what,
            "offset": first.offset,
            "expected": first.expected,
            "found": first.found,
            "extent": first.extent.as_ref().map(compared::object),
            "launches": first.launches.iter().map(|(call, kernel)| json!({ "call": call, "kernel": kernel }))
                .collect::<Vec<_>>(),
        })
    });
    let placed = &report.placement;
    json!({
        "schema": SCHEMA,
        "outcome": outcome,
        "verdict": plan.verdict.name(),
        "reasons": plan.reasons.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "driver": options.driver.display().to_string(),
        "verify": options.verify,
        "calls": trace.len(),
        "executed": report.executed,
        "emulated": report.emulated,
        "left_out": report.left_out.iter().map(|left| json!({
            "function": left.function,
            "reason": left.reason,
            "refused": left.refused,
            "count": left.count,
            "first": left.first,
        })).collect::<Vec<_>>(),
        "refused": report.refused(),
        "inner": report.inner,
        "unfinished": report.unfinished,
        "checked": {
            "results": report.checked.results,
            "outputs": report.checked.outputs,
            "copies": report.checked.copies,
            "bytes": report.checked.bytes,
            "within_tolerance": report.checked.within_tolerance,
        },
        "unchecked_copies": report.unchecked_copies,
        "launches": report.launches,
        "unreached_launches": report.unreached_launches,
        "unresolved_pointers": report.unresolved_pointers,
        "translated_words": {
            "payloads": report.words.payloads,
            "arguments": report.words.arguments,
            "results": report.words.results,
            "left": report.words.left,
        },
        "unknown_handles": report.unknown_handles,
        "other_numbers": report.other_numbers,
        "written_by_cpu": report.written,
        "written_in_use": report.written_in_use,
        "lost_writes": report.lost_writes,
        "missed_callbacks": report.missed_callbacks,
        "overlapping_submissions": report.overlapping_submissions,
        "placement": {
            "placed": placed.placed,
            "translated": placed.translated,
            "host_placed": placed.host_placed,
            "host_translated": placed.host_translated,
            "bytes": placed.bytes,
            "unfilled": placed.unfilled,
            "unordered": placed.unordered,
        },
        "divergences": report.divergences,
        "first_divergence": first,
        "stopped_before": report.stopped_before.as_ref().map(|(call, _)| call),
        "one_by_one": report.watched.as_ref().map(culprit::watched_object),
        "culprit": report.culprit.as_ref().map(culprit::object),
        "elapsed_ns": report.elapsed.as_nanos() as u64,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_maps() {
        assert!(matches!("1".parse(), Ok(Devices::All(1))));
        let Ok(Devices::Each(map)) = "0=1, 1=0".parse() else { panic!("a map") };
        assert_eq!(map, HashMap::from([(0, 1), (1, 0)]));
        for wrong in ["", "x", "-1", "0=", "0=1,2"] {
            assert!(wrong.parse::<Devices>().is_err(), "{wrong}");
        }
    }
}
