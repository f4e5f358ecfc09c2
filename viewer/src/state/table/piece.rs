//! Sums by name over a piece of the trace, from its lanes: over the selection, the window, or the filtered
//! events.

use super::sums::Sum;
use crate::data::Model;
use crate::data::event::{Category, Event, Flags};
use crate::data::lane::{Lane, Source};
use crate::data::open::Opened;
use crate::data::tables::Collected;
use crate::state::filter::Filter;
use crate::state::parts::scope::Scope;
use crate::state::parts::tab::Tab;
use crate::text::tame;
use analysis::text::kernel_name::{Names, Style};
use rustc_hash::{FxHashMap, FxHashSet};
use std::ops::Range;
use trace::Call;
use trace::read::requested_size::moved;

/// Calls that are read from the trace for a table, for what lanes do not hold: bytes, the kernels of captured
/// launches, how many polls one event stands for.
const READ: usize = 200_000;

/// A piece of a trace whose events are summed by name.
pub(crate) struct Piece<'s> {
    opened: &'s Opened,
    filter: Option<&'s Filter>,
    scope: Scope,
    /// Of a range: the calls that its thread made within it, as places in lanes.
    calls: Vec<(usize, Range<usize>)>,
    sums: FxHashMap<u32, Adding>,
    read: usize,
    kernels: FxHashMap<u32, Option<u32>>,
}

#[derive(Default)]
struct Adding {
    collected: Collected,
    /// Nanoseconds within the piece.
    within: u64,
}

impl<'s> Piece<'s> {
    pub(crate) fn new(opened: &'s Opened, filter: Option<&'s Filter>, scope: Scope) -> Piece<'s> {
        let (calls, sums, kernels) = (Vec::new(), FxHashMap::default(), FxHashMap::default());
        let mut piece = Piece { opened, filter, scope, calls, sums, read: 0, kernels };
        piece.calls = piece.threads();
        piece
    }

    /// Rows of a table, the largest total first; none if the table has none of this kind.
    pub(crate) fn sums(mut self, tab: Tab) -> Vec<Sum> {
        let timed = self.opened.summary().timing.is_some();
        match tab {
            Tab::Api => self.functions(false),
            Tab::Copies if !timed => self.functions(true),
            Tab::Kernels if !timed => self.launches(),
            Tab::Copies | Tab::Kernels => self.works(tab == Tab::Kernels),
            Tab::Ranges => self.ranges(),
            _ => {}
        }
        self.rows()
    }

    /// Events of these lanes by name, whatever they are: of a row of the timeline.
    pub(crate) fn of_lanes(mut self, lanes: &[usize]) -> Vec<Sum> {
        for at in lanes {
            let Some(lane) = self.opened.model.lanes.get(*at) else { continue };
            for index in self.touched(lane) {
                let event = lane.event(index);
                if self.filter.is_none_or(|filter| filter.passes(&event, &lane.source)) {
                    self.add(event.name, &event, event.flags.failed(), 0);
                }
            }
        }
        self.rows()
    }

    fn rows(self) -> Vec<Sum> {
        let rows = self.sums.into_iter().filter_map(|(name, adding)| {
            let mut row = adding.collected.row(name)?;
            let whole = std::mem::replace(&mut row.total, adding.within);
            Some(Sum { row, whole })
        });
        let mut rows: Vec<Sum> = rows.collect();
        rows.sort_by_key(|sum| (std::cmp::Reverse(sum.row.total), sum.row.name));
        rows
    }

    /// The events of a lane that touch the piece.
    fn touched(&self, lane: &Lane) -> Range<usize> {
        match self.scope {
            Scope::Whole => 0..lane.len(),
            Scope::Window(from, to) | Scope::Selection(from, to) => {
                let first = lane.first_from(from);
                first..lane.first_at(to).max(first)
            }
            // What a range holds begins within it.
            Scope::Range(_, from, to) => {
                let first = lane.first_at(from);
                first..lane.first_at(to).max(first)
            }
        }
    }

    /// The calls in the piece, as places in the lanes of threads.
    fn threads(&self) -> Vec<(usize, Range<usize>)> {
        let own = |lane: &Lane| match (lane.source.clone(), self.range_thread()) {
            (Source::Thread { thread, .. }, Some(Some(wanted))) => thread == wanted,
            (Source::Thread { .. }, _) => true,
            _ => false,
        };
        let lanes = self.opened.model.lanes.iter().enumerate().filter(|(_, lane)| own(lane));
        lanes.map(|(at, lane)| (at, self.touched(lane))).collect()
    }

    /// Of a range: whose it is, if not any thread's.
    fn range_thread(&self) -> Option<Option<u32>> {
        let Scope::Range((at, _), ..) = self.scope else { return None };
        match self.opened.model.lanes.get(at)?.source {
            Source::Range { thread, .. } => Some(thread),
            _ => None,
        }
    }

    /// How much of an event's time is in the piece: of a range's calls and work all.
    fn time_inside(&self, event: &Event) -> u64 {
        match self.scope {
            Scope::Window(from, to) | Scope::Selection(from, to) => {
                event.end.min(to).saturating_sub(event.begin.max(from))
            }
            Scope::Whole | Scope::Range(..) => event.length(),
        }
    }

    fn add(&mut self, name: u32, event: &Event, failed: bool, bytes: u64) {
        let within = self.time_inside(event);
        let adding = self.sums.entry(name).or_default();
        adding.collected.add(event.call, event.length(), failed, bytes);
        adding.within = adding.within.saturating_add(within);
    }

    fn call(&mut self, number: u32) -> Option<Call<'s>> {
        self.read += 1;
        self.opened.call(number).filter(|_| self.read <= READ)
    }

    /// Calls by function. `copies`: those alone, with their bytes.
    fn functions(&mut self, copies: bool) {
        let (model, repeats) = (&self.opened.model, self.opened.trace.calls_repeated() > 0);
        for (at, range) in self.calls.clone() {
            let lane = &model.lanes[at];
            for index in range {
                let mut event = lane.event(index);
                let (category, failed) = (event.flags.category(), event.flags.failed());
                if copies && category != Category::Copy
                    || self.filter.is_some_and(|filter| !filter.passes(&event, &lane.source))
                {
                    continue;
                }
                let mut bytes = 0;
                if copies {
                    bytes = self.call(event.call).and_then(|call| moved(&call, call.function()?)).unwrap_or(0);
                }
                // One event stands for a run of polls.
                let run = if repeats && category == Category::Poll { self.call(event.call) } else { None };
                if let Some((call, end)) = run.as_ref().and_then(|call| Some((call, call.end?))) {
                    let trace = &self.opened.trace;
                    let inside = call.repeats_took().max(0) as u64;
                    let (name, count) = (event.name, call.count() - 1);
                    event.end = event.end.min(trace.nanoseconds(end).max(0) as u64).max(event.begin);
                    self.add(name, &event, failed, bytes);
                    let adding = self.sums.entry(name).or_default();
                    adding.collected.add_alike(count, inside);
                    adding.within = adding.within.saturating_add(if count > 0 { inside } else { 0 });
                    continue;
                }
                self.add(event.name, &event, failed, bytes);
            }
        }
    }

    /// Launching calls by kernel: of those that submitted something.
    fn launches(&mut self) {
        let model = &self.opened.model;
        let known: FxHashSet<u32> = model.summary.kernels.iter().map(|row| row.name).collect();
        let mut works = Works::new(model);
        for (at, range) in self.calls.clone() {
            let lane = &model.lanes[at];
            // What a call makes within itself is its own affair.
            if !matches!(lane.source, Source::Thread { depth: 0, .. }) {
                continue;
            }
            for index in range {
                let flags = Flags(lane.flags[index]);
                if flags.own() != Category::Launch || flags.failed() {
                    continue;
                }
                let event = lane.event(index);
                let found = works.name(event.call).or_else(|| self.captured(event.call));
                let Some(name) = found.filter(|name| known.contains(name)) else { continue };
                if self.lets_pass(&Event { name, ..event }, &lane.source, event.name) {
                    self.add(name, &event, false, 0);
                }
            }
        }
    }

    /// The name of the kernel that a captured launch names: it is on no stream.
    fn captured(&mut self, call: u32) -> Option<u32> {
        let kernel = self.call(call)?;
        let kernel = kernel.named_kernel()?;
        let model = &self.opened.model;
        *self.kernels.entry(kernel.id).or_insert_with(|| {
            let text = tame(&Names::new(Style::Full).display_name(&kernel.name));
            let names = model.summary.names.iter();
            names.enumerate().find(|(_, name)| name.kernel && name.text == text).map(|(at, _)| at as u32)
        })
    }

    /// Whether the filter lets a launch or its work pass: by its kernel's name and by its function's.
    fn lets_pass(&self, event: &Event, source: &Source, function: u32) -> bool {
        self.filter.is_none_or(|filter| filter.passes_work(event, source, function))
    }

    /// Work by the times of a device: kernels, or else copies, fills and graphs.
    fn works(&mut self, kernels: bool) {
        let model = &self.opened.model;
        let is_range = matches!(self.scope, Scope::Range(..));
        for lane in model.lanes.iter().filter(|lane| matches!(lane.source, Source::Device { .. })) {
            let range = if is_range { self.work_of_range(lane) } else { self.touched(lane) };
            for index in range {
                let event = lane.event(index);
                let is_kernel = model.summary.names.get(event.name as usize).is_some_and(|name| name.kernel);
                if is_kernel != kernels || (is_range && !self.is_own(event.call)) {
                    continue;
                }
                if self.filter.is_some() {
                    let call = model.find_call(event.call).map(|(at, index)| (&model.lanes[at], index));
                    let (source, function) =
                        call.map_or((&lane.source, event.name), |(lane, at)| (&lane.source, lane.name[at]));
                    if !self.lets_pass(&event, source, function) {
                        continue;
                    }
                }
                let about = || self.opened.trace.timed_at(*lane.record.get(index)?);
                let bytes = if kernels { 0 } else { about().map_or(0, |about| about.bytes) };
                self.add(event.name, &event, false, bytes);
            }
        }
    }

    /// The work of a lane that calls of the range may have given.
    fn work_of_range(&self, lane: &Lane) -> Range<usize> {
        let calls = |(at, range): &(usize, Range<usize>)| {
            let lane = &self.opened.model.lanes[*at];
            (!range.is_empty()).then(|| (lane.call[range.start], lane.call[range.end - 1]))
        };
        let all = self.calls.iter().filter_map(calls);
        let Some((first, last)) = all.reduce(|one, other| (one.0.min(other.0), one.1.max(other.1))) else {
            return 0..0;
        };
        lane.call.partition_point(|call| *call < first)..lane.call.partition_point(|call| *call <= last)
    }

    /// Whether a call is one of the range's.
    fn is_own(&self, call: u32) -> bool {
        let mut lanes = self.calls.iter();
        lanes.any(|(at, range)| self.opened.model.lanes[*at].of_call(call).is_some_and(|index| range.contains(&index)))
    }

    /// How long a lane has something to do within the piece; none of a range, of whose own work that is
    /// asked.
    pub(crate) fn busy(&self, lane: &Lane) -> Option<u64> {
        match self.scope {
            Scope::Range(..) => None,
            _ => self.scope.time().or(Some((0, u64::MAX))).map(|(from, to)| lane.cell(from, to).busy),
        }
    }

    /// At most how many pieces of work of a lane are in the piece.
    pub(crate) fn works_of(&self, lane: &Lane) -> usize {
        if matches!(self.scope, Scope::Range(..)) { self.work_of_range(lane).len() } else { self.touched(lane).len() }
    }

    /// The times of the work that the piece's device lanes show, within it; of a range of its own work.
    pub(crate) fn device_times(&self, lane: &Lane, into: &mut Vec<(u64, u64)>) {
        match self.scope {
            Scope::Range(..) => {
                let own = self.work_of_range(lane).filter(|index| self.is_own(lane.call[*index]));
                into.extend(own.map(|index| (lane.begin[index], lane.end(index))));
            }
            _ => into.extend(self.touched(lane).map(|index| {
                let (from, to) = self.scope.time().unwrap_or((0, u64::MAX));
                (lane.begin[index].max(from), lane.end(index).min(to))
            })),
        }
    }

    /// NVTX ranges by message.
    fn ranges(&mut self) {
        let model = &self.opened.model;
        let thread = self.range_thread();
        for lane in &model.lanes {
            let Source::Range { thread: of, .. } = lane.source else { continue };
            if thread.is_some_and(|thread| thread.is_some() && of != thread) {
                continue;
            }
            for index in self.touched(lane) {
                let event = lane.event(index);
                if self.filter.is_none_or(|filter| filter.passes(&event, &lane.source)) {
                    self.add(event.name, &event, false, 0);
                }
            }
        }
    }
}

/// The names of the work of calls that are asked for one after the other.
struct Works<'m> {
    lanes: Vec<&'m Lane>,
    /// The lane that had the last.
    last: usize,
}

impl<'m> Works<'m> {
    fn new(model: &'m Model) -> Works<'m> {
        Works { lanes: model.lanes.iter().filter(|lane| lane.source.is_work()).collect(), last: 0 }
    }

    fn name(&mut self, call: u32) -> Option<u32> {
        let all = (0..self.lanes.len()).map(|n| (self.last + n) % self.lanes.len());
        let (at, index) = all.into_iter().find_map(|at| Some((at, self.lanes[at].of_call(call)?)))?;
        self.last = at;
        Some(self.lanes[at].name[index])
    }
}
