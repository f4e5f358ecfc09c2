//! Durations of calls: exact figures in bounded memory.
//!
//! Distinct durations are counted, not calls: n different ones of whole nanoseconds last at least n²/2
//! together, so an hour of calls has fewer than three million of them, however many calls there were.

use crate::tables::table::{Cell, Column, same};
use foldhash::HashMap;

/// Durations below this many nanoseconds are counted in an array.
const SMALL: usize = 4096;

#[derive(Default)]
pub(crate) struct Durations {
    pub count: u64,
    /// Nanoseconds.
    pub sum: i64,
    small: Vec<u64>,
    large: HashMap<i64, u64>,
}

/// The figures of a summary, in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Figures {
    pub average: f64,
    pub median: f64,
    pub min: i64,
    pub max: i64,
    /// Of the sample; 0 for a single one.
    pub deviation: f64,
}

impl Durations {
    pub(crate) fn add(&mut self, ns: i64) {
        self.add_each(1, ns.max(0));
    }

    /// Calls of which only the sum is known: each counts as their average, in whole nanoseconds.
    pub(crate) fn add_alike(&mut self, count: u64, sum: i64) {
        let sum = sum.max(0) as u64;
        if let (Some(average), Some(longer)) = (sum.checked_div(count), sum.checked_rem(count)) {
            self.add_each(longer, average as i64 + 1);
            self.add_each(count - longer, average as i64);
        }
    }

    fn add_each(&mut self, count: u64, ns: i64) {
        if count == 0 {
            return;
        }
        self.count = self.count.saturating_add(count);
        self.sum = self.sum.saturating_add(ns.saturating_mul(count.try_into().unwrap_or(i64::MAX)));
        let counted = if (ns as usize) < SMALL {
            if self.small.is_empty() {
                self.small = vec![0; SMALL];
            }
            &mut self.small[ns as usize]
        } else {
            self.large.entry(ns).or_default()
        };
        *counted = counted.saturating_add(count);
    }

    pub(crate) fn figures(&self) -> Figures {
        let small = self.small.iter().enumerate().filter(|(_, n)| **n > 0).map(|(ns, n)| (ns as i64, *n));
        let mut large: Vec<(i64, u64)> = self.large.iter().map(|(ns, n)| (*ns, *n)).collect();
        large.sort_unstable();
        let all: Vec<(i64, u64)> = small.chain(large).collect();
        let (Some(first), Some(last)) = (all.first(), all.last()) else { return Figures::default() };
        let average = self.sum as f64 / self.count as f64;
        let squares: f64 = all.iter().map(|(ns, n)| (*ns as f64 - average).powi(2) * *n as f64).sum();
        let deviation = if self.count > 1 { (squares / (self.count - 1) as f64).sqrt() } else { 0.0 };
        let at = |rank: u64| {
            let mut passed = 0;
            let found = all.iter().find(|(_, n)| {
                passed = n.saturating_add(passed);
                passed > rank
            });
            found.map_or(0, |(ns, _)| *ns) as f64
        };
        let median = (at((self.count - 1) / 2) + at(self.count / 2)) / 2.0;
        Figures { average, median, min: first.0, max: last.0, deviation }
    }

    /// What stands in those columns; `whole` is all time.
    pub(crate) fn cells(&self, whole: i64) -> [Cell; 8] {
        let figures = self.figures();
        [
            Cell::Percent(self.sum as f64 * 100.0 / whole.max(1) as f64),
            Cell::Nanoseconds(self.sum),
            Cell::Count(self.count),
            Cell::Real(figures.average),
            Cell::Real(figures.median),
            Cell::Nanoseconds(figures.min),
            Cell::Nanoseconds(figures.max),
            Cell::Real(figures.deviation),
        ]
    }
}

/// The columns with which most reports of Nsight Systems begin.
const FIGURES: [Column; 8] = [
    same("Time (%)"),
    same("Total Time (ns)"),
    same("Instances"),
    same("Avg (ns)"),
    same("Med (ns)"),
    same("Min (ns)"),
    same("Max (ns)"),
    same("StdDev (ns)"),
];

/// Those, and `last` behind them.
pub(crate) const fn followed_by<const N: usize, const M: usize>(last: [Column; N]) -> [Column; M] {
    let mut all = [FIGURES[0]; M];
    let mut at = 0;
    while at < M {
        all[at] = if at < FIGURES.len() { FIGURES[at] } else { last[at - FIGURES.len()] };
        at += 1;
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_exact() {
        let mut durations = Durations::default();
        assert_eq!(durations.figures(), Figures::default());
        durations.add(7);
        assert_eq!(durations.figures(), Figures { average: 7.0, median: 7.0, min: 7, max: 7, deviation: 0.0 });
        for ns in [1, 9, 5000, 1_000_000] {
            durations.add(ns);
        }
        let figures = durations.figures();
        assert_eq!((figures.median, figures.min, figures.max), (9.0, 1, 1_000_000));
        assert_eq!(figures.average, 1_005_017.0 / 5.0);
        // Against Python's statistics.stdev.
        assert!((figures.deviation - 446_657.913_3).abs() < 0.01, "{}", figures.deviation);
        durations.add(11);
        assert_eq!(durations.figures().median, 10.0);
        durations.add_alike(3, 10);
        durations.add_alike(0, 0);
        assert_eq!((durations.count, durations.sum, durations.figures().median), (9, 1_005_038, 7.0));
        durations.add_alike(u64::MAX, 0);
        assert_eq!((durations.count, durations.figures().median), (u64::MAX, 0.0));
    }
}
