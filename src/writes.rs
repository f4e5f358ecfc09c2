//! What the CPU wrote without a call, as `dump` shows it: before the call that found it, or behind the call whose callback did it.

use crate::figures::seconds;
use serde::Serialize;
use std::fmt::Write;
use trace::call::{Content, Image};
use trace::objects::Objects;
use trace::text::Text;
use trace::value::Value;
use trace::written::Written;
use trace::{Call, Trace};

/// One line for each piece of memory found before the call.
pub fn before(out: &mut String, trace: &Trace, call: &Call, objects: &Objects) {
    for written in call.written() {
        let what = match written {
            _ if written.is_seen() => "had or wrote",
            // It stands before the call that waited.
            _ if written.is_meanwhile() => "wrote, while the next call waited,",
            _ => "wrote",
        };
        for image in written.images() {
            let time = seconds(trace, written.about.begin);
            let _ =
                writeln!(out, "{:>7} {time} t{:<2} the CPU {what} {}", "", call.thread, place(trace, &image, objects));
        }
    }
}

/// One line for each run of the call's callback, and one for each piece of memory that it wrote.
pub fn behind(out: &mut String, trace: &Trace, call: &Call, objects: &Objects) {
    for run in call.callback_runs().into_values() {
        let Some(about) = run.first().map(|written| written.about) else { continue };
        let (begin, end) = (seconds(trace, about.begin), seconds(trace, about.end));
        let _ = write!(out, "\n{:>7} {begin} its callback ran until {end}", "");
        for written in run {
            let whose = if written.is_told_elsewhere() { "it or another wrote" } else { "wrote" };
            for image in written.images() {
                let _ = write!(out, "\n{:>20}  {whose} {}", "", place(trace, &image, objects));
            }
        }
    }
}

fn place(trace: &Trace, image: &Image, objects: &Objects) -> String {
    let address = Value::Address { value: image.address, born: false };
    let (address, content) = (Text(&address, objects), payload(trace, image));
    format!("{address}: {}", Text(&content, objects))
}

fn payload<'t>(trace: &Trace, image: &Image<'t>) -> Value<'t> {
    let missing = matches!(image.content, Content::Blob(hash) if trace.blob(hash).is_none());
    Value::Payload { side: None, len: image.len, content: image.content, missing }
}

/// As part of a call's object.
#[derive(Serialize)]
pub struct Wrote {
    address: String,
    bytes: u64,
    content: String,
    /// Managed memory, which the CPU may only have looked at; or memory that another may have written while the callback ran.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    uncertain: bool,
}

#[derive(Serialize)]
pub struct Run {
    begin_ns: i64,
    end_ns: i64,
    wrote: Vec<Wrote>,
}

pub fn before_object(trace: &Trace, call: &Call, objects: &Objects) -> Vec<Wrote> {
    call.written().flat_map(|written| pieces(trace, written, objects)).collect()
}

pub fn runs(trace: &Trace, call: &Call, objects: &Objects) -> Vec<Run> {
    let run = |run: Vec<Written>| {
        let about = run.first()?.about;
        let wrote = run.into_iter().flat_map(|written| pieces(trace, written, objects)).collect();
        Some(Run { begin_ns: trace.nanoseconds(about.begin), end_ns: trace.nanoseconds(about.end), wrote })
    };
    call.callback_runs().into_values().filter_map(run).collect()
}

fn pieces(trace: &Trace, written: Written, objects: &Objects) -> Vec<Wrote> {
    let piece = |image: Image| Wrote {
        address: format!("{:#x}", image.address),
        bytes: image.len,
        content: Text(&payload(trace, &image), objects).to_string(),
        uncertain: written.is_seen() || written.is_told_elsewhere(),
    };
    written.images().map(piece).collect()
}
