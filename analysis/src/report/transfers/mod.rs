//! `transfers`: copies by direction, kind of memory and function; and redundant copies.

mod copy;
mod redundant;

use super::walk::{Ending, Report, Step};
use crate::findings::finding::{Cost, Finding};
use crate::tables::table::{Cell, Head, Layout, Table, column};
use crate::tables::tally::Tally;
use crate::text::figures::{counted, duration, grouped, size};
use copy::{Place, Transfer, copies, is_copy, only_copy};
use foldhash::{HashMap, HashSet};
use redundant::Repeats;
use trace::api::effect::{Effect, Work};
use trace::api::roles::Class;
use trace::model::objects::Objects;
use trace::{Function, Trace};

#[derive(Default)]
pub(crate) struct Transfers<'t> {
    ways: HashMap<(Place, Place, &'t str), Way>,
    /// Variables in managed memory.
    managed: HashSet<u64>,
    repeats: Repeats<'t>,
    /// Blocking copies from or to pageable memory, and those that only look asynchronous.
    blocking: Copies,
    pageable: Copies,
    /// Blocking copies of other memory.
    waited: Copies,
    redundant: Copies,
    repeated: Copies,
    /// The call that was seen last brought something to pageable memory, by a copy that looks asynchronous:
    /// the host waits for that, and for what its stream was given before.
    pub waits_in_truth: bool,
}

#[derive(Default)]
struct Way {
    copies: u64,
    bytes: u64,
    smallest: u64,
    largest: u64,
    time: i64,
    longest: i64,
    longest_call: u64,
    /// The host waits for the bytes: the time is theirs.
    waits: bool,
}

/// Copies that show the same thing.
#[derive(Default)]
struct Copies {
    tally: Tally,
    bytes: u64,
}

impl Copies {
    fn add(&mut self, call: u64, bytes: u64, ns: i64) {
        self.bytes = self.bytes.saturating_add(bytes);
        self.tally.add(call, ns);
    }

    fn finding(&self, kind: &str, copy: &str, what: &str, more: &str) -> Option<Finding> {
        let Copies { tally, bytes } = self;
        let first = tally.first?;
        Some(Finding {
            kind: kind.into(),
            what: format!("{}{what}", counted(tally.calls, copy)),
            evidence: format!("{} in {}; the first is call {first}{more}", size(*bytes), duration(tally.time)),
            next: "cutrace report -r transfers".into(),
            cost: Cost::Time(tally.time),
            times: tally.calls,
            calls: tally.costliest(),
        })
    }
}

impl Transfers<'_> {
    /// Something else may be where such a variable was. Its length may not have been asked for.
    fn follow_managed(&mut self, step: &Step) {
        step.objects.born().for_each(|range| _ = self.managed.remove(&range.base));
        if let Some(Effect::FindManaged { at, .. }) = step.function.map(|function| function.effect) {
            self.managed.extend(step.call.output_of(at.0.into()).filter(|_| step.call.succeeded()));
        }
    }

    /// Copies and bytes from the host, and to the host.
    pub(crate) fn across(&self) -> [(u64, u64); 2] {
        let sum = |wanted: fn(Place, Place) -> bool| {
            let ways = self.ways.iter().filter(|((from, to, _), _)| wanted(*from, *to));
            ways.fold((0u64, 0u64), |(copies, bytes), (_, way)| {
                (copies.saturating_add(way.copies), bytes.saturating_add(way.bytes))
            })
        };
        [sum(|from, to| from.is_host() && !to.is_host()), sum(|from, to| !from.is_host() && to.is_host())]
    }
}

pub(crate) fn make<'t>(_: &'t Trace) -> Box<dyn Report<'t> + 't> {
    Box::new(Transfers::default())
}

const WAYS: Head = Head {
    report: "transfers",
    part: "ways",
    title: "Copies by direction and kind of memory (transfers)",
    columns: &[
        column("from", "from"),
        column("to", "to"),
        column("bytes", "bytes"),
        column("copies", "copies"),
        column("smallest", "smallest_bytes"),
        column("largest", "largest_bytes"),
        column("time", "time_ns"),
        column("rate", "bytes_per_second"),
        column("longest", "longest_ns"),
        column("call", "longest_call"),
        column("function", "function"),
    ],
    layout: Layout::Grid,
};

const AGAIN: Head = Head {
    report: "transfers",
    part: "again",
    title: "Redundant and repeated copies (transfers)",
    columns: &[
        column("redundant", "redundant"),
        column("repeated", "repeated"),
        column("bytes each", "bytes"),
        column("redundant time", "redundant_ns"),
        column("first sent", "original_call"),
        column("last again", "latest_call"),
        column("to", "destination"),
        column("function", "function"),
    ],
    layout: Layout::Grid,
};

impl<'t> Report<'t> for Transfers<'t> {
    fn visits(&self, function: &Function, succeeds: bool) -> bool {
        let finds_managed = matches!(function.effect, Effect::FindManaged { .. });
        let is_copy = function.work().is_some_and(Work::is_copy);
        succeeds && (is_copy || finds_managed || Objects::concerns(function) || Repeats::sees(function))
    }

    fn visit(&mut self, step: &Step<'_, 't>) {
        self.follow_managed(step);
        self.waits_in_truth = false;
        if !step.call.succeeded() || step.call.inner && !is_copy(step) {
            return;
        }
        if !is_copy(step) {
            self.repeats.follow(step);
            return;
        }
        let (one, several);
        let all: &[Transfer] = match only_copy(step, &self.managed) {
            Some(copy) => {
                one = [copy];
                &one
            }
            None => {
                several = copies(step, &self.managed);
                &several
            }
        };
        // The call's time is that of all its copies.
        let ns = step.duration().unwrap_or(0) / all.len().max(1) as i64;
        let waits = step.class() == Some(Class::copy);
        self.waits_in_truth = !waits && all.iter().any(|copy| copy.to == Place::Pageable && !copy.from.is_host());
        for copy in all {
            let number = step.call.number;
            if copy.from.is_host() {
                match self.repeats.transfer(step, copy, ns) {
                    Some(true) => self.redundant.add(number, copy.bytes, ns),
                    Some(false) => self.repeated.add(number, copy.bytes, ns),
                    None => {}
                }
            } else {
                self.repeats.overwritten(step, copy);
            }
            if !step.selected {
                continue;
            }
            let is_pageable = copy.from == Place::Pageable || copy.to == Place::Pageable;
            if is_pageable {
                let tally = if waits { &mut self.blocking } else { &mut self.pageable };
                tally.add(number, copy.bytes, ns);
            } else if waits {
                self.waited.add(number, copy.bytes, ns);
            }
            let way = self.ways.entry((copy.from, copy.to, step.call.name())).or_default();
            way.smallest = if way.copies == 0 { copy.bytes } else { way.smallest.min(copy.bytes) };
            way.largest = way.largest.max(copy.bytes);
            way.copies += 1;
            way.bytes = way.bytes.saturating_add(copy.bytes);
            way.time += ns;
            way.waits = waits;
            if ns >= way.longest {
                (way.longest, way.longest_call) = (ns, number);
            }
        }
    }

    fn tables(&mut self, ending: &Ending<'t>) -> Vec<Table> {
        let mut ways = Table::new(WAYS);
        let mut all: Vec<_> = self.ways.iter().collect();
        all.sort_by_key(|(key, way)| (std::cmp::Reverse(way.bytes), **key));
        for ((from, to, function), way) in all {
            let rate = (way.waits && way.time > 0).then(|| Cell::Rate(way.bytes as f64 * 1e9 / way.time as f64));
            ways.row([
                from.name().into(),
                to.name().into(),
                Cell::Bytes(way.bytes),
                Cell::Count(way.copies),
                Cell::Bytes(way.smallest),
                Cell::Bytes(way.largest),
                Cell::Time(way.time),
                rate.into(),
                Cell::Time(way.longest),
                Cell::Number(way.longest_call),
                (*function).into(),
            ]);
        }
        ways.note(
            "the rate is measured on the host and includes the wait for earlier work; asynchronous copies have no rate",
        );
        let mut again = Table::new(AGAIN);
        let mut all: Vec<_> = self.repeats.found.iter().collect();
        let moved = |copies: u64, bytes: u64| copies.saturating_mul(bytes);
        all.sort_by_key(|((to, bytes, _), a)| {
            (std::cmp::Reverse((moved(a.redundant, *bytes), moved(a.repeated, *bytes))), *to)
        });
        for ((_, bytes, function), found) in all {
            again.row([
                Cell::Count(found.redundant),
                Cell::Count(found.repeated),
                Cell::Bytes(*bytes),
                Cell::Time(found.time),
                Cell::Number(found.original),
                Cell::Number(found.latest),
                found.place.clone().into(),
                (*function).into(),
            ]);
        }
        again.note(match ending.trace.preamble.without_data() {
            Some(why) => format!("{why}: the copied data is unknown"),
            None => {
                "redundant: no call in between can have written to the destination; repeated: a launch with an address in \
                     that allocation, a graph or a 2D copy can have written to it"
                    .into()
            }
        });
        vec![ways, again]
    }

    fn findings(&self, _: &Ending<'t>) -> Vec<Finding> {
        let repeated = match self.repeated.tally.calls {
            0 => String::new(),
            n => format!("; {} more sent the same bytes, but the destination may have changed", grouped(n)),
        };
        let found = [
            self.blocking.finding(
                "synchronous_pageable_copies",
                "blocking copy",
                " of pageable memory",
                "; Async copies of pinned memory (cuMemHostAlloc, cuMemHostRegister) can overlap",
            ),
            self.pageable.finding(
                "asynchronous_pageable_copies",
                "Async copy",
                " of pageable memory, which cannot overlap",
                "; copies of pinned memory (cuMemHostAlloc, cuMemHostRegister) can overlap",
            ),
            self.waited.finding(
                "synchronous_copies",
                "blocking copy",
                " of pinned or device memory",
                "; an Async copy with a later wait does not block the host",
            ),
            self.redundant.finding(
                "redundant_transfers",
                "redundant copy",
                ": the destination already held these bytes",
                &repeated,
            ),
        ];
        found.into_iter().flatten().collect()
    }
}
