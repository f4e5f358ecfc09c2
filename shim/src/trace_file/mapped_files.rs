//! Files that the program has mapped, and the bytes of its memory that still equal the file. On request
//! (`record --weights reference`) the trace names the file and offset of such bytes instead of storing them.
//!
//! No file of the program is opened, because closing it again would release the program's own locks (POSIX).
//! The page table shows which pages are the file's, and which a private mapping has copied since it wrote
//! there. These lists of Linux cover a whole process, so they are read for long copies only.

use crate::os::descriptors::away_from_standard_streams;
use crate::os::dirty_pages::{PAGE, pages_of};
use crate::trace_file::file::TraceFile;
use std::fs::{File, Metadata};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt};
use trace::base::hash::Hash;
use trace::base::maps::Mapping;
use trace::file::record::{PIECE, Referenced, Referred};

/// Queries to Linux about mapped files.
pub(crate) struct MappedFiles(());

/// The files that some memory is mapped from.
pub(crate) struct Files {
    /// Opened for these: the host may close what stays open, and give its number to a file of its own.
    pagemap: Option<File>,
    all: Vec<Mapped>,
}

struct Mapped {
    range: Range<u64>,
    offset: u64,
    path: String,
    about: Metadata,
}

/// A file by its number, and a piece of it.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    file: usize,
    offset: u64,
    len: u64,
}

impl MappedFiles {
    /// None, and said so, where Linux does not tell what pages are.
    pub(crate) fn open() -> Option<MappedFiles> {
        let refused = |error| {
            crate::os::log::tell(&format!("/proc/self/pagemap: {error}; weights are stored, not referenced"));
        };
        pagemap().map_err(refused).ok().map(|_| MappedFiles(()))
    }

    /// Files whose mappings have whole pieces of this memory.
    pub(crate) fn files_mapped_in(&self, address: u64, len: u64) -> Files {
        let memory = address..address.saturating_add(len);
        let maps = std::fs::read("/proc/self/maps").unwrap_or_default();
        let lines = maps.split(|byte| *byte == b'\n').filter_map(|line| str::from_utf8(line).ok());
        let is_part = |found: &Mapping| found.range.start < memory.end && memory.start < found.range.end;
        let all: Vec<Mapped> =
            lines.filter_map(Mapping::parse).filter(is_part).filter_map(Mapped::from_mapping).collect();
        Files { pagemap: if all.is_empty() { None } else { pagemap().ok() }, all }
    }
}

fn pagemap() -> io::Result<File> {
    File::open("/proc/self/pagemap").and_then(away_from_standard_streams)
}

impl Mapped {
    /// None for what is no plain file or has lost its name, and for what the program may write there: a
    /// shared mapping that is writable changes the file.
    fn from_mapping(mapping: Mapping) -> Option<Mapped> {
        let path = mapping.path.filter(|path| path.starts_with('/') && !mapping.is_removed)?;
        if mapping.access.starts_with("rw") && mapping.access.ends_with('s') {
            return None;
        }
        let path = path.replace("\\012", "\n");
        let about = std::fs::metadata(&path).ok().filter(Metadata::is_file)?;
        Some(Mapped { range: mapping.range, offset: mapping.offset, path, about })
    }
}

impl Files {
    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Where this piece of memory lies in a file, if all its pages are the file's. To be asked when it has
    /// been read: pages of a file become the program's own, and not the file's again.
    pub(crate) fn place_of(&self, address: u64, len: u64) -> Option<Place> {
        let end = address.checked_add(len)?;
        let file = self.all.iter().position(|file| file.range.start <= address && end <= file.range.end)?;
        let mapped = &self.all[file];
        let offset = mapped.offset + (address - mapped.range.start);
        // Behind the end of the file, its last page is zeros.
        let is_within = offset + len <= mapped.about.len();
        (is_within && self.are_the_files(pages_of(&(address..end)))).then_some(Place { file, offset, len })
    }

    /// Whether none of these pages is anonymous (Documentation/admin-guide/mm/pagemap.rst): one that is not
    /// present and not swapped is read from the file.
    fn are_the_files(&self, pages: Range<u64>) -> bool {
        const PRESENT: u64 = 1 << 63;
        const SWAPPED: u64 = 1 << 62;
        const OF_FILE: u64 = 1 << 61;
        const ENTRY: usize = size_of::<u64>();
        // A piece need not begin on a page.
        let mut entries = [0; (PIECE / PAGE as usize + 1) * ENTRY];
        let wanted = ((pages.end - pages.start) / PAGE) as usize * ENTRY;
        let Some(entries) = entries.get_mut(..wanted) else { return false };
        let Some(pagemap) = &self.pagemap else { return false };
        let read = pagemap.read_exact_at(entries, pages.start / PAGE * ENTRY as u64);
        let is_the_files = |entry: &[u8]| {
            let entry = u64::from_le_bytes(entry.try_into().expect("8 bytes"));
            entry & SWAPPED == 0 && (entry & PRESENT == 0 || entry & OF_FILE != 0)
        };
        read.is_ok() && entries.chunks_exact(ENTRY).all(is_the_files)
    }

    /// Has the trace name these pieces; false if it has no room for that.
    pub(crate) fn name(&self, trace: &TraceFile, pieces: impl Iterator<Item = (Hash, Place)>) -> bool {
        let mut by_file: Vec<Vec<Referred>> = vec![Vec::new(); self.all.len()];
        for (hash, Place { file, offset, len }) in pieces {
            by_file[file].push(Referred { hash: hash.to_bytes(), offset, len });
        }
        let named = self.all.iter().zip(by_file).filter(|(_, pieces)| !pieces.is_empty());
        named
            .map(|(Mapped { path, about, .. }, pieces)| {
                let modified = about.mtime().saturating_mul(1_000_000_000).saturating_add(about.mtime_nsec());
                trace.refer(&Referenced { path: path.clone(), size: about.len(), modified, pieces })
            })
            .all(|done| done.is_ok())
    }
}
