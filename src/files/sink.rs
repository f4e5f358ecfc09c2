//! The output of an export: stdout, or a file that gets its name when it is complete; compressed if the name
//! ends in .gz.

use crate::files::output::Output;
use crate::process::signals;
use crate::terminal::exit::{USAGE, failure, say_last};
use crate::terminal::standard_output::Results;
use anyhow::{Context, Result};
use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::Path;
use std::sync::{LockResult, Mutex, MutexGuard};

pub(crate) enum Sink {
    Stdout(BufWriter<Results>),
    File(BufWriter<Output>),
    Packed(BufWriter<GzEncoder<Output>>),
}

const BUFFER: usize = 1 << 18;

/// Whether what is written there is to be compressed.
pub(crate) fn is_packed(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "gz")
}

/// Held by whoever removes what was begun, adds to it, or puts it into its place.
static BEGUN: Mutex<()> = Mutex::new(());

/// Of what is to be removed when a signal comes: while something is added to it.
pub(crate) fn hold() -> LockResult<MutexGuard<'static, ()>> {
    BEGUN.lock()
}

/// What was begun, when a signal ends this process; and the directory that was made for it, if nothing else
/// is in there.
pub(crate) fn remove_when_interrupted(partial: &Path, directory: Option<&Path>) {
    let (partial, directory) = (partial.to_path_buf(), directory.map(Path::to_path_buf));
    signals::on_interruption(move |signal| {
        let _until_the_end = hold();
        let _gone_already = match partial.is_dir() {
            true => std::fs::remove_dir_all(&partial),
            false => std::fs::remove_file(&partial),
        };
        let _others_in_it = directory.as_ref().map(std::fs::remove_dir);
        say_last(format_args!("interrupted by {signal}; nothing was written"));
    });
}

/// A signal that comes from now on changes nothing: what was begun gets its name, and this process ends soon.
pub(crate) fn finish_when_interrupted() {
    std::mem::forget(hold());
}

impl Sink {
    /// `binary`: nothing for a terminal. `source`: what is being read, and must not be replaced.
    pub(crate) fn create(path: &Path, force: bool, binary: bool, source: &Path) -> Result<Sink> {
        if path == Path::new("-") {
            if binary && io::stdout().is_terminal() {
                return Err(failure(USAGE, "-o -: this format is binary and stdout is a terminal; give a file"));
            }
            return Ok(Sink::Stdout(BufWriter::with_capacity(BUFFER, Results::begin())));
        }
        let output = Output::create("-o", path, force, source)?;
        remove_when_interrupted(output.partial(), None);
        Ok(match is_packed(path) {
            // Of the levels the fastest: an export is as long as the trace.
            true => Sink::Packed(BufWriter::with_capacity(BUFFER, GzEncoder::new(output, Compression::fast()))),
            false => Sink::File(BufWriter::with_capacity(BUFFER, output)),
        })
    }

    /// Puts the file into its place.
    pub(crate) fn finish(self) -> Result<()> {
        match self {
            Sink::Stdout(mut out) => Ok(out.flush()?),
            Sink::File(out) => {
                let shown = out.get_ref().path().display().to_string();
                let output = out.into_inner().map_err(io::IntoInnerError::into_error).context(shown)?;
                finish_when_interrupted();
                output.finish()
            }
            Sink::Packed(out) => {
                let shown = out.get_ref().get_ref().path().display().to_string();
                let packed = out.into_inner().map_err(io::IntoInnerError::into_error).context(shown.clone())?;
                let output = packed.finish().context(shown)?;
                finish_when_interrupted();
                output.finish()
            }
        }
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Sink::Stdout(out) => out.write(bytes),
            Sink::File(out) => out.write(bytes),
            Sink::Packed(out) => out.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Sink::Stdout(out) => out.flush(),
            Sink::File(out) => out.flush(),
            Sink::Packed(out) => out.flush(),
        }
    }
}
