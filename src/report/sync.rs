//! `sync`: who waited for what, and how long; and the waits that waited for nothing.

use super::finding::{Cost, Finding};
use super::table::{Cell, Column, Head, Layout, Table, column};
use super::walk::{Ending, Report, Step};
use crate::dump::NOT_READY;
use crate::figures::{counted, duration, grouped};
use std::collections::HashMap;
use trace::Trace;
use trace::api::roles::Class;
use trace::api::types::{Form, Kind};
use trace::text::handle;

/// A thread, a function, and the object waited for: its kind and number.
type Key<'t> = (u32, &'t str, Option<(Kind, u64)>);

#[derive(Default)]
pub struct Sync<'t> {
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
struct Tally {
    calls: u64,
    time: i64,
    first: Option<u64>,
}

impl Tally {
    fn add(&mut self, call: u64, ns: i64) {
        self.calls += 1;
        self.time += ns;
        self.first.get_or_insert(call);
    }
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
    /// What the longest waited for last.
    waited_for: Option<u64>,
}

/// Objects that are told apart; programs that make an event for each wait have no end of them.
const OBJECTS: usize = 10_000;

pub fn make<'t>(_: &'t Trace) -> Box<dyn Report<'t> + 't> {
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
    column("the longest, last for", "longest_waited_for"),
];

const HEAD: Head = Head {
    report: "sync",
    part: "",
    title: "Who waited for what, and how long (sync)",
    columns: COLUMNS,
    layout: Layout::Grid,
};

impl<'t> Report<'t> for Sync<'t> {
    fn see(&mut self, step: &Step<'_, 't>) {
        let Some(class @ (Class::synchronize | Class::poll | Class::copy)) = step.class() else { return };
        // Asks how long something took, and waits for nothing.
        if step.line().starts_with("cuEventElapsedTime") {
            return;
        }
        let Some(ns) = step.duration().filter(|_| step.selected && !step.call.inner) else { return };
        let is_unready = step.call.result == Some(NOT_READY);
        if !is_unready && step.wait.is_none() {
            return;
        }
        let object = waited_object(step);
        let number = object.and_then(|(kind, value)| Some((kind, step.objects.object(kind, value)?.0)));
        let thread = step.call.thread;
        let mut key = (thread, step.call.name(), number);
        if self.waits.len() >= OBJECTS && !self.waits.contains_key(&key) {
            key.2 = None;
        }
        let waits = self.waits.entry(key).or_insert_with(|| Waits {
            on: match (class, object) {
                (Class::copy, _) => "its own end".into(),
                (_, Some((kind, _))) if key.2.is_none() && number.is_some() => format!("other {}s", kind.label()),
                (_, Some((Kind::Stream, 0 | 1))) => "the legacy stream".into(),
                (_, Some((Kind::Stream, 2))) => "the thread's own stream".into(),
                (_, Some((kind, value))) => handle(kind, value, step.objects),
                (_, None) => "-".into(),
            },
            ..Waits::default()
        });
        waits.calls += 1;
        waits.time += ns;
        let wait = step.wait.unwrap_or_default();
        waits.covered += wait.covered;
        if waits.calls == 1 || ns > waits.longest {
            (waits.longest, waits.longest_call, waits.waited_for) = (ns, step.call.number, wait.last);
        }
        if is_unready {
            waits.unready += 1;
            self.unready.add(step.call.number, ns);
        } else if class == Class::synchronize {
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
        let mut table = Table::new(HEAD);
        let mut all: Vec<_> = self.waits.iter().collect();
        all.sort_by_key(|(key, waits)| (std::cmp::Reverse(waits.time), key.0, waits.longest_call));
        for ((thread, function, _), waits) in all {
            let waited_for = waits.waited_for.and_then(|number| ending.trace.call(number));
            table.row([
                Cell::Time(waits.time),
                Cell::Count(waits.calls),
                Cell::Time(waits.time / waits.calls.max(1) as i64),
                Cell::Time(waits.longest),
                Cell::Number(waits.longest_call),
                Cell::Count(waits.needless),
                Cell::Count(waits.unready),
                Cell::Count(waits.covered),
                format!("t{thread}").into(),
                (*function).into(),
                waits.on.clone().into(),
                waited_for.map(|call| format!("{} {}", call.number, ending.described(&call))).into(),
            ]);
        }
        table.note(
            "needless: nothing had been submitted that was not known to have finished; covered: submissions that these \
             calls are the first to wait for",
        );
        vec![table]
    }

    fn findings(&self, _: &Ending<'t>) -> Vec<Finding> {
        let next = || "cutrace report -r sync".to_owned();
        let first = |tally: &Tally| tally.first.map_or(String::new(), |call| format!("; the first is call {call}"));
        let mut found = Vec::new();
        if self.needless.calls > 0 {
            found.push(Finding {
                kind: "needless_synchronisations",
                what: format!("{} had nothing to wait for", counted(self.needless.calls, "synchronisation")),
                evidence: format!("{} in all{}", duration(self.needless.time), first(&self.needless)),
                next: next(),
                cost: Cost::Time(self.needless.time),
            });
        }
        // A habit, not an incident.
        if self.single.calls >= 10 && self.single.calls > self.several {
            found.push(Finding {
                kind: "waits_for_single_submissions",
                what: format!("{} waited for a single submission each", counted(self.single.calls, "synchronisation")),
                evidence: format!(
                    "{} in all, beside {} that waited for more{}",
                    duration(self.single.time),
                    grouped(self.several),
                    first(&self.single)
                ),
                next: next(),
                cost: Cost::Time(self.single.time),
            });
        }
        if self.unready.calls > 0 {
            found.push(Finding {
                kind: "polling",
                what: format!("{} found the work not ready", counted(self.unready.calls, "query")),
                evidence: format!("{} in all{}", duration(self.unready.time), first(&self.unready)),
                next: next(),
                cost: Cost::Time(self.unready.time),
            });
        }
        found
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
        None if function.class == Class::synchronize => Some((Kind::Context, step.contexts.current(step.call.thread)?)),
        None => None,
    }
}
