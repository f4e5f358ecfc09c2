//! Device work as tracks: one for each stream, with a slice for each kernel, copy and fill, and a flow to it
//! from its call.

use super::proto::Message;
use crate::events::device_clock::{Placed, Slice, queue};
use crate::events::track::Track;
use analysis::calls::device_work::source;
use analysis::calls::streams::Streams;
use std::collections::HashMap;
use trace::Trace;
use trace::file::record::{Timed, timed};
use trace::read::device_times::{Work, known_number, memory_kind};

/// Beyond those of threads.
const TRACKS: u64 = 1 << 32;

pub(crate) struct Devices<'t> {
    trace: &'t Trace,
    placed: Placed<'t>,
    streams: Streams,
    tracks: HashMap<(u32, Option<(u32, u32)>), u64>,
}

impl<'t> Devices<'t> {
    pub(crate) fn new(trace: &'t Trace) -> Devices<'t> {
        Devices { trace, placed: Placed::new(trace), streams: Streams::from_trace(trace), tracks: HashMap::new() }
    }

    /// What the call gave to devices, each with its track. `begin`: of the recorded call, in nanoseconds.
    pub(crate) fn slices(&mut self, call: u64, begin: i64, new: &mut Vec<Track>) -> Vec<(u64, Slice<'t>)> {
        let slices = self.placed.call(call, begin);
        slices.into_iter().map(|slice| (self.track(&slice.work, new), slice)).collect()
    }

    fn track(&mut self, work: &Work, new: &mut Vec<Track>) -> u64 {
        let (device, context, stream) = queue(work);
        let parent = self.number((device, None), &work.about, new, |_| None);
        self.number((device, Some((context, stream))), &work.about, new, |_| Some(parent))
    }

    fn number(
        &mut self,
        key: (u32, Option<(u32, u32)>),
        about: &Timed,
        new: &mut Vec<Track>,
        parent: impl FnOnce(&Self) -> Option<u64>,
    ) -> u64 {
        if let Some(number) = self.tracks.get(&key) {
            return *number;
        }
        let number = TRACKS + self.tracks.len() as u64;
        self.tracks.insert(key, number);
        let name = match key {
            (device, None) => self.device(device),
            (_, Some(_)) => self.streams.title(about),
        };
        let parent = parent(self);
        new.push(Track { number, parent, name });
        number
    }

    fn device(&self, device: u32) -> String {
        let profile = self.trace.profile.as_ref();
        let named = profile.and_then(|profile| profile.devices.iter().find(|(ordinal, _)| *ordinal == device));
        let name = named.map_or(String::new(), |(_, name)| format!(" {name}"));
        let how = profile.map_or(String::new(), |profile| source(profile.source, profile.version));
        let whose = match profile.map(|profile| profile.source) {
            Some(timed::RECORDED) => "recorded times",
            _ => "replay times",
        };
        format!("device {device}{name} ({whose}, by {how})")
    }
}

/// The facts of a slice, by their names.
pub(crate) fn facts(work: &Work, mut add: impl FnMut(&'static str, &dyn Fn(&mut Message))) {
    use super::field::{ANNOTATION_TEXT, DICTIONARY, DOUBLE, STRING, UNSIGNED};
    let about = &work.about;
    let mut number = |name: &'static str, number: Option<u64>| {
        if let Some(number) = number {
            add(name, &|value: &mut Message| value.number(UNSIGNED, number));
        }
    };
    let small = |value: u32| known_number(value).map(u64::from);
    let moves = matches!(about.what, timed::COPY | timed::FILL);
    number("call", work.call);
    number("bytes", moves.then_some(about.bytes));
    number("registers", small(about.registers));
    number("static shared", small(about.static_shared));
    number("dynamic shared", small(about.dynamic_shared));
    number("local", small(about.local));
    number("graph node", (about.node != 0).then_some(about.node));
    let mut text = |name: &'static str, text: Option<String>| {
        if let Some(text) = text {
            add(name, &|value: &mut Message| value.text(STRING, &text));
        }
    };
    let memory = |kind: u8| Some(memory_kind(kind).to_owned()).filter(|kind| moves && !kind.is_empty());
    text("from", memory(about.from));
    text("to", memory(about.to));
    // As CUDA calls their fields.
    for (name, shape) in [("grid", about.grid), ("block", about.block)] {
        let fields = move |value: &mut Message| {
            for (field, number) in ["x", "y", "z"].into_iter().zip(shape) {
                value.message(DICTIONARY, |entry| {
                    entry.text(ANNOTATION_TEXT, field);
                    entry.number(UNSIGNED, number.into());
                });
            }
        };
        if known_number(shape[0]).is_some() {
            add(name, &fields);
        }
    }
    if let Some(percent) = about.occupancy() {
        add("occupancy %", &|value: &mut Message| value.double(DOUBLE, percent));
    }
}
