//! A copy of a call: the kinds of memory, the size, and the bytes.

use crate::report::walk::Step;
use foldhash::HashSet;
use trace::Function;
use trace::api::effect::{Memory, Work};
use trace::base::hash::{Hash, Hasher};
use trace::model::copy_endpoints::{CopyEndpoints, End, copy_endpoints, flat_copy};
use trace::read::call::Content;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Place {
    Pageable,
    Pinned,
    Managed,
    Device,
    Array,
}

impl Place {
    pub(super) fn name(self) -> &'static str {
        match self {
            Place::Pageable => "pageable",
            Place::Pinned => "pinned",
            Place::Managed => "managed",
            Place::Device => "device",
            Place::Array => "array",
        }
    }

    pub(super) fn is_host(self) -> bool {
        matches!(self, Place::Pageable | Place::Pinned)
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Transfer {
    pub from: Place,
    pub to: Place,
    /// Where the first byte goes; none for arrays.
    pub destination: Option<u64>,
    /// Whether the bytes lie in one piece there.
    pub is_dense: bool,
    pub bytes: u64,
    /// Of what the host gave, if it was recorded.
    pub hash: Option<Hash>,
}

/// Whether the function copies.
pub(super) fn is_copy(step: &Step) -> bool {
    step.function.and_then(Function::work).is_some_and(Work::is_copy)
}

/// The copies of a call; `managed`: where variables in managed memory begin.
pub(super) fn copies(step: &Step, managed: &HashSet<u64>) -> Vec<Transfer> {
    let all = step.function.map(|function| copy_endpoints(step.call, function)).unwrap_or_default();
    all.into_iter().map(|copied| transfer(step, managed, copied)).collect()
}

/// The copy of a call whose arguments are its two ends and a length: none of others.
pub(super) fn only_copy(step: &Step, managed: &HashSet<u64>) -> Option<Transfer> {
    flat_copy(step.call, step.function?).map(|copied| transfer(step, managed, copied))
}

fn transfer(
    step: &Step,
    managed: &HashSet<u64>,
    CopyEndpoints { from, to, bytes, is_dense }: CopyEndpoints,
) -> Transfer {
    Transfer {
        from: place(step, managed, from),
        to: place(step, managed, to),
        destination: to.address(),
        is_dense,
        bytes,
        hash: match from {
            End::Host(at) | End::Unified(at) => hash(step, at, bytes),
            End::Device(_) | End::Array => None,
        },
    }
}

fn place(step: &Step, managed: &HashSet<u64>, end: End) -> Place {
    let (address, otherwise) = match end {
        End::Host(at) | End::Unified(at) => (at, Place::Pageable),
        End::Device(at) => (at, Place::Device),
        End::Array => return Place::Array,
    };
    let known = step.memory().find(address).map(|one| one.kind);
    match known {
        Some(kind) if kind.is_host() => return Place::Pinned,
        Some(Memory::Managed) => return Place::Managed,
        // To look for its range takes as long again.
        Some(_) if managed.is_empty() => return Place::Device,
        _ => {}
    }
    let range = step.objects.range(address);
    match known {
        _ if managed.contains(&range.map_or(address, |range| range.base)) => Place::Managed,
        // Variables and memory of graphs have names.
        None if range.is_none() => otherwise,
        _ => Place::Device,
    }
}

/// Of the recorded bytes at an address. Inline or apart, the same bytes have the same hash.
fn hash(step: &Step, address: u64, bytes: u64) -> Option<Hash> {
    let one = |address| {
        let image = step.call.images_at(address).next()?;
        let hash = match image.content {
            Content::Bytes(bytes) => Hash::compute(bytes),
            Content::Blob(hash) => hash,
            _ => return None,
        };
        Some((image, hash))
    };
    let (image, first) = one(address)?;
    if image.rows || image.len >= bytes {
        return Some(first);
    }
    // Longer than a piece: the hash of the pieces' hashes.
    let (mut hasher, mut done) = (Hasher::default(), 0);
    while done < bytes {
        let (image, hash) = one(address.checked_add(done)?)?;
        hasher.update(&hash.to_bytes());
        done += image.len.max(1);
    }
    Some(hasher.finish())
}
