//! The data that a trace lacks because it only names a file that holds it.

use crate::base::hash::Hash;
use crate::file::preamble::Data;
use crate::file::reference::Source;
use crate::read::reader::Trace;
use std::path::PathBuf;

/// The reason why a blob is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lacking {
    /// On purpose: data was not to be in the file.
    LeftOut,
    /// Cut off, damaged, or never written.
    Gone,
}

impl Trace {
    /// Whether a blob that calls name is neither in the trace nor named as part of another file.
    pub fn lacks(&self, hash: Hash) -> bool {
        self.blob(hash).is_none() && !self.references.names(hash)
    }

    /// The same, and why.
    pub fn lacking(&self, hash: Hash) -> Option<Lacking> {
        let why = if self.preamble.data == Data::None { Lacking::LeftOut } else { Lacking::Gone };
        self.lacks(hash).then_some(why)
    }

    /// Bytes of the trace, and of the files that are read for it.
    pub(crate) fn length_with_files(&self) -> u64 {
        self.length().saturating_add(self.references.length())
    }

    /// Blobs that only other files have.
    pub fn referenced(&self) -> impl Iterator<Item = Hash> {
        self.references.hashes().filter(|hash| !self.blobs.contains_key(hash))
    }

    /// Files that have what the trace has not: of each how many pieces, and their bytes.
    pub fn sources(&self) -> Vec<(&Source, u64, u64)> {
        self.references.sources(|hash| !self.blobs.contains_key(&hash))
    }

    /// All files that it names, also where it has what they have.
    pub fn named_files(&self) -> impl Iterator<Item = &Source> {
        self.references.sources(|_| true).into_iter().map(|(source, ..)| source)
    }

    /// Has what the trace names read from these files, or from files below these directories, if it is what
    /// was recorded. What is wrong, a line for each file.
    pub fn follow_references(&mut self, among: &[PathBuf]) -> Vec<String> {
        let blobs = &self.blobs;
        self.references.follow(among, |hash| !blobs.contains_key(&hash))
    }
}
