//! `cuda_gpu_mem_time_sum` and `cuda_gpu_mem_size_sum`, with the columns of Nsight Systems.

use super::Scope;
use crate::tables::durations::Durations;
use crate::tables::table::{Cell, Head, Layout, Table, same};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use trace::file::record::timed;

const BY_TIME: Head = Head {
    report: "cuda_gpu_mem_time_sum",
    part: "",
    title: "CUDA GPU MemOps Summary (by Time) (cuda_gpu_mem_time_sum)",
    columns: &[
        same("Time (%)"),
        same("Total Time (ns)"),
        same("Count"),
        same("Avg (ns)"),
        same("Med (ns)"),
        same("Min (ns)"),
        same("Max (ns)"),
        same("StdDev (ns)"),
        same("Operation"),
    ],
    layout: Layout::Grid,
};

const BY_SIZE: Head = Head {
    report: "cuda_gpu_mem_size_sum",
    part: "",
    title: "CUDA GPU MemOps Summary (by Size) (cuda_gpu_mem_size_sum)",
    columns: &[
        same("Total (MB)"),
        same("Count"),
        same("Avg (MB)"),
        same("Med (MB)"),
        same("Min (MB)"),
        same("Max (MB)"),
        same("StdDev (MB)"),
        same("Operation"),
    ],
    layout: Layout::Grid,
};

/// Times and sizes of copies and fills, by what they are called.
fn operations(scope: &Scope, of: impl Fn(&trace::read::device_times::Work) -> i64) -> Vec<(String, Durations)> {
    let mut operations: BTreeMap<String, Durations> = BTreeMap::new();
    for work in scope.works().filter(|work| matches!(work.about.what, timed::COPY | timed::FILL)) {
        operations.entry(work.about.operation()).or_default().add(of(&work));
    }
    let mut operations: Vec<(String, Durations)> = operations.into_iter().collect();
    operations.sort_by_key(|(_, amounts)| Reverse(amounts.sum));
    operations
}

pub(crate) fn by_time(scope: &Scope) -> Vec<Table> {
    let mut table = Table::new(BY_TIME);
    let operations = operations(scope, |work| work.duration());
    let whole = operations.iter().fold(0i64, |all, (_, times)| all.saturating_add(times.sum));
    for (name, times) in operations {
        table.row([&times.cells(whole)[..], &[name.into()]].concat());
    }
    table.notes = scope.notes();
    vec![table]
}

pub(crate) fn by_size(scope: &Scope) -> Vec<Table> {
    let mut table = Table::new(BY_SIZE);
    let megabytes = |bytes: f64| Cell::Fine(bytes / 1e6);
    for (name, sizes) in operations(scope, |work| i64::try_from(work.about.bytes).unwrap_or(i64::MAX)) {
        let figures = sizes.figures();
        table.row([
            megabytes(sizes.sum as f64),
            Cell::Count(sizes.count),
            megabytes(figures.average),
            megabytes(figures.median),
            megabytes(figures.min as f64),
            megabytes(figures.max as f64),
            megabytes(figures.deviation),
            name.into(),
        ]);
    }
    table.notes = scope.notes();
    vec![table]
}
