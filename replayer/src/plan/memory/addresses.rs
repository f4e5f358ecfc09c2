//! All addresses of recorded memory in the trace: the replay reserves them, and uses them to tell an address
//! from a number.

use crate::base::ranges::Ranges;
use std::ops::Range;

#[derive(Default)]
pub(crate) struct AddressRanges {
    /// All device addresses the application was given, reserved ones too.
    pub(crate) device: Ranges,
    /// The ranges that the application reserved, each by itself.
    pub(crate) reserved: Vec<Range<u64>>,
    /// Whole blocks around them.
    pub(crate) blocks: Ranges,
    /// Pinned host memory.
    pub(crate) host: Ranges,
    /// Whole pages around it.
    pub(crate) pages: Ranges,
    /// Managed memory.
    pub(crate) managed: Ranges,
}
