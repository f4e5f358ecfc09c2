//! A table: its cells, the order of its rows, and the target of a row.

use crate::state::parts::scope::Basis;
use crate::state::parts::tab::Tab;
use crate::text::{bytes, duration, grouped, moment, percent};
use std::cmp::Ordering;

/// A cell: its text, and its sort key.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// A text, sorted by its letters.
    Text(String),
    /// A number of things.
    Count(u64),
    /// A length of time, ns.
    Time(u64),
    /// A number of bytes.
    Bytes(u64),
    /// A part and its whole, shown as a percentage.
    Share(u64, u64),
    /// Nanoseconds since the start of the trace.
    Moment(u64),
    /// From the first to the second: nanoseconds.
    Change(u64, u64),
    /// No value.
    None,
}

impl Value {
    /// The value as the table shows it.
    pub fn text(&self) -> String {
        match self {
            Value::Text(text) => text.clone(),
            Value::Count(n) => grouped(*n),
            Value::Time(ns) => duration(*ns),
            Value::Moment(ns) => moment(*ns, 1),
            Value::Bytes(n) => bytes(*n),
            Value::Share(part, whole) => percent(*part, *whole),
            Value::Change(before, after) => {
                let by = duration(before.abs_diff(*after));
                if after < before { format!("-{by}") } else { format!("+{by}") }
            }
            Value::None => "-".into(),
        }
    }

    pub(crate) fn is_number(&self) -> bool {
        !matches!(self, Value::Text(_))
    }

    fn order(&self, other: &Value) -> Ordering {
        let number = |value: &Value| match value {
            Value::Count(n) | Value::Time(n) | Value::Moment(n) | Value::Bytes(n) | Value::Share(n, _) => *n,
            Value::Change(before, after) => before.abs_diff(*after),
            Value::Text(_) | Value::None => 0,
        };
        match (self, other) {
            (Value::Text(a), Value::Text(b)) => b.cmp(a),
            (a, b) => number(a).cmp(&number(b)),
        }
    }
}

/// The target of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Lead {
    /// The row leads nowhere.
    #[default]
    Nowhere,
    /// The call with this number.
    Call(u32),
    /// The longest event of this name: work of a call, or an annotation.
    Slowest(u32, Option<u32>),
    /// What the object in the first cell was used by, beginning with the call that made it.
    Object(u32),
    /// A moment: its place among the marks.
    Mark(usize),
}

/// A row of a table.
#[derive(Debug, Clone, Default)]
pub struct Line {
    /// The cells by column.
    pub cells: Vec<Value>,
    /// The place to which the row leads.
    pub lead: Lead,
}

/// The contents of a table, in the order of its rows.
#[derive(Debug, Clone, Default)]
pub struct Table {
    /// The headings.
    pub columns: Vec<&'static str>,
    /// The column that takes what width is left.
    pub wide: usize,
    /// The rows as they are sorted.
    pub rows: Vec<Line>,
    /// What the figures mean, where that is not plain.
    pub note: &'static str,
    /// What it is of, for its title; and what it was made of.
    pub of: String,
    pub(crate) basis: Option<Basis>,
    /// Which it is, where that is not the view's own.
    pub tab: Option<Tab>,
    /// How busy devices were meanwhile.
    pub busy: Vec<String>,
    /// Cells of the wide column that were scrolled past.
    pub skipped: usize,
    /// The column that rows are sorted by.
    pub sorted: usize,
    /// Whether the order is the reverse of the column's usual one.
    pub reversed: bool,
    /// Not as it begins, but as somebody asked for.
    pub asked: bool,
}

impl Table {
    /// By the column that is chosen, the largest (of names: the first) on top.
    pub fn sort(&mut self) {
        let (column, reversed) = (self.sorted, self.reversed);
        self.rows.sort_by(|a, b| match (a.cells.get(column), b.cells.get(column)) {
            (Some(a), Some(b)) if reversed => a.order(b),
            (Some(a), Some(b)) => b.order(a),
            _ => Ordering::Equal,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_sorted_by_any_column() {
        let row = |(n, text): (u32, &str)| Line {
            cells: vec![Value::Count(n.into()), Value::Text(text.into())],
            lead: Lead::Call(n),
        };
        let mut table = Table { rows: [(3, "b"), (1, "c"), (2, "a")].map(row).to_vec(), ..Table::default() };
        let mut sorted = |column: usize, reversed: bool| {
            (table.sorted, table.reversed) = (column, reversed);
            table.sort();
            table.rows.iter().map(|row| row.lead).collect::<Vec<_>>()
        };
        assert_eq!(sorted(0, false), [3, 2, 1].map(Lead::Call));
        assert_eq!(sorted(1, false), [2, 3, 1].map(Lead::Call));
        assert_eq!(sorted(1, true), [1, 3, 2].map(Lead::Call));
    }
}
