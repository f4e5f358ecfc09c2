//! Long payloads and results, in pieces that are named by their content: of a buffer of which a page has
//! changed, one piece is new.
//!
//! A piece is hashed where it lies, and is stored, if it is new, out of the cache.

use crate::probe;
use crate::surroundings::Surroundings;
use std::borrow::Cow;
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

/// Stores the pieces of memory, each once; none behind the first that cannot be read: a node may have been
/// given any length.
pub fn stored(around: &'static Surroundings, memory: Memory) -> Vec<Result<Hash, Lost>> {
    let one = |found: Option<Option<Hash>>| found.ok_or(Lost::Unreadable)?.ok_or(Lost::NoRoom);
    let all =
        |memory| -> Vec<_> { each(around, memory, |bytes| around.file.blob(bytes)).into_iter().map(one).collect() };
    let Memory::Doubtful { address, len } = memory else { return all(memory) };
    let mut found = Vec::new();
    for from in (0..len).step_by(AT_ONCE as usize) {
        found.extend(all(Memory::Doubtful { address: address.saturating_add(from), len: AT_ONCE.min(len - from) }));
        if found.contains(&Err(Lost::Unreadable)) {
            break;
        }
    }
    found
}

/// The form and the hash of each piece of a result, which is stored with `--data=all`.
pub fn results(around: &'static Surroundings, memory: Memory) -> Option<Vec<(u8, Hash)>> {
    let hashed = |bytes: &[u8]| (record::HASH, Hash::of(bytes));
    let kept = move |bytes: &[u8]| around.file.blob(bytes).map_or_else(|| hashed(bytes), |hash| (record::BLOB, hash));
    match around.data {
        Data::All => each(around, memory, kept),
        _ => each(around, memory, hashed),
    }
    .into_iter()
    .collect()
}

fn each<T: Send + 'static>(
    around: &'static Surroundings,
    memory: Memory,
    work: impl Fn(&[u8]) -> T + Send + Sync + 'static,
) -> Vec<Option<T>> {
    let pieces = memory.len().div_ceil(PIECE as u64) as usize;
    if memory.len() < ALONE {
        let mut scratch = Vec::new();
        return (0..pieces).map(|at| memory.with((at * PIECE) as u64, &mut scratch, &work)).collect();
    }
    let found = around.workers.share(pieces, move |at, scratch| memory.with((at * PIECE) as u64, scratch, &work));
    found.into_iter().map(Option::flatten).collect()
}
