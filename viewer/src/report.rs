//! The viewer's tables as plain text, for output that is no terminal.

use crate::data::open::Opened;
use crate::state::State;
use crate::state::parts::tab::Tab;
use crate::state::table::Table;
use crate::text::{bytes, counted, duration, moment, tame};
use std::fmt::Write;
use unicode_width::UnicodeWidthStr;

/// Rows of each table.
const ROWS: usize = 20;

/// `state`: its selection and its filter say what the tables are of.
pub fn text(state: &State) -> String {
    let opened = &*state.opened;
    opened.check_data();
    opened.find_findings();
    let summary = opened.summary();
    let mut out = String::new();
    let mut line = |text: String| {
        out.push_str(&tame(&text));
        out.push('\n');
    };
    line(about(opened));
    if let Some(second) = &opened.second {
        line(format!("compared with {}", about(&second.opened)));
    }
    if let Some(label) = opened.label() {
        line(label);
    }
    for hole in &summary.holes {
        line(format!("lost: {} at {}, {}: {}", hole.title(), moment(hole.begin, 1_000), hole.about(), hole.what));
    }
    for memory in &opened.model.memory {
        let (when, most) = memory.peak();
        let of = if memory.of.pool.is_some() { " (pool)" } else { "" };
        line(format!("device {}{of}: memory peak {}, at {}", memory.of.device, bytes(most), moment(when, 1_000)));
    }
    for tab in [Tab::Findings, Tab::Api, Tab::Kernels, Tab::Copies, Tab::Modules, Tab::Ranges] {
        let table = state.table_of(tab);
        if !table.rows.is_empty() {
            out.push('\n');
            one(&mut out, tab, &table);
        }
    }
    out
}

fn about(opened: &Opened) -> String {
    let (summary, about) = (opened.summary(), &opened.trace.preamble);
    let (calls, took) = (counted(opened.calls_made(), "call"), duration(summary.end));
    format!("{}: {} (process {}), {calls}, {took}", opened.path.display(), about.program, about.pid)
}

fn one(out: &mut String, tab: Tab, table: &Table) {
    let note = if table.note.is_empty() { String::new() } else { format!(" ({})", table.note) };
    let of = table.basis.as_ref().filter(|basis| !basis.is_everything()).map_or("", |_| &table.of);
    let of = if of.is_empty() { String::new() } else { format!(" {of}") };
    writeln!(out, "{}{of}{note}", tab.title()).expect("writing to memory");
    for busy in &table.busy {
        writeln!(out, "{busy}").expect("writing to memory");
    }
    let shown: Vec<Vec<String>> =
        table.rows.iter().take(ROWS).map(|row| row.cells.iter().map(|value| value.text()).collect()).collect();
    let columns = table.columns.len();
    let width = |n: usize| shown.iter().map(|row| row[n].width()).chain([table.columns[n].len()]).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut line = |cells: &[String]| {
        for (n, text) in cells.iter().enumerate() {
            let is_last = n + 1 == columns;
            let numeric = table.rows[0].cells[n].is_number();
            let pad = " ".repeat(widths[n].saturating_sub(text.width()));
            let text = match (is_last, numeric) {
                (true, _) => text.clone(),
                (_, true) => format!("{pad}{text}  "),
                (_, false) => format!("{text}{pad}  "),
            };
            out.push_str(&text);
        }
        out.push('\n');
    };
    line(&table.columns.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
    shown.iter().for_each(|row| line(row));
    if table.rows.len() > ROWS {
        writeln!(out, "and {} more", table.rows.len() - ROWS).expect("writing to memory");
    }
}
