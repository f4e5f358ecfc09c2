//! Tables as files of comma-separated values, one each, like Nsight Systems' own: plain numbers, and empty
//! fields for NULL.

use super::nsys::rows::{Batch, Store, Values};
use super::nsys::schema::Table;
use analysis::error::Result;
use std::fs::File;
use std::io::{BufWriter, IntoInnerError, Write};
use trace::show::text::csv;

/// The files of the tables; each is made by its name.
pub struct Csv<F> {
    create: F,
    files: [Option<BufWriter<File>>; Table::COUNT],
}

/// Of the files that there may be.
pub fn names() -> impl Iterator<Item = String> {
    Table::all().map(name)
}

fn name(table: Table) -> String {
    format!("{}.csv", table.name())
}

impl<F: FnMut(&str) -> Result<File>> Csv<F> {
    /// `create` opens the file of that name, when the table gets its first rows.
    pub fn new(create: F) -> Csv<F> {
        Csv { create, files: [const { None }; Table::COUNT] }
    }

    /// Bytes that were written, and the names of files that were not made.
    pub fn finish(self) -> Result<(u64, Vec<String>)> {
        let (mut bytes, mut others) = (0, Vec::new());
        for (table, file) in Table::all().zip(self.files) {
            match file {
                Some(file) => bytes += file.into_inner().map_err(IntoInnerError::into_error)?.metadata()?.len(),
                None => others.push(name(table)),
            }
        }
        Ok((bytes, others))
    }
}

impl<F: FnMut(&str) -> Result<File>> Store for Csv<F> {
    const ADDED: bool = false;

    fn write_batch(&mut self, batch: &Batch) -> Result<()> {
        let at = batch.table as usize;
        if self.files[at].is_none() {
            let mut file = BufWriter::new((self.create)(&name(batch.table))?);
            let names: Vec<&str> = batch.columns.iter().map(|filled| filled.column.name).collect();
            writeln!(file, "{}", names.join(","))?;
            self.files[at] = Some(file);
        }
        let Some(file) = &mut self.files[at] else { return Ok(()) };
        let mut before = vec![0; batch.columns.len()];
        for row in 0..batch.rows {
            for (at, (filled, before)) in batch.columns.iter().zip(&mut before).enumerate() {
                file.write_all(if at > 0 { b"," } else { b"" })?;
                if !filled.present[row] {
                    continue;
                }
                match &filled.values {
                    Values::Integer(values) => write!(file, "{}", values[*before])?,
                    Values::Real(values) => write!(file, "{}", values[*before])?,
                    Values::Text(values) => file.write_all(csv(&values[*before]).as_bytes())?,
                }
                *before += 1;
            }
            file.write_all(b"\n")?;
        }
        Ok(())
    }
}
