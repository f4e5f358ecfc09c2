//! A tally of calls with one property: their number, their total time, and the calls themselves.

#[derive(Default)]
pub(crate) struct Tally {
    pub calls: u64,
    /// Nanoseconds.
    pub time: i64,
    pub first: Option<u64>,
    costliest: Vec<(i64, u64)>,
    /// Nanoseconds of the last of these when they had been sorted: what took less is none of them.
    least: Option<i64>,
}

/// Calls kept as evidence.
pub(crate) const KEPT: usize = 64;

impl Tally {
    pub(crate) fn add(&mut self, call: u64, ns: i64) {
        self.add_run(call, 1, ns);
    }

    /// A call that stands for several, which took that long together.
    pub(crate) fn add_run(&mut self, call: u64, count: u64, ns: i64) {
        self.calls = self.calls.saturating_add(count);
        self.time = self.time.saturating_add(ns);
        self.first.get_or_insert(call);
        if self.least.is_some_and(|least| ns < least) {
            return;
        }
        self.costliest.push((ns, call));
        if self.costliest.len() >= 2 * KEPT {
            sort(&mut self.costliest);
            self.least = self.costliest.get(KEPT - 1).map(|(ns, _)| *ns);
        }
    }

    /// The calls that took longest, the longest first.
    pub(crate) fn costliest(&self) -> Vec<u64> {
        let mut all = self.costliest.clone();
        sort(&mut all);
        all.into_iter().map(|(_, call)| call).collect()
    }
}

/// Calls that a row of a table lists.
pub(crate) const LISTED: usize = 8;

/// The first of these calls, in a row of a table.
pub(crate) fn listed(calls: &[u64]) -> String {
    let more = if calls.len() > LISTED { " ..." } else { "" };
    let calls: Vec<String> = calls.iter().take(LISTED).map(u64::to_string).collect();
    format!("{}{more}", calls.join(" "))
}

/// Puts the costliest first, and lets those go that are too many.
fn sort(all: &mut Vec<(i64, u64)>) {
    all.sort_by_key(|(ns, call)| (std::cmp::Reverse(*ns), *call));
    all.dedup_by_key(|(_, call)| *call);
    all.truncate(KEPT);
}
