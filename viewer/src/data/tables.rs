//! Sums over all calls, by function, by kernel and by kind of memory operation; and the loaded modules.

use bincode::{Decode, Encode};

/// Calls of one name. Times are the host's: the duration of the calls.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Row {
    /// Index into [`Summary::names`](super::model::Summary::names).
    pub name: u32,
    pub count: u64,
    pub(crate) failed: u64,
    /// Nanoseconds.
    pub total: u64,
    pub(crate) least: u64,
    pub(crate) median: u64,
    /// 99 of 100 took no longer.
    pub p99: u64,
    pub most: u64,
    /// The call that took the most.
    pub slowest: u32,
    /// Moved, of copies and fills; 0 where the call does not say in its arguments.
    pub bytes: u64,
}

/// Sums of a trace's device times, and their source.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Timing {
    /// As in TIMED records.
    pub source: u8,
    pub(crate) works: u64,
    /// Work of recorded calls that was not timed.
    pub untimed: u64,
    pub kernels: Vec<Row>,
    /// Copies, fills, and graphs that were timed as a whole.
    pub moves: Vec<Row>,
}

/// A loaded module image.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub(crate) struct Load {
    pub(crate) call: u32,
    pub(crate) name: u32,
    pub(crate) bytes: u64,
    /// High half, whose digits other commands show, of the image's hash; 0 if the trace does not hold it.
    pub image: u64,
    pub(crate) took: u64,
}

/// Collects the calls of one name.
#[derive(Default, Clone)]
pub(crate) struct Collected {
    pub(crate) lengths: Vec<u32>,
    /// Of calls of which only the sum is known: their average, and how many.
    alike: Vec<(u32, u64)>,
    pub(crate) total: u64,
    pub(crate) failed: u64,
    pub(crate) bytes: u64,
    most: u64,
    slowest: u32,
}

impl Collected {
    /// `call`: that it can be found by; `took` in nanoseconds.
    pub(crate) fn add(&mut self, call: u32, took: u64, failed: bool, bytes: u64) {
        if took > self.most || self.lengths.is_empty() {
            (self.most, self.slowest) = (took, call);
        }
        self.lengths.push(took.min(u32::MAX.into()) as u32);
        self.total = self.total.saturating_add(took);
        self.failed += u64::from(failed);
        self.bytes = self.bytes.saturating_add(bytes);
    }

    /// As many calls that took this long together: each counts as their average.
    pub(crate) fn add_alike(&mut self, count: u64, took: u64) {
        if let Some(average) = took.checked_div(count) {
            self.alike.push((average.min(u32::MAX.into()) as u32, count));
            self.total = self.total.saturating_add(took);
        }
    }

    /// Takes in what another part of the trace had of the same name.
    pub(crate) fn merge(&mut self, other: Collected) {
        if other.most > self.most || self.lengths.is_empty() {
            (self.most, self.slowest) = (other.most, other.slowest);
        }
        self.lengths.extend(other.lengths);
        self.alike.extend(other.alike);
        self.total = self.total.saturating_add(other.total);
        self.failed += other.failed;
        self.bytes = self.bytes.saturating_add(other.bytes);
    }

    pub(crate) fn row(mut self, name: u32) -> Option<Row> {
        let count = self.alike.iter().fold(self.lengths.len() as u64, |all, (_, count)| all.saturating_add(*count));
        let last = count.checked_sub(1)?;
        if !self.alike.is_empty() {
            self.alike.extend(self.lengths.iter().map(|length| (*length, 1)));
            self.alike.sort_unstable();
        }
        let mut at = |rank: u64| {
            let mut passed = 0u64;
            let found = self.alike.iter().find(|(_, count)| {
                passed = passed.saturating_add(*count);
                passed > rank
            });
            match found {
                Some((length, _)) => u64::from(*length),
                // Nearly always all are known one by one. (A sum that was cut to what a number holds ends
                // below it.)
                None => {
                    let most = self.lengths.len() - 1;
                    u64::from(*self.lengths.select_nth_unstable((rank as usize).min(most)).1)
                }
            }
        };
        let (median, p99, least) = (at(last / 2), at(last - count / 100), at(0));
        Some(Row {
            name,
            count,
            failed: self.failed,
            total: self.total,
            least,
            median,
            p99,
            most: self.most,
            slowest: self.slowest,
            bytes: self.bytes,
        })
    }
}

/// Rows of all names that have any, the largest total first.
pub(crate) fn rows(collected: Vec<Collected>) -> Vec<Row> {
    let mut rows: Vec<Row> = collected.into_iter().enumerate().filter_map(|(name, all)| all.row(name as u32)).collect();
    rows.sort_by_key(|row| (std::cmp::Reverse(row.total), row.name));
    rows
}

/// The sums of a name, which may be a new one.
pub(crate) fn collected(sums: &mut Vec<Collected>, name: u32) -> &mut Collected {
    let least = name as usize + 1;
    if sums.len() < least {
        sums.resize(least, Collected::default());
    }
    &mut sums[name as usize]
}
