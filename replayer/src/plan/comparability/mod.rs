//! Comparability: the recorded bytes that depend only on replayed calls, so that a check is meaningful.

pub(crate) mod callback_writes;
pub(crate) mod completion;
pub(crate) mod host_races;
pub(crate) mod known_contents;
pub(crate) mod mapped_memory;
pub(crate) mod pinned_subranges;
pub(crate) mod reach;
pub(crate) mod subrange_starts;

use crate::plan::comparability::reach::Reach;
use std::collections::HashSet;

#[derive(Default)]
pub(crate) struct Comparability {
    pub(crate) reach: Reach,
    /// Where launches were found to have written host memory.
    pub(crate) results: HashSet<u64>,
    /// Kernels were given memory that the CPU reaches without a call, and nothing tells what they made of it.
    pub(crate) shares_unseen: bool,
    /// Host memory at the address that a launch, the first, had been given and the CPU wrote meanwhile, when
    /// the second call had waited: what stands there says nothing of what the launch computed.
    pub(crate) host_races: HashSet<(u64, u64, u64)>,
    /// Copies to the host behind the first gap of a range whose bytes are known all the same.
    pub(crate) known_copies: HashSet<u64>,
    /// Calls that are made, and behind which memory may not be what it was: what differs for that is not
    /// compared.
    pub(crate) may_differ: HashSet<u64>,
}
