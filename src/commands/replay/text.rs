//! The text of a replay's plan and of its result.

use super::as_json::{LISTED, Planned};
use super::explain::Explanation;
use super::{culprit, explain};
use crate::commands::replay::{comparison, explanation_text};
use crate::terminal::color;
use crate::terminal::standard_output::Results;
use analysis::text::figures::{counted, grouped, size};
use analysis::text::shell::shell;
use anyhow::Result;
use replayer::{Divergence, Outcome, Plan, Report, Verdict};
use std::collections::BTreeMap;
use std::io::Write;
use trace::Trace;
use trace::read::shared_handles::exports;

pub(super) fn plan(trace: &Trace, plan: &Plan, planned: &Planned) -> Result<()> {
    let mut out = Results::begin();
    let (device, host) = (planned.device_bytes, planned.host_bytes);
    writeln!(out, "verdict: {}", crate::verdict::describe(plan.judgement.verdict.name()))?;
    for reason in &planned.reasons {
        writeln!(out, "  {reason}")?;
    }
    for note in &planned.notes {
        writeln!(out, "  note: {note}")?;
    }
    let devices = counted(plan.devices.used.len() as u64, "device");
    writeln!(out, "{} of {}", counted(trace.len() as u64, "call"), counted(trace.threads.len() as u64, "thread"))?;
    writeln!(out, "{} of device memory on {devices}, {} of pinned host memory", size(device), size(host))?;
    let launches = counted(plan.counts.launches, "launch");
    let checked = match (plan.counts.launches, plan.counts.unreached_launches) {
        (_, 0) => "all".into(),
        (all, unreached) => grouped(all.saturating_sub(unreached)),
    };
    if plan.counts.launches > 0 {
        writeln!(out, "{launches}, {checked} covered by a comparison")?;
    }
    if !planned.place {
        writeln!(out, "no memory at its recorded address, all addresses are translated: {}", replayer::UNTRANSLATED)?;
    }
    Ok(out.flush()?)
}

/// `place`: memory was put back at its addresses. `verbose`: also what concerns the replay rather than the
/// program.
pub(super) fn text(
    out: &mut impl Write,
    trace: &Trace,
    plan: &Plan,
    report: &Report,
    explained: Option<&Explanation>,
    (place, verbose): (bool, bool),
) -> Result<()> {
    let verbose = verbose || report.outcome == Outcome::Diverged;
    let mut line = Vec::new();
    outcome(&mut line, trace, plan, report, explained)?;
    match color_of(report.outcome).filter(|_| color::is_wanted()) {
        Some(code) => writeln!(out, "\x1b[{code}m{}\x1b[0m", String::from_utf8_lossy(&line).trim_end_matches('\n'))?,
        None => out.write_all(&line)?,
    }
    let elapsed = report.elapsed.as_secs_f64();
    let calls = counted(report.tally.executed + report.tally.emulated, "call");
    writeln!(out, "  replayed     {calls} in {elapsed:.2} s")?;
    if verbose && report.tally.emulated != 0 {
        let calls = counted(report.tally.emulated, "call");
        writeln!(
            out,
            "               {calls} of them emulated: allocations and frees that keep the recorded addresses"
        )?;
    }
    if plan.job.single_rank.as_ref().is_some_and(|alone| alone.keeps_memory) && report.tally.held != 0 {
        let calls = counted(report.tally.held, "call");
        let bytes = size(report.tally.held_bytes);
        writeln!(out, "  imported     {bytes} of recorded contents of other processes' memory, before {calls}")?;
    }
    if plan.job.single_rank.as_ref().is_some_and(|alone| alone.keeps_collectives) {
        let launches = counted(report.tally.delivered, "launch");
        writeln!(
            out,
            "  alone        recorded results replace {launches} of NCCL: {}",
            size(report.tally.delivered_bytes)
        )?;
    }
    compared_with(out, trace, plan, report)?;
    memory(out, report)?;
    if let left_out @ [_, ..] = &plan.environment.left_out[..] {
        writeln!(out, "  not set      {}: only variables that change results are set", left_out.join(", "))?;
    }
    for left in &report.tally.left_out() {
        let how = if left.refused { "refused" } else { "skipped" };
        let (count, first) = (grouped(left.count), left.first);
        writeln!(out, "  {how:<12} {} ({count}, first call {first}): {}", left.function, left.reason)?;
    }
    unfinished(out, trace, report)?;
    notes(out, report, verbose)?;
    if plan.judgement.verdict != Verdict::Replayable {
        writeln!(out, "  partly recorded:")?;
        for reason in &plan.judgement.reasons {
            writeln!(out, "    {reason}")?;
        }
    }
    if let Some(watched) = &report.watched {
        culprit::text(out, trace, watched, report, place)?;
    }
    if let Some(first) = &report.tally.first {
        divergence(out, first, report.tally.divergences)?;
    }
    if let Some(explained) = explained {
        explanation_text::text(out, explained)?;
    }
    advice(out, trace, report, place, explained.is_some_and(Explanation::is_found))
}

/// Of the line that says what came of it.
fn color_of(outcome: Outcome) -> Option<u8> {
    const RED: u8 = 31;
    const GREEN: u8 = 32;
    const YELLOW: u8 = 33;
    match outcome {
        Outcome::Verified => Some(GREEN),
        Outcome::Diverged | Outcome::Faulted => Some(RED),
        Outcome::Unverified => Some(YELLOW),
        Outcome::Replayed | Outcome::Stopped => None,
    }
}

/// Why the recording could not be made again as it was, as `info` says: what differs may be due to that.
fn in_part(plan: &Plan) -> String {
    let more = || match plan.judgement.reasons.len() {
        2.. => format!(" (and {} more)", counted(plan.judgement.reasons.len() as u64 - 1, "reason")),
        _ => String::new(),
    };
    plan.judgement.reasons.first().map_or_else(String::new, |first| format!("; partly recorded: {first}{}", more()))
}

/// The first difference if it is the return code of a call, where nothing else explains it.
fn other_result(report: &Report, explained: Option<&Explanation>) -> String {
    let first = report.tally.first.as_ref().filter(|first| first.what == "result");
    let first = first.filter(|_| explained.is_none_or(Explanation::blames_the_replay));
    first.map_or_else(String::new, |first| {
        let Divergence { call, function, expected, found, .. } = first;
        format!(": call {call} {function} returned {found}, not {expected}")
    })
}

/// Why nothing was copied to the host that could be compared.
fn nothing_copied(trace: &Trace, report: &Report) -> String {
    match &report.recorded_fault {
        Some((failure, call)) => {
            format!("the recorded program failed ({failure}, call {call}) before it copied a result")
        }
        None if trace.calls_left_out() > 0 => "the recorded range has no copy of a result to the host".into(),
        None => "the program copied no result to the host".into(),
    }
}

/// In one line.
fn outcome(
    out: &mut impl Write,
    trace: &Trace,
    plan: &Plan,
    report: &Report,
    explained: Option<&Explanation>,
) -> Result<()> {
    let differing = report.repeated.as_ref().is_some_and(|repeated| repeated.differing > 0);
    match (report.outcome, report.refused()) {
        (Outcome::Verified, 0) if differing => writeln!(out, "the first run verified, later runs differ from it")?,
        (Outcome::Replayed, _) => writeln!(out, "replayed, not compared")?,
        (Outcome::Verified, 0) if report.printed_otherwise => {
            writeln!(out, "verified: {}, except for lines that kernels printed", identical(report))?;
        }
        (Outcome::Verified, refused) => {
            let behind = report.tally.dependents.len() as u64;
            writeln!(out, "verified: {}{}", identical(report), except_for(refused, "", behind))?;
        }
        (Outcome::Diverged, _) => {
            let line = explained.map_or_else(|| "diverged".into(), Explanation::line);
            writeln!(out, "{line}{}{}", other_result(report, explained), in_part(plan))?;
        }
        (Outcome::Stopped, _) => match (&plan.missing, &report.stopped_before) {
            (Some(missing), Some((call, _))) if missing.call == *call => {
                let why = if missing.blob.is_some() { "damaged or not in the file" } else { "not recorded" };
                writeln!(out, "stopped: data of call {call} is {why}; no difference before it")?;
            }
            _ if report.repeated.is_some() => writeln!(out, "measured; no difference before the range")?,
            (_, before) => {
                let at =
                    before.as_ref().map_or(String::new(), |(call, function)| format!(" before call {call} {function}"));
                match report.compared_no_launch() {
                    true => writeln!(out, "stopped{at}; no device result was compared until then")?,
                    false => writeln!(out, "stopped{at}; no difference until then")?,
                }
            }
        },
        (Outcome::Faulted, _) if report.culprit.as_ref().is_some_and(|culprit| culprit.never_ends.is_some()) => {
            writeln!(out, "a launch does not finish, as recorded")?;
        }
        (Outcome::Faulted, _) => writeln!(out, "a launch failed, as recorded")?,
        (Outcome::Unverified, _) if report.printed_otherwise => {
            writeln!(
                out,
                "unverified: kernels printed lines missing from the recorded output, and nothing else was compared"
            )?;
        }
        (Outcome::Unverified, _) if report.copied_results => {
            writeln!(out, "unverified: the copies to the host could not be compared")?;
        }
        (Outcome::Unverified, _) => {
            writeln!(out, "unverified: {}", nothing_copied(trace, report))?;
        }
    }
    Ok(())
}

/// `22 return codes, 1 output argument, 1 copy to the host (65.5 kB) identical`
fn identical(report: &Report) -> String {
    let how = if report.tally.checked.within_tolerance == 0 { "identical" } else { "within the tolerance" };
    format!("{} {how}", compared(report))
}

/// `22 return codes, 1 output argument, 1 copy to the host (65.5 kB)`
fn compared(report: &Report) -> String {
    let checked = &report.tally.checked;
    let (results, outputs) = (counted(checked.results, "return code"), counted(checked.outputs, "output argument"));
    format!("{results}, {outputs}, {} to the host ({})", counted(checked.copies, "copy"), size(checked.bytes))
}

/// What of a verified replay is not: calls that were refused, why the first was, and what differs for want of
/// them.
pub(super) fn except_for(refused: u64, why: &str, behind: u64) -> String {
    let refused = match refused {
        0 => String::new(),
        1 => format!(", except for 1 refused call{why}"),
        n => format!(", except for {} refused calls{why}", grouped(n)),
    };
    match behind {
        0 => refused,
        1 => format!("{refused}; results of 1 dependent call differ, as expected"),
        n => format!("{refused}; results of {} dependent calls differ, as expected", grouped(n)),
    }
}

/// What was compared with the recording, and what was not.
fn compared_with(out: &mut impl Write, trace: &Trace, plan: &Plan, report: &Report) -> Result<()> {
    if report.outcome == Outcome::Replayed {
        return Ok(());
    }
    let checked = &report.tally.checked;
    if report.outcome != Outcome::Verified || report.repeated.is_some() {
        writeln!(out, "  compared     {}", compared(report))?;
    }
    if checked.within_tolerance != 0 {
        let copies = counted(checked.within_tolerance, "copy");
        writeln!(out, "  close        {copies} within the tolerance, not the same byte for byte")?;
    }
    let mut missing = Vec::new();
    if report.tally.unchecked_copies != 0 {
        missing.push(format!("{} to the host", counted(report.tally.unchecked_copies, "copy")));
    }
    if !report.unreached.is_empty() {
        let (some, all) = (grouped(report.unreached.len() as u64), grouped(report.launches));
        missing.push(format!("the results of {some} of {all} launches"));
    }
    if !missing.is_empty() {
        writeln!(out, "  not compared {}", missing.join(", "))?;
    }
    first_few(out, trace, report.tally.unchecked.iter().copied(), report.tally.unchecked.len())?;
    dependents(out, trace, plan, report)?;
    first_few(out, trace, report.unreached.iter().copied(), report.unreached.len())?;
    Ok(())
}

/// What differs for want of a call that was refused, or of what others had written: by that call, the first.
fn dependents(out: &mut impl Write, trace: &Trace, plan: &Plan, report: &Report) -> Result<()> {
    const NAMED: usize = 3;
    let mut by_refused: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    for (call, refused) in &report.tally.dependents {
        by_refused.entry(*refused).or_default().push(*call);
    }
    for (refused, calls) in by_refused.iter().take(NAMED) {
        let call = trace.call(*refused);
        let (name, is_exported) = call.map_or(("?", false), |call| (call.name(), exports(&call)));
        let more = if calls.len() > 1 {
            format!(" and {} more differ", grouped(calls.len() as u64 - 1))
        } else {
            " differs".into()
        };
        let why = match is_exported {
            true => format!("as other processes may have written the memory of call {refused} {name}"),
            false if plan.may_differ(*refused) => {
                format!("possibly because call {refused} {name} is only partly recorded")
            }
            false => format!("possibly because call {refused} {name} was refused"),
        };
        writeln!(out, "               call {}{more}, {why}", calls[0])?;
    }
    Ok(())
}

/// Where memory lies, and how what names it was translated.
fn memory(out: &mut impl Write, report: &Report) -> Result<()> {
    let placed = &report.placement;
    let moved = placed.translated + placed.host_translated;
    let home = placed.placed + placed.host_placed;
    let (at_home, their) = (counted(home, "allocation"), if home == 1 { "its" } else { "their" });
    let elsewhere = match (moved, &placed.why) {
        (0, _) => String::new(),
        (_, None) => format!(", {} elsewhere", grouped(moved)),
        (_, Some(why)) => format!(", {} elsewhere ({why})", grouped(moved)),
    };
    let addresses = if home == 1 { "address" } else { "addresses" };
    writeln!(out, "  memory       {at_home} at {their} recorded {addresses}{elsewhere}")?;
    for line in report.trust() {
        writeln!(out, "  translated   {line}")?;
    }
    Ok(())
}

/// What had not ended when the recording did, and what of the replay has not.
fn unfinished(out: &mut impl Write, trace: &Trace, report: &Report) -> Result<()> {
    if report.unfinished != 0 {
        writeln!(out, "  unfinished   {} when the recording ended", counted(report.unfinished, "call"))?;
    }
    for work in &report.under_way {
        let (count, first) = (counted(work.calls.len() as u64, "submission"), work.calls[0]);
        let name = trace.call(first).map_or("?", |call| call.name());
        writeln!(out, "  unfinished   {}: {count}, from call {first} {name} on, did not finish", work.stream)?;
    }
    Ok(())
}

/// Counts of what may matter. `verbose`: also of what concerns the replay alone.
fn notes(out: &mut impl Write, report: &Report, verbose: bool) -> Result<()> {
    let placed = &report.placement;
    for (what, count, matters) in [
        ("kernel arguments that look like addresses in no known memory", report.tally.unresolved_pointers, false),
        ("failed calls that name unknown objects (skipped)", report.tally.unknown_handles, false),
        ("texture and surface objects with other numbers in the replay", report.tally.other_numbers, false),
        ("bytes of CPU writes without a call, replayed", report.tally.written, false),
        ("bytes of managed memory differ at exit; the CPU may have written them", report.tally.others_at_the_end, true),
        ("CPU writes during possible reads of the device", report.tally.written_in_use, true),
        ("CPU writes that could not be replayed", report.tally.lost_writes, true),
        ("missing callbacks", report.tally.missed_callbacks, true),
        ("submissions to one stream that overlapped when recorded", report.overlapping_submissions, false),
        ("allocations reusing memory freed in another stream, not ordered in the replay", placed.unordered, true),
    ] {
        if count != 0 && (matters || verbose) {
            writeln!(out, "  note         {what}: {}", grouped(count))?;
        }
    }
    Ok(())
}

/// The first of the calls that were not compared.
fn first_few(out: &mut impl Write, trace: &Trace, calls: impl Iterator<Item = u64>, all: usize) -> Result<()> {
    const NAMED: usize = 3;
    let named = |call: trace::Call| match call.named_kernel().filter(|kernel| !kernel.name.is_empty()) {
        Some(kernel) => format!("call {} {}", call.number, explain::shown(&kernel.name)),
        None => format!("call {} {}", call.number, call.name()),
    };
    let mut first: Vec<String> = calls.take(NAMED).filter_map(|call| trace.call(call).map(named)).collect();
    if first.is_empty() {
        return Ok(());
    }
    let listed = if all > LISTED { format!("{} of them", grouped(LISTED as u64)) } else { "all".into() };
    let more = || format!("and {} more (--json names {listed})", grouped((all - NAMED) as u64));
    first.extend((all > NAMED).then(more));
    Ok(writeln!(out, "               {}", first.join(", "))?)
}

/// What to ask next, where nothing has been asked beyond a replay.
fn advice(out: &mut impl Write, trace: &Trace, report: &Report, place: bool, is_explained: bool) -> Result<()> {
    if report.watched.is_some() || report.stopped_before.is_some() || report.outcome == Outcome::Replayed {
        return Ok(());
    }
    let path = shell(&[trace.path.display().to_string()]);
    let is_about = |failure: &str| report.tally.first.as_ref().is_some_and(|first| first.expected == failure);
    let line = match &report.recorded_fault {
        Some((failure, call)) if is_about(failure) => {
            format!("not met      {failure}, recorded at call {call}: {}", culprit::not_met(place))
        }
        Some((failure, call)) => {
            format!(
                "recorded     {failure} at call {call}: find the failing launch with cutrace replay {path} --sync-launches"
            )
        }
        None if report.outcome == Outcome::Diverged && !is_explained => {
            format!("next         see whether a kernel is nondeterministic: cutrace replay {path} --bisect")
        }
        None => return Ok(()),
    };
    writeln!(out, "  {line}")?;
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
        comparison::text(out, extent)?;
    }
    for launch in &first.launches {
        writeln!(out, "  earlier launch with this address: call {} {}", launch.call, launch.kernel)?;
    }
    Ok(())
}
