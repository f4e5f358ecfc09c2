//! `errors`: the calls that failed, by function and result; calls that only repeat an earlier, sticky error
//! count under that one.

use super::reasons::Reasons;
use super::walk::{Ending, Report, Step};
use crate::calls::line::NOT_READY;
use crate::findings::finding::{Cost, Finding};
use crate::report::refused_launches::Limits;
use crate::tables::table::{Cell, Column, Head, Layout, Table, column};
use crate::tables::tally::KEPT;
use crate::text::figures::counted;
use crate::text::shell::shell;
use foldhash::HashMap;
use std::collections::BTreeMap;
use trace::api::enums::CUresult;
use trace::api::results::is_sticky;
use trace::api::roles::Class;
use trace::model::copy_bounds::misfits;
use trace::model::decode::decode;
use trace::model::objects::Objects;
use trace::model::value::{ArgumentPassing, Value};
use trace::show::text::{self, Text, symbol};
use trace::{Call, Function, Trace};

#[derive(Default)]
pub(crate) struct Errors<'t> {
    failures: HashMap<(&'t str, u32), Failures<'t>>,
    /// Errors that come back from every call that follows, and the function that was the first to return
    /// each.
    sticky: HashMap<u32, &'t str>,
    said: Vec<Explanation<'t>>,
    limits: Limits,
    reasons: Reasons,
}

/// What the trace says of a call that failed, beyond its result.
struct Explanation<'t> {
    call: u64,
    function: &'t str,
    what: String,
    text: String,
}

/// Failures that are all alike say no more than the first ones.
const MOST_SAID: usize = 256;

struct Failures<'t> {
    calls: u64,
    first: u64,
    first_at: i64,
    last: u64,
    thread: u32,
    /// The calls of each function that a sticky error came back from.
    followers: BTreeMap<&'t str, u64>,
}

pub(crate) fn make<'t>(_: &'t Trace) -> Box<dyn Report<'t> + 't> {
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
    column("returned again by", "returned_by"),
];

const SAID: Head = Head {
    report: "errors",
    part: "messages",
    title: "Causes and messages (errors)",
    columns: &[column("call", "call"), column("function", "function"), column("what", "what"), column("text", "text")],
    layout: Layout::Grid,
};

/// The flag that makes a replay tell whose error a sticky one is.
const NAMES_LAUNCH: &str = "--sync-launches";

const HEAD: Head = Head {
    report: "errors",
    part: "",
    title: "Failed calls, by first call (errors)",
    columns: COLUMNS,
    layout: Layout::Grid,
};

impl<'t> Errors<'t> {
    fn sorted(&self) -> Vec<(&(&'t str, u32), &Failures<'t>)> {
        let mut all: Vec<_> = self.failures.iter().collect();
        all.sort_by_key(|(_, failures)| failures.first);
        all
    }

    fn first_sticky(&self) -> Option<(&(&'t str, u32), &Failures<'t>)> {
        self.sorted().into_iter().find(|((_, result), _)| is_sticky(*result))
    }
}

impl Failures<'_> {
    /// `cuMemFree_v2 (5), cuStreamDestroy_v2 (4)`
    fn list_followers(&self) -> Option<String> {
        let all: Vec<String> = self.followers.iter().map(|(function, calls)| format!("{function} ({calls})")).collect();
        (!all.is_empty()).then(|| all.join(", "))
    }
}

/// What the compiler or linker said: which log it is, and its text.
fn logs(call: &Call) -> Vec<(String, String)> {
    if !call.function().is_some_and(|function| matches!(function.class, Class::load | Class::create)) {
        return Vec::new();
    }
    let decoded = decode(call).map(|decoded| decoded.arguments).unwrap_or_default();
    let options = decoded.into_iter().filter_map(|(_, value)| match value {
        Value::Options(pairs) => Some(pairs),
        _ => None,
    });
    let named = options.flatten().filter_map(|(option, value)| match (option, value) {
        (Value::Symbol(names, option), Value::Text(text)) => Some((symbol(names, option), text.into_owned())),
        _ => None,
    });
    let logs = named.chain(call.logs().map(|(option, text)| (option.to_owned(), text.into_owned())));
    logs.filter(|(_, text)| !text.is_empty()).collect()
}

/// What a call has said in its outputs that failed.
fn outcome(call: &Call, objects: &Objects) -> Vec<(String, String)> {
    if !call.function().is_some_and(Function::tells_why_it_failed) {
        return Vec::new();
    }
    let outputs = decode(call).map(|decoded| decoded.outputs).unwrap_or_default();
    let said = outputs.into_iter().map(|(name, value)| match value {
        Value::Text(text) => (name.to_owned(), text.into_owned()),
        value => (name.to_owned(), Text(&value, objects).to_string()),
    });
    said.filter(|(_, text)| !text.is_empty()).collect()
}

/// What the call names that an earlier one had ended.
fn ended(call: &Call, objects: &Objects) -> Vec<(String, String)> {
    fn collect_ended(value: &Value, objects: &Objects, found: &mut Vec<String>) {
        match value {
            Value::List(all) | Value::Launch { arguments: all, .. } => {
                all.iter().for_each(|value| collect_ended(value, objects, found));
            }
            Value::Struct(fields) => fields.iter().for_each(|(_, value)| collect_ended(value, objects, found)),
            value => found.extend(text::ended(value, objects).map(|_| Text(value, objects).to_string())),
        }
    }
    let arguments = decode(call).map(|decoded| decoded.arguments).unwrap_or_default();
    let named = arguments.into_iter().flat_map(|(name, value)| {
        let mut found = Vec::new();
        collect_ended(&value, objects, &mut found);
        found.into_iter().map(move |text| (name.to_owned(), text))
    });
    named.collect()
}

/// Where the arguments of a launch were not as the kernel declares them, or could not be read.
fn arguments(call: &Call) -> Option<(String, String)> {
    call.function().filter(|function| function.class == Class::launch)?;
    decode(call)?.arguments.into_iter().find_map(|(name, value)| match value {
        Value::Launch { kernel, given, .. } if given.is_odd() || matches!(given, ArgumentPassing::Unread { .. }) => {
            Some((name.to_owned(), format!("{kernel}: {}", given.note()?)))
        }
        _ => None,
    })
}

impl<'t> Report<'t> for Errors<'t> {
    fn visits(&self, function: &Function, succeeds: bool) -> bool {
        !succeeds || Limits::may_concern(function) || Reasons::follows(function)
    }

    fn visit(&mut self, step: &Step<'_, 't>) {
        self.limits.record_limits(step);
        self.reasons.follow(step);
        let Some(result) = step.call.result.filter(|result| !matches!(*result, 0 | NOT_READY) && step.selected) else {
            return;
        };
        let (number, first_at, thread) = (step.call.number, step.begin, step.call.thread);
        let mut function = step.call.name();
        if is_sticky(result) {
            function = self.sticky.entry(result).or_insert(function);
        }
        let failures = self.failures.entry((function, result)).or_insert_with(|| Failures {
            calls: 0,
            first: number,
            first_at,
            last: number,
            thread,
            followers: BTreeMap::new(),
        });
        if failures.calls > 0 && is_sticky(result) {
            *failures.followers.entry(step.call.name()).or_default() += 1;
        }
        failures.calls += 1;
        failures.last = number;
        if self.said.len() < MOST_SAID {
            let (call, function) = (number, step.call.name());
            let memory = misfits(step.call, step.objects).into_iter().map(|text| ("memory".to_owned(), text));
            // A sticky error is not this call's.
            let ended = if is_sticky(result) { Vec::new() } else { ended(step.call, step.objects) };
            let exceeded = self.limits.exceeded(step).map(|text| ("launch".to_owned(), text));
            let reasons = if is_sticky(result) { Vec::new() } else { self.reasons.explain(step, &self.limits) };
            let said = memory.chain(ended).chain(exceeded).chain(reasons).chain(logs(step.call));
            let said = said.chain(outcome(step.call, step.objects)).chain(arguments(step.call));
            self.said.extend(said.map(|(what, text)| Explanation { call, function, what, text }));
        }
    }

    fn tables(&mut self, ending: &Ending<'t>) -> Vec<Table> {
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
                failures.list_followers().into(),
            ]);
        }
        if let Some(((function, _), failures)) = self.first_sticky() {
            let path = shell(&[ending.trace.path.display().to_string()]);
            let how = match ending.trace.may_be_replayed() {
                true => format!(". cutrace replay {path} {NAMES_LAUNCH} names the launch"),
                false => String::new(),
            };
            table.note(format!(
                "the error of call {}, {function}, belongs to earlier work; every later call returns it again{how}",
                failures.first
            ));
        }
        let mut said = Table::new(SAID);
        for Explanation { call, function, what, text } in &self.said {
            for line in text.lines() {
                said.row([Cell::Number(*call), (*function).into(), what.as_str().into(), line.into()]);
            }
        }
        if said.rows.is_empty() { vec![table] } else { vec![table, said] }
    }

    fn findings(&self, ending: &Ending<'t>) -> Vec<Finding> {
        let sorted = self.sorted();
        let Some(((function, result), first)) = sorted.first() else { return Vec::new() };
        let calls: u64 = sorted.iter().fold(0, |all, (_, failures)| all.saturating_add(failures.calls));
        let name = symbol(CUresult::ENUM, (*result).into());
        let kinds = match sorted.len() {
            1 => String::new(),
            n => format!("; {n} different failures in total"),
        };
        let said = self.said.first().filter(|said| said.call == first.first);
        let said = said.and_then(|said| said.text.lines().next()).map_or(String::new(), |line| format!(" ({line})"));
        let sticky = self.first_sticky().map(|(_, failures)| failures);
        let again: u64 = sticky.map_or(0, |failures| failures.calls - 1);
        let more = match sticky {
            Some(failures) if again > 0 => {
                format!(
                    "; {} {} the error of call {}",
                    counted(again, "later call"),
                    if again == 1 { "repeats" } else { "repeat" },
                    failures.first
                )
            }
            _ => String::new(),
        };
        let next = match sticky.filter(|_| ending.trace.may_be_replayed()) {
            Some(_) => format!("cutrace replay {NAMES_LAUNCH}"),
            None => "cutrace report -r errors".into(),
        };
        vec![Finding {
            kind: "failed_calls".into(),
            what: format!("{} failed{more}", counted(calls - again, "call")),
            evidence: format!("the first is call {}, {function}: {name}{said}{kinds}", first.first),
            next,
            cost: Cost::Wrong,
            times: calls,
            calls: sorted.iter().map(|(_, failures)| failures.first).take(KEPT).collect(),
        }]
    }
}
