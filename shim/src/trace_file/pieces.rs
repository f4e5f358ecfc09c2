//! Long payloads and results, in pieces that are named by their contents: if one page of a buffer has
//! changed, only one piece is new.
//!
//! A piece is hashed in place and, if it is new, stored while it is still in the cache.

use crate::os::probe;
use crate::trace_file::recorder_parts::Surroundings;
use std::borrow::Cow;
use std::sync::Arc;
use trace::base::hash::Hash;
use trace::file::preamble::Data;
use trace::file::record::{self, PIECE};

/// So much of memory that may be gone is tried at a time.
const AT_ONCE: u64 = 1 << 30;
/// Below this others are not waken for it.
const ALONE: u64 = 1 << 20;

/// Memory to be stored in pieces.
pub(crate) enum Memory {
    /// It can be read, or is a copy.
    Sure(Cow<'static, [u8]>),
    /// It may be gone.
    Doubtful { address: u64, len: u64 },
}

impl Memory {
    fn len(&self) -> u64 {
        match self {
            Memory::Sure(bytes) => bytes.len() as u64,
            Memory::Doubtful { len, .. } => *len,
        }
    }

    fn read_piece<T>(&self, from: u64, most: usize, scratch: &mut Vec<u8>, work: impl FnOnce(&[u8]) -> T) -> Option<T> {
        let step = self.len().checked_sub(from).filter(|left| *left > 0)?.min(most as u64) as usize;
        match self {
            Memory::Sure(bytes) => Some(work(&bytes[from as usize..][..step])),
            Memory::Doubtful { address, .. } => probe::copy_of(address + from, step, scratch).then(|| work(scratch)),
        }
    }
}

impl Memory {
    /// What `work` makes of the piece there and of the next one, if there is one and it can be read. They are
    /// hashed together.
    fn pair<T>(&self, from: u64, scratch: &mut Vec<u8>, work: impl Fn(u64, Hash, &[u8]) -> T) -> [Option<T>; 2] {
        let next = from + PIECE as u64;
        let of_both = |bytes: &[u8]| {
            let (one, other) = bytes.split_at(PIECE);
            let [hash, other_hash] = Hash::of_both(one, other);
            [Some(work(from, hash, one)), Some(work(next, other_hash, other))]
        };
        if next < self.len()
            && let Some(found) = self.read_piece(from, 2 * PIECE, scratch, of_both)
        {
            return found;
        }
        [from, next].map(|from| self.read_piece(from, PIECE, scratch, |bytes| work(from, Hash::compute(bytes), bytes)))
    }
}

/// The reason why a piece is not in the trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lost {
    Unreadable,
    NoRoom,
}

/// Stores the pieces of memory at an address, each once, or has the trace name the file that they lie in;
/// none behind the first that cannot be read: a node may have been given any length.
pub(crate) fn stored(around: &'static Surroundings, address: u64, memory: Memory) -> Vec<Result<Hash, Lost>> {
    let Memory::Doubtful { len, .. } = memory else { return stored_at_once(around, address, memory) };
    let mut found = Vec::new();
    for from in (0..len).step_by(AT_ONCE as usize) {
        let (address, len) = (address.saturating_add(from), AT_ONCE.min(len - from));
        found.extend(stored_at_once(around, address, Memory::Doubtful { address, len }));
        if found.contains(&Err(Lost::Unreadable)) {
            break;
        }
    }
    found
}

fn stored_at_once(around: &'static Surroundings, address: u64, memory: Memory) -> Vec<Result<Hash, Lost>> {
    let files = around.mapped_files.as_ref().map(|mapped| mapped.files_mapped_in(address, memory.len()));
    let Some(files) = files.filter(|files| !files.is_empty()).map(Arc::new) else {
        let stored = each(around, memory, |_, hash, bytes| around.file.blob_of(hash, bytes));
        return stored.into_iter().map(|found| found.ok_or(Lost::Unreadable)?.ok_or(Lost::NoRoom)).collect();
    };
    let seen = files.clone();
    let kept = each(around, memory, move |from, hash, bytes| {
        match (around.file.has(hash), seen.place_of(address + from, bytes.len() as u64)) {
            (true, _) => Some((hash, None)),
            (_, Some(place)) => Some((hash, Some(place))),
            (_, None) => Some((around.file.blob_of(hash, bytes)?, None)),
        }
    });
    let lies_there = kept.iter().flatten().flatten().filter_map(|(hash, place)| Some((*hash, (*place)?)));
    let is_named = files.name(&around.file, lies_there);
    let one = |found: Option<Option<(Hash, Option<_>)>>| match found.ok_or(Lost::Unreadable)? {
        Some((hash, place)) if place.is_none() || is_named => Ok(hash),
        _ => Err(Lost::NoRoom),
    };
    kept.into_iter().map(one).collect()
}

/// The form and the hash of each piece of a result, which is stored with `--data=all`.
pub(crate) fn results(around: &'static Surroundings, memory: Memory) -> Option<Vec<(u8, Hash)>> {
    let kept = move |hash, bytes: &[u8]| match around.file.blob_of(hash, bytes) {
        Some(hash) => (record::BLOB, hash),
        None => (record::HASH, hash),
    };
    match around.data {
        Data::All => each(around, memory, move |_, hash, bytes| kept(hash, bytes)),
        _ => each(around, memory, |_, hash, _| (record::HASH, hash)),
    }
    .into_iter()
    .collect()
}

/// What `work` makes of each piece and its hash; it is told how far into the memory that lies.
fn each<T: Send + 'static>(
    around: &'static Surroundings,
    memory: Memory,
    work: impl Fn(u64, Hash, &[u8]) -> T + Send + Sync + 'static,
) -> Vec<Option<T>> {
    let len = memory.len();
    let pieces = len.div_ceil(PIECE as u64) as usize;
    let pair = move |at: usize, scratch: &mut Vec<u8>| memory.pair((2 * at * PIECE) as u64, scratch, &work);
    if len < ALONE {
        let mut scratch = Vec::new();
        return (0..pieces.div_ceil(2)).flat_map(|at| pair(at, &mut scratch)).take(pieces).collect();
    }
    let found = around.workers.share(pieces.div_ceil(2), pair);
    found.into_iter().flat_map(|pair| pair.unwrap_or([None, None])).take(pieces).collect()
}
