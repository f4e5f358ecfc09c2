//! The launch that failed, as text and as JSON.

use analysis::text::figures::{counted, grouped};
use analysis::text::shell::shell;
use replayer::{Argument, Culprit, FailedWork, Report, SerialReport};
use serde_json::{Value, json};
use std::io::{Result, Write};
use trace::Trace;
use trace::show::launch::Shape;

/// Why a failure that was recorded may not come again.
pub(super) fn not_met(place: bool) -> &'static str {
    if place { NOT_MET } else { "it may depend on neighbouring memory, or on the order of work" }
}

const NOT_MET: &str = "the replay maps memory in units of 2 MiB, so an access just past an allocation, or to a freed one, may \
                           succeed; --no-placement allocates and frees as the program did";

/// What was waited for, and what was found.
pub(super) fn text(
    out: &mut impl Write,
    trace: &Trace,
    watched: &SerialReport,
    report: &Report,
    place: bool,
) -> Result<()> {
    let launches = counted(watched.launches, "launch");
    write!(out, "  one by one   {launches}")?;
    if watched.graphs != 0 {
        write!(out, ", and {} of {}", counted(watched.nodes, "node"), counted(watched.graphs, "launched graph"))?;
    }
    writeln!(out)?;
    for (why, (count, first)) in &watched.whole {
        writeln!(out, "  graph whole  {}, first call {first}: {why}", counted(*count, "launch"))?;
    }
    if watched.not_waited != 0 {
        let launches = counted(watched.not_waited, "launch");
        writeln!(out, "  not waited   {launches} during a stream capture")?;
    }
    let Some(culprit) = &report.culprit else {
        if let (Some((failure, returned_by)), None) = (&report.recorded_fault, &report.stopped_before) {
            writeln!(out, "  not met      {failure}, recorded at call {returned_by}: no launch of the replay fails")?;
            writeln!(out, "               {}", not_met(place))?;
        }
        return Ok(());
    };
    what_failed(out, culprit)?;
    arguments(out, &culprit.arguments)?;
    addresses(out, trace, culprit)?;
    recorded(out, culprit)
}

/// The call, and what of it failed or does not end.
fn what_failed(out: &mut impl Write, culprit: &Culprit) -> Result<()> {
    let Culprit { call, function, thread, failure, .. } = culprit;
    match &culprit.what {
        FailedWork::Launch if culprit.never_ends.is_some() => {
            writeln!(out, "the launch that does not finish: {failure}")?
        }
        FailedWork::Node { index, of, kind } if culprit.never_ends.is_some() => {
            let (node, of) = (grouped(index + 1), counted(*of, "node"));
            writeln!(out, "the {kind} that does not finish, node {node} of {of} of a launched graph: {failure}")?;
        }
        FailedWork::Graph { why } if culprit.never_ends.is_some() => {
            writeln!(out, "a node of a graph does not finish, launched whole because {why}: {failure}")?;
        }
        FailedWork::Earlier { .. } if culprit.never_ends.is_some() => {
            writeln!(out, "this call waits for work that does not finish: {failure}")?;
        }
        FailedWork::Launch => writeln!(out, "the launch that failed: {failure}")?,
        FailedWork::Node { index, of, kind } => {
            let (node, of) = (grouped(index + 1), counted(*of, "node"));
            writeln!(out, "the {kind} that failed, node {node} of {of} of a launched graph: {failure}")?;
        }
        FailedWork::Graph { why } => {
            writeln!(out, "a node of a graph failed, launched whole because {why}: {failure}")?
        }
        FailedWork::Earlier { .. } => writeln!(out, "earlier asynchronous work failed before this call: {failure}")?,
    }
    writeln!(out, "  call {call} {function} on thread t{thread}")?;
    if let FailedWork::Earlier { calls } = &culprit.what {
        for (call, function) in calls {
            writeln!(out, "  in flight    call {call} {function}")?;
        }
    }
    if let Some(kernel) = &culprit.kernel {
        writeln!(out, "  kernel       {kernel}")?;
    }
    if let Some(Shape { grid, block, shared }) = &culprit.shape {
        let text = |sizes: &[u32; 3]| sizes.map(|size| size.to_string()).join(" x ");
        writeln!(out, "  grid         {} blocks of {} threads, {shared} B shared", text(grid), text(block))?;
    }
    Ok(())
}

fn arguments(out: &mut impl Write, arguments: &[Argument]) -> Result<()> {
    for (index, Argument { ty, bytes, value, places }) in arguments.iter().enumerate() {
        let size = bytes.as_ref().map_or(0, Vec::len);
        write!(out, "  argument {index:<3} {size} B  ")?;
        ty.iter().try_for_each(|ty| write!(out, "{ty}  "))?;
        write!(out, "{value}")?;
        for (offset, place) in places {
            match (places.len(), offset) {
                (1, 0) => write!(out, "  {place}")?,
                _ => write!(out, "\n      at byte {offset}: {place}")?,
            }
        }
        writeln!(out)?;
    }
    Ok(())
}

/// What is wrong with the memory that it was given, or what is to be done where nothing is.
fn addresses(out: &mut impl Write, trace: &Trace, culprit: &Culprit) -> Result<()> {
    culprit.misfits.iter().try_for_each(|what| writeln!(out, "  memory       {what}"))?;
    if culprit.has_good_addresses() {
        let given = match &culprit.arguments[..] {
            [] => "the kernel has none",
            all if all.iter().any(|argument| argument.value == "NULL") => "all except NULL point into live allocations",
            _ => "all point into live allocations",
        };
        writeln!(out, "  addresses    {given}; on a GPU, find the bad access with:")?;
        writeln!(out, "               {}", next(trace, culprit))?;
    }
    Ok(())
}

/// What the recording has of the failure.
fn recorded(out: &mut impl Write, culprit: &Culprit) -> Result<()> {
    match &culprit.recorded {
        None if culprit.never_ends.is_some() => {
            writeln!(out, "  recorded     it may not have finished before the recording ended")?;
        }
        None => writeln!(
            out,
            "  recorded     no failure: it did not occur, or the program ended before the driver reported it"
        )?,
        Some(recorded) => {
            let window = match (recorded.launches, recorded.is_same) {
                (1, true) => "the same failure: only this launch can have caused it".to_owned(),
                (n, true) => format!("the same failure: one of {} up to there", counted(n, "launch")),
                (n, false) if recorded.failure == culprit.failure => {
                    format!("another launch: one of {} from call {} on", counted(n, "launch"), recorded.since)
                }
                (_, false) => "another failure".to_owned(),
            };
            writeln!(out, "  recorded     {} at call {}, {window}", recorded.failure, recorded.returned_by)?;
        }
    }
    Ok(())
}

/// What tells which access is the bad one. Memory is as long as the program made it, so that what is past its
/// end is not mapped.
fn next(trace: &Trace, culprit: &Culprit) -> String {
    let path = shell(&[trace.path.display().to_string()]);
    format!("compute-sanitizer cutrace replay --no-placement --until {} {path}", culprit.call)
}

pub(super) fn watched_object(watched: &SerialReport) -> Value {
    json!({
        "launches": watched.launches,
        "graphs": watched.graphs,
        "nodes": watched.nodes,
        "graphs_whole": watched.whole.iter().map(|(why, (count, first))| json!({
            "reason": why, "count": count, "first": first,
        })).collect::<Vec<_>>(),
        "not_waited": watched.not_waited,
    })
}

pub(super) fn object(trace: &Trace, culprit: &Culprit) -> Value {
    let mut all = json!({
        "call": culprit.call,
        "function": culprit.function,
        "thread": culprit.thread,
        "failure": culprit.failure,
        "given_ns": culprit.never_ends.map(|given| given.as_nanos() as u64),
        "kernel": culprit.kernel,
        "grid": culprit.shape.map(|shape| shape.grid),
        "block": culprit.shape.map(|shape| shape.block),
        "shared_bytes": culprit.shape.map(|shape| shape.shared),
        "arguments": culprit.arguments.iter().map(|argument| json!({
            "size": argument.bytes.as_ref().map_or(0, Vec::len),
            "type": argument.ty,
            "hex": argument.bytes.as_deref().map(analysis::text::json::hex),
            "value": argument.value,
            "places": argument.places.iter().map(|(offset, place)| json!({ "offset": offset, "place": place.to_string() }))
                .collect::<Vec<_>>(),
        })).collect::<Vec<_>>(),
        "misfits": culprit.misfits,
        "good_addresses": culprit.has_good_addresses(),
        "next": culprit.has_good_addresses().then(|| next(trace, culprit)),
        "recorded": culprit.recorded.as_ref().map(|recorded| json!({
            "failure": recorded.failure,
            "returned_by": recorded.returned_by,
            "since": recorded.since,
            "launches": recorded.launches,
            "same": recorded.is_same,
        })),
    });
    let (what, more) = match &culprit.what {
        FailedWork::Launch => ("launch", Value::Null),
        FailedWork::Node { index, of, kind } => ("node", json!({ "index": index, "of": of, "kind": kind })),
        FailedWork::Graph { why } => ("graph", json!(why)),
        FailedWork::Earlier { calls } => {
            ("earlier", calls.iter().map(|(call, name)| json!({ "call": call, "function": name })).collect())
        }
    };
    all["what"] = what.into();
    all[what] = more;
    all
}
