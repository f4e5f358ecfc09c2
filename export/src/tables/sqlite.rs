//! Rows, written to an SQLite file in one transaction.

use super::nsys::rows::{Batch, Store, Values};
use super::nsys::schema::{Kind, Table};
use analysis::error::{Error, Result};
use rusqlite::Connection;
use std::path::Path;

/// A store that writes an SQLite database.
pub struct Sqlite {
    to: Connection,
    made: [bool; Table::COUNT],
}

impl Sqlite {
    /// `path`: of an empty file. Nobody reads it before it is whole, and one that is cut short is removed:
    /// it needs no journal.
    pub fn create(path: &Path) -> rusqlite::Result<Sqlite> {
        let to = Connection::open(path)?;
        to.execute_batch(
            "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA locking_mode = EXCLUSIVE; BEGIN;",
        )?;
        Ok(Sqlite { to, made: [false; Table::COUNT] })
    }

    fn make(&mut self, table: Table) -> rusqlite::Result<()> {
        let columns: Vec<String> = table
            .columns()
            .filter(|column| !column.is_added)
            .map(|column| {
                let kind = match column.kind {
                    Kind::Integer => "INTEGER",
                    Kind::Real => "REAL",
                    Kind::Text => "TEXT",
                };
                // Strings and labels are looked up by their numbers.
                let rule = match (column.name, column.is_required) {
                    ("id", true) => " NOT NULL PRIMARY KEY",
                    (_, true) => " NOT NULL",
                    _ => "",
                };
                format!("\"{}\" {kind}{rule}", column.name)
            })
            .collect();
        self.to.execute_batch(&format!("CREATE TABLE {} ({})", table.name(), columns.join(", ")))?;
        Ok(())
    }

    /// Everything is in the file then.
    pub fn finish(self) -> rusqlite::Result<()> {
        self.to.execute_batch("COMMIT")?;
        self.to.close().map_err(|(_, error)| error)?;
        Ok(())
    }

    fn insert(&mut self, batch: &Batch) -> rusqlite::Result<()> {
        if !std::mem::replace(&mut self.made[batch.table as usize], true) {
            self.make(batch.table)?;
        }
        let places = vec!["?"; batch.columns.len()].join(",");
        let mut insert = self.to.prepare(&format!("INSERT INTO {} VALUES ({places})", batch.table.name()))?;
        // How many of a column's values are in rows before this one.
        let mut before = vec![0; batch.columns.len()];
        for row in 0..batch.rows {
            for (at, (filled, before)) in batch.columns.iter().zip(&mut before).enumerate() {
                let place = at + 1;
                if !filled.present[row] {
                    insert.raw_bind_parameter(place, rusqlite::types::Null)?;
                    continue;
                }
                match &filled.values {
                    Values::Integer(values) => insert.raw_bind_parameter(place, values[*before])?,
                    Values::Real(values) => insert.raw_bind_parameter(place, values[*before])?,
                    Values::Text(values) => insert.raw_bind_parameter(place, values[*before].as_str())?,
                }
                *before += 1;
            }
            insert.raw_execute()?;
        }
        Ok(())
    }
}

impl Store for Sqlite {
    const ADDED: bool = false;

    fn write_batch(&mut self, batch: &Batch) -> Result<()> {
        self.insert(batch).map_err(|error| Error::Format(error.into()))
    }
}
