//! Bytes that the trace does not hold but names by a file, an offset and their hash.
//!
//! A trace is untrusted, and could name any file of the user who reads it. So only files that the user names
//! are opened, and their bytes count only if they have the recorded hash.

use crate::base::hash::Hash;
use crate::file::record::{Referenced, Referred};
use bincode::{Decode, Encode};
use memmap2::Mmap;
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// A file that the trace names, in its state at the recording.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Encode, Decode)]
pub struct Source {
    /// Path of the file in the recorded process.
    pub path: String,
    /// Bytes of the file.
    pub size: u64,
    /// When it was last changed, in nanoseconds since 1970.
    pub modified: i64,
}

struct Piece {
    source: usize,
    offset: u64,
    len: u64,
}

impl Piece {
    fn slice<'f>(&self, file: &'f [u8]) -> Option<&'f [u8]> {
        file.get(usize::try_from(self.offset).ok()?..usize::try_from(self.offset.checked_add(self.len)?).ok()?)
    }
}

#[derive(Default)]
pub(crate) struct References {
    sources: Vec<Source>,
    numbers: HashMap<Source, usize>,
    pieces: HashMap<Hash, Piece>,
    /// Files all of whose pieces are what they were, by source.
    followed: HashMap<usize, Mmap>,
}

impl References {
    pub(crate) fn extend(&mut self, records: impl IntoIterator<Item = Referenced>) {
        for Referenced { path, size, modified, pieces } in records {
            let source = Source { path, size, modified };
            let number = *self.numbers.entry(source.clone()).or_insert(self.sources.len());
            if number == self.sources.len() {
                self.sources.push(source);
            }
            for Referred { hash, offset, len } in pieces {
                self.pieces.entry(Hash::from_bytes(hash)).or_insert(Piece { source: number, offset, len });
            }
        }
    }

    /// As they stand in a trace: one for each file.
    pub(crate) fn records(&self) -> Vec<Referenced> {
        let by_source = self.by_source(|_| true);
        let record = |(number, pieces): (usize, Vec<(Hash, &Piece)>)| {
            let Source { path, size, modified } = self.sources[number].clone();
            let referred = |(hash, piece): (Hash, &Piece)| Referred {
                hash: hash.to_bytes(),
                offset: piece.offset,
                len: piece.len,
            };
            Referenced { path, size, modified, pieces: pieces.into_iter().map(referred).collect() }
        };
        by_source.into_iter().map(record).collect()
    }

    pub(crate) fn names(&self, hash: Hash) -> bool {
        self.pieces.contains_key(&hash)
    }

    pub(crate) fn hashes(&self) -> impl Iterator<Item = Hash> {
        self.pieces.keys().copied()
    }

    pub(crate) fn bytes(&self, hash: Hash) -> Option<&[u8]> {
        let piece = self.pieces.get(&hash)?;
        piece.slice(self.followed.get(&piece.source)?)
    }

    /// Bytes of the files that are read.
    pub(crate) fn length(&self) -> u64 {
        self.followed.values().map(|map| map.len() as u64).sum()
    }

    /// Files with the pieces of theirs that are wanted: how many, and their bytes.
    pub(crate) fn sources(&self, is_wanted: impl Fn(Hash) -> bool) -> Vec<(&Source, u64, u64)> {
        let sum = |pieces: &[(Hash, &Piece)]| pieces.iter().fold(0u64, |sum, (_, piece)| sum.saturating_add(piece.len));
        let by_source = self.by_source(is_wanted).into_iter();
        by_source.map(|(number, all)| (&self.sources[number], all.len() as u64, sum(&all))).collect()
    }

    /// Looks for the files of the pieces that are wanted among those that are named, and compares; what is
    /// wrong, a line for each file.
    pub(crate) fn follow(&mut self, among: &[PathBuf], is_wanted: impl Fn(Hash) -> bool) -> Vec<String> {
        let (mut followed, mut wrong) = (HashMap::new(), Vec::new());
        for (number, pieces) in self.by_source(is_wanted) {
            match opened(&self.sources[number], among).and_then(|file| file.checked(&pieces)) {
                Ok(map) => drop(followed.insert(number, map)),
                Err(why) => wrong.push(why),
            }
        }
        self.followed = followed;
        wrong
    }

    /// In the order of sources, and in each in that of the file.
    fn by_source(&self, is_wanted: impl Fn(Hash) -> bool) -> Vec<(usize, Vec<(Hash, &Piece)>)> {
        let mut all: Vec<(Hash, &Piece)> =
            self.pieces.iter().map(|(hash, piece)| (*hash, piece)).filter(|(hash, _)| is_wanted(*hash)).collect();
        all.sort_unstable_by_key(|(hash, piece)| (piece.source, piece.offset, *hash));
        let chunks = all.chunk_by(|(_, one), (_, next)| one.source == next.source);
        chunks.map(|pieces| (pieces[0].1.source, pieces.to_vec())).collect()
    }
}

/// A file that stands for a recorded one.
struct Opened<'s> {
    source: &'s Source,
    path: PathBuf,
    modified: i64,
    map: Mmap,
}

/// The recorded file, if it is among those that are named or below one of them; else one of its name, or, of
/// files, of its size: it may have been moved.
fn opened<'s>(source: &'s Source, among: &[PathBuf]) -> Result<Opened<'s>, String> {
    let recorded = Path::new(&source.path);
    let here = |path: &Path| path.canonicalize().ok();
    let is_named = |path: &PathBuf| among.iter().filter_map(|named| here(named)).any(|named| path.starts_with(named));
    let is_alike = |path: &&PathBuf| path.file_name() == recorded.file_name();
    let has_size = |path: &&PathBuf| path.metadata().is_ok_and(|found| found.is_file() && found.len() == source.size);
    let inside = || among.iter().filter(|path| path.is_dir()).filter_map(|path| Some(path.join(recorded.file_name()?)));
    let candidates = here(recorded).filter(is_named).into_iter();
    let candidates = candidates.chain(among.iter().filter(is_alike).cloned()).chain(inside());
    let mut candidates = candidates.chain(among.iter().filter(has_size).cloned()).filter(|path| path.is_file());
    let Some(path) = candidates.next() else {
        let there = match recorded.exists() {
            true => "the file is not among the given files",
            false => "there is no such file, and no given file has its name",
        };
        return Err(format!("{}: {there}", source.path));
    };
    let open = || -> io::Result<(Mmap, i64)> {
        // Not to wait for whoever opens the other end, should it be a pipe by now.
        let file = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(&path)?;
        let about = file.metadata()?;
        if !about.is_file() {
            return Err(io::Error::other("not a regular file"));
        }
        // SAFETY: read as bytes only. As with the trace, whoever cuts the file short ends the command.
        let map = unsafe { Mmap::map(&file) }?;
        Ok((map, about.mtime().saturating_mul(1_000_000_000).saturating_add(about.mtime_nsec())))
    };
    let (map, modified) = open().map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(Opened { source, path, modified, map })
}

impl Opened<'_> {
    /// The file, if all these pieces of it are what they were.
    fn checked(self, pieces: &[(Hash, &Piece)]) -> Result<Mmap, String> {
        let found = |piece: &Piece| piece.slice(&self.map).map(Hash::compute);
        let wrong: Vec<&(Hash, &Piece)> = pieces.iter().filter(|(hash, piece)| found(piece) != Some(*hash)).collect();
        let Some((hash, first)) = wrong.first() else { return Ok(self.map) };
        let what = match found(first) {
            Some(now) => format!("has the XXH3-128 hash {now}, recorded {hash}"),
            None => {
                format!("lies beyond its end: the file has {} bytes, recorded {}", self.map.len(), self.source.size)
            }
        };
        let since = if self.modified == self.source.modified { "" } else { "; it was modified since" };
        Err(format!(
            "{}: {} of the {} pieces in the trace have changed: the first, {} bytes at offset {}, {what}{since}",
            self.path.display(),
            wrong.len(),
            pieces.len(),
            first.len,
            first.offset,
        ))
    }
}
