//! A call as a line of text, and as a JSON object.

use crate::calls::host_writes::{self, Run, Wrote};
use crate::text::figures::{grouped, put_duration, put_seconds, seconds};
use crate::text::json::Fields;
use serde::Serialize;
use serde_json::json;
use std::fmt::{self, Write};
use trace::api::enums::CUresult;
use trace::api::roles::Class;
use trace::api::types::Kind;
use trace::base::digits::{decimal, right};
use trace::model::copy_bounds::misfits;
use trace::model::decode::Decoded;
use trace::model::objects::Objects;
use trace::model::value::Value;
use trace::show::text::{plain, put_symbol, symbol, write_named};
use trace::{Call, Trace};

/// An answer, not an error.
pub const NOT_READY: u32 = CUresult::CUDA_ERROR_NOT_READY.0;

/// A call as `dump` shows it.
pub fn text(
    out: &mut String,
    trace: &Trace,
    call: &Call,
    decoded: Option<&Decoded>,
    objects: &Objects,
    colored: bool,
) -> fmt::Result {
    right(out, call.number, 7)?;
    out.push(' ');
    put_seconds(out, trace, call.begin)?;
    out.push_str(" t");
    decimal(out, call.thread.into())?;
    out.push_str(if call.thread < 10 { "  " } else { " " });
    out.push_str(&plain(call.name()));
    out.push('(');
    match decoded {
        None => {
            out.push('?');
            call.words().try_for_each(|word| write!(out, " {word:#x}"))?;
        }
        Some(decoded) => {
            for (index, (name, value)) in decoded.arguments.iter().enumerate() {
                if index > 0 {
                    out.push_str(", ");
                }
                match value {
                    // Where in memory that the device knows, too.
                    &Value::Result(at) if objects.range(at).is_some() => {
                        out.push('&');
                        write_named(out, name, &Value::Address { value: at, born: false }, objects)?;
                    }
                    Value::Result(_) => out.extend(["&", *name]),
                    value => write_named(out, name, value, objects)?,
                }
            }
        }
    }
    out.push_str(") -> ");
    let (Some(result), Some(end)) = (call.result, call.end) else {
        out.push_str("(did not return)");
        return Ok(());
    };
    for (name, value) in decoded.iter().flat_map(|d| &d.outputs) {
        write_named(out, name, value, objects)?;
        out.push_str(", ");
    }
    let name = |out: &mut String| put_symbol(out, CUresult::ENUM, result.into());
    if let 0 | NOT_READY = result {
        name(out)?;
    } else {
        out.push_str(if colored { "\x1b[31m!! " } else { "!! " });
        name(out)?;
        write!(out, " ({result}){}", if colored { "\x1b[0m" } else { "" })?;
    }
    misfits(call, objects).iter().try_for_each(|what| write!(out, ": {what}"))?;
    out.push_str("  ");
    put_duration(out, trace.nanoseconds(end) - trace.nanoseconds(call.begin))?;
    if let Some(repeats) = call.repeats {
        let (calls, until) = (grouped(repeats.calls), seconds(trace, repeats.end));
        let times = if repeats.calls == 1 { "once more".into() } else { format!("{calls} times more") };
        if repeats.calls > 0 {
            write!(out, ", and {times} until {}", until.trim_start())?;
        }
        if repeats.under_way.is_some() {
            out.push_str(", and once more (did not return)");
        }
    }
    Ok(())
}

/// Version of the JSON form. Fields and kinds of lines may be added within a version.
const SCHEMA: u32 = 1;

/// The first line: what the others are about.
pub fn header(trace: &Trace) -> serde_json::Value {
    use trace::file::preamble::{RANK, RANKS};
    let about = &trace.preamble;
    let devices = trace.devices.iter().map(|device| {
        let (major, minor) = device.compute;
        json!({ "ordinal": device.ordinal, "name": device.name, "memory": device.memory,
                "compute": format!("{major}.{minor}") })
    });
    let threads = trace.threads.iter().map(|thread| json!({ "os_id": thread.os_id, "name": thread.name }));
    json!({
        "kind": "header",
        "schema": SCHEMA,
        "writer": concat!("cutrace ", env!("CARGO_PKG_VERSION")),
        "trace": trace.path.display().to_string(),
        "program": about.program,
        "command": about.command_line,
        "host": about.host,
        "pid": about.pid,
        "rank": about.number(RANK),
        "ranks": about.number(RANKS),
        "created_ns": trace.started_on(),
        "driver_version": about.driver_version,
        "calls": trace.calls_made(),
        "devices": devices.collect::<Vec<_>>(),
        "threads": threads.collect::<Vec<_>>(),
        "device_times": trace.profile.as_ref().map(|profile| crate::calls::device_work::run(profile.source)),
    })
}

/// A call as a JSON object: a line of `--json`, and of `export --to jsonl`.
#[derive(Serialize)]
pub struct Line<'x> {
    kind: &'static str,
    call: u64,
    time_ns: i64,
    thread: u32,
    function: &'x str,
    #[serde(skip_serializing_if = "Option::is_none")]
    kernel: Option<&'x str>,
    args: Fields<'x, 'x>,
    outputs: Fields<'x, 'x>,
    /// null if the call did not return
    result: Option<String>,
    result_code: Option<u32>,
    /// Of a failed copy or fill, what its memory does not hold.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    misfits: Vec<String>,
    duration_ns: Option<i64>,
    /// Further polls with the same answer, that its thread made one after the other.
    #[serde(skip_serializing_if = "Option::is_none")]
    repeats: Option<Repeated>,
    /// Of a function that this build does not know.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    words: Vec<String>,
    /// Without a call, since the one before.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    cpu_wrote: Vec<Wrote>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    callback_runs: Vec<Run>,
}

#[derive(Serialize)]
struct Repeated {
    calls: u64,
    /// Inside them all.
    duration_ns: i64,
    /// When the last returned.
    end_ns: i64,
}

/// A call as `dump --json` prints it. Without `decoded`, the argument words stand for the arguments.
pub fn object<'x>(trace: &Trace, call: &Call<'x>, decoded: Option<&'x Decoded<'x>>, objects: &'x Objects) -> Line<'x> {
    let words = || call.words().map(|word| format!("{word:#x}")).collect();
    Line {
        kind: "call",
        call: call.number,
        time_ns: trace.nanoseconds(call.begin),
        thread: call.thread,
        function: call.name(),
        kernel: decoded.and_then(|d| kernel(call, d, objects)),
        args: Fields(decoded.map_or(&[], |d| &d.arguments), objects),
        outputs: Fields(decoded.map_or(&[], |d| &d.outputs), objects),
        result: call.result.map(|result| symbol(CUresult::ENUM, result.into())),
        result_code: call.result,
        misfits: misfits(call, objects),
        duration_ns: call.end.map(|end| trace.nanoseconds(end) - trace.nanoseconds(call.begin)),
        repeats: call.repeats.map(|repeats| Repeated {
            calls: repeats.calls,
            duration_ns: call.repeats_took(),
            end_ns: trace.nanoseconds(repeats.end),
        }),
        words: decoded.map_or_else(words, |_| Vec::new()),
        cpu_wrote: host_writes::before_object(trace, call, objects),
        callback_runs: host_writes::runs(trace, call, objects),
    }
}

/// The name of the kernel that the call launches, if it is a launch.
fn kernel<'x>(call: &Call, decoded: &'x Decoded<'x>, objects: &'x Objects) -> Option<&'x str> {
    if call.function()?.class != Class::launch {
        return None;
    }
    decoded.arguments.iter().find_map(|(_, value)| match value {
        Value::Launch { kernel, .. } => Some(*kernel),
        Value::Handle { kind: Kind::Function, value, .. } => objects.object(Kind::Function, *value)?.1,
        _ => None,
    })
}
