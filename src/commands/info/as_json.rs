//! The contents of a trace, as JSON.

use super::counts::Functions;
use crate::commands::info::summary::Summary;
use analysis::calls::device_work;
use analysis::calls::unfinished::Unfinished;
use analysis::text::json;
use serde_json::{Map, Value, json};
use trace::Trace;
use trace::base::hash::Hash;
use trace::file::record::no_replay_needs;

/// Version of the JSON form. Fields may be added within a version.
pub(super) const SCHEMA: u32 = 1;

pub(super) fn object(trace: &Trace, summary: &Summary, functions: &Functions) -> Value {
    let Summary { counts, said, .. } = summary;
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
        "unfinished": Unfinished::find(trace).map(|unfinished| unfinished.json(trace)),
        "file": file(trace),
        "program": program(trace),
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
            "not_recorded": counts.not_recorded.with(counts.not_arrived),
            "not_arrived": counts.not_arrived,
            "missing": counts.missing,
        },
        "by_reference": summary.sources.iter().map(|(source, pieces, bytes)| json!({
            "path": source.path,
            "file_bytes": source.size,
            "modified_ns": source.modified,
            "pieces": pieces,
            "bytes": bytes,
        })).collect::<Vec<_>>(),
        "annotations": summary.annotated,
        "collectives": summary.collectives,
        "shared_memory": summary.shared_memory,
        "no_device_times": trace.no_device_times,
        "device_times": trace.profile.as_ref().map(|profile| device_work::profile_object(profile, summary.works)),
        "adopted": trace.adopted.iter().map(|a| json!({
            "module": format!("{:#x}", a.module),
            "images": a.images.iter().map(|hash| Hash::from_bytes(*hash).to_string()).collect::<Vec<_>>(),
            "origin": a.origin,
        })).collect::<Vec<_>>(),
        "left_out": {
            "calls": trace.calls_left_out(),
            "works": trace.works_left_out(),
        },
        "switched": trace.switched.iter().map(|switched| json!({
            "ns": trace.nanoseconds(switched.time), "on": switched.is_on,
        })).collect::<Vec<_>>(),
        "losses": trace.losses.iter().map(|(what, count)| json!({
            "what": what, "count": count, "replay_needs_it": !no_replay_needs(what),
        })).collect::<Vec<_>>(),
        "damage": analysis::text::json::damage(trace),
    })
}

/// Where the trace lies, and how it was written.
fn file(trace: &Trace) -> Value {
    let about = &trace.preamble;
    json!({
        "path": trace.path.display().to_string(),
        "bytes": trace.bytes_on_disk(),
        "unpacked_bytes": trace.length(),
        "closed": trace.footer.is_some(),
        "writer": about.writer,
        "data": about.data.name(),
        "clock": about.clock,
    })
}

/// What was recorded, and where.
fn program(trace: &Trace) -> Value {
    let about = &trace.preamble;
    json!({
        "path": about.program,
        "command_line": about.command_line,
        "directory": about.directory,
        "host": about.host,
        "pid": about.pid,
        "parent": about.parent,
        "started_ns": trace.started_on(),
        "ended": json::ended(trace),
        "environment": Map::from_iter(about.environment.iter().map(|(k, v)| (k.clone(), v.clone().into()))),
    })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
