//! The device's work for a call, as `dump` shows it below the call, and the run that it was measured in, as
//! `info` shows it.

use crate::text::figures::{counted, duration, grouped, size};
use serde_json::{Value, json};
use std::fmt::Write;
use trace::file::record::{Profile, timed};
use trace::read::device_times::{Work, known_number, memory_kind};
use trace::show::text::plain;

/// What is said of times in a trace of the simulated driver.
pub const SIMULATED: &str = "of the simulated driver; they mean nothing on a GPU";

/// What it was measured with.
pub fn source(source: u8, version: u32) -> String {
    match source {
        timed::CUPTI | timed::RECORDED if version >= 1000 => {
            format!("CUPTI of CUDA {}.{}", version / 10_000, version / 100 % 100)
        }
        timed::CUPTI | timed::RECORDED => format!("CUPTI, version {version}"),
        _ => "events around each submission".into(),
    }
}

/// The name that scripts know a source by.
pub fn source_name(source: u8) -> &'static str {
    if source == timed::EVENTS { "events" } else { "cupti" }
}

/// Of which run the times are.
pub fn run(source: u8) -> &'static str {
    if source == timed::RECORDED { "the recording" } else { "a replay" }
}

/// `begin`: of the recorded call. The work is shown as long after it as the replay's came after the replay's
/// call.
pub fn text(work: &Work, begin: i64) -> String {
    let Work { about, name, .. } = work;
    let what = name.map_or_else(|| about.operation(), |name| plain(name).into_owned());
    let (start, length) = (begin.saturating_add(work.delay()).max(0), duration(work.duration()));
    let (seconds, rest) = (start / 1_000_000_000, start % 1_000_000_000);
    let mut line = format!("{:>7} {seconds:>4}.{rest:09} device {what} {length}", "");
    let mut add = |text: String| _ = write!(line, ", {text}");
    if let Some(stream) = known_number(about.stream) {
        add(format!("Strm {stream}"));
    }
    if let [[gx, gy, gz], [bx, by, bz]] = [about.grid, about.block]
        && known_number(gx).is_some()
    {
        add(format!("{gx} x {gy} x {gz} blocks of {bx} x {by} x {bz} threads"));
    }
    known_number(about.registers).into_iter().for_each(|registers| add(counted(registers.into(), "register")));
    if let Some(percent) = about.occupancy() {
        add(format!("occupancy {percent:.0} %"));
    }
    if matches!(about.what, timed::COPY | timed::FILL) {
        add(size(about.bytes));
    }
    if about.what == timed::COPY && about.from != 0 && about.to != 0 {
        add(format!("{} to {}", memory_kind(about.from), memory_kind(about.to)).to_lowercase());
    }
    line
}

/// As JSON: null for what is not known.
pub fn object(work: &Work) -> Value {
    let Work { about, name, call, .. } = work;
    let shape = |shape: [u32; 3]| known_number(shape[0]).map(|_| shape);
    json!({
        "device_work": name.map_or_else(|| about.operation(), str::to_owned),
        "call": call,
        "start_ns": about.start,
        "duration_ns": work.duration(),
        "submitted_ns": about.submitted,
        "returned_ns": about.returned,
        "kind": match about.what {
            timed::KERNEL => "kernel",
            timed::COPY => "copy",
            timed::FILL => "fill",
            timed::GRAPH => "graph",
            _ => "unknown",
        },
        "source": source_name(about.source),
        "run": run(about.source),
        "graph_node": (about.node != 0).then_some(about.node),
        "device": known_number(about.device),
        "context": known_number(about.context),
        "stream": known_number(about.stream),
        "bytes": matches!(about.what, timed::COPY | timed::FILL).then_some(about.bytes),
        "from": Some(memory_kind(about.from)).filter(|kind| !kind.is_empty()),
        "to": Some(memory_kind(about.to)).filter(|kind| !kind.is_empty()),
        "grid": shape(about.grid),
        "block": shape(about.block),
        "registers": known_number(about.registers),
        "static_shared": known_number(about.static_shared),
        "dynamic_shared": known_number(about.dynamic_shared),
        "local": known_number(about.local),
        "occupancy": about.occupancy(),
    })
}

/// What `info` says. `works`: that were timed.
pub fn lines(profile: &Profile, works: u64) -> Vec<String> {
    let works = grouped(works);
    let mut lines = vec![format!(
        "device times      {works} kernels, copies and fills of {}, by {}",
        run(profile.source),
        source(profile.source, profile.version)
    )];
    for (ordinal, name) in &profile.devices {
        lines.push(format!("                  on device {ordinal} {name}, driver {}", profile.driver));
    }
    if !profile.why.is_empty() {
        let what = if profile.source == timed::RECORDED { "incomplete" } else { "not timed by CUPTI" };
        lines.push(format!("                  {what}: {}", profile.why));
    }
    for (why, count) in &profile.untimed {
        lines.push(format!("                  not timed: {why} ({})", grouped(*count)));
    }
    lines
}

/// The source of the device times as `info --json` prints it; `works` is the number of timed submissions.
pub fn profile_object(profile: &Profile, works: u64) -> Value {
    json!({
        "works": works,
        "source": source_name(profile.source),
        "run": run(profile.source),
        "version": profile.version,
        "why": profile.why,
        "created_ns": profile.created,
        "driver": { "path": profile.driver, "version": profile.driver_version },
        "devices": profile.devices.iter().map(|(ordinal, name)| json!({ "ordinal": ordinal, "name": name }))
            .collect::<Vec<_>>(),
        "offset_ns": profile.offset,
        "uncertainty_ns": profile.uncertainty,
        "untimed": profile.untimed.iter().map(|(why, count)| json!({ "reason": why, "count": count }))
            .collect::<Vec<_>>(),
    })
}
