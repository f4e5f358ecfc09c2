//! Tables that list things one by one: loads, findings, objects, marks.

use crate::data::Model;
use crate::data::lives::{Life, Lives};
use crate::data::open::Opened;
use crate::state::parts::mark::Mark;
use crate::state::parts::table_rows::{Lead, Line, Table, Value};
use crate::text::tame;
use analysis::findings::finding::{Cost, Finding};
use analysis::text::kernel_name::{Names, Style};
use std::collections::{BTreeMap, HashSet};

pub(super) fn modules(model: &Model) -> Table {
    let mut images = HashSet::new();
    let rows = model.summary.loads.iter().map(|load| {
        let again = load.image != 0 && !images.insert(load.image);
        let image = match load.image {
            0 => "not stored".into(),
            image if again => format!("{image:016x} again"),
            image => format!("{image:016x}"),
        };
        let (call, took, size) = (Value::Count(load.call.into()), Value::Time(load.took), Value::Bytes(load.bytes));
        let name = Value::Text(model.name(load.name).into());
        Line { cells: vec![call, took, size, Value::Text(image), name], lead: Lead::Call(load.call) }
    });
    Table {
        columns: vec!["Call", "Took", "Image", "Hash", "Function"],
        wide: 4,
        rows: rows.collect(),
        reversed: true,
        ..Table::default()
    }
}

/// In their order, the most important first. `is_live`: the trace is still being written.
pub(super) fn findings(found: Option<&[Finding]>, is_live: bool) -> Table {
    let note = match (found.is_some(), is_live) {
        (false, false) => "still being computed",
        (false, true) => "computed when the trace is closed",
        (true, false) => "",
        (true, true) => "so far; the trace is still being written",
    };
    let rows = found.unwrap_or_default().iter().enumerate().map(|(at, finding)| {
        let cost = match finding.cost {
            Cost::Time(ns) => Value::Time(ns.max(0) as u64),
            Cost::Memory(held) => Value::Bytes(held),
            Cost::Wrong | Cost::Objects(_) => Value::None,
        };
        let times = Value::Count(finding.times);
        let cells = vec![Value::Count(at as u64 + 1), cost, times, Value::Text(tame(&finding.what))];
        let first = finding.calls.first().and_then(|call| u32::try_from(*call).ok());
        Line { cells, lead: first.map_or(Lead::Nowhere, Lead::Call) }
    });
    let columns = vec!["#", "Cost", "Times", "Finding"];
    Table { columns, wide: 3, rows: rows.collect(), note, reversed: true, ..Table::default() }
}

pub(super) fn marks(marks: &[Mark]) -> Table {
    let row = |(at, mark): (usize, &Mark)| Line {
        cells: vec![Value::Moment(mark.time), Value::Text(mark.note.clone())],
        lead: Lead::Mark(at),
    };
    Table {
        columns: vec!["Moment", "Note"],
        wide: 1,
        rows: marks.iter().enumerate().map(row).collect(),
        reversed: true,
        note: "enter goes to it, m edits its note, M removes it",
        ..Table::default()
    }
}

/// Objects that are listed: those that never ended first.
const OBJECTS: usize = 20_000;

/// Of two traces, those of the second stand beside those of the first that `dump` calls the same.
pub(super) fn objects(opened: &Opened, lives: &Lives) -> Table {
    let second = opened.second.as_deref().and_then(|second| Some((&second.opened.model, second.opened.lives()?)));
    if let Some((model, others)) = second {
        return compared((&opened.model, lives), (model, others));
    }
    let (left, ended): (Vec<&Life>, Vec<&Life>) = lives.all.iter().partition(|life| life.ended == u32::MAX);
    let demangled = Names::new(Style::Full);
    let rows = left.into_iter().chain(ended).take(OBJECTS).map(|life| {
        let [size, made, ended, lived] = figures(&opened.model, life);
        let name = Value::Text(lives.name(life).map_or(String::new(), |name| tame(&demangled.display_name(name))));
        Line { cells: vec![title(life), size, made, ended, lived, name], lead: Lead::Object(life.made) }
    });
    Table {
        columns: vec!["Object", "Bytes", "Made by", "Ended by", "Lived", "Name"],
        wide: 5,
        rows: rows.collect(),
        note: match lives.all.len() > OBJECTS {
            true => "not all fit: live objects come first; enter: calls that use it; -: not destroyed or freed",
            false => "enter: calls that use it, in the timeline; -: not destroyed or freed in the trace",
        },
        sorted: 2,
        reversed: true,
        ..Table::default()
    }
}

fn title(life: &Life) -> Value {
    Value::Text(format!("{}#{}", life.label(), life.number))
}

/// Bytes, the calls that made and ended it, how long it lived.
fn figures(model: &Model, life: &Life) -> [Value; 4] {
    let begin = |call: u32| model.find_call(call).map_or(0, |(lane, at)| model.lanes[lane].begin[at]);
    let (ended, lived) = match life.ended {
        u32::MAX => (Value::None, Value::None),
        call => (Value::Count(call.into()), Value::Time(begin(call).saturating_sub(begin(life.made)))),
    };
    let size = if life.is_range() { Value::Bytes(life.len) } else { Value::None };
    [size, Value::Count(life.made.into()), ended, lived]
}

fn compared(first: (&Model, &Lives), second: (&Model, &Lives)) -> Table {
    let mut all: BTreeMap<(&str, u32), [Option<&Life>; 2]> = BTreeMap::new();
    for (at, (_, lives)) in [first, second].into_iter().enumerate() {
        for life in lives.all.iter().take(OBJECTS) {
            all.entry((life.label(), life.number)).or_default()[at] = Some(life);
        }
    }
    let demangled = Names::new(Style::Full);
    let rows = all.into_values().filter_map(|both| {
        let one = both[0].or(both[1])?;
        let of = |at: usize, (model, _): (&Model, &Lives)| {
            both[at].map_or_else(|| std::array::from_fn(|_| Value::None), |life| figures(model, life))
        };
        let [size1, made1, ended1, lived1] = of(0, first);
        let [size2, made2, ended2, lived2] = of(1, second);
        let lives = if both[0].is_some() { first.1 } else { second.1 };
        let name = Value::Text(lives.name(one).map_or(String::new(), |name| tame(&demangled.display_name(name))));
        let cells = vec![title(one), size1, size2, made1, made2, ended1, ended2, lived1, lived2, name];
        Some(Line { cells, lead: both[0].map_or(Lead::Nowhere, |life| Lead::Object(life.made)) })
    });
    Table {
        columns: vec![
            "Object", "Bytes 1", "Bytes 2", "Made 1", "Made 2", "Ended 1", "Ended 2", "Lived 1", "Lived 2", "Name",
        ],
        wide: 9,
        rows: rows.collect(),
        note: "objects with one name in both traces; -: missing or not destroyed; enter: calls that use it",
        sorted: 0,
        ..Table::default()
    }
}
