//! What all workers of a replay share.

use crate::call::driver::Driver;
use crate::call::frame::Frame;
use crate::call::objects::Objects;
use crate::check::extent::Tolerance;
use crate::memory::place::Placement;
use crate::memory::translate::Translation;
use crate::plan::Plan;
use crate::run::launches::Watch;
use crate::run::sinks::Sinks;
use parking_lot::Mutex;
use std::collections::{BTreeSet, HashMap};
use trace::Trace;

pub struct World<'a> {
    pub trace: &'a Trace,
    pub plan: &'a Plan,
    pub driver: &'a Driver,
    pub objects: &'a Objects,
    pub translation: &'a Translation,
    pub placement: Placement<'a>,
    pub sinks: Sinks<'a>,
    /// Live contexts that the replay made or retained.
    pub contexts: Mutex<BTreeSet<u64>>,
    /// Memory that the driver may use after the call it was made for: module images, logs, buffers of graph nodes.
    pub retained: Mutex<Vec<Frame<'a>>>,
    /// What the linker made: recorded address to live address and the recorded linker, with which it ends.
    pub linked: Mutex<HashMap<u64, (u64, u64)>>,
    /// Device resources are bytes with a checksum of the driver's: recorded to live.
    pub resources: Mutex<HashMap<Vec<u8>, Vec<u8>>>,
    pub verify: bool,
    /// By how much copies to the host may differ, where their bytes were recorded.
    pub tolerance: Option<Tolerance>,
    /// Calls from this number on are not made.
    pub end: u64,
    /// If launches go one at a time.
    pub watch: Option<Watch>,
}

impl World<'_> {
    /// Whether what was looked for is found: no further call is made.
    pub fn is_stopped(&self) -> bool {
        self.watch.as_ref().is_some_and(Watch::is_found)
    }
}
