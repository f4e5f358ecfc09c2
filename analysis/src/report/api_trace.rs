//! `cuda_api_trace`: every call, with the columns of Nsight Systems. It is written as it is read, because the
//! calls may not fit into memory.

use crate::error::Result;
use crate::filter::grep::Grep;
use crate::filter::progress::Progress;
use crate::filter::selection::Selection;
use crate::tables::render::Output;
use crate::tables::table::{Cell, Column, Head, Layout, same};
use crate::text::figures::grouped;
use std::io::Write;
use trace::Trace;

const COLUMNS: &[Column] = &[
    same("Start (ns)"),
    same("Duration (ns)"),
    same("Name"),
    same("Result"),
    same("CorrID"),
    same("Pid"),
    same("Tid"),
    same("T-Pri"),
    same("Thread Name"),
];

const HEAD: Head = Head {
    report: "cuda_api_trace",
    part: "",
    title: "CUDA API Trace (cuda_api_trace)",
    columns: COLUMNS,
    layout: Layout::Grid,
};

/// Rows come one by one, so these are guesses.
const WIDTHS: [usize; 9] = [16, 13, 28, 6, 9, 8, 8, 5, 11];

pub(crate) fn write(
    trace: &Trace,
    selection: &Selection,
    out: &mut Output<impl Write>,
    progress: &mut dyn Progress,
) -> Result<()> {
    let (wanted, grep) = (selection.test(trace)?, Grep::new(selection));
    out.begin(HEAD, WIDTHS.to_vec())?;
    progress.begin("writing", trace.len() as u64);
    let mut further = 0u64;
    let mut left = selection.limit.unwrap_or(u64::MAX);
    let mut is_cut = false;
    let end = selection.numbers(trace).end;
    for call in trace.calls().take_while(|call| call.number < end) {
        progress.advance();
        if progress.is_unread() {
            break;
        }
        if !wanted(&call) || !grep.matches(&call) {
            continue;
        }
        if left == 0 {
            is_cut = true;
            break;
        }
        left -= 1;
        further = further.saturating_add(call.count() - 1);
        let thread = trace.threads.get(call.thread as usize);
        let begin = trace.nanoseconds(call.begin);
        out.row(&[
            Cell::Nanoseconds(begin),
            call.end.map(|end| Cell::Nanoseconds(trace.nanoseconds(end) - begin)).into(),
            call.name().into(),
            call.result.map(|result| Cell::Number(result.into())).into(),
            Cell::Number(call.number),
            Cell::Number(trace.preamble.pid.into()),
            thread.map(|thread| Cell::Number(thread.os_id.into())).into(),
            // Not recorded.
            Cell::None,
            thread.map_or("", |thread| &thread.name).into(),
        ])?;
    }
    progress.end();
    let mut notes = Vec::new();
    if is_cut {
        notes.push("and more rows: --limit".into());
    }
    notes.push("CorrID is the call number, as in cutrace dump; thread priorities (T-Pri) are not recorded".into());
    if further > 0 {
        notes.push(format!(
            "identical polls in sequence share the row of the first: {} more have no row",
            grouped(further)
        ));
    }
    out.end(&notes)
}
