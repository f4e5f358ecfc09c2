//! A table as CSV: figures as plain numbers, times in nanoseconds.

use crate::state::parts::table_rows::{Table, Value};
use trace::show::text::csv as quoted;

impl Table {
    /// With a line of headings; in the order that is shown.
    pub fn csv(&self) -> String {
        let unit = |column: usize| match self.rows.first().and_then(|row| row.cells.get(column)) {
            Some(Value::Time(_) | Value::Moment(_) | Value::Change(..)) => " (ns)",
            Some(Value::Share(..)) => " (%)",
            _ => "",
        };
        let head = self.columns.iter().enumerate().map(|(n, name)| quoted(&format!("{name}{}", unit(n))).into_owned());
        let mut out = head.collect::<Vec<_>>().join(",");
        out.push('\n');
        for row in &self.rows {
            out.push_str(&row.cells.iter().map(cell).collect::<Vec<_>>().join(","));
            out.push('\n');
        }
        out
    }
}

fn cell(value: &Value) -> String {
    match value {
        Value::Text(text) => quoted(text).into_owned(),
        Value::Count(n) | Value::Time(n) | Value::Bytes(n) | Value::Moment(n) => n.to_string(),
        Value::Share(_, 0) | Value::None => String::new(),
        Value::Share(part, whole) => format!("{:.3}", *part as f64 / *whole as f64 * 100.0),
        Value::Change(before, after) => (i128::from(*after) - i128::from(*before)).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::table::{Lead, Line};

    #[test]
    fn figures_are_numbers_and_names_are_quoted() {
        let cells = vec![
            Value::Share(1, 3),
            Value::Time(1_234_567),
            Value::Count(2_000),
            Value::Change(9, 7),
            Value::None,
            Value::Text("a \"b\", c".into()),
        ];
        let columns = vec!["Time", "Total", "Calls", "Change", "Bytes", "Name"];
        let table = Table { columns, rows: vec![Line { cells, lead: Lead::Nowhere }], ..Table::default() };
        assert_eq!(
            table.csv(),
            "Time (%),Total (ns),Calls,Change (ns),Bytes,Name\n33.333,1234567,2000,-2,,\"a \"\"b\"\", c\"\n"
        );
    }
}
