//! Tables: what rows they have, how they are sorted, and which call a row leads to.

use crate::data::Model;
use crate::data::lives::{Life, Lives};
use crate::data::open::Opened;
use crate::data::tables::Row;
use crate::kernel_name::last_part;
use crate::text::{bytes, duration, grouped, percent, tame};
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// What the main part shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Tab {
    Timeline,
    Events,
    Kernels,
    Api,
    Memory,
    Modules,
    Findings,
    Ranges,
    Objects,
}

impl Tab {
    pub const ALL: [Tab; 9] = [
        Tab::Timeline,
        Tab::Events,
        Tab::Kernels,
        Tab::Api,
        Tab::Memory,
        Tab::Modules,
        Tab::Findings,
        Tab::Ranges,
        Tab::Objects,
    ];

    pub fn title(self) -> &'static str {
        match self {
            Tab::Timeline => "Timeline",
            Tab::Events => "Events",
            Tab::Kernels => "Kernels",
            Tab::Api => "API",
            Tab::Memory => "Copies",
            Tab::Modules => "Modules",
            Tab::Findings => "Findings",
            Tab::Ranges => "Ranges",
            Tab::Objects => "Objects",
        }
    }

    /// As the command line has it.
    pub fn name(self) -> String {
        self.title().to_lowercase()
    }

    pub fn by_name(name: &str) -> Option<Tab> {
        Tab::ALL.into_iter().find(|tab| tab.name() == name)
    }

    pub fn is_table(self) -> bool {
        !matches!(self, Tab::Timeline | Tab::Events)
    }

    /// The report that has more of the same, of a trace with or without device times.
    pub fn report(self, timed: bool) -> Option<&'static str> {
        Some(match (self, timed) {
            (Tab::Kernels, true) => "cuda_gpu_kern_sum",
            (Tab::Kernels, false) => "launches",
            (Tab::Api, _) => "cuda_api_sum",
            (Tab::Memory, true) => "cuda_gpu_mem_time_sum",
            (Tab::Memory, false) => "transfers",
            (Tab::Modules, _) => "modules",
            (Tab::Findings, _) => "summary",
            (Tab::Ranges, _) => "nvtx_sum",
            (Tab::Objects, _) => "pending",
            (Tab::Timeline | Tab::Events, _) => return None,
        })
    }
}

/// A cell: what is shown, and what it is sorted by.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    Text(String),
    Count(u64),
    Time(u64),
    Bytes(u64),
    Share(u64, u64),
    /// From the first to the second: nanoseconds.
    Change(u64, u64),
    None,
}

impl Value {
    pub fn text(&self) -> String {
        match self {
            Value::Text(text) => text.clone(),
            Value::Count(n) => grouped(*n),
            Value::Time(ns) => duration(*ns),
            Value::Bytes(n) => bytes(*n),
            Value::Share(part, whole) => percent(*part, *whole),
            Value::Change(before, after) => {
                let by = duration(before.abs_diff(*after));
                if after < before { format!("-{by}") } else { format!("+{by}") }
            }
            Value::None => "-".into(),
        }
    }

    pub fn is_number(&self) -> bool {
        !matches!(self, Value::Text(_))
    }

    fn order(&self, other: &Value) -> Ordering {
        let number = |value: &Value| match value {
            Value::Count(n) | Value::Time(n) | Value::Bytes(n) | Value::Share(n, _) => *n,
            Value::Change(before, after) => before.abs_diff(*after),
            Value::Text(_) | Value::None => 0,
        };
        match (self, other) {
            (Value::Text(a), Value::Text(b)) => b.cmp(a),
            (a, b) => number(a).cmp(&number(b)),
        }
    }
}

/// A table's content, in the order of its rows.
#[derive(Debug, Clone, Default)]
pub struct Table {
    pub columns: Vec<&'static str>,
    /// The column that takes what width is left.
    pub wide: usize,
    pub rows: Vec<Vec<Value>>,
    /// The call that each row leads to.
    pub calls: Vec<Option<u32>>,
    /// What the figures mean, where that is not plain.
    pub note: &'static str,
    /// Of rows that lead to work of a device, or to annotations, rather than to calls: the names of those.
    pub names: Vec<u32>,
    pub sorted: usize,
    pub reversed: bool,
}

const HOST_TIMES: &str = "times are the host's: how long the launching calls took; the trace holds no device times";

const DEVICE_TIMES: &str = "times are the device's, as a replay measured them with CUPTI";
const EVENT_TIMES: &str =
    "times are the device's, as a replay measured them with events: what came before may be in them";

impl Table {
    pub fn of(tab: Tab, opened: &Opened, lives: Option<&Lives>) -> Table {
        let model = &opened.model;
        let summary = &model.summary;
        match tab {
            Tab::Api | Tab::Kernels if opened.second.is_some() => {
                let other = opened.second.as_ref().map_or(model, |second| &second.opened.model);
                compared(tab, model, other)
            }
            Tab::Kernels | Tab::Memory if summary.timing.is_some() => {
                let timing = summary.timing.iter();
                let rows: Vec<&Row> = timing
                    .clone()
                    .flat_map(|all| if tab == Tab::Kernels { &all.kernels } else { &all.moves })
                    .collect();
                let by_events = timing.clone().any(|timing| timing.by_events);
                let (name, count) = if tab == Tab::Kernels { ("Kernel", "Instances") } else { ("Operation", "Count") };
                Table {
                    note: if by_events { EVENT_TIMES } else { DEVICE_TIMES },
                    names: rows.iter().map(|row| row.name).collect(),
                    ..Table::sums(model, rows, name, count, tab == Tab::Memory)
                }
            }
            Tab::Ranges => Table {
                note: "NVTX ranges and marks of all threads and domains, by message; times are the host's",
                calls: vec![None; summary.ranges.len()],
                names: summary.ranges.iter().map(|row| row.name).collect(),
                ..Table::sums(model, &summary.ranges, "Range", "Instances", false)
            },
            Tab::Kernels => {
                Table { note: HOST_TIMES, ..Table::sums(model, &summary.kernels, "Kernel", "Launches", false) }
            }
            Tab::Api => Table::sums(model, &summary.functions, "Function", "Calls", false),
            Tab::Memory => Table {
                note: "times are the host's; bytes of copies by descriptor (2D, 3D, batches) are not counted",
                ..Table::sums(model, &summary.moves, "Function", "Calls", true)
            },
            Tab::Modules => {
                let mut images = std::collections::HashSet::new();
                let rows = summary.loads.iter().map(|load| {
                    let again = load.image != 0 && !images.insert(load.image);
                    let image = match load.image {
                        0 => "not in the trace".into(),
                        image if again => format!("{image:016x} again"),
                        image => format!("{image:016x}"),
                    };
                    let (call, size) = (Value::Count(load.call.into()), Value::Bytes(load.bytes));
                    vec![
                        call,
                        Value::Time(load.took),
                        size,
                        Value::Text(image),
                        Value::Text(model.name(load.name).into()),
                    ]
                });
                Table {
                    columns: vec!["Call", "Took", "Image", "Hash", "Function"],
                    wide: 4,
                    rows: rows.collect(),
                    calls: summary.loads.iter().map(|load| Some(load.call)).collect(),
                    sorted: 0,
                    reversed: true,
                    note: "",
                    names: Vec::new(),
                }
            }
            Tab::Findings => Table {
                columns: vec!["Cost", "Times", "Finding"],
                wide: 2,
                rows: summary
                    .findings
                    .iter()
                    .map(|f| {
                        let cost = if f.cost == 0 { Value::None } else { Value::Time(f.cost) };
                        vec![cost, Value::Count(f.count), Value::Text(f.title.clone())]
                    })
                    .collect(),
                calls: summary.findings.iter().map(|finding| finding.evidence.first().copied()).collect(),
                ..Table::default()
            },
            Tab::Objects => lives.map_or_else(Table::default, |lives| objects(model, lives)),
            Tab::Timeline | Tab::Events => Table::default(),
        }
    }

    fn sums<'a>(
        model: &Model,
        all: impl IntoIterator<Item = &'a Row>,
        name: &'static str,
        count: &'static str,
        moved: bool,
    ) -> Table {
        let all: Vec<&Row> = all.into_iter().collect();
        let total: u64 = all.iter().map(|row| row.total).sum();
        let mut columns = vec!["Time", "Total", count, "Avg", "Med", "Min", "Max", "p99"];
        columns.push(if moved { "Bytes" } else { "Failed" });
        columns.push(name);
        let rows = all.iter().map(|row| {
            let mut cells = vec![Value::Share(row.total, total), Value::Time(row.total), Value::Count(row.count)];
            let times = [row.total / row.count.max(1), row.median, row.least, row.most, row.p99];
            cells.extend(times.map(Value::Time));
            cells.push(if moved { Value::Bytes(row.bytes) } else { Value::Count(row.failed) });
            // The last part of a kernel's name says most, and the rest tells apart those that share it.
            let name = model.name(row.name);
            let short = if model.summary.names.get(row.name as usize).is_some_and(|name| name.kernel) {
                last_part(name)
            } else {
                name
            };
            cells.push(Value::Text(if short == name { name.into() } else { format!("{short}  {name}") }));
            cells
        });
        Table {
            wide: columns.len() - 1,
            columns,
            rows: rows.collect(),
            calls: all.iter().map(|row| Some(row.slowest)).collect(),
            sorted: 1,
            ..Table::default()
        }
    }

    /// By the column that is chosen, the largest (of names: the first) on top.
    pub fn sort(&mut self) {
        let mut order: Vec<usize> = (0..self.rows.len()).collect();
        let (column, reversed) = (self.sorted, self.reversed);
        order.sort_by(|a, b| match (self.rows[*a].get(column), self.rows[*b].get(column)) {
            (Some(a), Some(b)) if reversed => a.order(b),
            (Some(a), Some(b)) => b.order(a),
            _ => Ordering::Equal,
        });
        self.rows = order.iter().map(|at| std::mem::take(&mut self.rows[*at])).collect();
        self.calls = order.iter().map(|at| self.calls[*at]).collect();
        if !self.names.is_empty() {
            self.names = order.iter().map(|at| self.names[*at]).collect();
        }
    }
}

/// Sums of two traces beside each other.
fn compared(tab: Tab, first: &Model, second: &Model) -> Table {
    let timed = first.summary.timing.is_some() && second.summary.timing.is_some();
    let rows_of = |model: &Model| -> Vec<(String, Row)> {
        let rows = match (&model.summary.timing, tab) {
            (Some(timing), Tab::Kernels) if timed => &timing.kernels,
            (_, Tab::Kernels) => &model.summary.kernels,
            _ => &model.summary.functions,
        };
        rows.iter().map(|row| (model.name(row.name).to_owned(), row.clone())).collect()
    };
    let mut all: BTreeMap<String, [Option<Row>; 2]> = BTreeMap::new();
    for (at, model) in [first, second].into_iter().enumerate() {
        rows_of(model).into_iter().for_each(|(name, row)| all.entry(name).or_default()[at] = Some(row));
    }
    let rows = all.into_iter().map(|(name, rows)| {
        let of = |at: usize, figure: fn(&Row) -> u64| rows[at].as_ref().map_or(0, figure);
        let (count, total, median) = (|row: &Row| row.count, |row: &Row| row.total, |row: &Row| row.median);
        let row = vec![
            Value::Change(of(0, total), of(1, total)),
            Value::Time(of(0, total)),
            Value::Time(of(1, total)),
            Value::Count(of(0, count)),
            Value::Count(of(1, count)),
            Value::Time(of(0, median)),
            Value::Time(of(1, median)),
            Value::Text(name),
        ];
        (rows[0].as_ref().map(|row| row.slowest), row)
    });
    let (calls, rows) = rows.unzip();
    Table {
        columns: vec!["Change", "Total 1", "Total 2", "Count 1", "Count 2", "Med 1", "Med 2", "Name"],
        wide: 7,
        rows,
        calls,
        note: match (tab, timed) {
            (Tab::Kernels, true) => {
                "the first trace against the second, by the device's times; enter: the first's slowest"
            }
            _ => "the first trace against the second, by the host's times; enter: the first's slowest",
        },
        ..Table::default()
    }
}

/// Objects that are listed: those that never ended first.
const OBJECTS: usize = 20_000;

fn objects(model: &Model, lives: &Lives) -> Table {
    let (left, ended): (Vec<&Life>, Vec<&Life>) = lives.all.iter().partition(|life| life.ended == u32::MAX);
    let begin = |call: u32| model.find_call(call).map(|(lane, at)| model.lanes[lane].begin[at]);
    let rows = left.into_iter().chain(ended).take(OBJECTS).map(|life| {
        let lived = match life.ended {
            u32::MAX => Value::None,
            ended => Value::Time(begin(ended).unwrap_or(0).saturating_sub(begin(life.made).unwrap_or(0))),
        };
        let ended = if life.ended == u32::MAX { Value::None } else { Value::Count(life.ended.into()) };
        let size = if life.is_range() { Value::Bytes(life.len) } else { Value::None };
        let title = Value::Text(format!("{}#{}", life.label(), life.number));
        let name = Value::Text(lives.name(life).map_or(String::new(), tame));
        (Some(life.made), vec![title, size, Value::Count(life.made.into()), ended, lived, name])
    });
    let (calls, rows) = rows.unzip();
    Table {
        columns: vec!["Object", "Bytes", "Made by", "Ended by", "Lived", "Name"],
        wide: 5,
        rows,
        calls,
        note: match lives.all.len() > OBJECTS {
            true => {
                "not all fit: those that never ended come first; enter: who used it; - in Ended by: nobody ended it"
            }
            false => "enter: who used it, in the timeline; - in Ended by: nobody ended it before the trace did",
        },
        sorted: 2,
        reversed: true,
        ..Table::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_sorted_by_any_column() {
        let rows = [(3, "b"), (1, "c"), (2, "a")].map(|(n, text)| vec![Value::Count(n), Value::Text(text.into())]);
        let mut table = Table { rows: rows.to_vec(), calls: vec![Some(3), Some(1), Some(2)], ..Table::default() };
        table.sort();
        assert_eq!(table.calls, [Some(3), Some(2), Some(1)]);
        table.sorted = 1;
        table.sort();
        assert_eq!(table.calls, [Some(2), Some(3), Some(1)]);
        table.reversed = true;
        table.sort();
        assert_eq!(table.calls, [Some(1), Some(3), Some(2)]);
    }
}
