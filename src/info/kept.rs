//! What `info` says of a long trace, kept beside it (`trace.bin.info`) or where the viewer's index would go.
//!
//! ```text
//! magic "CUTRINF\n" | checksum u64 of the rest | bincode(Stamp) | bincode(Known) | bincode(Told)
//! ```
//!
//! It is a copy of what the trace says and can be deleted. It counts only for a trace of the same [`Key`],
//! and for the build that made it: another one may judge otherwise. Anything that does not agree is made
//! anew.

use crate::exit::say;
use crate::info::summary::Told;
use bincode::{Decode, Encode};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use trace::Trace;
use trace::base::hash::checksum;
use trace::file::preamble::{decode, encode};
use trace::file::record::Ended;
use trace::read::summary::Known;
use viewer::data::kept::{self, Kind};
use viewer::data::store::Key;

const MAGIC: [u8; 8] = *b"CUTRINF\n";
const KIND: Kind = Kind { suffix: "info", begins: &MAGIC };
const HEADER: usize = MAGIC.len() + size_of::<u64>();
/// Traces of fewer calls are read about as fast as what is kept of them.
pub const LONG: usize = 100_000;
/// What is longer was not written by [`Kept::keep`].
const LONGEST: u64 = 256 << 20;

#[derive(Encode, Decode, PartialEq, Eq)]
struct Stamp {
    build: Build,
    key: Key,
}

/// The program that wrote it.
#[derive(Encode, Decode, PartialEq, Eq)]
struct Build {
    version: String,
    bytes: u64,
    /// Nanoseconds since 1970.
    modified: i128,
}

impl Build {
    fn own() -> Option<Build> {
        let about = fs::metadata("/proc/self/exe").ok()?;
        let modified = i128::from(about.mtime()) * 1_000_000_000 + i128::from(about.mtime_nsec());
        Some(Build { version: env!("CARGO_PKG_VERSION").into(), bytes: about.len(), modified })
    }
}

/// The trace without its calls, and what was told of it.
pub fn find(path: &Path) -> Option<(Trace, Told)> {
    let files = kept::places(path, &KIND).into_iter().filter(|place| KIND.is_at(place));
    let files: Vec<PathBuf> = files.collect();
    if files.is_empty() {
        return None;
    }
    let own = Stamp { build: Build::own()?, key: Key::from_path(path).ok()? };
    for file in files {
        match read(&file, &own) {
            Ok(Some((known, told))) => return Some((Trace::open_known(path, known).ok()?, told)),
            // Of another trace by this name, or another build: nobody has to know.
            Ok(None) => {}
            Err(why) => say(format_args!("{}: {why}: the trace is read instead", file.display())),
        }
    }
    None
}

/// None if it is not of this trace, or not of this build.
fn read(file: &Path, own: &Stamp) -> Result<Option<(Known, Told)>, String> {
    const DAMAGED: &str = "what was kept of the trace is damaged";
    let mut bytes = Vec::new();
    let opened = File::open(file).and_then(|file| file.take(LONGEST).read_to_end(&mut bytes));
    opened.map_err(|error| error.to_string())?;
    let (header, rest) = bytes.split_at_checked(HEADER).ok_or(DAMAGED)?;
    let seal = checksum(rest).to_le_bytes();
    if header[..MAGIC.len()] != MAGIC || header[MAGIC.len()..] != seal {
        return Err(DAMAGED.into());
    }
    // Its layout is this build's only if this build wrote it.
    let stamp: Stamp = decode(rest).ok_or(DAMAGED)?;
    if stamp != *own {
        return Ok(None);
    }
    let kept: (Stamp, Known, Told) = decode(rest).ok_or(DAMAGED)?;
    Ok(Some((kept.1, kept.2)))
}

/// What is worth keeping of a trace that is closed, or about to be.
pub struct Kept {
    known: Known,
    told: Told,
}

impl Kept {
    /// None of a short trace, and where not all is told.
    pub fn of(trace: &Trace, told: &Told) -> Option<Kept> {
        (trace.len() >= LONG && told.is_all(trace)).then(|| Kept { known: trace.known_of_itself(), told: told.clone() })
    }

    /// Of a process of which this became known later.
    pub fn ended(mut self, ended: Option<Ended>) -> Kept {
        self.known.ended = ended.or(self.known.ended);
        self
    }

    /// `key`: of the trace as it was when it was read.
    pub fn keep(&self, path: &Path, key: Key) {
        let Some(build) = Build::own() else { return };
        let body = [encode(&Stamp { build, key }), encode(&self.known), encode(&self.told)].concat();
        let write = |mut file: File| -> io::Result<()> {
            file.write_all(&MAGIC)?;
            file.write_all(&checksum(&body).to_le_bytes())?;
            file.write_all(&body)
        };
        match kept::keep(path, &KIND, write) {
            Ok(at) => KIND.displaced(path, &at).into_iter().for_each(say),
            Err(error) => say(format_args!("what was found out about the trace was not kept: {error}")),
        }
    }
}
