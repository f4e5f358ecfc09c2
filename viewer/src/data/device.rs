//! Device times, as measured by a replay.
//!
//! They are of another run than the calls. Work keeps its duration, and is placed as long after its recorded
//! call as it began after the replay's, or behind the earlier work on its stream. `export` places it the same
//! way.

use super::event::{Category, Flags, change};
use super::lane::{Lane, Queue, Source};
use super::model::Name;
use super::streams::Work as Submitted;
use super::tables::{Timing, collected, rows};
use super::threads::push;
use crate::text::tame;
use analysis::findings::finding::Gap;
use analysis::text::kernel_name::{Names, Style};
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, HashSet};
use trace::Trace;
use trace::file::record::timed;
use trace::model::idle::{self, Idle};
use trace::read::device_times::Work;

pub(crate) struct Devices {
    pub(crate) timing: Timing,
    pub(crate) lanes: Vec<Lane>,
    /// Calls whose work was timed.
    pub calls: HashSet<u32>,
    /// When devices had nothing to do.
    pub gaps: Vec<Gap>,
}

/// Context, stream and thread of the recording; device, context and stream as the replay's source counts
/// them.
type Key = (u64, u64, Option<u32>, u32, u32, u32);

/// Of a trace that holds device times. New names go behind the others.
pub(crate) fn devices(trace: &Trace, submitted: &[Submitted], names: &mut Vec<Name>) -> Option<Devices> {
    let profile = trace.profile.as_ref()?;
    let mut works: Vec<_> = trace.timed().filter_map(|work| Some((u32::try_from(work.call?).ok()?, work))).collect();
    // By call, and for each call by time.
    works.sort_by_key(|(call, work)| (*call, work.about.start));
    let calls: HashSet<u32> = works.iter().map(|(call, _)| *call).collect();
    let mut queues: FxHashMap<u32, &Queue> = FxHashMap::default();
    for work in submitted {
        queues.extend(work.call.iter().filter(|call| calls.contains(call)).map(|call| (*call, &work.queue)));
    }
    let mut naming = Naming::new(names);
    let mut lanes: Vec<(Lane, Vec<u64>)> = Vec::new();
    let mut known: FxHashMap<Key, usize> = FxHashMap::default();
    let (mut kernels, mut moves) = (Vec::new(), Vec::new());
    for (call, work) in &works {
        let about = &work.about;
        let own = || Queue {
            device: about.device as i32,
            context: about.context.into(),
            stream: u64::from(about.stream) | UNKNOWN,
            thread: None,
            call: *call,
        };
        let queue = queues.get(call).map_or_else(own, |queue| (*queue).clone());
        let key = (queue.context, queue.stream, queue.thread, about.device, about.context, about.stream);
        let at = *known.entry(key).or_insert_with(|| {
            let same = |lane: &Lane| {
                lane.source
                    .queue()
                    .is_some_and(|other| (other.context, other.stream, other.thread) == (key.0, key.1, key.2))
            };
            let part = lanes.iter().filter(|(lane, _)| same(lane)).count() as u32;
            lanes.push((Lane::empty(Source::Device { queue, part }), Vec::new()));
            lanes.len() - 1
        });
        let category = match about.what {
            timed::KERNEL => Category::Launch,
            timed::COPY | timed::FILL => Category::Copy,
            timed::GRAPH => Category::Graph,
            _ => Category::Submit,
        };
        let name = match work.name {
            Some(kernel) => naming.kernel(kernel),
            None => naming.operation(about.operation(), category),
        };
        let (lane, records) = &mut lanes[at];
        let submitted = trace.call(u64::from(*call)).map_or(0, |call| trace.nanoseconds(call.begin).max(0));
        let free = lane.len().checked_sub(1).map_or(0, |last| lane.end(last));
        let begin = (submitted.saturating_add(work.delay().max(0)) as u64).max(free);
        let length = work.duration() as u64;
        push(lane, begin, begin + length, name, Flags::new(category, false, false).0, *call);
        records.push(work.at);
        let sums = if work.is_kernel() { &mut kernels } else { &mut moves };
        collected(sums, name).add(*call, length, false, about.bytes);
    }
    let mut lanes: Vec<Lane> =
        lanes.into_iter().map(|(lane, records)| Lane { record: records.into(), ..lane }).collect();
    if profile.source != timed::RECORDED {
        lanes.extend(replayed(trace, &works));
    }
    let timing = Timing {
        source: profile.source,
        works: works.len() as u64,
        untimed: profile.untimed.iter().fold(0, |all, (_, count)| all.saturating_add(*count)),
        kernels: rows(kernels),
        moves: rows(moves),
    };
    Some(Devices { timing, lanes, calls, gaps: gaps(trace) })
}

/// As `cutrace report -r gaps` has them.
fn gaps(trace: &Trace) -> Vec<Gap> {
    let mut devices: BTreeMap<u32, (Idle, u32)> = BTreeMap::new();
    let mut gaps = Vec::new();
    for work in trace.timed() {
        let call = work.call.and_then(|call| u32::try_from(call).ok());
        let (idle, last) = devices.entry(work.about.device).or_default();
        if let Some((from, to)) = idle.gap(&work) {
            let [host, launch, _] = idle::parts((from, to), &work).map(|time| time as u64);
            let (begin, end) = (from.max(0) as u64, to.max(0) as u64);
            gaps.extend(call.map(|before| Gap {
                device: work.about.device as i32,
                begin,
                end,
                after: *last,
                before,
                causes: Some((host, launch)),
            }));
        }
        *last = call.unwrap_or(*last);
    }
    gaps
}

/// The replay's own calls, on its own clock, of the calls that gave a device work: against the recorded ones.
fn replayed(trace: &Trace, works: &[(u32, Work)]) -> Vec<Lane> {
    let mut calls: Vec<(u32, i64, i64, u32)> = works
        .iter()
        .map(|(call, work)| (work.about.thread, work.about.submitted, work.about.returned, *call))
        .collect();
    calls.sort_unstable();
    calls.dedup_by_key(|(.., call)| *call);
    let mut lanes: Vec<Lane> = Vec::new();
    for (thread, submitted, returned, number) in calls {
        let Some(call) = trace.call(number.into()) else { continue };
        let source = Source::Second(Box::new(Source::Thread { thread, depth: 0 }));
        if lanes.last().is_none_or(|lane| lane.source != source) {
            lanes.push(Lane::empty(source));
        }
        let lane = lanes.last_mut().expect("one was put there");
        let recorded = call.end.map_or(0, |end| (trace.nanoseconds(end) - trace.nanoseconds(call.begin)).max(0));
        let (begin, took) = (submitted.max(0) as u64, returned.saturating_sub(submitted).max(0) as u64);
        let flags = Flags::new(change(recorded as u64, took), false, false).0;
        push(lane, begin, begin + took, call.function_id().into(), flags, number);
    }
    lanes
}

/// Set in the number of a stream that no recorded call names: the replay's own count of it.
pub(crate) const UNKNOWN: u64 = 1 << 63;

/// Names by their text, each once.
struct Naming<'n> {
    names: &'n mut Vec<Name>,
    demangled: Names,
    kernels: FxHashMap<String, u32>,
    operations: FxHashMap<String, u32>,
}

impl Naming<'_> {
    fn new(names: &mut Vec<Name>) -> Naming<'_> {
        let known = names.iter().enumerate().filter(|(_, name)| name.kernel);
        let kernels = known.map(|(at, name)| (name.text.clone(), at as u32)).collect();
        Naming { names, demangled: Names::new(Style::Full), kernels, operations: FxHashMap::default() }
    }

    fn kernel(&mut self, name: &str) -> u32 {
        let text = tame(&self.demangled.display_name(name));
        *self.kernels.entry(text).or_insert_with_key(|text| {
            self.names.push(Name { text: text.clone(), category: Category::Launch as u8, kernel: true });
            self.names.len() as u32 - 1
        })
    }

    fn operation(&mut self, text: String, category: Category) -> u32 {
        *self.operations.entry(text).or_insert_with_key(|text| {
            self.names.push(Name { text: text.clone(), category: category as u8, kernel: false });
            self.names.len() as u32 - 1
        })
    }
}
