//! Consecutive launches with the same results: only the last one is kept, with the positions of some of them.

/// Of longer rows the first and the latest.
const KEPT: usize = 8;

#[derive(Clone, Copy, Default)]
pub(super) struct Row {
    /// Positions, rising.
    positions: [u64; KEPT],
    kept: usize,
    /// Whether there were more between the first and the second.
    has_gap: bool,
}

impl Row {
    pub(super) fn push(&mut self, position: u64) {
        if self.kept == KEPT {
            self.positions.copy_within(2.., 1);
            (self.kept, self.has_gap) = (KEPT - 1, true);
        }
        self.positions[self.kept] = position;
        self.kept += 1;
    }

    pub(super) fn first(&self) -> u64 {
        self.positions[0]
    }

    /// Those before a position are done; whether there were any, for all that is known of a gap. The last
    /// stays.
    pub(super) fn drop_before(&mut self, until: u64) -> bool {
        let done = self.positions[..self.kept].iter().take_while(|at| **at < until).count().min(self.kept - 1);
        if self.has_gap && done == 1 {
            // What is left of the gap begins here, or later.
            self.positions[0] = until;
            return true;
        }
        self.positions.copy_within(done..self.kept, 0);
        self.kept -= done;
        self.has_gap &= done == 0;
        done > 0
    }

    pub(super) fn is_one(&self) -> bool {
        self.kept == 1
    }

    /// Whether each of them is done before something (what precedes one that is, is, too), or waits for it
    /// (likewise what follows), or has an order of its own to it. False if that is not known of all.
    pub(super) fn is_ordered(
        &self,
        is_before: impl Fn(u64) -> bool,
        is_behind: impl Fn(u64) -> bool,
        is_settled: impl Fn(u64) -> bool,
    ) -> bool {
        let is_gap_ordered = || !self.has_gap || is_behind(self.positions[0]) || is_before(self.positions[1]);
        let mut each = self.positions[..self.kept].iter();
        is_gap_ordered() && each.all(|at| is_before(*at) || is_behind(*at) || is_settled(*at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether a row of as many, at 10, 20 and so on, is ordered to what waits for those before `until` and
    /// is waited for from `from` on.
    fn is_ordered(count: u64, until: u64, from: u64) -> bool {
        let mut row = Row::default();
        (1..=count).for_each(|n| row.push(n * 10));
        row.is_ordered(|at| at < until, |at| at >= from, |_| false)
    }

    #[test]
    fn a_row_is_ordered_if_each_of_it_is() {
        assert!(is_ordered(3, 25, 25) && is_ordered(3, 0, 5) && is_ordered(3, 35, 99));
        assert!(!is_ordered(3, 15, 25) && !is_ordered(3, 0, 15) && !is_ordered(3, 25, 35));
    }

    #[test]
    fn what_is_done_of_a_row_is_dropped_but_for_the_last() {
        let mut row = Row::default();
        (1..=4).for_each(|n| row.push(n * 10));
        assert!(!row.drop_before(10) && row.drop_before(21) && row.first() == 30);
        assert!(row.drop_before(99) && row.first() == 40 && row.is_one() && !row.drop_before(99));
    }

    #[test]
    fn of_a_gap_each_part_is_done_once() {
        let mut row = Row::default();
        (1..=20).for_each(|n| row.push(n * 10));
        assert!(row.drop_before(11) && !row.drop_before(11) && row.drop_before(45) && row.first() == 45);
        assert!(
            row.is_ordered(|_| false, |at| at >= 45, |_| false) && !row.is_ordered(|_| false, |at| at >= 46, |_| false)
        );
        assert!(row.drop_before(145) && row.first() == 150);
    }

    #[test]
    fn of_a_long_row_what_is_not_kept_must_be_ordered_too() {
        assert!(is_ordered(100, 955, 955) && is_ordered(100, 0, 5) && is_ordered(100, 1001, 1002));
        assert!(!is_ordered(100, 955, 965) && !is_ordered(100, 500, 510));
    }
}
