//! What is read if no file is named: the latest trace of this directory. A recording does not replace
//! `trace.bin`.

use crate::exit::{UNREADABLE, failure, say};
use crate::layout;
use anyhow::Result;
use clap::Args;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;
use trace::{Error, Trace};

const DEFAULT: &str = "trace.bin";

#[derive(Args)]
pub struct File {
    /// The trace [default: the latest here of trace.bin, trace.1.bin, ...]
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
}

#[derive(Args)]
pub struct Files {
    /// The trace, or more than one [default: the latest here of trace.bin, trace.1.bin, ...]
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
}

impl File {
    pub fn path(&self) -> Result<PathBuf> {
        self.file.clone().map_or_else(latest, Ok)
    }

    pub fn open(&self) -> Result<Trace> {
        Ok(Trace::open(self.path()?)?)
    }
}

impl Files {
    pub fn paths(&self) -> Result<Vec<PathBuf>> {
        if self.files.is_empty() { Ok(vec![latest()?]) } else { Ok(self.files.clone()) }
    }
}

/// A trace by its default name.
struct Found {
    /// Its number; 0 for `trace.bin`.
    number: u64,
    name: String,
    /// When the recording began, in nanoseconds since 1970; of what cannot be read, when the file was
    /// changed.
    begun: u64,
    /// What the traces of one `cutrace record` have in common.
    session: Option<String>,
}

/// The one that was begun last; of a recording of several processes the first.
fn latest() -> Result<PathBuf> {
    let entries = std::fs::read_dir(".").into_iter().flatten().flatten();
    let mut all: Vec<Found> = entries.filter_map(|entry| Found::of(entry.file_name().into_string().ok()?)).collect();
    all.sort_by_key(|found| (found.begun, found.number));
    let Some(last) = all.last() else {
        let why = "name a trace, or make one: cutrace record PROGRAM";
        return Err(failure(UNREADABLE, format_args!("no file is named, and there is no {DEFAULT} here; {why}")));
    };
    let is_beside = |found: &&Found| found.session.is_some() && found.session == last.session;
    let found = all.iter().find(is_beside).unwrap_or(last);
    if found.number != 0 && layout::is_first() {
        say(format_args!("no file is named: reading {}, the latest of {} traces here", found.name, all.len()));
    }
    Ok(PathBuf::from(&found.name))
}

impl Found {
    fn of(name: String) -> Option<Found> {
        let number = match name.strip_prefix("trace.")?.strip_suffix("bin")? {
            "" => 0,
            number => {
                number.strip_suffix('.').filter(|digits| digits.bytes().all(|b| b.is_ascii_digit()))?.parse().ok()?
            }
        };
        let path = Path::new(&name);
        let preamble = match Trace::preamble_of(path) {
            // A broken one is meant, too; a directory, or a link to something else, is not.
            Err(Error::NotAFile { .. }) => return None,
            Err(_) if path.is_symlink() => return None,
            preamble => preamble.ok(),
        };
        let changed = || path.metadata().ok()?.modified().ok()?.duration_since(UNIX_EPOCH).ok();
        let begun = match &preamble {
            Some(preamble) => preamble.created,
            None => changed().map_or(0, |since| since.as_nanos() as u64),
        };
        let variables = preamble.map_or_else(Vec::new, |preamble| preamble.environment);
        let session = variables.into_iter().find(|(name, _)| name == "CUTRACE_SESSION").map(|(_, value)| value);
        Some(Found { number, name, begun, session })
    }
}
