//! Output of tables as text, CSV and JSON, row by row, so that a report may be larger than memory.

use super::table::{Cell, Column, Head, Layout, Table};
use super::unit::Unit;
use crate::error::Result;
use crate::text::figures::{duration, grouped, real, size};
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use std::borrow::Cow;
use std::io::Write;
use trace::show::text::{csv, plain};
use unicode_width::UnicodeWidthStr;

/// The form of printed tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Columns for the eye, in fitting units.
    Table,
    /// Comma-separated values: plain numbers, bytes and nanoseconds.
    Csv,
    /// One object with all reports.
    Json,
}

impl Format {
    /// Of names of files.
    pub fn ending(self) -> &'static str {
        match self {
            Format::Table => "txt",
            Format::Csv => "csv",
            Format::Json => "json",
        }
    }
}

/// Version of the JSON form. Columns may be added within a version, by new reports only.
const SCHEMA: u32 = 1;

/// Cells of a list's row that are for the eye.
const LISTED: usize = 3;

/// A writer of tables in one [`Format`].
pub struct Output<W: Write> {
    out: W,
    format: Format,
    colored: bool,
    /// Whether several tables come, which CSV must tell apart.
    many: bool,
    /// Of times; none where each stands in the one that fits it, or in nanoseconds.
    unit: Option<Unit>,
    tables: usize,
    rows: u64,
    head: Option<Head>,
    widths: Vec<usize>,
}

impl<W: Write> Output<W> {
    /// `about`: what the JSON form says of the trace.
    pub fn new(mut out: W, format: Format, colored: bool, many: bool, about: &serde_json::Value) -> Result<Output<W>> {
        if format == Format::Json {
            write!(out, "{{\"schema\":{SCHEMA},\"trace\":{},\"reports\":[", json(about)?)?;
        }
        Ok(Output { out, format, colored, many, unit: None, tables: 0, rows: 0, head: None, widths: Vec::new() })
    }

    /// With times in this unit.
    pub fn in_unit(self, unit: Option<Unit>) -> Output<W> {
        Output { unit, ..self }
    }

    /// Writes a whole table.
    pub fn table(&mut self, table: &Table) -> Result<()> {
        let widths = match self.format {
            Format::Table => self.widths_of(table),
            _ => Vec::new(),
        };
        self.begin(table.head, widths)?;
        if self.format == Format::Table && table.head.layout == Layout::Facts {
            for (what, how) in &table.facts {
                writeln!(self.out, "  {what:<14}{}", plain(how))?;
            }
            return self.end(&table.notes);
        }
        if table.rows.is_empty() && self.format == Format::Table {
            writeln!(self.out, "  none")?;
        }
        table.rows.iter().try_for_each(|row| self.row(row))?;
        self.end(&table.notes)
    }

    /// Begins a table whose rows come one by one. `widths`: of the columns, where the eye wants them aligned;
    /// none where there are no rows.
    pub fn begin(&mut self, head: Head, widths: Vec<usize>) -> Result<()> {
        let between = self.tables > 0;
        match self.format {
            Format::Table => {
                if between {
                    writeln!(self.out)?;
                }
                let (on, off) = if self.colored { ("\x1b[1m", "\x1b[0m") } else { ("", "") };
                writeln!(self.out, "{on}{}{off}", head.title)?;
                self.widths = widths;
                if head.layout == Layout::Grid && !self.widths.is_empty() {
                    let headings: Vec<Cell> = head
                        .columns
                        .iter()
                        .map(|c| name_in_unit(self.unit, c, c.heading).into_owned().into())
                        .collect();
                    self.line(&headings)?;
                    let rules: Vec<Cell> = self.widths.iter().map(|width| "-".repeat(*width).into()).collect();
                    self.line(&rules)?;
                }
            }
            Format::Csv => {
                if between {
                    writeln!(self.out)?;
                }
                if self.many {
                    writeln!(self.out, "# {}", [head.report, head.part].join(" ").trim_end())?;
                }
                let headings: Vec<String> = head
                    .columns
                    .iter()
                    .map(|column| csv(&name_in_unit(self.unit, column, column.key)).into_owned())
                    .collect();
                writeln!(self.out, "{}", headings.join(","))?;
            }
            Format::Json => {
                let comma = if between { "," } else { "" };
                write!(self.out, "{comma}{{\"report\":{}", json(head.report)?)?;
                if !head.part.is_empty() {
                    write!(self.out, ",\"table\":{}", json(head.part)?)?;
                }
                let keys: Vec<_> =
                    head.columns.iter().map(|column| name_in_unit(self.unit, column, column.key)).collect();
                write!(self.out, ",\"title\":{},\"columns\":{},\"rows\":[", json(head.title)?, json(&keys)?)?;
            }
        }
        (self.head, self.rows, self.tables) = (Some(head), 0, self.tables + 1);
        Ok(())
    }

    /// Writes a row of the table that was begun.
    pub fn row(&mut self, cells: &[Cell]) -> Result<()> {
        self.rows += 1;
        let Some(head) = self.head else { return Ok(()) };
        let scaled: Vec<Cell>;
        let cells = match self.unit {
            None => cells,
            Some(unit) => {
                scaled = head.columns.iter().zip(cells).map(|(column, cell)| unit.cell(column, cell)).collect();
                &scaled
            }
        };
        match (self.format, head.layout) {
            (Format::Table, Layout::List) => {
                // What comes behind is for scripts.
                let mut cells = cells.iter().take(LISTED).map(cell_text);
                writeln!(self.out, "{:>4}. {}", self.rows, cells.next().unwrap_or_default())?;
                cells.try_for_each(|cell| writeln!(self.out, "      {cell}"))?;
            }
            (Format::Table, Layout::Grid | Layout::Facts) => self.line(cells)?,
            (Format::Csv, _) => {
                let cells: Vec<String> = cells.iter().map(raw).collect();
                writeln!(self.out, "{}", cells.join(","))?;
            }
            (Format::Json, _) => {
                let comma = if self.rows > 1 { "," } else { "" };
                write!(self.out, "{comma}{}", json(&Row(head.columns, cells, self.unit))?)?;
            }
        }
        Ok(())
    }

    /// Ends the table with notes, which CSV leaves out.
    pub fn end(&mut self, notes: &[String]) -> Result<()> {
        match self.format {
            Format::Table => {
                notes.iter().try_for_each(|note| writeln!(self.out, "  ({})", plain(note)))?;
            }
            // A note among the rows would be data.
            Format::Csv => {}
            Format::Json => write!(self.out, "],\"notes\":{}}}", json(notes)?)?,
        }
        Ok(())
    }

    /// Ends the output behind the last table.
    pub fn finish(mut self) -> Result<()> {
        if self.format == Format::Json {
            writeln!(self.out, "]}}")?;
        }
        Ok(self.out.flush()?)
    }

    fn widths_of(&self, table: &Table) -> Vec<usize> {
        if table.rows.is_empty() {
            return Vec::new();
        }
        let columns = table.head.columns;
        let mut widths: Vec<usize> =
            columns.iter().map(|column| name_in_unit(self.unit, column, column.heading).width()).collect();
        for row in &table.rows {
            for ((width, cell), column) in widths.iter_mut().zip(row).zip(columns) {
                let text = self.unit.map_or_else(|| cell_text(cell), |unit| cell_text(&unit.cell(column, cell)));
                *width = text.width().max(*width);
            }
        }
        widths
    }

    /// Numbers to the right, text to the left; the last column as long as it is.
    fn line(&mut self, cells: &[Cell]) -> Result<()> {
        let last = cells.len().saturating_sub(1);
        for (index, cell) in cells.iter().enumerate() {
            let (text, width) = (cell_text(cell), self.widths.get(index).copied().unwrap_or(0));
            let space = " ".repeat(width.saturating_sub(text.width()));
            match cell {
                Cell::Text(_) | Cell::Word { .. } | Cell::None if index == last => write!(self.out, "  {text}")?,
                Cell::Text(_) | Cell::Word { .. } => write!(self.out, "  {text}{space}")?,
                _ => write!(self.out, "  {space}{text}")?,
            }
        }
        Ok(writeln!(self.out)?)
    }
}

fn name_in_unit(unit: Option<Unit>, column: &Column, name: &'static str) -> Cow<'static, str> {
    unit.map_or(Cow::Borrowed(name), |unit| unit.column_name(column, name))
}

/// For the eye. Names in a trace are anybody's: nothing gets hold of the terminal.
fn cell_text(cell: &Cell) -> String {
    match cell {
        Cell::None => "-".into(),
        Cell::Text(text) => plain(text).into_owned(),
        Cell::Word { shown, .. } => (*shown).to_owned(),
        Cell::Count(n) => grouped(*n),
        Cell::Number(n) => n.to_string(),
        Cell::Time(ns) => duration(*ns),
        Cell::Nanoseconds(ns) if *ns < 0 => format!("-{}", grouped(ns.unsigned_abs())),
        Cell::Nanoseconds(ns) => grouped(*ns as u64),
        Cell::Bytes(bytes) => size(*bytes),
        Cell::Rate(rate) => format!("{}/s", size(*rate as u64)),
        Cell::Percent(x) => format!("{x:.1}"),
        Cell::Real(x) => real(*x),
        Cell::Fine(x) => format!("{x:.3}"),
        Cell::Decimal(x, digits) => format!("{x:.digits$}"),
    }
}

fn raw(cell: &Cell) -> String {
    match cell {
        Cell::None => String::new(),
        Cell::Text(text) => csv(&plain(text)).into_owned(),
        Cell::Word { raw, .. } => (*raw).to_owned(),
        Cell::Count(n) | Cell::Number(n) | Cell::Bytes(n) => n.to_string(),
        Cell::Time(ns) | Cell::Nanoseconds(ns) => ns.to_string(),
        Cell::Rate(rate) => format!("{rate:.0}"),
        Cell::Percent(x) | Cell::Real(x) => format!("{x:.1}"),
        Cell::Fine(x) => format!("{x:.3}"),
        Cell::Decimal(x, digits) => format!("{x:.digits$}"),
    }
}

fn json(value: &(impl Serialize + ?Sized)) -> Result<String> {
    Ok(crate::text::json::text(value)?)
}

struct Row<'x>(&'x [Column], &'x [Cell], Option<Unit>);

impl Serialize for Row<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(Some(self.1.len()))?;
        for (column, cell) in self.0.iter().zip(self.1) {
            let key = &*name_in_unit(self.2, column, column.key);
            match cell {
                Cell::None => map.serialize_entry(key, &()),
                Cell::Text(text) => map.serialize_entry(key, text),
                Cell::Word { raw, .. } => map.serialize_entry(key, raw),
                Cell::Count(n) | Cell::Number(n) | Cell::Bytes(n) => map.serialize_entry(key, n),
                Cell::Time(ns) | Cell::Nanoseconds(ns) => map.serialize_entry(key, ns),
                Cell::Rate(rate) => map.serialize_entry(key, &rate.round()),
                Cell::Percent(x) | Cell::Real(x) => map.serialize_entry(key, &((x * 10.0).round() / 10.0)),
                Cell::Fine(x) => map.serialize_entry(key, &((x * 1000.0).round() / 1000.0)),
                Cell::Decimal(x, _) => map.serialize_entry(key, x),
            }?;
        }
        map.end()
    }
}
