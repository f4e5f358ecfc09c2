//! Tables of sums: functions, kernels, copies and ranges, of one trace or of two in comparison.

use crate::data::Model;
use crate::data::tables::Row;
use crate::state::parts::tab::Tab;
use crate::state::parts::table_rows::{Lead, Line, Table, Value};
use analysis::text::kernel_name::last_part;
use std::collections::BTreeMap;
use trace::file::record::timed;

/// The events of one name, and their total duration, which exceeds the row's if only a part of it lies in the
/// piece of the trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sum {
    pub(crate) row: Row,
    /// Nanoseconds.
    pub whole: u64,
}

/// Of the whole trace.
pub(crate) fn whole(tab: Tab, model: &Model) -> Vec<Sum> {
    let summary = &model.summary;
    let rows = match (tab, &summary.timing) {
        (Tab::Kernels, Some(timing)) => &timing.kernels,
        (Tab::Copies, Some(timing)) => &timing.moves,
        (Tab::Kernels, None) => &summary.kernels,
        (Tab::Copies, None) => &summary.moves,
        (Tab::Ranges, _) => &summary.ranges,
        _ => &summary.functions,
    };
    rows.iter().map(|row| Sum { row: row.clone(), whole: row.total }).collect()
}

/// By the times of a device where there are some, or else by what the host saw.
pub(crate) fn table(tab: Tab, model: &Model, all: &[Sum]) -> Table {
    let timing = model.summary.timing.as_ref().filter(|_| matches!(tab, Tab::Kernels | Tab::Copies));
    let (name, count) = match (tab, timing.is_some()) {
        (Tab::Kernels, true) => ("Kernel", "Instances"),
        (Tab::Copies, true) => ("Operation", "Count"),
        (Tab::Kernels, false) => ("Kernel", "Launches"),
        (Tab::Ranges, _) => ("Range", "Instances"),
        _ => ("Function", "Calls"),
    };
    let note = match (tab, timing.map(|timing| timing.source)) {
        (_, Some(timed::RECORDED)) => "device times, recorded with CUPTI",
        (_, Some(timed::EVENTS)) => "device times, measured by a replay with events: may include earlier work",
        (_, Some(_)) => "device times, measured by a replay with CUPTI",
        (Tab::Kernels, None) => "host times: duration of the launching calls; the trace has no device times",
        (Tab::Copies, None) => "host times; bytes of 2D, 3D and batched copies are not counted",
        (Tab::Ranges, None) => "NVTX ranges and marks of all threads and domains, by message; host times",
        _ => "",
    };
    let lead = |row: &Row| match (tab, timing) {
        (_, Some(_)) => Lead::Slowest(row.name, Some(row.slowest)),
        (Tab::Ranges, None) => Lead::Slowest(row.name, None),
        _ => Lead::Call(row.slowest),
    };
    Table { note, ..sums(model, all, (name, count), tab == Tab::Copies, lead) }
}

fn sums(
    model: &Model,
    all: &[Sum],
    (name, count): (&'static str, &'static str),
    moved: bool,
    lead: impl Fn(&Row) -> Lead,
) -> Table {
    let total: u64 = all.iter().map(|sum| sum.row.total).sum();
    let last = if moved { "Bytes" } else { "Failed" };
    let columns = vec!["Time", "Total", count, "Avg", "Med", "Min", "Max", "p99", last, name];
    let rows = all.iter().map(|Sum { row, whole }| {
        let mut cells = vec![Value::Share(row.total, total), Value::Time(row.total), Value::Count(row.count)];
        let times = [whole / row.count.max(1), row.median, row.least, row.most, row.p99];
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
pub(crate) fn compared(tab: Tab, first: &Model, second: &Model) -> Table {
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
            (Tab::Kernels, true) => "the first and the second trace, device times; enter: slowest of the first",
            _ => "the first and the second trace, host times; enter: slowest of the first",
        },
        ..Table::default()
    }
}
