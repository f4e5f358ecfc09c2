//! Device memory, written to files at the stop or at the end.

use crate::options::Dump;
use crate::session::Session;
use crate::session::device_memory::read;
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;

/// HostWrites what was asked for, when all work has been waited for. What can spoil it is told to `warn`.
pub(crate) fn dump(session: &Session, dumps: &[Dump], warn: impl Fn(&str)) -> Result<(), (PathBuf, String)> {
    if dumps.is_empty() {
        return Ok(());
    }
    if session.placement.captures.any() {
        warn("a stream capture is active at the stop, so the replay cannot synchronise: memory is dumped as it is");
    }
    dumps.iter().try_for_each(|dump| write(session, dump).map_err(|why| (dump.path.clone(), why)))
}

fn write(session: &Session, Dump { range, file, .. }: &Dump) -> Result<(), String> {
    let Some(live) = session.placement.bound(range) else {
        return Err(format!("{:#x}..{:#x} is memory that the replay does not have", range.start, range.end));
    };
    let start = live.word();
    let mut file: &File = file;
    let mut written = Ok(());
    let read = read(session, start..start + (range.end - range.start), |bytes| {
        if written.is_ok() {
            written = file.write_all(bytes);
        }
    });
    match (read, written) {
        (Ok(()), Ok(())) => Ok(()),
        (Err(failure), _) => Err(format!("{:#x}..{:#x}: cannot read: {failure}", range.start, range.end)),
        (_, Err(error)) => Err(error.to_string()),
    }
}
