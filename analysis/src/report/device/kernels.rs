//! `cuda_gpu_kern_sum`, `cuda_gpu_kern_gb_sum`, `cuda_gpu_sum` and `cuda_api_gpu_sum`, with the columns of
//! Nsight Systems.

use super::{Scope, xyz};
use crate::tables::durations::{Durations, followed_by};
use crate::tables::table::{Cell, Column, Head, Layout, Table, same};
use std::cmp::Reverse;
use std::collections::HashMap;
use trace::file::record::timed;

const BY_NAME: &[Column] = &followed_by::<1, 9>([same("Name")]);
const BY_SHAPE: &[Column] = &followed_by::<3, 11>([same("GridXYZ"), same("BlockXYZ"), same("Name")]);
const BY_OPERATION: &[Column] = &followed_by::<2, 10>([same("Category"), same("Operation")]);

const fn head(report: &'static str, title: &'static str, columns: &'static [Column]) -> Head {
    Head { report, part: "", title, columns, layout: Layout::Grid }
}

type Key = (&'static str, String, [u32; 3], [u32; 3]);

/// Groups, by the time that they took.
fn grouped(
    scope: &Scope,
    key: impl Fn(&trace::read::device_times::Work) -> Option<Key>,
) -> (Vec<(Key, Durations)>, i64) {
    let mut groups: HashMap<Key, Durations> = HashMap::new();
    for work in scope.works() {
        if let Some(key) = key(&work) {
            groups.entry(key).or_default().add(work.duration());
        }
    }
    let mut groups: Vec<(Key, Durations)> = groups.into_iter().collect();
    groups.sort_by(|(a, one), (b, other)| (Reverse(one.sum), a).cmp(&(Reverse(other.sum), b)));
    let whole = groups.iter().fold(0i64, |all, (_, durations)| all.saturating_add(durations.sum));
    (groups, whole)
}

const NO_SHAPE: [u32; 3] = [0; 3];

pub(crate) fn by_name(scope: &Scope) -> Vec<Table> {
    let mut table = Table::new(head("cuda_gpu_kern_sum", "CUDA GPU Kernel Summary (cuda_gpu_kern_sum)", BY_NAME));
    let key =
        |work: &trace::read::device_times::Work| work.is_kernel().then(|| ("", scope.name(work), NO_SHAPE, NO_SHAPE));
    let (groups, whole) = grouped(scope, key);
    for ((_, name, ..), durations) in groups {
        table.row([&durations.cells(whole)[..], &[name.into()]].concat());
    }
    table.notes = scope.notes();
    vec![table]
}

pub(crate) fn by_shape(scope: &Scope) -> Vec<Table> {
    let title = "CUDA GPU Kernel/Grid/Block Summary (cuda_gpu_kern_gb_sum)";
    let mut table = Table::new(head("cuda_gpu_kern_gb_sum", title, BY_SHAPE));
    let key = |work: &trace::read::device_times::Work| {
        work.is_kernel().then(|| ("", scope.name(work), work.about.grid, work.about.block))
    };
    let (groups, whole) = grouped(scope, key);
    for ((_, name, grid, block), durations) in groups {
        table.row([&durations.cells(whole)[..], &[xyz(grid), xyz(block), name.into()]].concat());
    }
    table.notes = scope.notes();
    vec![table]
}

/// Kernels, copies and fills by what they are called; and how long all of them took.
pub(crate) fn operations(scope: &Scope) -> (Vec<(String, Durations)>, i64) {
    let (groups, whole) = grouped(scope, |work| Some(("", scope.name(work), NO_SHAPE, NO_SHAPE)));
    (groups.into_iter().map(|((_, name, ..), durations)| (name, durations)).collect(), whole)
}

pub(crate) fn all(scope: &Scope) -> Vec<Table> {
    let title = "CUDA GPU Summary (Kernels/MemOps) (cuda_gpu_sum)";
    let (groups, whole) = grouped(scope, |work| Some(by_operation(scope, work)));
    listed(scope, head("cuda_gpu_sum", title, BY_OPERATION), groups, whole)
}

fn by_operation(scope: &Scope, work: &trace::read::device_times::Work) -> Key {
    let category = match work.about.what {
        timed::KERNEL => "CUDA_KERNEL",
        timed::GRAPH => "CUDA_GRAPH",
        _ => "MEMORY_OPER",
    };
    (category, scope.name(work), NO_SHAPE, NO_SHAPE)
}

/// The host's calls beside what devices did.
pub(crate) fn with_calls(scope: &Scope) -> Vec<Table> {
    let (mut groups, _) = grouped(scope, |work| Some(by_operation(scope, work)));
    let mut calls: HashMap<&str, Durations> = HashMap::new();
    for call in scope.trace.calls().filter(|call| scope.has(call)) {
        let Some(end) = call.end else { continue };
        let durations = calls.entry(call.name()).or_default();
        durations.add(scope.trace.nanoseconds(end).saturating_sub(scope.trace.nanoseconds(call.begin)));
        durations.add_alike(call.count() - 1, call.repeats_took());
    }
    groups.extend(calls.into_iter().map(|(name, times)| (("CUDA_API", name.to_owned(), NO_SHAPE, NO_SHAPE), times)));
    groups.sort_by(|(a, one), (b, other)| (Reverse(one.sum), a).cmp(&(Reverse(other.sum), b)));
    let whole = groups.iter().fold(0i64, |whole, (_, durations)| whole.saturating_add(durations.sum));
    let title = "CUDA Summary (API/Kernels/MemOps) (cuda_api_gpu_sum)";
    listed(scope, head("cuda_api_gpu_sum", title, BY_OPERATION), groups, whole)
}

fn listed(scope: &Scope, head: Head, groups: Vec<(Key, Durations)>, whole: i64) -> Vec<Table> {
    let mut table = Table::new(head);
    for ((category, operation, ..), durations) in groups {
        table.row([&durations.cells(whole)[..], &[category.into(), Cell::Text(operation)]].concat());
    }
    table.notes = scope.notes();
    vec![table]
}
