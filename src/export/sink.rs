//! Where an export goes: to stdout, or under a name of its own until it is whole.

use crate::exit::{USAGE, failure, say};
use crate::output::Output;
use crate::results::Results;
use crate::signals;
use anyhow::{Context, Result};
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::Path;

pub enum Sink {
    Stdout(BufWriter<Results>),
    File(BufWriter<Output>),
}

const BUFFER: usize = 1 << 18;

/// What was begun, when a signal ends this process.
pub fn remove_when_interrupted(partial: &Path) {
    let partial = partial.to_path_buf();
    signals::on_interruption(move |signal| {
        let _gone_already = match partial.is_dir() {
            true => std::fs::remove_dir_all(&partial),
            false => std::fs::remove_file(&partial),
        };
        say(format_args!("interrupted by {signal}; nothing was written"));
    });
}

impl Sink {
    /// `binary`: nothing for a terminal. `source`: what is being read, and must not be replaced.
    pub fn create(path: &Path, force: bool, binary: bool, source: &Path) -> Result<Sink> {
        if path == Path::new("-") {
            if binary && io::stdout().is_terminal() {
                return Err(failure(USAGE, "-o -: this format is binary and stdout is a terminal; give a file"));
            }
            return Ok(Sink::Stdout(BufWriter::with_capacity(BUFFER, Results::begin())));
        }
        let output = Output::create("-o", path, force, source)?;
        remove_when_interrupted(output.partial());
        Ok(Sink::File(BufWriter::with_capacity(BUFFER, output)))
    }

    /// Puts the file into its place.
    pub fn finish(self) -> Result<()> {
        match self {
            Sink::Stdout(mut out) => Ok(out.flush()?),
            Sink::File(out) => {
                let shown = out.get_ref().path().display().to_string();
                out.into_inner().map_err(io::IntoInnerError::into_error).context(shown)?.finish()
            }
        }
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Sink::Stdout(out) => out.write(bytes),
            Sink::File(out) => out.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Sink::Stdout(out) => out.flush(),
            Sink::File(out) => out.flush(),
        }
    }
}
