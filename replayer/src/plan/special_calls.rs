//! Calls that cannot be repeated exactly as recorded, for reasons that the plan finds in other calls.

use crate::plan::origins::AdoptedFunction;
use std::collections::{HashMap, HashSet};

#[derive(Default)]
pub(crate) struct SpecialCalls {
    /// Functions that no call looked up, by the call that needs them first.
    pub(crate) functions: HashMap<u64, AdoptedFunction>,
    /// Calls that need a function of which nothing tells what it is.
    pub(crate) unknown_functions: HashSet<u64>,
    /// Calls that failed, and whose device range leaves the allocation it begins in: the replay's are rounded
    /// up to whole granules, so that the same call may succeed there.
    pub(crate) beyond_allocation: HashSet<u64>,
    /// Waits of streams for values in host memory that a stream writes: the call, and the place in its batch.
    pub(crate) ended_waits: HashSet<(u64, usize)>,
}
