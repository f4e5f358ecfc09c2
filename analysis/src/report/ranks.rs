//! `ranks`: the processes of a job beside each other, and those that the others may have waited for.

use super::transfers::Transfers;
use super::walk::{Ending, Report, Step};
use crate::tables::table::{Cell, Column, Head, Layout, Table, column};
use crate::text::figures::duration;
use trace::Trace;
use trace::api::roles::Class;
use trace::file::preamble::RANK;
use trace::write::finish::now;

#[derive(Default)]
pub(crate) struct Ranks<'t> {
    calls: u64,
    launches: u64,
    /// Inside calls that wait or ask, copies that waited for other work, and those to pageable memory,
    /// nanoseconds.
    waiting: i64,
    /// The entry of the first call, and the last return.
    from: Option<i64>,
    to: i64,
    /// The last entry or return of all calls, also of those that were not asked for.
    last: i64,
    /// The function of the last call that has not returned.
    inside: Option<&'t str>,
    transfers: Transfers<'t>,
}

pub(crate) fn make<'t>(_: &'t Trace) -> Box<dyn Report<'t> + 't> {
    Box::new(Ranks::default())
}

pub(crate) const HEAD: Head = Head {
    report: "ranks",
    part: "",
    title: "Processes by rank (ranks)",
    columns: COLUMNS.split_first().expect("not empty").1,
    layout: Layout::Grid,
};

/// Where several recordings of a directory are read.
pub(crate) const OF_RECORDINGS: Head = Head { columns: COLUMNS, ..HEAD };

const COLUMNS: &[Column] = &[
    column("recording", "recording"),
    column("rank", "rank"),
    column("process", "pid"),
    column("calls", "calls"),
    column("launches", "launches"),
    column("from host", "bytes_from_host"),
    column("to host", "bytes_to_host"),
    column("first to last", "elapsed_ns"),
    column("waiting", "waiting_ns"),
    column("not waiting", "outside_ns"),
    column("waiting %", "waiting_percent"),
    column("after last call", "last_to_end_ns"),
    column("inside call", "inside"),
    column("trace", "trace"),
];

/// Where in a row that stands which processes are compared by.
const RANK_AT: usize = 0;
const PROCESS_AT: usize = 1;
const CALLS_AT: usize = 2;
const OUTSIDE_AT: usize = 8;
const LAST_TO_END_AT: usize = 10;

impl<'t> Report<'t> for Ranks<'t> {
    fn visit(&mut self, step: &Step<'_, 't>) {
        self.transfers.visit(step);
        let inside = step.call.inside_since().map(|since| step.call.trace().nanoseconds(since));
        self.last = self.last.max(inside.or(step.last_return()).unwrap_or(step.begin));
        self.inside = inside.map(|_| step.call.name()).or(self.inside);
        if !step.selected {
            return;
        }
        self.calls = self.calls.saturating_add(step.call.count());
        self.launches += u64::from(step.class() == Some(Class::launch));
        self.from.get_or_insert(step.begin);
        self.to = self.to.max(step.last_return().unwrap_or(step.begin));
        self.to = self.to.max(inside.unwrap_or(0));
        let is_wait = matches!(step.class(), Some(Class::synchronize | Class::poll));
        let has_waited = step.outcome.wait.is_some_and(|wait| wait.covered > 0);
        if (is_wait || has_waited || self.transfers.waits_in_truth) && !step.call.inner {
            self.waiting = self.waiting.saturating_add(step.took().unwrap_or(0));
        }
    }

    fn tables(&mut self, ending: &Ending<'t>) -> Vec<Table> {
        let preamble = &ending.trace.preamble;
        let [(_, from_host), (_, to_host)] = self.transfers.across();
        let elapsed = self.from.map_or(0, |from| self.to.saturating_sub(from).max(0));
        let name = ending.trace.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mut table = Table::new(HEAD);
        table.row([
            preamble.number(RANK).map_or(Cell::None, Cell::Number),
            Cell::Number(preamble.pid.into()),
            Cell::Count(self.calls),
            Cell::Count(self.launches),
            Cell::Bytes(from_host),
            Cell::Bytes(to_host),
            Cell::Time(elapsed),
            Cell::Time(self.waiting),
            Cell::Time(elapsed.saturating_sub(self.waiting).max(0)),
            Cell::Percent(if elapsed > 0 { self.waiting as f64 / elapsed as f64 * 100.0 } else { 0.0 }),
            self.from.map_or(Cell::None, |_| Cell::Time(end(ending).saturating_sub(self.last).max(0))),
            self.inside.into(),
            name.into(),
        ]);
        vec![table]
    }
}

/// The last that is known of the time of a process: this moment if it runs, else the last entry or return of a
/// call. Nanoseconds since the start of its trace.
pub(crate) fn end(ending: &Ending) -> i64 {
    ending.latest.max(now(ending.trace).unwrap_or(0))
}

/// One table of the rows of several traces, which are in the order of their ranks; with each the [`end`] of its
/// trace, on a time axis that all have in common.
pub(crate) fn merge(all: impl IntoIterator<Item = (Table, i64)>) -> Table {
    let all: Vec<(Table, i64)> = all.into_iter().collect();
    let last = all.iter().map(|(_, end)| *end).max().unwrap_or(0);
    let mut whole = Table::new(HEAD);
    for (mut table, end) in all {
        for row in &mut table.rows {
            if let Cell::Time(ns) = &mut row[LAST_TO_END_AT] {
                *ns = ns.saturating_add(last.saturating_sub(end));
            }
        }
        whole.rows.extend(table.rows);
    }
    whole.notes.extend(slowest(&whole.rows));
    whole
}

/// Whoever does most besides waiting.
fn slowest(rows: &[Vec<Cell>]) -> Option<String> {
    let outside = |row: &Vec<Cell>| match row[OUTSIDE_AT] {
        Cell::Time(ns) => ns,
        _ => 0,
    };
    let name = |row: &Vec<Cell>| match (&row[RANK_AT], &row[PROCESS_AT]) {
        (Cell::Number(rank), _) => format!("rank {rank}"),
        (_, Cell::Number(pid)) => format!("process {pid}"),
        _ => "a process".into(),
    };
    // A launcher has no rank, and waits for none of them on a device.
    let has_rank = |row: &&Vec<Cell>| matches!(row[RANK_AT], Cell::Number(_));
    let has_ranks = rows.iter().any(|row| has_rank(&row));
    let made_calls = |row: &&Vec<Cell>| row[CALLS_AT] != Cell::Count(0);
    let compared = || rows.iter().filter(made_calls).filter(|row| !has_ranks || has_rank(row));
    let most = compared().max_by_key(|row| outside(row))?;
    let least = compared().min_by_key(|row| outside(row)).filter(|least| outside(least) < outside(most))?;
    let (longest, shortest) = (duration(outside(most)), duration(outside(least)));
    let (slowest, fastest) = (name(most), name(least));
    Some(format!(
        "{slowest} spent the most time outside waits, {longest}, and {fastest} the least, {shortest}: a rank that waits for \
         others has more time in waits"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whoever stopped first is longest without a call, whenever its trace began.
    #[test]
    fn without_a_call_until_the_last_of_all_ends() {
        let table = |since: Cell| {
            let mut table = Table::new(HEAD);
            table.rows.push(vec![Cell::None; HEAD.columns.len()]);
            table.rows[0][LAST_TO_END_AT] = since;
            table
        };
        let all = [(Cell::Time(0), 40), (Cell::Time(5), 100), (Cell::None, 20)];
        let whole = merge(all.map(|(since, end)| (table(since), end)));
        let told: Vec<&Cell> = whole.rows.iter().map(|row| &row[LAST_TO_END_AT]).collect();
        assert_eq!(told, [&Cell::Time(60), &Cell::Time(5), &Cell::None]);
    }

    #[test]
    fn the_slowest_is_who_waits_least() {
        let row = |rank: Option<u64>, outside: i64| {
            let mut row = vec![Cell::None; HEAD.columns.len()];
            row[CALLS_AT] = Cell::Count(u64::from(outside > 0));
            row[RANK_AT] = rank.map_or(Cell::None, Cell::Number);
            row[PROCESS_AT] = Cell::Number(77);
            row[OUTSIDE_AT] = Cell::Time(outside);
            row
        };
        let told = slowest(&[row(Some(0), 10), row(Some(1), 5_000), row(None, 2)]).expect("they differ");
        assert!(
            told.starts_with("rank 1 spent the most time outside waits, 5.0 us, and rank 0 the least, 10 ns"),
            "{told}"
        );
        let told = slowest(&[row(None, 10), row(None, 2)]).expect("they differ");
        assert!(told.starts_with("process 77 spent the most time outside waits, 10 ns"), "{told}");
        // One that made no calls, in the time that is looked at, waited for nobody.
        let told = slowest(&[row(Some(0), 10), row(Some(1), 0), row(Some(2), 5_000)]).expect("they differ");
        assert!(told.contains(" and rank 0 the least, 10 ns"), "{told}");
        assert_eq!((slowest(&[]), slowest(&[row(Some(0), 5), row(Some(1), 5)])), (None, None));
    }
}
