//! What all workers of a replay share.

use crate::call::frame::Frame;
use crate::diagnose::launches::Watch;
use crate::driver::Driver;
use crate::driver::parameters::Parameters;
use crate::extent::Tolerance;
use crate::memory::objects::Objects;
use crate::memory::of_graphs::OfGraphs;
use crate::memory::place::Placement;
use crate::memory::translate::Translation;
use crate::plan::Plan;
use crate::profile::Profiler;
use crate::run::aside::Aside;
use crate::run::callbacks::Callbacks;
use crate::run::numbers::Spares;
use crate::run::repeat::Repeats;
use crate::run::results::BeforeLaunches;
use crate::run::sinks::Sinks;
use crate::run::written::Writes;
use parking_lot::Mutex;
use std::collections::{BTreeSet, HashMap};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use trace::Trace;

pub struct World<'a> {
    pub trace: &'a Trace,
    pub plan: &'a Plan,
    pub driver: &'a Arc<Driver>,
    pub objects: &'a Objects,
    pub translation: &'a Translation,
    pub placement: Placement<'a>,
    pub sinks: Sinks<'a>,
    /// Live contexts that the replay made or retained.
    pub contexts: Mutex<BTreeSet<u64>>,
    /// Memory that the driver may use after the call it was made for: module images, logs, buffers of graph nodes.
    pub retained: Mutex<Vec<Frame<'a>>>,
    /// What linkers made, by recorded address.
    pub linked: Mutex<HashMap<u64, Linked>>,
    /// Of the live functions that were launched.
    pub parameters: Parameters,
    /// Device resources are bytes with a checksum of the driver's: recorded to live.
    pub resources: Mutex<HashMap<Vec<u8>, Vec<u8>>>,
    /// Descriptors by which the replay has exported memory, by the recorded ones; what is closed when recorded is open here until the number comes again.
    pub shared: Mutex<HashMap<u64, OwnedFd>>,
    pub spares: Spares,
    pub graph_memory: OfGraphs,
    /// Live host memory that graphs may read.
    pub graph_reads: Mutex<BTreeSet<(u64, u64)>>,
    pub callbacks: Callbacks<'a>,
    pub writes: Writes<'a>,
    pub aside: Aside,
    pub before_launches: Mutex<BeforeLaunches>,
    pub verify: bool,
    /// By how much copies to the host may differ, where their bytes were recorded.
    pub tolerance: Option<Tolerance>,
    /// Calls from this number on are not made.
    pub end: u64,
    /// If the device's times are taken.
    pub profiler: Option<Profiler<'a>>,
    /// Launches that other tools are to look at.
    pub marked: Option<BTreeSet<u64>>,
    /// If a range of calls is to be made again and again.
    pub repeats: Option<Repeats>,
    /// If launches go one at a time.
    pub watch: Option<Watch>,
}

/// An image in memory of the live driver's.
pub struct Linked {
    pub address: u64,
    pub len: u64,
    /// The recorded CUlinkState, with which it ends.
    pub linker: u64,
}

impl World<'_> {
    /// Whether what was looked for is found: no further call is made.
    pub fn is_stopped(&self) -> bool {
        self.watch.as_ref().is_some_and(Watch::is_found)
    }
}
