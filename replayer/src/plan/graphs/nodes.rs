//! Calls that became nodes of a graph: their objects are used at each launch, not at the call.

use crate::base::ranges::Ranges;
use std::collections::{HashMap, HashSet};

#[derive(Default)]
pub(crate) struct GraphNodes {
    /// Stream-ordered allocations under a capture: the call, and how many bytes.
    pub(crate) allocations: HashMap<u64, u64>,
    /// Copies and fills under a capture.
    pub(crate) copies: HashSet<u64>,
    /// Pageable memory that nodes read and write, what overlaps in one piece: they are to find what the others
    /// left there.
    pub(crate) host_memory: Ranges,
}
