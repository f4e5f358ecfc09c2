//! `sync`: the waits by function and target, their duration, and the waits that had nothing to wait for.

use super::walk::{Ending, Report, Step};
use crate::calls::line::NOT_READY;
use crate::findings::finding::{Cost, Finding};
use crate::tables::table::{Cell, Column, Head, Layout, Table, column};
use crate::tables::tally::Tally;
use crate::text::figures::{counted, duration, grouped};
use foldhash::HashMap;
use trace::api::roles::Class;
use trace::api::table::Awaited;
use trace::api::types::{Form, Kind};
use trace::model::stream::StreamHandle;
use trace::show::text::handle;
use trace::{Function, Trace};

/// A thread, a function, and the object waited for.
type Key<'t> = (u32, &'t str, Option<Object>);

/// Its kind and number; of a default stream those of its context, and which it is.
type Object = (Kind, u64, Option<u64>);

#[derive(Default)]
pub(crate) struct Sync<'t> {
    waits: HashMap<Key<'t>, Waits>,
    /// Synchronisations that had nothing to wait for.
    needless: Tally,
    /// Those that waited for one submission.
    single: Tally,
    /// Those that waited for more.
    several: u64,
    unready: Tally,
}

#[derive(Default)]
struct Waits {
    on: String,
    calls: u64,
    time: i64,
    covered: u64,
    needless: u64,
    unready: u64,
    longest: i64,
    longest_call: u64,
    /// What they are for is another thing than to wait.
    are_frees: bool,
    /// What the longest waited for last.
    waited_for: Option<u64>,
}

const POLLING: &str = "polling";

/// Objects that are told apart; programs that make an event for each wait have no end of them.
const OBJECTS: usize = 10_000;

pub(crate) fn make<'t>(_: &'t Trace) -> Box<dyn Report<'t> + 't> {
    Box::new(Sync::default())
}

const COLUMNS: &[Column] = &[
    column("total", "total_ns"),
    column("calls", "calls"),
    column("average", "average_ns"),
    column("longest", "longest_ns"),
    column("call", "longest_call"),
    column("needless", "needless"),
    column("not ready", "not_ready"),
    column("covered", "submissions_covered"),
    column("thread", "thread"),
    column("function", "function"),
    column("waits for", "object"),
    column("waited for call", "longest_waited_for_call"),
    column("submitted as", "longest_waited_for"),
];

const HEAD: Head = Head {
    report: "sync",
    part: "",
    title: "Synchronisations and queries (sync)",
    columns: COLUMNS,
    layout: Layout::Grid,
};

impl<'t> Report<'t> for Sync<'t> {
    fn visits(&self, function: &Function, _: bool) -> bool {
        matches!(function.class, Class::synchronize | Class::poll | Class::copy) || function.waits_in_practice()
    }

    fn visit(&mut self, step: &Step<'_, 't>) {
        if step.function.is_some_and(Function::waits_in_practice) {
            self.see_free(step);
            return;
        }
        let Some(class @ (Class::synchronize | Class::poll | Class::copy)) = step.class() else { return };
        // Asks how long something took, and waits for nothing.
        if matches!(step.function.and_then(Function::awaited), Some(Awaited::Events([first, last])) if first != last) {
            return;
        }
        let Some(ns) = step.duration().filter(|_| step.selected && !step.call.inner) else { return };
        let is_unready = step.call.result == Some(NOT_READY);
        let is_inside = class == Class::synchronize && step.call.end.is_none();
        if !is_unready && !is_inside && step.outcome.wait.is_none() {
            return;
        }
        let object = waited_object(step);
        let number = object.and_then(|(kind, value)| match (kind, value) {
            (Kind::Stream, handle) if StreamHandle::new(step.function?, handle).is_default() => {
                let context = step.contexts().current(step.call.thread)?;
                let stream = StreamHandle::new(step.function?, handle).resolve(context, step.call.thread).stream;
                Some((Kind::Context, step.objects.object(Kind::Context, context)?.0, Some(stream)))
            }
            _ => Some((kind, step.objects.object(kind, value)?.0, None)),
        });
        let thread = step.call.thread;
        let mut key = (thread, step.call.name(), number);
        if self.waits.len() >= OBJECTS && !self.waits.contains_key(&key) {
            key.2 = None;
        }
        let waits = self.waits.entry(key).or_insert_with(|| Waits {
            on: match (class, object) {
                (Class::copy, _) => "its own work".into(),
                (_, Some((kind, _))) if key.2.is_none() && number.is_some() => format!("other {}s", kind.label()),
                (_, Some((Kind::Stream, _))) => step
                    .function
                    .map_or("-".into(), |function| step.outstanding.stream_name(step.call, function, step.objects)),
                (_, Some((kind, value))) => handle(kind, value, step.objects),
                (_, None) => "-".into(),
            },
            ..Waits::default()
        });
        let (count, all) = (step.call.count(), step.took().unwrap_or(ns));
        let is_first = waits.calls == 0;
        waits.calls = waits.calls.saturating_add(count);
        waits.time = waits.time.saturating_add(all);
        let wait = step.outcome.wait.unwrap_or_default();
        waits.covered += wait.covered;
        if is_first || ns > waits.longest {
            (waits.longest, waits.longest_call, waits.waited_for) = (ns, step.call.number, wait.last);
        }
        if is_unready {
            waits.unready = waits.unready.saturating_add(count);
            self.unready.add_run(step.call.number, count, all);
        } else if class == Class::synchronize && !is_inside {
            match wait.covered {
                0 => {
                    waits.needless += 1;
                    self.needless.add(step.call.number, ns);
                }
                1 => self.single.add(step.call.number, ns),
                _ => self.several += 1,
            }
        }
    }

    fn tables(&mut self, ending: &Ending<'t>) -> Vec<Table> {
        let (mut table, mut has_frees) = (Table::new(HEAD), false);
        let mut all: Vec<_> = self.waits.iter().collect();
        all.sort_by_key(|(key, waits)| (std::cmp::Reverse(waits.time), key.0, waits.longest_call));
        for ((thread, function, _), waits) in all {
            let waited_for = waits.waited_for.and_then(|number| ending.trace.call(number));
            let counted = |count| if waits.are_frees { Cell::None } else { Cell::Count(count) };
            has_frees |= waits.are_frees;
            table.row([
                Cell::Time(waits.time),
                Cell::Count(waits.calls),
                Cell::Time(waits.time / i64::try_from(waits.calls.max(1)).unwrap_or(i64::MAX)),
                Cell::Time(waits.longest),
                Cell::Number(waits.longest_call),
                counted(waits.needless),
                counted(waits.unready),
                counted(waits.covered),
                format!("t{thread}").into(),
                (*function).into(),
                waits.on.clone().into(),
                waited_for.map(|call| Cell::Number(call.number)).into(),
                waited_for.map(|call| ending.described(&call)).into(),
            ]);
        }
        table.note(
            "needless: all submitted work was known to have finished; covered: submissions that these calls are the first \
             to wait for",
        );
        if has_frees {
            table.note(
                "a call that frees memory waits for all earlier work of its context, as the driver does in practice; it is \
                 counted if work may have been unfinished, and the next wait covers that work again",
            );
        }
        vec![table]
    }

    fn findings(&self, _: &Ending<'t>) -> Vec<Finding> {
        let finding = |kind: &str, tally: &Tally, what: String, others: String| Finding {
            kind: kind.into(),
            what: format!("{} {what}", counted(tally.calls, if kind == POLLING { "query" } else { "synchronisation" })),
            evidence: format!(
                "{} in total{others}; the first is call {}",
                duration(tally.time),
                tally.first.unwrap_or(0)
            ),
            next: "cutrace report -r sync".into(),
            cost: Cost::Time(tally.time),
            times: tally.calls,
            calls: tally.costliest(),
        };
        let mut found = Vec::new();
        if self.needless.calls > 0 {
            let what = "had nothing to wait for".into();
            found.push(finding("needless_synchronisations", &self.needless, what, String::new()));
        }
        // A habit, not an incident.
        if self.single.calls >= 10 && self.single.calls > self.several {
            let others = format!(", and {} that waited for more", grouped(self.several));
            let what = "waited for a single submission each".into();
            found.push(finding("waits_for_single_submissions", &self.single, what, others));
        }
        if self.unready.calls > 0 {
            found.push(finding(POLLING, &self.unready, "found the work unfinished".into(), String::new()));
        }
        found
    }
}

impl<'t> Sync<'t> {
    /// Memory is freed. Work that is not known to have finished is waited for.
    fn see_free(&mut self, step: &Step<'_, 't>) {
        /// Submissions that are looked at for the last.
        const MOST: usize = 1 << 16;
        let is_wait = step.selected && !step.call.inner && !step.outcome.is_idle;
        let Some(ns) = step.duration().filter(|_| is_wait) else { return };
        let context = step.contexts().current(step.call.thread);
        let object =
            context.and_then(|context| Some((Kind::Context, step.objects.object(Kind::Context, context)?.0, None)));
        let waits = self.waits.entry((step.call.thread, step.call.name(), object)).or_insert_with(|| Waits {
            on: context.map_or("-".into(), |context| handle(Kind::Context, context, step.objects)),
            are_frees: true,
            ..Waits::default()
        });
        waits.calls = waits.calls.saturating_add(1);
        waits.time = waits.time.saturating_add(ns);
        if waits.calls == 1 || ns > waits.longest {
            let last = step.outstanding.under_way().take(MOST).max();
            (waits.longest, waits.longest_call, waits.waited_for) = (ns, step.call.number, last);
        }
    }
}

/// The event, stream or context that a call waits for.
fn waited_object(step: &Step) -> Option<(Kind, u64)> {
    let function = step.function?;
    let named = function.params.iter().find_map(|param| match param.ty.form {
        Form::Handle(kind @ (Kind::Event | Kind::Stream | Kind::Context)) => Some((kind, param.name)),
        _ => None,
    });
    match named {
        Some((kind, name)) => Some((kind, step.call.argument(name)?)),
        None if function.class == Class::synchronize => {
            Some((Kind::Context, step.contexts().current(step.call.thread)?))
        }
        None => None,
    }
}
