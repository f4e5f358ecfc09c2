//! The Trace Event Format, as PyTorch's profiler writes it, for HTA, TensorBoard and Chrome.
//!
//! Calls are complete events of their threads, and device work is on threads of its own below the same
//! process, one for each stream; a flow leads from a call to each piece of its work. Times are microseconds
//! with fractions.

use crate::events::counters::{Counter, Counters};
use crate::events::device_clock::Slice;
use crate::events::event::Event;
use crate::events::outstanding::{Period, Submitted};
use crate::perfetto::device::Devices;
use analysis::calls::annotations::in_json;
use analysis::error::Result;
use analysis::filter::grep::kernel_name;
use analysis::filter::selection::Selection;
use analysis::job::time_axis::Process;
use analysis::text::json::Fields;
use analysis::text::kernel_name::{Names, Style};
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use std::io::Write;
use trace::Call;
use trace::api::enums::CUresult;
use trace::file::preamble::RANKS;
use trace::file::record::{Timed, annotated, timed};
use trace::read::annotation::Annotation;
use trace::read::device_times::{Work, known_number, memory_kind};
use trace::show::text::symbol;

/// Threads that stand for streams; Linux has none of these numbers, on hosts that are told apart neither.
const STREAMS: u32 = 1 << 30;

/// Directions of copies, by CUPTI's numbers.
const COPIES: [&str; 11] = ["Unknown", "HtoD", "DtoH", "HtoA", "AtoH", "AtoA", "AtoD", "DtoA", "DtoD", "HtoH", "PtoP"];

/// The state that all processes share.
pub(crate) struct Chrome {
    arguments: bool,
    names: Names,
    flows: u64,
    ranges: u64,
    is_first: bool,
}

/// The events of one process.
pub(crate) struct ProcessEvents<'x, 't> {
    process: &'x Process<'t>,
    devices: Devices<'t>,
    counters: Counters,
    /// None where the times of the work itself are known.
    submitted: Option<Submitted>,
    /// Names of devices, by their tracks.
    titles: HashMap<u64, String>,
}

/// An event. Fields are called as in the format.
#[derive(Serialize)]
struct TraceEvent<'x, A> {
    ph: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    cat: Option<&'static str>,
    name: &'x str,
    pid: u32,
    tid: u32,
    ts: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    dur: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<u64>,
    /// Of a flow's end: that it binds to the slice around it.
    #[serde(skip_serializing_if = "Option::is_none")]
    bp: Option<&'static str>,
    /// Of an instant: that it is of a thread.
    #[serde(skip_serializing_if = "Option::is_none")]
    s: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    args: Option<A>,
}

#[derive(Serialize)]
struct CallArgs<'x> {
    /// The call's number, as `dump` has it.
    correlation: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    kernel: Option<String>,
    /// How many this one stands for.
    #[serde(skip_serializing_if = "Option::is_none")]
    calls: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    arguments: Option<Fields<'x, 'x>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    outputs: Option<Fields<'x, 'x>>,
}

impl Chrome {
    pub(crate) fn new(arguments: bool) -> Chrome {
        Chrome { arguments, names: Names::new(Style::Full), flows: 0, ranges: 0, is_first: true }
    }

    /// What stands before the events.
    pub(crate) fn begin(&mut self, out: &mut impl Write, processes: &[Process]) -> Result<()> {
        let mut about = Map::new();
        about.insert("schemaVersion".into(), 1.into());
        about.insert("displayTimeUnit".into(), "ns".into());
        about.insert("writer".into(), concat!("cutrace ", env!("CARGO_PKG_VERSION")).into());
        if let [one] = processes {
            let devices = one.trace.devices.iter().map(|device| {
                let (major, minor) = device.compute;
                json!({ "id": device.ordinal, "name": device.name, "totalGlobalMem": device.memory,
                        "computeMajor": major, "computeMinor": minor })
            });
            about.insert("deviceProperties".into(), devices.collect());
            if let Some(rank) = one.rank() {
                let of = one.trace.preamble.number(RANKS);
                about.insert("distributedInfo".into(), json!({ "rank": rank, "world_size": of }));
            }
        }
        let about = analysis::text::json::text(&about)?;
        let open = about.strip_suffix('}').unwrap_or(&about);
        Ok(writeln!(out, "{open},\"traceEvents\":[")?)
    }

    pub(crate) fn end(&mut self, out: &mut impl Write) -> Result<()> {
        Ok(out.write_all(b"\n]}\n")?)
    }

    fn write_event<A: Serialize>(&mut self, out: &mut impl Write, event: &TraceEvent<'_, A>) -> Result<()> {
        self.line(out, event)
    }

    fn line(&mut self, out: &mut impl Write, line: &impl Serialize) -> Result<()> {
        if !std::mem::take(&mut self.is_first) {
            out.write_all(b",\n")?;
        }
        Ok(analysis::text::json::write(out, line)?)
    }

    /// What a process or a thread is called.
    fn name(&mut self, out: &mut impl Write, what: &str, pid: u32, tid: u32, args: Value) -> Result<()> {
        self.line(out, &json!({ "ph": "M", "name": what, "pid": pid, "tid": tid, "args": args }))
    }

    pub(crate) fn process<'x, 't>(
        &mut self,
        out: &mut impl Write,
        process: &'x Process<'t>,
    ) -> Result<ProcessEvents<'x, 't>> {
        let (trace, pid) = (process.trace, process.number(process.trace.preamble.pid));
        self.name(out, "process_name", pid, 0, json!({ "name": process.title() }))?;
        self.name(out, "process_labels", pid, 0, json!({ "labels": "CUDA driver" }))?;
        let sort = process.rank().unwrap_or(process.index as u64);
        self.name(out, "process_sort_index", pid, 0, json!({ "sort_index": sort }))?;
        for thread in &trace.threads {
            self.name(out, "thread_name", pid, process.number(thread.os_id), json!({ "name": thread.name }))?;
        }
        let (devices, counters) = (Devices::new(trace), Counters::default());
        let submitted = (!trace.has_device_times()).then(Submitted::default);
        Ok(ProcessEvents { process, devices, counters, submitted, titles: HashMap::new() })
    }

    pub(crate) fn call<'t>(
        &mut self,
        out: &mut impl Write,
        of: &mut ProcessEvents<'_, 't>,
        event: &Event<'_, 't>,
    ) -> Result<()> {
        let points = of.counters.call(of.process, event);
        self.counters(out, of, points)?;
        let mut new = Vec::new();
        let submitted = of.submitted.as_mut();
        let periods = submitted.map(|all| all.call(of.process, event, &mut new)).unwrap_or_default();
        for track in new {
            let tid = stream(track.number);
            self.name(out, "thread_name", of.pid(), tid, json!({ "name": track.name }))?;
        }
        periods.iter().try_for_each(|period| self.period(out, of, period))?;
        if !event.is_selected {
            return Ok(());
        }
        let call = &event.call;
        let begin = of.process.nanoseconds(call.begin);
        let end = call.last_end().map(|end| of.process.nanoseconds(end));
        let decoded = event.decoded.as_ref().filter(|_| self.arguments);
        let said = TraceEvent {
            // One that did not return is open at the end.
            ph: if end.is_some() { "X" } else { "B" },
            cat: Some("cuda_driver"),
            name: call.name(),
            pid: of.pid(),
            tid: of.thread(call.thread),
            ts: of.microseconds(begin),
            dur: end.map(|end| microseconds_between(begin, end)),
            id: None,
            bp: None,
            s: None,
            args: Some(CallArgs {
                correlation: call.number,
                result: call.result.map(|result| symbol(CUresult::ENUM, result.into())),
                kernel: kernel_name(call).map(|kernel| self.names.display_name(kernel)),
                calls: call.repeats.map(|_| call.count()),
                arguments: decoded.map(|decoded| Fields(&decoded.arguments, event.objects)),
                outputs: decoded.map(|decoded| Fields(&decoded.outputs, event.objects)),
            }),
        };
        self.write_event(out, &said)?;
        let mut new = Vec::new();
        let slices = of.devices.slices(call.number, begin, &mut new);
        for track in new {
            match track.parent {
                None => _ = of.titles.insert(track.number, track.name),
                Some(parent) => {
                    let name = format!("{} {}", of.titles.get(&parent).map_or("", String::as_str), track.name);
                    let (pid, tid) = (of.pid(), stream(track.number));
                    self.name(out, "thread_name", pid, tid, json!({ "name": name }))?;
                    self.name(out, "thread_sort_index", pid, tid, json!({ "sort_index": tid }))?;
                }
            }
        }
        slices.iter().try_for_each(|(track, slice)| self.work(out, of, call, stream(*track), slice))
    }

    fn work(&mut self, out: &mut impl Write, of: &ProcessEvents, call: &Call, tid: u32, slice: &Slice) -> Result<()> {
        self.flows += 1;
        let (work, pid) = (&slice.work, of.pid());
        let name = match work.name {
            Some(name) => self.names.display_name(name),
            None => operation(&work.about),
        };
        let said = TraceEvent {
            ph: "X",
            cat: Some(category(&work.about)),
            name: &name,
            pid,
            tid,
            ts: of.microseconds(slice.start),
            dur: Some(microseconds_between(slice.start, slice.end)),
            id: None,
            bp: None,
            s: None,
            args: Some(facts(work)),
        };
        self.write_event(out, &said)?;
        for (ph, tid, at, bp) in [
            ("s", of.thread(call.thread), of.process.nanoseconds(call.begin), None),
            ("f", tid, slice.start, Some("e")),
        ] {
            let id = Some(self.flows);
            let ts = of.microseconds(at);
            let flow = TraceEvent {
                ph,
                cat: Some("ac2g"),
                name: "ac2g",
                pid,
                tid,
                ts,
                dur: None,
                id,
                bp,
                s: None,
                args: NONE,
            };
            self.write_event(out, &flow)?;
        }
        Ok(())
    }

    /// What a stream had to do, as far as the host knew.
    fn period(&mut self, out: &mut impl Write, of: &ProcessEvents, period: &Period) -> Result<()> {
        let said = TraceEvent {
            ph: if period.end.is_some() { "X" } else { "B" },
            cat: Some("submitted"),
            name: &period.title(),
            pid: of.pid(),
            tid: stream(period.track),
            ts: of.microseconds(period.begin),
            dur: period.end.map(|end| microseconds_between(period.begin, end)),
            id: None,
            bp: None,
            s: None,
            args: Some(json!({
                "first call": period.first, "last call": period.last, "submissions": period.submissions,
            })),
        };
        self.write_event(out, &said)
    }

    fn counters(
        &mut self,
        out: &mut impl Write,
        of: &ProcessEvents,
        points: Vec<crate::events::counters::Point>,
    ) -> Result<()> {
        for (counter, at, value) in points {
            let unit = match counter {
                Counter::Memory(_) => "bytes",
                Counter::Outstanding => "submissions",
            };
            let (name, ts) = (counter.title(), of.microseconds(at));
            self.line(out, &json!({ "ph": "C", "name": name, "pid": of.pid(), "ts": ts, "args": { unit: value } }))?;
        }
        Ok(())
    }

    /// What is not of a call: counters that change later, and what the program said by NVTX.
    pub(crate) fn finish(&mut self, out: &mut impl Write, mut of: ProcessEvents, selection: &Selection) -> Result<()> {
        let points = of.counters.finish();
        self.counters(out, &of, points)?;
        let left = of.submitted.as_mut().map(Submitted::finish).unwrap_or_default();
        left.iter().try_for_each(|period| self.period(out, &of, period))?;
        let trace = of.process.trace;
        let (between, categories) = (selection.annotation_filter(trace)?, trace.categories());
        let is_wanted = |about: &Annotation| between(about.thread, trace.call_from(about.about.time));
        let args = |about: &Annotation| {
            let mut args = Map::new();
            about.domain.iter().for_each(|domain| _ = args.insert("domain".into(), domain.as_ref().into()));
            let category = categories.get(&(about.about.domain, about.about.category));
            category.into_iter().for_each(|name| _ = args.insert("category".into(), name.as_str().into()));
            about.payload().into_iter().for_each(|payload| _ = args.insert("payload".into(), in_json(payload)));
            args
        };
        let marks = trace.annotations().filter(|about| about.about.what == annotated::MARK && is_wanted(about));
        for mark in marks {
            self.annotation(out, &of, "i", &mark, of.process.nanoseconds(mark.about.time), None, args(&mark))?;
        }
        for range in trace.annotated_ranges().into_iter().filter(|range| is_wanted(&range.opened)) {
            let (opened, begin) = (&range.opened, of.process.nanoseconds(range.opened.about.time));
            let end = range.end.map(|end| of.process.nanoseconds(end));
            match (opened.about.what, end) {
                (annotated::PUSH, end) => {
                    let ph = if end.is_some() { "X" } else { "B" };
                    self.annotation(out, &of, ph, opened, begin, end, args(opened))?;
                }
                // Any thread may end it, beside others.
                (_, end) => {
                    self.ranges += 1;
                    self.annotation(out, &of, "b", opened, begin, None, args(opened))?;
                    if let Some(end) = end {
                        self.annotation(out, &of, "e", opened, end, None, Map::new())?;
                    }
                }
            }
        }
        Ok(())
    }

    #[expect(clippy::too_many_arguments, reason = "an event has as many facts")]
    fn annotation(
        &mut self,
        out: &mut impl Write,
        of: &ProcessEvents,
        ph: &'static str,
        about: &Annotation,
        at: i64,
        end: Option<i64>,
        args: Map<String, Value>,
    ) -> Result<()> {
        self.write_event(
            out,
            &TraceEvent {
                ph,
                cat: Some("user_annotation"),
                name: about.message.as_deref().unwrap_or("(no message)"),
                pid: of.pid(),
                tid: of.thread(about.thread),
                ts: of.microseconds(at),
                dur: end.map(|end| microseconds_between(at, end)),
                id: matches!(ph, "b" | "e").then_some(self.ranges),
                bp: None,
                s: (ph == "i").then_some("t"),
                args: Some(args),
            },
        )
    }
}

const NONE: Option<()> = None;

impl ProcessEvents<'_, '_> {
    fn pid(&self) -> u32 {
        self.process.number(self.process.trace.preamble.pid)
    }

    fn thread(&self, index: u32) -> u32 {
        let thread = self.process.trace.threads.get(index as usize);
        self.process.number(thread.map_or(0, |thread| thread.os_id))
    }

    fn microseconds(&self, at: i64) -> f64 {
        microseconds_between(0, at)
    }
}

/// Microseconds. Up to 11 days it is exact.
fn microseconds_between(from: i64, to: i64) -> f64 {
    to.saturating_sub(from).max(0) as f64 / 1e3
}

fn stream(track: u64) -> u32 {
    STREAMS | (track as u32 & (STREAMS - 1))
}

fn category(about: &Timed) -> &'static str {
    match about.what {
        timed::KERNEL => "kernel",
        timed::COPY => "gpu_memcpy",
        timed::FILL => "gpu_memset",
        _ => "cuda_graph",
    }
}

/// What has no name of its own, as PyTorch calls it.
fn operation(about: &Timed) -> String {
    let memory = |kind: u8| Some(memory_kind(kind)).filter(|kind| !kind.is_empty()).unwrap_or("Unknown");
    match about.what {
        timed::COPY => {
            let direction = COPIES.get(usize::from(about.copy)).unwrap_or(&COPIES[0]);
            format!("Memcpy {direction} ({} -> {})", memory(about.from), memory(about.to))
        }
        timed::FILL => format!("Memset ({})", memory(about.to)),
        _ => about.operation(),
    }
}

/// As PyTorch calls them.
fn facts(work: &Work) -> Map<String, Value> {
    let about = &work.about;
    let mut facts = Map::new();
    let mut add = |name: &str, value: Option<Value>| {
        value.into_iter().for_each(|value| _ = facts.insert(name.into(), value));
    };
    let number = |value: u32| known_number(value).map(Value::from);
    let shape = |shape: [u32; 3]| known_number(shape[0]).map(|_| json!(shape));
    let moves = matches!(about.what, timed::COPY | timed::FILL);
    add("device", number(about.device));
    add("context", number(about.context));
    add("stream", number(about.stream));
    add("correlation", work.call.map(Value::from));
    add("bytes", moves.then(|| about.bytes.into()));
    add("grid", shape(about.grid));
    add("block", shape(about.block));
    add("registers per thread", number(about.registers));
    let shared = known_number(about.static_shared).zip(known_number(about.dynamic_shared));
    add("shared memory", shared.map(|(fixed, given)| (u64::from(fixed) + u64::from(given)).into()));
    add("graph node id", (about.node != 0).then(|| about.node.into()));
    add("theoretical occupancy %", about.occupancy().map(Value::from));
    facts
}
