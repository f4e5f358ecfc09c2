//! Rows on their way into a file, column by column, a batch of a table at a time.

use super::schema::{Column, Kind, Table};
use analysis::error::Result;

/// A value in a column of a row.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) enum Cell<'x> {
    /// No value, NULL in a database.
    #[default]
    None,
    /// Also a number of a name in the table of strings.
    Integer(i64),
    /// A floating-point value.
    Real(f64),
    /// A text within the row.
    Text(&'x str),
}

impl From<i64> for Cell<'_> {
    fn from(value: i64) -> Self {
        Cell::Integer(value)
    }
}

impl From<u32> for Cell<'_> {
    fn from(value: u32) -> Self {
        Cell::Integer(value.into())
    }
}

/// Beyond 2^63 it stands as the negative number of the same bits: both formats have integers of 64 bits with
/// a sign.
impl From<u64> for Cell<'_> {
    fn from(value: u64) -> Self {
        Cell::Integer(value as i64)
    }
}

impl From<f64> for Cell<'_> {
    fn from(value: f64) -> Self {
        Cell::Real(value)
    }
}

impl<'x> From<&'x str> for Cell<'x> {
    fn from(text: &'x str) -> Self {
        Cell::Text(text)
    }
}

impl<'x, T: Into<Cell<'x>>> From<Option<T>> for Cell<'x> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Cell::None, Into::into)
    }
}

/// The values of a column that are not NULL.
#[derive(Debug)]
pub enum Values {
    /// Values of an integer column.
    Integer(Vec<i64>),
    /// Values of a floating-point column.
    Real(Vec<f64>),
    /// Values of a text column.
    Text(Vec<String>),
}

/// One column of a batch.
#[derive(Debug)]
pub struct Filled {
    /// Name and kind of the column.
    pub column: Column,
    /// By row: whether it has a value.
    pub present: Vec<bool>,
    /// The values of those rows that have one, in their order.
    pub values: Values,
}

/// Rows of one table.
pub struct Batch {
    /// The table to which the rows belong.
    pub table: Table,
    /// One entry for each column that the store writes.
    pub columns: Vec<Filled>,
    /// Number of rows.
    pub rows: usize,
    /// Bytes of its texts.
    texts: usize,
    /// Cells of a row that is given, also of columns that are not written.
    width: usize,
}

impl Batch {
    fn new<S: Store>(table: Table) -> Batch {
        let filled = |column: Column| {
            let values = match column.kind {
                Kind::Integer => Values::Integer(Vec::new()),
                Kind::Real => Values::Real(Vec::new()),
                Kind::Text => Values::Text(Vec::new()),
            };
            Filled { column, present: Vec::new(), values }
        };
        // Added columns are the last ones.
        let columns = table.columns().filter(|column| S::ADDED || !column.is_added);
        Batch { table, columns: columns.map(filled).collect(), rows: 0, texts: 0, width: table.columns().count() }
    }

    fn add(&mut self, cells: &[Cell]) {
        assert_eq!(cells.len(), self.width, "{}", self.table.name());
        self.rows += 1;
        for (filled, cell) in self.columns.iter_mut().zip(cells) {
            filled.present.push(*cell != Cell::None);
            match (&mut filled.values, *cell) {
                (_, Cell::None) => {
                    debug_assert!(!filled.column.is_required, "{} {}", self.table.name(), filled.column.name);
                }
                (Values::Integer(values), Cell::Integer(value)) => values.push(value),
                (Values::Real(values), Cell::Real(value)) => values.push(value),
                (Values::Text(values), Cell::Text(text)) => {
                    self.texts += text.len();
                    values.push(text.to_owned());
                }
                (values, cell) => unreachable!("{cell:?} among {values:?}"),
            }
        }
    }
}

/// A row whose type names its table, with its cells in the order of the columns.
pub(crate) trait Row<'x> {
    const TABLE: Table;

    fn cells(self) -> impl AsRef<[Cell<'x>]>;
}

/// The destination of batches.
pub trait Store {
    /// Whether added columns are written, too.
    const ADDED: bool;

    /// Of each table one after the other; a table of which none comes is not there.
    fn write_batch(&mut self, batch: &Batch) -> Result<()>;
}

/// Rows that are held before they are written.
const HELD: usize = 1 << 17;
/// And bytes of their texts, which may be long: a page of Parquet's must not reach 2 GiB.
const HELD_TEXTS: usize = 16 << 20;

pub(crate) struct Rows<S> {
    pub(crate) store: S,
    held: Vec<Batch>,
}

impl<S: Store> Rows<S> {
    pub(crate) fn new(store: S) -> Rows<S> {
        Rows { store, held: Table::all().map(Batch::new::<S>).collect() }
    }

    pub(crate) fn add_row<'x, R: Row<'x>>(&mut self, row: R) -> Result<()> {
        self.add(R::TABLE, row.cells().as_ref())
    }

    /// Of a table of labels: the number, the name, the label.
    pub(crate) fn label(&mut self, table: Table, cells: [Cell; 3]) -> Result<()> {
        self.add(table, &cells)
    }

    fn add(&mut self, table: Table, cells: &[Cell]) -> Result<()> {
        let batch = &mut self.held[table as usize];
        batch.add(cells);
        if batch.rows >= HELD || batch.texts >= HELD_TEXTS { self.write(table) } else { Ok(()) }
    }

    fn write(&mut self, table: Table) -> Result<()> {
        let batch = std::mem::replace(&mut self.held[table as usize], Batch::new::<S>(table));
        if batch.rows > 0 { self.store.write_batch(&batch) } else { Ok(()) }
    }

    /// Writes what is left, and gives the store back.
    pub(crate) fn finish(mut self) -> Result<S> {
        Table::all().try_for_each(|table| self.write(table))?;
        Ok(self.store)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Sizes(Vec<(usize, usize)>);

    impl Store for Sizes {
        const ADDED: bool = true;

        fn write_batch(&mut self, batch: &Batch) -> Result<()> {
            self.0.push((batch.rows, batch.texts));
            Ok(())
        }
    }

    #[test]
    fn long_texts_are_not_held() {
        let mut rows = Rows::new(Sizes(Vec::new()));
        let text = "x".repeat(1 << 20);
        for id in 0..40i64 {
            rows.label(Table::CopyKinds, [id.into(), Cell::Text(&text), Cell::Text("")]).expect("held");
        }
        assert_eq!(rows.finish().expect("written").0, [(16, 16 << 20), (16, 16 << 20), (8, 8 << 20)]);
    }
}
