//! Several traces in one table: the processes of a job beside each other, and their operations on NCCL's
//! communicators.

use super::request::{Request, about};
use super::{collectives, list, ranks, walk};
use crate::error::Result;
use crate::filter::progress::Progress;
use crate::job::recordings::Recordings;
use crate::tables::table::{Cell, Head, Table};
use crate::text::kernel_name::Style;
use std::collections::BTreeMap;
use std::io::Write;
use trace::Trace;

/// A trace, the tables of each report on it, and its end on the time axis that all have in common.
type TraceTables<'t> = (&'t Trace, Vec<Vec<Table>>, i64);

/// The processes of several traces in one table. Those of each recording are compared by themselves.
pub fn write(
    out: &mut impl Write,
    traces: &[Trace],
    recordings: &Recordings,
    request: &Request,
    progress: &mut dyn Progress,
) -> Result<()> {
    let selection = &request.selection;
    let mut by_recording: BTreeMap<Option<u64>, Vec<TraceTables>> = BTreeMap::new();
    for trace in traces {
        let mut reports = vec![ranks::make(trace), collectives::make(trace)];
        let ending = walk::walk(trace, selection, Style::Full, progress, &mut reports)?;
        let tables = reports.iter_mut().map(|report| report.tables(&ending)).collect();
        let end = ranks::end(&ending).saturating_add_unsigned(selection.start(trace));
        by_recording.entry(recordings.get(&trace.path).copied()).or_default().push((trace, tables, end));
    }
    let mut tables: Vec<Table> = Vec::new();
    for name in list::TOGETHER.iter().filter(|name| request.reports.iter().any(|report| report.chosen.name() == **name))
    {
        let mut of_all: Vec<(Option<u64>, Vec<Table>)> = Vec::new();
        for (recording, by_trace) in &by_recording {
            let put = match *name {
                list::RANKS => {
                    let of = |(_, tables, end): &TraceTables| (tables[0].clone(), *end);
                    let each = by_trace.iter().map(of);
                    vec![ranks::merge(each.flat_map(|(tables, end)| tables.into_iter().map(move |of| (of, end))))]
                }
                _ => {
                    let each = by_trace.iter().map(|(trace, tables, _)| (*trace, tables[1].clone()));
                    collectives::merge(each, |trace| selection.start(trace), selection.selects_all())
                }
            };
            of_all.push((*recording, put));
        }
        tables.extend(match *name {
            list::RANKS => of_recordings(of_all, &[ranks::OF_RECORDINGS]),
            _ => of_recordings(of_all, &collectives::OF_RECORDINGS),
        });
    }
    let about = traces.iter().map(|trace| about(trace, recordings)).collect();
    let mut out = request.output(out, tables.len() > 1, &about)?;
    for mut table in tables {
        request.limit(&mut table);
        out.table(&table)?;
    }
    out.finish()
}

/// The tables of several recordings in one of each kind, which begins with their numbers. A trace has none if it
/// could not be read any more when they were told apart.
fn of_recordings(mut all: Vec<(Option<u64>, Vec<Table>)>, heads: &[Head]) -> Vec<Table> {
    // Those without a number come first: if they come last, there are no others.
    if let Some((_, only)) = all.pop_if(|(recording, _)| recording.is_none()) {
        return only;
    }
    let mut whole: Vec<Table> = heads.iter().copied().map(Table::new).collect();
    for (recording, tables) in all {
        let number = recording.map_or(Cell::None, Cell::Number);
        for (whole, table) in whole.iter_mut().zip(tables) {
            let row = |row: Vec<Cell>| std::iter::once(number.clone()).chain(row).collect();
            whole.rows.extend(table.rows.into_iter().map(row));
            whole.notes.extend(table.notes.into_iter().map(|note| match recording {
                Some(number) => format!("recording {number}: {note}"),
                None => note,
            }));
        }
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_of_no_known_recording_stands_beside_the_others() {
        let table = |pid: u64| {
            let notes = vec![format!("of {pid}")];
            vec![Table { rows: vec![vec![Cell::Number(pid)]], notes, ..Table::new(ranks::OF_RECORDINGS) }]
        };
        let of = |all| of_recordings(all, &[ranks::OF_RECORDINGS]).remove(0);
        let whole = of(vec![(None, table(7)), (Some(1), table(8)), (Some(2), table(9))]);
        let rows = [(Cell::None, 7), (Cell::Number(1), 8), (Cell::Number(2), 9)];
        assert_eq!(whole.rows, rows.map(|(recording, pid)| vec![recording, Cell::Number(pid)]));
        assert_eq!(whole.notes, ["of 7", "recording 1: of 8", "recording 2: of 9"]);
        assert_eq!(of(vec![(None, table(7))]).rows, [vec![Cell::Number(7)]]);
    }
}
