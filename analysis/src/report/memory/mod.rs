//! `memory`: every byte by kind of memory and by the function that allocated it; the peak and its
//! composition; failed allocations and the memory live then; memory that was never freed.

mod churn;
pub(crate) mod leaked;
mod ledger;
mod place;

use super::walk::{Ending, Report, Step, changes_memory};
use crate::findings::finding::{Cost, Finding};
use crate::tables::table::{Cell, Column, Head, Layout, Table, column};
use crate::tables::tally::KEPT;
use crate::text::figures::{counted, size};
use churn::Churn;
use leaked::{Left, group};
use ledger::{Ledger, Side};
use place::{place, same};
use std::collections::BTreeMap;
use trace::api::effect::{Bytes, Effect, Memory as Kind};
use trace::api::enums::CUresult;
use trace::api::roles::Class;
use trace::model::memory::{Allocation, End};
use trace::read::requested_size;
use trace::show::text::symbol;
use trace::{Function, Trace};

#[derive(Default)]
pub(crate) struct Memory<'t> {
    ledger: Ledger,
    sites: BTreeMap<(Side, &'static str, &'t str, u32), Site>,
    failures: Vec<Failed<'t>>,
    failed: u64,
    /// What was live when the first allocation failed.
    at_failure: Vec<Allocation>,
    left: Left,
    churn: Churn<'t>,
}

/// What one function got on one thread.
#[derive(Default)]
struct Site {
    allocations: u64,
    bytes: u64,
    largest: u64,
    time: i64,
    frees: u64,
    freed: u64,
}

struct Failed<'t> {
    call: u64,
    function: &'t str,
    result: u32,
    asked: Option<u64>,
    side: Side,
    live: (u64, u64),
}

/// Failed allocations that are listed.
const FAILURES: usize = 100;

pub(crate) fn make<'t>(_: &'t Trace) -> Box<dyn Report<'t> + 't> {
    Box::new(Memory::default())
}

impl<'t> Report<'t> for Memory<'t> {
    fn visits(&self, function: &Function, _: bool) -> bool {
        changes_memory(function)
    }

    fn visit(&mut self, step: &Step<'_, 't>) {
        for (one, end) in &step.followed.gone {
            self.record_end(step, one, *end);
        }
        for made in &step.followed.made {
            self.got(step, made);
        }
        self.left.follow(step);
        let failed = step.function.filter(|_| step.call.result.is_some() && !step.call.succeeded() && step.selected);
        if let Some(Effect::Allocate { kind, bytes }) = failed.map(|function| function.effect) {
            self.fail(step, kind, bytes);
        }
    }

    fn tables(&mut self, ending: &Ending<'t>) -> Vec<Table> {
        let mut tables = vec![self.sides(ending.trace), self.by_site(), self.peaks(ending)];
        if self.failed > 0 {
            tables.push(self.failures());
            tables.push(group(FAILURE, ending.trace, self.at_failure.iter()));
        }
        tables.push(self.left.table(LEFT, ending));
        tables
    }

    fn findings(&self, ending: &Ending<'t>) -> Vec<Finding> {
        let mut found = Vec::new();
        if let Some(first) = self.failures.first() {
            let asked = first.asked.map_or(String::new(), |bytes| format!(" requested {}", size(bytes)));
            let (live, count) = first.live;
            found.push(Finding {
                kind: "failed_allocations".into(),
                what: format!("{} failed", counted(self.failed, "allocation")),
                evidence: format!(
                    "the first is call {}: {}{asked} while {} had {} in {}: {}",
                    first.call,
                    first.function,
                    first.side,
                    size(live),
                    counted(count, "allocation"),
                    symbol(CUresult::ENUM, first.result.into())
                ),
                next: "cutrace report -r memory".into(),
                cost: Cost::Wrong,
                times: self.failed,
                calls: self.failures.iter().map(|failed| failed.call).take(KEPT).collect(),
            });
        }
        found.extend(self.churn.finding());
        // What the program still held when it was cut off is no leak.
        if ending.trace.footer.is_some() {
            found.extend(self.left.finding(ending));
        }
        found
    }
}

impl<'t> Memory<'t> {
    /// Where memory was, and the most bytes at a time.
    pub(crate) fn most(&self) -> impl Iterator<Item = (Side, u64)> {
        self.ledger.accounts.iter().map(|(side, account)| (*side, account.peak))
    }

    fn got(&mut self, step: &Step<'_, 't>, made: &Allocation) {
        let Some(same @ (side, family, function, bytes)) = same(step.call.trace(), made) else { return };
        self.ledger.got(side, made);
        self.churn.got(same, step);
        if step.selected {
            let site = self.sites.entry((side, family, function, step.call.thread)).or_default();
            site.allocations += 1;
            site.bytes = site.bytes.saturating_add(bytes);
            site.largest = site.largest.max(bytes);
            site.time += step.duration().unwrap_or(0);
        }
    }

    fn record_end(&mut self, step: &Step<'_, 't>, one: &Allocation, end: End) {
        let trace = step.call.trace();
        let Some(same @ (side, family, function, bytes)) = same(trace, one) else { return };
        self.ledger.record_end(side, one, end);
        if end == End::Freed {
            self.churn.freed(same, step);
            let thread = trace.call(one.call).map_or(0, |call| call.thread);
            if let Some(site) = self.sites.get_mut(&(side, family, function, thread)) {
                site.frees += 1;
                site.freed = site.freed.saturating_add(bytes);
            }
        }
    }

    fn fail(&mut self, step: &Step<'_, 't>, kind: Kind, bytes: Bytes) {
        // Ranges of addresses, mappings and handles of what is there already, which have no length.
        if kind == Kind::Addresses || bytes == Bytes::Untold || step.class() != Some(Class::allocate) {
            return;
        }
        self.failed += 1;
        let side = place(step);
        if self.failures.is_empty() {
            self.at_failure =
                step.memory().live().filter(|one| Side::from_allocation(one) == Some(side)).copied().collect();
        }
        if self.failures.len() < FAILURES {
            self.failures.push(Failed {
                call: step.call.number,
                function: step.call.name(),
                result: step.call.result.unwrap_or(0),
                asked: step.function.and_then(|function| requested_size::bytes(step.call, function)),
                side,
                live: self.ledger.live_on(side),
            });
        }
    }

    fn sides(&self, trace: &Trace) -> Table {
        let mut table = Table::new(SIDES);
        for (side, account) in &self.ledger.accounts {
            let at = trace.call(account.peak_call).map(|call| trace.nanoseconds(call.begin));
            table.row([
                side.to_string().into(),
                Cell::Bytes(account.peak),
                Cell::Number(account.peak_call),
                at.map(Cell::Time).into(),
                Cell::Bytes(account.total),
                Cell::Real(account.total as f64 / account.peak.max(1) as f64),
                Cell::Count(account.allocations),
                Cell::Count(account.frees),
                Cell::Count(account.ended),
                Cell::Bytes(account.live),
            ]);
        }
        table.note("churn: total bytes allocated as a multiple of the peak; ended: freed with their context");
        table
    }

    fn by_site(&self) -> Table {
        let mut table = Table::new(SITES);
        let mut sites: Vec<_> = self.sites.iter().collect();
        sites.sort_by_key(|(key, site)| (key.0, std::cmp::Reverse(site.bytes), **key));
        for ((side, family, function, thread), site) in sites {
            table.row([
                side.to_string().into(),
                (*family).into(),
                Cell::Bytes(site.bytes),
                Cell::Count(site.allocations),
                Cell::Bytes(site.largest),
                Cell::Time(site.time),
                Cell::Bytes(site.freed),
                Cell::Count(site.frees),
                format!("t{thread}").into(),
                (*function).into(),
            ]);
        }
        table.note("the calling library is not recorded; function and thread stand for it");
        table
    }

    fn peaks(&self, ending: &Ending) -> Table {
        let sides = self.ledger.accounts.keys();
        group(PEAK, ending.trace, sides.flat_map(|side| self.ledger.at_peak(*side, &ending.memory)))
    }

    fn failures(&self) -> Table {
        let mut table = Table::new(FAILED);
        for failed in &self.failures {
            table.row([
                Cell::Number(failed.call),
                failed.asked.map(Cell::Bytes).into(),
                failed.side.to_string().into(),
                Cell::Bytes(failed.live.0),
                Cell::Count(failed.live.1),
                symbol(CUresult::ENUM, failed.result.into()).into(),
                failed.function.into(),
            ]);
        }
        let more = self.failed - self.failures.len() as u64;
        if more > 0 {
            table.note(format!("and {} more", counted(more, "failure")));
        }
        table
    }
}

const fn head(part: &'static str, title: &'static str, columns: &'static [Column]) -> Head {
    Head { report: "memory", part, title, columns, layout: Layout::Grid }
}

const SIDES: Head = head(
    "sides",
    "Memory by location (memory)",
    &[
        column("where", "where"),
        column("peak", "peak_bytes"),
        column("at call", "peak_call"),
        column("at", "peak_ns"),
        column("total", "total_bytes"),
        column("churn", "churn"),
        column("allocations", "allocations"),
        column("frees", "frees"),
        column("ended", "ended_with_context"),
        column("live at end", "live_bytes"),
    ],
);

const SITES: Head = head(
    "families",
    "Memory by kind and allocating function (memory)",
    &[
        column("where", "where"),
        column("kind", "kind"),
        column("total", "bytes"),
        column("allocations", "allocations"),
        column("largest", "largest_bytes"),
        column("time", "time_ns"),
        column("freed", "freed_bytes"),
        column("frees", "frees"),
        column("thread", "thread"),
        column("function", "function"),
    ],
);

const GROUP: &[Column] = &[
    column("where", "where"),
    column("bytes", "bytes"),
    column("allocations", "allocations"),
    column("each", "each_bytes"),
    column("kind", "kind"),
    column("first call", "first_call"),
    column("function", "function"),
];

const PEAK: Head = head("peak", "Live at the peak (memory)", GROUP);
const FAILURE: Head = head("live_at_failure", "Live when the first allocation failed (memory)", GROUP);

const LEFT: Head = head("left", "Leaked memory (memory)", leaked::COLUMNS);

const FAILED: Head = head(
    "failed",
    "Failed allocations (memory)",
    &[
        column("call", "call"),
        column("requested", "asked_bytes"),
        column("where", "where"),
        column("live then", "live_bytes"),
        column("in allocations", "live_allocations"),
        column("result", "result"),
        column("function", "function"),
    ],
);
