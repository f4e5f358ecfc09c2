//! Standard output of a command. If its reader closes it early (`| head`), the rest of the output is dropped,
//! and the exit status stays the one that the command would have had.

use analysis::text::json::write_pretty;
use serde::Serialize;
use std::io::{self, StdoutLock, Write};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

static UNREAD: AtomicBool = AtomicBool::new(false);

/// Whether the reader has gone: what is made for it alone need not be made any more.
pub(crate) fn are_unread() -> bool {
    UNREAD.load(Relaxed)
}

pub(crate) struct Results(StdoutLock<'static>);

impl Results {
    pub(crate) fn begin() -> Results {
        Results(io::stdout().lock())
    }
}

impl Write for Results {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        unless_unread(bytes.len(), || self.0.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        unless_unread((), || self.0.flush())
    }
}

/// A JSON document of its own, with a line break behind it.
pub(crate) fn print_json(value: &impl Serialize) -> anyhow::Result<()> {
    let mut out = Results::begin();
    write_pretty(&mut out, value)?;
    writeln!(out)?;
    Ok(out.flush()?)
}

fn unless_unread<T>(dropped: T, write: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    if are_unread() {
        return Ok(dropped);
    }
    match write() {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
            UNREAD.store(true, Relaxed);
            Ok(dropped)
        }
        written => written,
    }
}
