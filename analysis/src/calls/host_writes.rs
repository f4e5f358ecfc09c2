//! CPU writes without a call, as `dump` shows them: before the call that found them, or behind the call whose
//! callback made them.

use crate::text::figures::{seconds, size};
use serde::Serialize;
use trace::model::objects::Objects;
use trace::model::value::Value;
use trace::read::call::{Content, Image};
use trace::read::host_writes::Written;
use trace::show::text::Text;
use trace::{Call, Trace};

/// Lines about what was found before the call: one for all that was found alike, or, with `all`, one for each
/// piece of memory.
pub fn lines_before(trace: &Trace, call: &Call, objects: &Objects, all: bool) -> Vec<String> {
    let what = |written: &Written| match written {
        _ if written.is_seen() => "held or wrote",
        // It stands before the call that waited.
        _ if written.may_be_results() => "or a kernel wrote, during the next call,",
        _ if written.is_during_wait() => "wrote, during the next call,",
        _ => "wrote",
    };
    let mut lines = Vec::new();
    for (written, images) in alike(call.written(), what) {
        let (time, thread) = (seconds(trace, written.about.begin), call.thread);
        let pieces = pieces_text(trace, &images, objects, all).into_iter();
        lines.extend(pieces.map(|pieces| format!("{:>7} {time} t{thread:<2} the CPU {} {pieces}", "", what(&written))));
    }
    lines
}

/// Lines about the runs of the call's callback: one for each run, and behind it as [`lines_before`].
pub fn callback_lines(trace: &Trace, call: &Call, objects: &Objects, all: bool) -> Vec<String> {
    let mut lines = Vec::new();
    for run in call.callback_runs().into_values() {
        let Some(about) = run.first().map(|written| written.about) else { continue };
        let (begin, end) = (seconds(trace, about.begin), seconds(trace, about.end));
        lines.push(format!("{:>7} {begin} its callback ran until {end}", ""));
        let whose =
            |written: &Written| if written.is_recorded_twice() { "it or another callback wrote" } else { "wrote" };
        for (written, images) in alike(run, whose) {
            let pieces = pieces_text(trace, &images, objects, all).into_iter();
            lines.extend(pieces.map(|pieces| format!("{:>20}  {} {pieces}", "", whose(&written))));
        }
    }
    lines
}

/// Memory by how it was found, with the first record of each.
fn alike<'t>(
    found: impl IntoIterator<Item = Written<'t>>,
    how: impl Fn(&Written) -> &'static str,
) -> Vec<(Written<'t>, Vec<Image<'t>>)> {
    let mut all: Vec<(Written, Vec<Image>)> = Vec::new();
    for written in found {
        match all.iter_mut().find(|(first, _)| how(first) == how(&written)) {
            Some((_, images)) => images.extend(written.images()),
            None => all.push((written, written.images().collect())),
        }
    }
    all
}

/// Each piece with what it holds; or, of several, how many they are.
fn pieces_text(trace: &Trace, images: &[Image], objects: &Objects, all: bool) -> Vec<String> {
    match images {
        [first, _, ..] if !all => {
            let (count, bytes) = (images.len(), images.iter().map(|image| image.len).fold(0, u64::saturating_add));
            let at = Value::Address { value: first.address, born: false };
            vec![format!("{count} ranges, {} in total, the first at {}", size(bytes), Text(&at, objects))]
        }
        images => images.iter().map(|image| place(trace, image, objects)).collect(),
    }
}

fn place(trace: &Trace, image: &Image, objects: &Objects) -> String {
    let address = Value::Address { value: image.address, born: false };
    let (address, content) = (Text(&address, objects), payload(trace, image));
    format!("{address}: {}", Text(&content, objects))
}

fn payload<'t>(trace: &Trace, image: &Image<'t>) -> Value<'t> {
    let missing = match image.content {
        Content::Blob(hash) => trace.lacking(hash),
        _ => None,
    };
    Value::Payload { side: None, len: image.len, pieces: 1, content: image.content, missing }
}

/// CPU writes, as part of a call's JSON object.
#[derive(Serialize)]
pub struct Wrote {
    address: String,
    bytes: u64,
    content: String,
    /// Managed memory, which the CPU may only have looked at; or memory that another may have written while
    /// the callback ran.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    uncertain: bool,
}

#[derive(Serialize)]
pub(crate) struct Run {
    begin_ns: i64,
    end_ns: i64,
    wrote: Vec<Wrote>,
}

pub(crate) fn before_object(trace: &Trace, call: &Call, objects: &Objects) -> Vec<Wrote> {
    call.written().flat_map(|written| pieces(trace, written, objects)).collect()
}

pub(crate) fn runs(trace: &Trace, call: &Call, objects: &Objects) -> Vec<Run> {
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
        uncertain: written.is_seen() || written.is_recorded_twice() || written.may_be_results(),
    };
    written.images().map(piece).collect()
}
