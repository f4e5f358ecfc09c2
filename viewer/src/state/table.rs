//! Tables: what rows they have, how they are sorted, and which call a row leads to.

use crate::data::Model;
use crate::data::tables::Row;
use crate::text::{bytes, duration, grouped, percent};
use std::cmp::Ordering;

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
}

impl Tab {
    pub const ALL: [Tab; 8] =
        [Tab::Timeline, Tab::Events, Tab::Kernels, Tab::Api, Tab::Memory, Tab::Modules, Tab::Findings, Tab::Ranges];

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
        }
    }

    /// The command that prints what the view shows, where there is one.
    pub fn command(self) -> &'static str {
        match self {
            Tab::Timeline => "cutrace view --once",
            Tab::Events => "cutrace dump",
            Tab::Kernels | Tab::Api | Tab::Memory | Tab::Modules | Tab::Findings | Tab::Ranges => "cutrace view | cat",
        }
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
            Value::None => "-".into(),
        }
    }

    pub fn is_number(&self) -> bool {
        !matches!(self, Value::Text(_))
    }

    fn order(&self, other: &Value) -> Ordering {
        let number = |value: &Value| match value {
            Value::Count(n) | Value::Time(n) | Value::Bytes(n) | Value::Share(n, _) => *n,
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
    pub fn of(tab: Tab, model: &Model) -> Table {
        let summary = &model.summary;
        match tab {
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
            cells.push(Value::Text(model.name(row.name).into()));
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
