//! The replay's allocations in place of recorded ones, and those that end with a context.

use crate::plan::memory::cross_stream_reuse::Handovers;
use std::collections::HashMap;
use std::ops::Range;

/// A recorded allocation of device memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Allocation {
    pub call: u64,
    pub range: Range<u64>,
    /// Recorded device.
    pub device: i32,
}

/// The objects that end with a context.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct End {
    /// The recorded handles: a green context may have been the last to retain the primary one.
    pub contexts: Vec<u64>,
    /// The device memory that goes with it, by its recorded start.
    pub memory: Vec<u64>,
}

#[derive(Default)]
pub(crate) struct MemoryPlan {
    /// Device memory, by the call that allocated it.
    pub(crate) allocations: HashMap<u64, Allocation>,
    /// Memory that no call made, by the call that is the first to write there.
    pub(crate) adopted: HashMap<u64, Vec<Allocation>>,
    /// Contexts, by the call that ended them.
    pub(crate) context_ends: HashMap<u64, End>,
    pub(crate) handovers: Handovers,
}
