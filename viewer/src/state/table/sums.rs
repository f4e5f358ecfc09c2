//! Tables of sums: functions, kernels, copies and ranges, of one trace or of two beside each other.

use super::rows::{Lead, Line, Table, Value};
use crate::data::Model;
use crate::data::tables::Row;
use crate::kernel_name::last_part;
use crate::state::tab::Tab;
use std::collections::BTreeMap;
use trace::record::timed;

/// By what the host saw of them.
pub fn of_host(tab: Tab, model: &Model) -> Table {
    let summary = &model.summary;
    let slowest = |row: &Row| Lead::Call(row.slowest);
    let (rows, name, count, note) = match tab {
        Tab::Kernels => (
            &summary.kernels,
            "Kernel",
            "Launches",
            "times are the host's: how long the launching calls took; the trace holds no device times",
        ),
        Tab::Copies => (
            &summary.moves,
            "Function",
            "Calls",
            "times are the host's; bytes of copies by descriptor (2D, 3D, batches) are not counted",
        ),
        Tab::Ranges => {
            let note = "NVTX ranges and marks of all threads and domains, by message; times are the host's";
            let longest = |row: &Row| Lead::Slowest(row.name, None);
            return Table { note, ..sums(model, &summary.ranges, ("Range", "Instances"), false, longest) };
        }
        _ => (&summary.functions, "Function", "Calls", ""),
    };
    Table { note, ..sums(model, rows, (name, count), tab == Tab::Copies, slowest) }
}

/// By the times of a device.
pub fn timed(tab: Tab, model: &Model) -> Table {
    let Some(timing) = &model.summary.timing else { return Table::default() };
    let slowest = |row: &Row| Lead::Slowest(row.name, Some(row.slowest));
    let table = match tab {
        Tab::Kernels => sums(model, &timing.kernels, ("Kernel", "Instances"), false, slowest),
        _ => sums(model, &timing.moves, ("Operation", "Count"), true, slowest),
    };
    let note = match timing.source {
        timed::RECORDED => "times are the device's, as recorded with CUPTI",
        timed::EVENTS => {
            "times are the device's, as a replay measured them with events: what came before may be in them"
        }
        _ => "times are the device's, as a replay measured them with CUPTI",
    };
    Table { note, ..table }
}

fn sums(
    model: &Model,
    all: &[Row],
    (name, count): (&'static str, &'static str),
    moved: bool,
    lead: impl Fn(&Row) -> Lead,
) -> Table {
    let total: u64 = all.iter().map(|row| row.total).sum();
    let last = if moved { "Bytes" } else { "Failed" };
    let columns = vec!["Time", "Total", count, "Avg", "Med", "Min", "Max", "p99", last, name];
    let rows = all.iter().map(|row| {
        let mut cells = vec![Value::Share(row.total, total), Value::Time(row.total), Value::Count(row.count)];
        let times = [row.total / row.count.max(1), row.median, row.least, row.most, row.p99];
        cells.extend(times.map(Value::Time));
        cells.push(if moved { Value::Bytes(row.bytes) } else { Value::Count(row.failed) });
        // The last part of a kernel's name says most, and the rest tells apart those that share it.
        let name = model.name(row.name);
        let is_kernel = model.summary.names.get(row.name as usize).is_some_and(|name| name.kernel);
        let short = if is_kernel { last_part(name) } else { name };
        cells.push(Value::Text(if short == name { name.into() } else { format!("{short}  {name}") }));
        Line { cells, lead: lead(row) }
    });
    Table { wide: columns.len() - 1, columns, rows: rows.collect(), sorted: 1, ..Table::default() }
}

/// Of two traces beside each other.
pub fn compared(tab: Tab, first: &Model, second: &Model) -> Table {
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
        let both = |figure: fn(&Row) -> u64, value: fn(u64) -> Value| [0, 1].map(|at| value(of(at, figure)));
        let mut cells = vec![Value::Change(of(0, |row| row.total), of(1, |row| row.total))];
        cells.extend(both(|row| row.total, Value::Time));
        cells.extend(both(|row| row.count, Value::Count));
        cells.extend(both(|row| row.median, Value::Time));
        cells.push(Value::Text(name));
        Line { cells, lead: rows[0].as_ref().map_or(Lead::Nowhere, |row| Lead::Call(row.slowest)) }
    });
    Table {
        columns: vec!["Change", "Total 1", "Total 2", "Count 1", "Count 2", "Med 1", "Med 2", "Name"],
        wide: 7,
        rows: rows.collect(),
        note: match (tab, timed) {
            (Tab::Kernels, true) => {
                "the first trace against the second, by the device's times; enter: the first's slowest"
            }
            _ => "the first trace against the second, by the host's times; enter: the first's slowest",
        },
        ..Table::default()
    }
}
