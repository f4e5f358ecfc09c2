//! Tables as files of comma-separated values, one each, as Nsight Systems' own tables have them: plain
//! numbers, and nothing where it has no value.

use super::directories::Set;
use super::nsys::rows::{Batch, Store, Values};
use super::nsys::schema::Table;
use crate::exit::{FAILED, failure};
use anyhow::Result;
use std::fs::File;
use std::io::{BufWriter, IntoInnerError, Write};
use std::path::{Path, PathBuf};
use trace::show::text::csv;

/// A directory of them.
pub struct Csv {
    into: PathBuf,
    set: Set,
    files: [Option<BufWriter<File>>; Table::COUNT],
}

fn name(table: Table) -> String {
    format!("{}.csv", table.name())
}

impl Csv {
    /// Tables of another export are in the way there, all of them: the two would be taken for one.
    pub fn create(into: &Path, force: bool) -> Result<Csv> {
        let there = Table::all().map(|table| into.join(name(table))).find(|path| path.symlink_metadata().is_ok());
        if let Some(there) = there.filter(|_| !force) {
            return Err(failure(FAILED, format_args!("{} exists already; --force replaces it", there.display())));
        }
        let set = Set::create(into, force)?;
        Ok(Csv { into: into.to_path_buf(), set, files: [const { None }; Table::COUNT] })
    }

    /// Puts all into their places; bytes that were written.
    pub fn finish(self) -> Result<u64> {
        let (mut bytes, mut others) = (0, Vec::new());
        for (table, file) in Table::all().zip(self.files) {
            match file {
                Some(file) => bytes += file.into_inner().map_err(IntoInnerError::into_error)?.metadata()?.len(),
                None => others.push(self.into.join(name(table))),
            }
        }
        self.set.finish()?;
        others.iter().for_each(|path| _ = std::fs::remove_file(path));
        Ok(bytes)
    }
}

impl Store for Csv {
    const ADDED: bool = false;

    fn put(&mut self, batch: &Batch) -> Result<()> {
        let at = batch.table as usize;
        if self.files[at].is_none() {
            let mut file = BufWriter::new(self.set.file(name(batch.table).into())?);
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
