//! The contents of the overview's two rows: the whole trace in the available columns. It changes only with
//! the trace and the width.

use crate::data::Model;
use crate::data::lane::{Source, views};

/// The calls of all threads in one column.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Sum {
    /// Of all threads' time, in calls.
    pub share: f64,
    pub(crate) failed: u64,
    pub(crate) waits: u64,
    pub(crate) loads: u64,
}

/// More events are not looked through for marks.
const SOUGHT: usize = 20_000_000;

/// In which columns something of these names begins; empty if there is too much to look through.
pub(crate) fn hits(model: &Model, named: impl Fn(u32) -> bool, end: u64, columns: u64) -> Vec<bool> {
    let lanes: Vec<_> = model.lanes.iter().filter(|lane| lane.source.is_own()).collect();
    if columns == 0 || lanes.iter().map(|lane| lane.len()).sum::<usize>() > SOUGHT {
        return Vec::new();
    }
    let mut hits = vec![false; columns as usize];
    for lane in lanes {
        let mut index = 0;
        while index < lane.len() {
            let column = (u128::from(lane.begin[index]) * u128::from(columns) / u128::from(end.max(1))) as usize;
            let column = column.min(hits.len() - 1);
            if !named(lane.name[index]) {
                index += 1;
                continue;
            }
            // One is enough: on to what begins in the next column.
            hits[column] = true;
            let next = (u128::from(end) * (column as u128 + 1)).div_ceil(u128::from(columns)) as u64;
            index = lane.first_at(next).max(index + 1);
        }
    }
    hits
}

/// `end`: where the last column ends, ns.
pub(crate) fn sums(model: &Model, end: u64, columns: u64) -> Vec<Sum> {
    if columns == 0 {
        return Vec::new();
    }
    let at = |n: u64| (u128::from(end) * u128::from(n) / u128::from(columns)) as u64;
    let edges: Vec<u64> = (0..=columns).map(at).collect();
    let mut sums = vec![Sum::default(); columns as usize];
    let threads = model.lanes.iter().filter(|lane| matches!(lane.source, Source::Thread { depth: 0, .. }));
    let lanes: Vec<_> = threads.collect();
    for cells in views(&lanes, &edges, true) {
        for ((sum, cell), edge) in sums.iter_mut().zip(&cells).zip(edges.windows(2)) {
            let whole = (edge[1] - edge[0]).saturating_mul(lanes.len() as u64).max(1);
            sum.share += cell.busy as f64 / whole as f64;
            sum.failed += u64::from(cell.failed);
            sum.waits += u64::from(cell.synchronisations);
            sum.loads += u64::from(cell.loads);
        }
    }
    sums
}
