//! Where an export goes: under a name of its own until it is whole.

use crate::exit::{FAILED, USAGE, failure, say};
use crate::signals;
use anyhow::{Context, Result};
use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;

pub enum Sink {
    Stdout(BufWriter<io::Stdout>),
    File { temporary: BufWriter<NamedTempFile>, path: PathBuf, force: bool },
}

const BUFFER: usize = 1 << 18;

impl Sink {
    /// `binary`: nothing for a terminal. `source`: what is being read, and must not be replaced.
    pub fn create(path: &Path, force: bool, binary: bool, source: &Path) -> Result<Sink> {
        if path == Path::new("-") {
            if binary && io::stdout().is_terminal() {
                return Err(failure(USAGE, "-o -: this format is binary and stdout is a terminal; give a file"));
            }
            return Ok(Sink::Stdout(BufWriter::with_capacity(BUFFER, io::stdout())));
        }
        let shown = path.display();
        let file = |path: &Path| std::fs::metadata(path).map(|found| (found.dev(), found.ino())).ok();
        match file(path) {
            Some(found) if Some(found) == file(source) => {
                return Err(failure(USAGE, format_args!("-o {shown}: that is the trace itself")));
            }
            Some(_) if !force => {
                return Err(failure(FAILED, format_args!("{shown} exists already; --force replaces it")));
            }
            _ => {}
        }
        let directory = path.parent().filter(|parent| *parent != Path::new("")).unwrap_or(Path::new("."));
        let name = path.file_name().context(format!("-o {shown}: not the name of a file"))?;
        let mut prefix = std::ffi::OsString::from(".");
        prefix.push(name);
        prefix.push(".");
        // Mode 0600, as a trace: it holds the application's data.
        let temporary = tempfile::Builder::new().prefix(&prefix).suffix(".partial").tempfile_in(directory);
        let temporary = temporary.with_context(|| format!("{}: cannot be written to", directory.display()))?;
        let partial = temporary.path().to_path_buf();
        signals::on_interruption(move |signal| {
            let _gone_already = std::fs::remove_file(&partial);
            say(format_args!("interrupted by {signal}; nothing was written"));
        });
        let temporary = BufWriter::with_capacity(BUFFER, temporary);
        Ok(Sink::File { temporary, path: path.to_path_buf(), force })
    }

    /// Puts the file into its place.
    pub fn finish(self) -> Result<()> {
        match self {
            Sink::Stdout(mut out) => Ok(out.flush()?),
            Sink::File { temporary, path, force } => {
                let shown = path.display().to_string();
                let temporary =
                    temporary.into_inner().map_err(io::IntoInnerError::into_error).context(shown.clone())?;
                let put: Result<File, tempfile::PersistError> =
                    if force { temporary.persist(&path) } else { temporary.persist_noclobber(&path) };
                put.map_err(|error| error.error).context(shown)?;
                Ok(())
            }
        }
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Sink::Stdout(out) => out.write(bytes),
            Sink::File { temporary, .. } => temporary.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Sink::Stdout(out) => out.flush(),
            Sink::File { temporary, .. } => temporary.flush(),
        }
    }
}
