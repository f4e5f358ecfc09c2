//! The ranks of NCCL's communicators that are replayed: launches of an incomplete communicator would wait for
//! the others forever, or use their memory through addresses that lie in memory of this process.

use std::collections::{HashMap, HashSet};
use trace::Trace;
use trace::file::preamble::RANKS;
use trace::file::record::nccl::Communicator;

/// The replayed ranks, by NCCL's number of the communicator.
#[derive(Debug, Default)]
pub struct Ranks(HashMap<u64, HashSet<i32>>);

impl Ranks {
    /// `all`: the communicators of each trace.
    pub fn from_communicators<'t>(all: impl IntoIterator<Item = &'t Vec<Communicator>>) -> Ranks {
        let mut ranks = Ranks::default();
        for of in all.into_iter().flatten() {
            ranks.0.entry(of.id).or_default().insert(of.rank);
        }
        ranks
    }

    /// Whether one of the communicators of a process has ranks that are not replayed. None if nothing tells:
    /// without the plugin there are no communicators, and how many ranks one has is told from version 4 of its
    /// interface on.
    pub fn lack_some_of(&self, communicators: &[Communicator]) -> Option<bool> {
        let mut is_told = !communicators.is_empty();
        for of in communicators {
            let here = self.0.get(&of.id).map_or(0, HashSet::len);
            if here < of.ranks as usize {
                return Some(true);
            }
            is_told &= of.ranks > 0;
        }
        is_told.then_some(false)
    }
}

/// The parts of a job that are not replayed beside a process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MissingPeers {
    /// Some of its processes.
    pub processes: bool,
    /// Ranks of this process's communicators: see [`Ranks::lack_some_of`].
    pub ranks: Option<bool>,
}

impl MissingPeers {
    /// Of a process that is replayed by itself.
    pub fn of_one(trace: &Trace) -> MissingPeers {
        MissingPeers {
            processes: true,
            ranks: Ranks::from_communicators([&trace.communicators]).lack_some_of(&trace.communicators),
        }
    }
}

/// Whether the process was one of several ranks; none if its environment did not tell.
pub(crate) fn is_one_of_several(trace: &Trace) -> Option<bool> {
    trace.preamble.number(RANKS).map(|ranks: u64| ranks > 1)
}
