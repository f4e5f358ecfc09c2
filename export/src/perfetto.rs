//! Perfetto's own format: a track for each thread, a slice for each call, its arguments as annotations.
//!
//! Names are stored once, in the interned data of the packet that first needs them. A call that submits work
//! begins a flow for each piece of it, which that piece's slice ends. NVTX annotations are on tracks below
//! the threads'. Each process is a sequence of packets of its own, and has tracks of its own.

pub(crate) mod device;
pub(crate) mod field;
pub(crate) mod nvtx;
pub(crate) mod proto;

use crate::events::counters::{Counter, Counters, Point};
use crate::events::device_clock::Slice;
use crate::events::event::Event;
use crate::events::outstanding::{Period, Submitted};
use crate::events::track::{PROCESS_TRACK, THREAD_TRACKS, Track};
use crate::perfetto::device::{Devices, facts};
use crate::perfetto::nvtx::{Annotated, Step};
use crate::perfetto::proto::Message;
use analysis::error::Result;
use analysis::filter::grep::kernel_name;
use analysis::filter::selection::Selection;
use analysis::job::time_axis::Process;
use analysis::text::kernel_name::{Names, Style};
use std::collections::HashMap;
use std::io::Write;
use trace::api::enums::CUresult;
use trace::model::objects::Objects;
use trace::model::value::Value;
use trace::read::annotation::{Annotation, Payload};
use trace::show::text::{Text, symbol};
use trace::{Call, Trace};

const BEGIN: u64 = 1;
const END: u64 = 2;
const INSTANT: u64 = 3;
const COUNT: u64 = 4;
const STATE_CLEARED: u64 = 1;
const NEEDS_STATE: u64 = 2;
const UNIT_COUNT: u64 = 2;
const UNIT_BYTES: u64 = 3;

/// Tracks of counters, beyond those of annotations.
const COUNTERS: u64 = 1 << 34;

/// A process's tracks and flows have its index above these bits.
const OWN: u32 = 40;

#[derive(Default)]
struct Interned<'t> {
    numbers: foldhash::HashMap<&'t str, u64>,
}

impl<'t> Interned<'t> {
    /// The number of a name; `new` is told if it is the first time.
    fn number(&mut self, name: &'t str, new: &mut Vec<(u64, u64, &'t str)>, field: u64) -> u64 {
        let next = self.numbers.len() as u64 + 1;
        let number = *self.numbers.entry(name).or_insert(next);
        if number == next {
            new.push((field, number, name));
        }
        number
    }
}

/// The export of one process.
pub(crate) struct Perfetto<'x, 't> {
    process: &'x Process<'t>,
    trace: &'t Trace,
    /// With the arguments of the calls.
    arguments: bool,
    names: Names,
    devices: Devices<'t>,
    annotated: Annotated<'t>,
    nvtx_categories: HashMap<(u32, u32), String>,
    /// None where the times of the work itself are known.
    submitted: Option<Submitted>,
    counters: Counters,
    counted: Vec<Counter>,
    /// Flows so far.
    flows: u64,
    categories: Interned<'t>,
    events: Interned<'t>,
    annotations: Interned<'t>,
    /// Slices that have begun, by thread: when they end.
    open: foldhash::HashMap<u32, Vec<Option<i64>>>,
    new: Vec<(u64, u64, &'t str)>,
    /// One packet.
    packet: Message,
    body: Message,
}

impl<'x, 't> Perfetto<'x, 't> {
    pub(crate) fn new(process: &'x Process<'t>, selection: &Selection, arguments: bool) -> Result<Perfetto<'x, 't>> {
        let trace = process.trace;
        Ok(Perfetto {
            process,
            trace,
            arguments,
            names: Names::new(Style::Full),
            devices: Devices::new(trace),
            annotated: Annotated::new(trace, selection)?,
            nvtx_categories: trace.categories(),
            submitted: (!trace.has_device_times()).then(Submitted::default),
            counters: Counters::default(),
            counted: Vec::new(),
            flows: 0,
            categories: Interned::default(),
            events: Interned::default(),
            annotations: Interned::default(),
            open: foldhash::HashMap::default(),
            new: Vec::new(),
            packet: Message::default(),
            body: Message::default(),
        })
    }

    /// The tracks.
    pub(crate) fn begin(&mut self, out: &mut impl Write) -> Result<()> {
        let (process, trace, about) = (self.process, self.trace, &self.trace.preamble);
        let pid = process.number(about.pid);
        self.write_packet(out, |packet| {
            packet.number(field::FLAGS, STATE_CLEARED);
            packet.message(field::DESCRIPTOR, |track| {
                track.number(field::UUID, own(process, PROCESS_TRACK));
                track.message(field::PROCESS, |described| {
                    described.number(field::PID, pid.into());
                    about.command_line.iter().for_each(|word| described.text(field::COMMAND_LINE, word));
                    described.text(field::PROCESS_NAME, &process.title());
                });
            });
        })?;
        for (index, thread) in trace.threads.iter().enumerate() {
            self.write_packet(out, |packet| {
                packet.message(field::DESCRIPTOR, |track| {
                    track.number(field::UUID, own(process, THREAD_TRACKS + index as u64));
                    track.number(field::PARENT, own(process, PROCESS_TRACK));
                    track.text(field::NAME, "CUDA driver");
                    track.message(field::THREAD, |about_thread| {
                        about_thread.number(field::THREAD_PID, pid.into());
                        about_thread.number(field::TID, process.number(thread.os_id).into());
                        about_thread.text(field::THREAD_NAME, &thread.name);
                    });
                });
            })?;
        }
        Ok(())
    }

    pub(crate) fn call(&mut self, out: &mut impl Write, event: &Event<'_, 't>) -> Result<()> {
        let call = &event.call;
        let begin = self.process.nanoseconds(call.begin);
        let points = self.counters.call(self.process, event);
        self.count(out, &points)?;
        let mut new = Vec::new();
        let submitted = self.submitted.as_mut();
        let periods = submitted.map(|all| all.call(self.process, event, &mut new)).unwrap_or_default();
        new.iter().try_for_each(|track| self.track(out, track))?;
        periods.iter().try_for_each(|period| self.period(out, period))?;
        if !event.is_selected {
            return Ok(());
        }
        self.annotations(out, call.begin, false)?;
        self.close(out, call, begin)?;
        self.new.clear();
        let name = self.events.number(call.name(), &mut self.new, field::EVENT_NAMES);
        let family = call.function().map_or("unknown", |function| function.family);
        let category = self.categories.number(family, &mut self.new, field::CATEGORIES);
        let mut body = std::mem::take(&mut self.body);
        body.clear();
        body.number(field::TYPE, BEGIN);
        body.number(field::TRACK, self.own(track(call)));
        body.number(field::NAME_IID, name);
        body.number(field::CATEGORY_IID, category);
        let slices = self.slices(out, call.number, begin)?;
        for flow in 0..slices.len() as u64 {
            body.fixed(field::FLOW, self.own(self.flows + flow + 1));
        }
        self.annotate(&mut body, "call", |value| value.number(field::UNSIGNED, call.number));
        match call.result {
            Some(result) => {
                let result = symbol(CUresult::ENUM, result.into());
                self.annotate(&mut body, "result", |value| value.text(field::STRING, &result));
            }
            None => self.annotate(&mut body, "did not return", |value| value.number(field::BOOL, 1)),
        }
        if call.repeats.is_some() {
            let first = call.end.map_or(0, |end| self.process.nanoseconds(end).saturating_sub(begin).max(0));
            let inside = first.saturating_add(call.repeats_took());
            self.annotate(&mut body, "calls", |value| value.number(field::UNSIGNED, call.count()));
            self.annotate(&mut body, "inside_ns", |value| value.number(field::SIGNED, inside as u64));
        }
        if let Some(kernel) = kernel_name(call) {
            let kernel = self.names.display_name(kernel);
            self.annotate(&mut body, "kernel", |value| value.text(field::STRING, &kernel));
        }
        if self.arguments {
            for (name, value) in
                event.decoded.iter().flat_map(|decoded| decoded.arguments.iter().chain(&decoded.outputs))
            {
                self.value(&mut body, name, value, event.objects);
            }
        }
        let new = std::mem::take(&mut self.new);
        self.event(out, begin, &new, &body)?;
        (self.new, self.body) = (new, body);
        // A run of polls is one slice.
        self.open.entry(call.thread).or_default().push(call.last_end().map(|end| self.process.nanoseconds(end)));
        slices.iter().try_for_each(|(track, slice)| self.slice(out, *track, slice))
    }

    /// What the call gave devices; streams that are new get their tracks.
    fn slices(&mut self, out: &mut impl Write, call: u64, begin: i64) -> Result<Vec<(u64, Slice<'t>)>> {
        let mut tracks = Vec::new();
        let slices = self.devices.slices(call, begin, &mut tracks);
        tracks.iter().try_for_each(|track| self.track(out, track))?;
        Ok(slices)
    }

    fn track(&mut self, out: &mut impl Write, track: &Track) -> Result<()> {
        let process = self.process;
        self.write_packet(out, |packet| {
            packet.message(field::DESCRIPTOR, |descriptor| {
                descriptor.number(field::UUID, own(process, track.number));
                descriptor.number(field::PARENT, own(process, track.parent.unwrap_or(PROCESS_TRACK)));
                descriptor.text(field::NAME, &track.name);
            });
        })
    }

    /// What the program said by NVTX before `time`. `closes`: ends alone.
    fn annotations(&mut self, out: &mut impl Write, time: u64, closes: bool) -> Result<()> {
        for step in self.annotated.steps_before(time, closes) {
            match step {
                Step::Track(track) => self.track(out, &track)?,
                Step::Begin { track, about } => self.annotation(out, BEGIN, track, &about)?,
                Step::Mark { track, about } => self.annotation(out, INSTANT, track, &about)?,
                Step::End { track, time } => self.end(out, track, self.process.nanoseconds(time))?,
            }
        }
        Ok(())
    }

    fn annotation(&mut self, out: &mut impl Write, kind: u64, track: u64, about: &Annotation) -> Result<()> {
        self.new.clear();
        let category = self.categories.number("nvtx", &mut self.new, field::CATEGORIES);
        let mut body = std::mem::take(&mut self.body);
        body.clear();
        body.number(field::TYPE, kind);
        body.number(field::TRACK, self.own(track));
        body.text(field::EVENT_NAME, about.message.as_deref().unwrap_or("(no message)"));
        body.number(field::CATEGORY_IID, category);
        if let Some(category) = self.nvtx_categories.get(&(about.about.domain, about.about.category)).cloned() {
            self.annotate(&mut body, "category", |value| value.text(field::STRING, &category));
        }
        if let Some(payload) = about.payload() {
            self.annotate(&mut body, "payload", |value| match payload {
                Payload::Unsigned(n) | Payload::Unknown(n) => value.number(field::UNSIGNED, n),
                Payload::Signed(n) => value.number(field::SIGNED, n as u64),
                Payload::Float(x) => value.double(field::DOUBLE, x),
            });
        }
        if let Some(color) = about.color() {
            self.annotate(&mut body, "color", |value| value.text(field::STRING, &format!("#{color:08x}")));
        }
        let new = std::mem::take(&mut self.new);
        self.event(out, self.process.nanoseconds(about.about.time), &new, &body)?;
        (self.new, self.body) = (new, body);
        Ok(())
    }

    fn slice(&mut self, out: &mut impl Write, track: u64, slice: &Slice<'t>) -> Result<()> {
        self.flows += 1;
        self.new.clear();
        let work = &slice.work;
        let name = work.name.map_or_else(|| work.about.operation(), |name| self.names.display_name(name));
        let category = if work.is_kernel() { "kernel" } else { "copy" };
        let category = self.categories.number(category, &mut self.new, field::CATEGORIES);
        let mut body = std::mem::take(&mut self.body);
        body.clear();
        body.number(field::TYPE, BEGIN);
        body.number(field::TRACK, self.own(track));
        body.text(field::EVENT_NAME, &name);
        body.number(field::CATEGORY_IID, category);
        body.fixed(field::LAST_OF_FLOW, self.own(self.flows));
        facts(work, |name, fill| self.annotate(&mut body, name, fill));
        let new = std::mem::take(&mut self.new);
        self.event(out, slice.start, &new, &body)?;
        body.clear();
        body.number(field::TYPE, END);
        body.number(field::TRACK, self.own(track));
        self.event(out, slice.end, &[], &body)?;
        (self.new, self.body) = (new, body);
        Ok(())
    }

    /// What a stream had to do, as far as the host knew.
    fn period(&mut self, out: &mut impl Write, period: &Period) -> Result<()> {
        self.new.clear();
        let category = self.categories.number("submitted", &mut self.new, field::CATEGORIES);
        let mut body = std::mem::take(&mut self.body);
        body.clear();
        body.number(field::TYPE, BEGIN);
        body.number(field::TRACK, self.own(period.track));
        body.text(field::EVENT_NAME, &period.title());
        body.number(field::CATEGORY_IID, category);
        for (name, number) in
            [("first call", period.first), ("last call", period.last), ("submissions", period.submissions)]
        {
            self.annotate(&mut body, name, |value| value.number(field::UNSIGNED, number));
        }
        let new = std::mem::take(&mut self.new);
        self.event(out, period.begin, &new, &body)?;
        (self.new, self.body) = (new, body);
        period.end.map_or(Ok(()), |end| self.end(out, period.track, end))
    }

    /// Ends what had ended when this call was made on its thread. A call that did not return, and after which
    /// the thread made others, was left: by an exception, or a longjmp.
    fn close(&mut self, out: &mut impl Write, call: &Call, begin: i64) -> Result<()> {
        while let Some(latest) = self.open.get(&call.thread).and_then(|open| open.last()).copied() {
            let end = match latest {
                Some(end) if end <= begin && !(call.inner && end == begin) => end,
                None if !call.inner => begin,
                _ => break,
            };
            self.open.entry(call.thread).or_default().pop();
            self.end(out, track(call), end)?;
        }
        Ok(())
    }

    /// `is_cut`: the calls that were asked for went on.
    pub(crate) fn finish(&mut self, out: &mut impl Write, is_cut: bool) -> Result<()> {
        self.annotations(out, u64::MAX, is_cut)?;
        let points = self.counters.finish();
        self.count(out, &points)?;
        let left = self.submitted.as_mut().map(Submitted::finish).unwrap_or_default();
        left.iter().try_for_each(|period| self.period(out, period))?;
        let mut open: Vec<(u32, Vec<Option<i64>>)> = self.open.drain().collect();
        open.sort_by_key(|(thread, _)| *thread);
        for (thread, mut slices) in open {
            while let Some(end) = slices.pop() {
                // One that did not return stays open to the end.
                end.map_or(Ok(()), |end| self.end(out, THREAD_TRACKS + u64::from(thread), end))?;
            }
        }
        Ok(())
    }

    fn end(&mut self, out: &mut impl Write, track: u64, at: i64) -> Result<()> {
        let mut body = std::mem::take(&mut self.body);
        body.clear();
        body.number(field::TYPE, END);
        body.number(field::TRACK, self.own(track));
        self.event(out, at, &[], &body)?;
        self.body = body;
        Ok(())
    }

    fn event(&mut self, out: &mut impl Write, at: i64, new: &[(u64, u64, &str)], body: &Message) -> Result<()> {
        self.write_packet(out, |packet| {
            packet.number(field::FLAGS, NEEDS_STATE);
            packet.number(field::TIMESTAMP, at.max(0) as u64);
            if !new.is_empty() {
                packet.message(field::INTERNED, |interned| {
                    for (field, number, name) in new {
                        interned.message(*field, |entry| {
                            entry.number(field::IID, *number);
                            entry.text(field::INTERNED_NAME, name);
                        });
                    }
                });
            }
            packet.bytes(field::TRACK_EVENT, body.as_bytes());
        })
    }

    fn write_packet(&mut self, out: &mut impl Write, fill: impl FnOnce(&mut Message)) -> Result<()> {
        let sequence = self.process.index as u64 + 1;
        self.packet.clear();
        self.packet.message(field::PACKET, |packet| {
            packet.number(field::SEQUENCE, sequence);
            fill(packet);
        });
        Ok(out.write_all(self.packet.as_bytes())?)
    }

    fn annotate(&mut self, body: &mut Message, name: &'t str, fill: impl FnOnce(&mut Message)) {
        let number = self.annotations.number(name, &mut self.new, field::ANNOTATION_NAMES);
        body.message(field::ANNOTATION, |annotation| {
            annotation.number(field::ANNOTATION_NAME, number);
            fill(annotation);
        });
    }

    fn value(&mut self, body: &mut Message, name: &'static str, value: &Value, objects: &Objects) {
        // What stands there afterwards is among the outputs.
        if !matches!(value, Value::Result(_)) {
            self.annotate(body, name, |to| fill(to, value, objects));
        }
    }

    fn count(&mut self, out: &mut impl Write, points: &[Point]) -> Result<()> {
        for (counter, at, value) in points {
            let known = self.counted.iter().position(|known| known == counter);
            let track = COUNTERS + known.unwrap_or(self.counted.len()) as u64;
            if known.is_none() {
                self.counted.push(*counter);
                self.counter(out, *counter, track)?;
            }
            let mut body = std::mem::take(&mut self.body);
            body.clear();
            body.number(field::TYPE, COUNT);
            body.number(field::TRACK, self.own(track));
            body.number(field::COUNTER_VALUE, *value as u64);
            self.event(out, *at, &[], &body)?;
            self.body = body;
        }
        Ok(())
    }

    fn counter(&mut self, out: &mut impl Write, counter: Counter, track: u64) -> Result<()> {
        let process = self.process;
        self.write_packet(out, |packet| {
            packet.message(field::DESCRIPTOR, |descriptor| {
                descriptor.number(field::UUID, own(process, track));
                descriptor.number(field::PARENT, own(process, PROCESS_TRACK));
                descriptor.text(field::NAME, &counter.title());
                let unit = match counter {
                    Counter::Memory(_) => UNIT_BYTES,
                    Counter::Outstanding => UNIT_COUNT,
                };
                descriptor.message(field::COUNTER, |about| about.number(field::UNIT, unit));
            });
        })
    }

    fn own(&self, number: u64) -> u64 {
        own(self.process, number)
    }
}

/// A number of tracks or flows as no other process has it.
fn own(process: &Process, number: u64) -> u64 {
    (process.index as u64) << OWN | number
}

/// The value of an annotation: fields of structs by their names, and elements, so that queries reach them.
fn fill(to: &mut Message, value: &Value, objects: &Objects) {
    match value {
        Value::Unsigned(n) => to.number(field::UNSIGNED, *n),
        Value::Signed(n) => to.number(field::SIGNED, *n as u64),
        Value::Float(x) => to.double(field::DOUBLE, *x),
        Value::Pointer(at) => to.number(field::POINTER, *at),
        Value::Struct(fields) => fields.iter().for_each(|(name, value)| entry(to, name, value, objects)),
        Value::Options(pairs) => pairs.iter().for_each(|(code, value)| {
            entry(to, &Text(code, objects).to_string(), value, objects);
        }),
        Value::List(all) => {
            all.iter().for_each(|value| to.message(field::ARRAY, |element| fill(element, value, objects)));
        }
        value => to.text(field::STRING, &Text(value, objects).to_string()),
    }
}

fn entry(to: &mut Message, name: &str, value: &Value, objects: &Objects) {
    to.message(field::DICTIONARY, |entry| {
        entry.text(field::ANNOTATION_TEXT, name);
        fill(entry, value, objects);
    });
}

fn track(call: &Call) -> u64 {
    THREAD_TRACKS + u64::from(call.thread)
}
