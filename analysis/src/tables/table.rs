//! A table of a report: rows under headings, with notes for their interpretation.

/// A heading. `key` names the column in CSV and JSON, where values are plain: nanoseconds, bytes, counts.
#[derive(Debug, Clone, Copy)]
pub struct Column {
    /// The name in tables for the eye.
    pub heading: &'static str,
    /// The name in CSV and JSON, with its unit: `total_ns`.
    pub key: &'static str,
}

/// A column of ours: a short heading in the table, a name with its unit elsewhere.
pub const fn column(heading: &'static str, key: &'static str) -> Column {
    Column { heading, key }
}

/// A column that is called the same everywhere, as those of Nsight Systems are.
pub const fn same(name: &'static str) -> Column {
    Column { heading: name, key: name }
}

/// A value of a table; its variant determines how it is printed.
#[derive(Debug, Clone, PartialEq)]
pub enum Cell {
    /// No value: `-` for the eye, empty in CSV, null in JSON.
    None,
    /// A text, which is escaped when it is printed.
    Text(String),
    /// One of a few things: words for the eye, and what they are called elsewhere.
    Word {
        /// The word in tables for the eye.
        shown: &'static str,
        /// The word in CSV and JSON.
        raw: &'static str,
    },
    /// A number of things, printed with grouped digits.
    Count(u64),
    /// The number of a call, or of a process.
    Number(u64),
    /// Nanoseconds, for the eye in a fitting unit.
    Time(i64),
    /// Nanoseconds under a heading that says so.
    Nanoseconds(i64),
    /// Bytes, for the eye in a fitting unit.
    Bytes(u64),
    /// Bytes a second.
    Rate(f64),
    /// Percent, from 0 to 100.
    Percent(f64),
    /// With one digit after the point.
    Real(f64),
    /// With three.
    Fine(f64),
    /// With so many.
    Decimal(f64, usize),
}

impl From<&str> for Cell {
    fn from(text: &str) -> Cell {
        Cell::Text(text.to_owned())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Cell {
        Cell::Text(text)
    }
}

impl<T: Into<Cell>> From<Option<T>> for Cell {
    fn from(cell: Option<T>) -> Cell {
        cell.map_or(Cell::None, Into::into)
    }
}

/// The layout of a table as text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// Columns under their headings.
    Grid,
    /// What, and how it is, in words ([`Table::facts`]); the rows are for scripts.
    Facts,
    /// Numbered: the first cell is the headline, the others stand below it.
    List,
}

/// The fixed part of a table.
#[derive(Debug, Clone, Copy)]
pub struct Head {
    /// Name of the report.
    pub report: &'static str,
    /// Tells the tables of one report apart; empty if there is only one.
    pub part: &'static str,
    /// Title of the table for the eye.
    pub title: &'static str,
    /// The columns from left to right.
    pub columns: &'static [Column],
    /// The layout for the eye.
    pub layout: Layout,
}

/// A table in memory.
#[derive(Debug, Clone)]
pub struct Table {
    /// Its title and columns.
    pub head: Head,
    /// The rows, each with one cell for each column.
    pub rows: Vec<Vec<Cell>>,
    /// What is shown of a table that is laid out so.
    pub facts: Vec<(&'static str, String)>,
    /// Remarks below the table, which CSV leaves out.
    pub notes: Vec<String>,
}

impl Table {
    /// A table without rows.
    pub fn new(head: Head) -> Table {
        Table { head, rows: Vec::new(), facts: Vec::new(), notes: Vec::new() }
    }

    /// Appends a row; the number of cells must be the number of columns.
    pub fn row(&mut self, cells: impl Into<Vec<Cell>>) {
        let cells = cells.into();
        debug_assert_eq!(cells.len(), self.head.columns.len(), "{} {}", self.head.report, self.head.part);
        self.rows.push(cells);
    }

    /// Appends a note.
    pub fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }

    /// Keeps the first rows, and says how many more there were. What is no list is kept whole.
    pub fn limit(&mut self, most: u64) {
        if self.head.layout == Layout::Facts {
            return;
        }
        let more = (self.rows.len() as u64).saturating_sub(most);
        if more > 0 {
            self.rows.truncate(most as usize);
            self.notes.insert(0, format!("and {} more", crate::text::figures::counted(more, "row")));
        }
    }
}
