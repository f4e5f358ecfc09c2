//! The session of one replay: the trace and its plan, the driver, and the live objects for recorded ones.
//!
//! Imports `memory/` and the layers below.

pub(crate) mod device_memory;

use crate::base::extent::Tolerance;
use crate::driver::Driver;
use crate::job::graph_deliveries::GraphDeliveries;
use crate::job::peers::Peers;
use crate::memory::arguments::LaunchMemory;
use crate::memory::graph_host_memory::GraphHostMemory;
use crate::memory::objects::Objects;
use crate::memory::place::Placement;
use crate::memory::translate::Translation;
use crate::plan::Plan;
use parking_lot::Mutex;
use std::collections::{BTreeSet, HashMap};
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use trace::Trace;

pub(crate) struct Session<'a> {
    pub trace: &'a Trace,
    pub plan: &'a Plan,
    pub driver: &'a Arc<Driver>,
    pub objects: &'a Objects,
    pub translation: &'a Translation,
    pub placement: Placement<'a>,
    pub graph_memory: GraphHostMemory,
    pub graph_deliveries: GraphDeliveries,
    /// Live contexts that the replay made or retained.
    pub contexts: Mutex<BTreeSet<u64>>,
    /// What linkers made, by recorded address.
    pub linked: Mutex<HashMap<u64, DriverImage>>,
    /// Memory for those of launches.
    pub arguments: LaunchMemory,
    /// Device resources are bytes with a checksum of the driver's: recorded to live.
    pub resources: Mutex<HashMap<Vec<u8>, Vec<u8>>>,
    /// Descriptors by which the replay has exported memory, by the recorded ones; what is closed when
    /// recorded is open here until the number comes again.
    pub shared: Mutex<HashMap<u64, OwnedFd>>,
    /// The same by the call that exported, where a later call of this process imports it.
    pub exported: Mutex<HashMap<u64, OwnedFd>>,
    /// If other processes of the job are replayed beside this one.
    pub company: Option<Arc<dyn Peers>>,
    /// Calls that took effect when recorded and were refused: what they would have written is not known.
    pub refused: Mutex<BTreeSet<u64>>,
    pub verify: bool,
    /// By how much copies to the host may differ, where their bytes were recorded.
    pub tolerance: Option<Tolerance>,
}

/// An image in the live driver's memory.
pub(crate) struct DriverImage {
    pub address: u64,
    pub len: u64,
    /// The recorded CUlinkState, with which it ends.
    pub linker: u64,
}

impl Session<'_> {
    /// The refused call on whose effect it may depend what this one brings.
    pub(crate) fn refused_before(&self, call: u64) -> Option<u64> {
        let refused = self.refused.lock();
        (!refused.is_empty()).then(|| self.plan.comparability.reach.depends_on(call, &refused)).flatten()
    }

    /// Host memory of the replay that stands for the recorded one.
    pub(crate) fn host(&self, recorded: &Range<u64>) -> Option<u64> {
        self.placement.host(recorded).or_else(|| self.graph_memory.live(recorded))
    }
}
