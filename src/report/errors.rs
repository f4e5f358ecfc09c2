//! `errors`: the calls that failed, by function and result.

use super::finding::{Cost, Finding};
use super::table::{Cell, Column, Head, Layout, Table, column};
use super::walk::{Ending, Report, Step};
use crate::dump::NOT_READY;
use crate::figures::counted;
use std::collections::HashMap;
use trace::Trace;
use trace::api::enums::CUresult;
use trace::text::symbol;

#[derive(Default)]
pub struct Errors<'t> {
    failures: HashMap<(&'t str, u32), Failures>,
}

struct Failures {
    calls: u64,
    first: u64,
    first_at: i64,
    last: u64,
    thread: u32,
}

pub fn make<'t>(_: &'t Trace) -> Box<dyn Report<'t> + 't> {
    Box::new(Errors::default())
}

const COLUMNS: &[Column] = &[
    column("calls", "calls"),
    column("first", "first_call"),
    column("at", "first_ns"),
    column("thread", "first_thread"),
    column("last", "last_call"),
    column("code", "result_code"),
    column("result", "result"),
    column("function", "function"),
];

const HEAD: Head = Head {
    report: "errors",
    part: "",
    title: "Calls that failed, in the order of the first (errors)",
    columns: COLUMNS,
    layout: Layout::Grid,
};

impl<'t> Errors<'t> {
    fn sorted(&self) -> Vec<(&(&'t str, u32), &Failures)> {
        let mut all: Vec<_> = self.failures.iter().collect();
        all.sort_by_key(|(_, failures)| failures.first);
        all
    }
}

impl<'t> Report<'t> for Errors<'t> {
    fn see(&mut self, step: &Step<'_, 't>) {
        let Some(result) = step.call.result.filter(|result| !matches!(*result, 0 | NOT_READY) && step.selected) else {
            return;
        };
        let (number, first_at, thread) = (step.call.number, step.begin, step.call.thread);
        let failures = self.failures.entry((step.call.name(), result)).or_insert(Failures {
            calls: 0,
            first: number,
            first_at,
            last: number,
            thread,
        });
        failures.calls += 1;
        failures.last = number;
    }

    fn tables(&mut self, _: &Ending<'t>) -> Vec<Table> {
        let mut table = Table::new(HEAD);
        for ((function, result), failures) in self.sorted() {
            table.row([
                Cell::Count(failures.calls),
                Cell::Number(failures.first),
                Cell::Time(failures.first_at),
                format!("t{}", failures.thread).into(),
                Cell::Number(failures.last),
                Cell::Number((*result).into()),
                symbol(CUresult::ENUM, (*result).into()).into(),
                (*function).into(),
            ]);
        }
        vec![table]
    }

    fn findings(&self, _: &Ending<'t>) -> Vec<Finding> {
        let sorted = self.sorted();
        let Some(((function, result), first)) = sorted.first() else { return Vec::new() };
        let calls: u64 = sorted.iter().map(|(_, failures)| failures.calls).sum();
        let name = symbol(CUresult::ENUM, (*result).into());
        let kinds = match sorted.len() {
            1 => String::new(),
            n => format!("; {n} different failures in all"),
        };
        vec![Finding {
            kind: "failed_calls",
            what: format!("{} failed", counted(calls, "call")),
            evidence: format!("the first is call {}, {function}: {name}{kinds}", first.first),
            next: "cutrace report -r errors".into(),
            cost: Cost::Wrong,
        }]
    }
}
