//! Long payloads and results, in pieces that are named by their content: of a buffer of which a page has
//! changed, one piece is new.
//!
//! A piece is hashed where it lies, and is stored, if it is new, out of the cache.

use crate::probe;
use crate::surroundings::Surroundings;
use std::borrow::Cow;
use std::sync::Arc;
use trace::hash::Hash;
use trace::preamble::Data;
use trace::record::{self, PIECE};

/// So much of memory that may be gone is tried at a time.
const AT_ONCE: u64 = 1 << 30;
/// Below this others are not waken for it.
const ALONE: u64 = 1 << 20;

/// Memory to be taken in pieces.
pub enum Memory {
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

    fn with<T>(&self, from: u64, scratch: &mut Vec<u8>, work: impl FnOnce(&[u8]) -> T) -> Option<T> {
        let step = (self.len() - from).min(PIECE as u64) as usize;
        match self {
            Memory::Sure(bytes) => Some(work(&bytes[from as usize..][..step])),
            Memory::Doubtful { address, .. } => probe::copy_of(address + from, step, scratch).then(|| work(scratch)),
        }
    }
}

/// Why a piece is not in the trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lost {
    Unreadable,
    NoRoom,
}

/// Stores the pieces of memory at an address, each once, or has the trace name the file that they lie in; none
/// behind the first that cannot be read: a node may have been given any length.
pub fn stored(around: &'static Surroundings, address: u64, memory: Memory) -> Vec<Result<Hash, Lost>> {
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
    let files = around.mapped_files.as_ref().map(|mapped| mapped.around(address, memory.len()));
    let Some(files) = files.filter(|files| !files.is_empty()).map(Arc::new) else {
        let stored = each(around, memory, |_, bytes| around.file.blob(bytes));
        return stored.into_iter().map(|found| found.ok_or(Lost::Unreadable)?.ok_or(Lost::NoRoom)).collect();
    };
    let seen = files.clone();
    let kept = each(around, memory, move |from, bytes| {
        let hash = Hash::of(bytes);
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
pub fn results(around: &'static Surroundings, memory: Memory) -> Option<Vec<(u8, Hash)>> {
    let hashed = |bytes: &[u8]| (record::HASH, Hash::of(bytes));
    let kept = move |bytes: &[u8]| around.file.blob(bytes).map_or_else(|| hashed(bytes), |hash| (record::BLOB, hash));
    match around.data {
        Data::All => each(around, memory, move |_, bytes| kept(bytes)),
        _ => each(around, memory, move |_, bytes| hashed(bytes)),
    }
    .into_iter()
    .collect()
}

/// What `work` makes of each piece; it is told how far into the memory that lies.
fn each<T: Send + 'static>(
    around: &'static Surroundings,
    memory: Memory,
    work: impl Fn(u64, &[u8]) -> T + Send + Sync + 'static,
) -> Vec<Option<T>> {
    let pieces = memory.len().div_ceil(PIECE as u64) as usize;
    let len = memory.len();
    let piece = move |at: usize, scratch: &mut Vec<u8>| {
        let from = (at * PIECE) as u64;
        memory.with(from, scratch, |bytes| work(from, bytes))
    };
    if len < ALONE {
        let mut scratch = Vec::new();
        return (0..pieces).map(|at| piece(at, &mut scratch)).collect();
    }
    let found = around.workers.share(pieces, piece);
    found.into_iter().map(Option::flatten).collect()
}
