//! The recorded devices, by their ordinals.

use std::collections::{BTreeSet, HashMap};

#[derive(Default)]
pub struct DeviceUse {
    /// Those that hold memory.
    pub used: BTreeSet<i32>,
    /// Primary contexts by their recorded handle: the device.
    pub primaries: HashMap<u64, i32>,
    /// The most bytes of device memory that were allocated at a time.
    pub(crate) peaks: HashMap<i32, u64>,
    pub(crate) compute: HashMap<i32, (i32, i32)>,
}
