//! The state of one recording, in one place.

use crate::driver::logs;
use crate::host_memory::{destinations, variables, watch};
use crate::in_flight::{long_results, node_runs};
use crate::kernels::{driver_addresses, images, modules, parameters};
use crate::os::generation;
use crate::readback::cloned_graphs::CollectiveGraphs;
use crate::readback::imported_memory::Imported;
use crate::readback::readback_queue::Deliveries;
use crate::recording::range;
use crate::trace_file::chunk::Supply;
use crate::trace_file::last_words::LastWords;
use crate::trace_file::recorder_parts::Surroundings;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering::*};

/// The state of one recording. Never freed: threads may use it until the process has ended.
pub(crate) struct Recorder {
    pub pid: u32,
    pub supply: Arc<Supply>,
    /// Of the `cutrace record` that closes the trace, as long as it runs.
    pub session: Option<PathBuf>,
    /// CUDA_LAUNCH_BLOCKING
    pub launches_wait: bool,
    /// If what collectives deliver, or what imported memory holds, is to be kept.
    pub deliveries: Option<Deliveries>,
    pub keeps_collectives: bool,
    pub collective_graphs: CollectiveGraphs,
    pub imported: Imported,
    /// Whether anything is to be done behind work that a device was given.
    pub looks_behind_work: bool,
    pub threads: AtomicU32,
    pub kernels: parameters::Layouts,
    pub modules: modules::Modules,
    pub images: images::Images,
    pub logs: logs::Logs,
    pub variables: variables::Variables,
    pub invented: driver_addresses::Invented,
    pub around: Surroundings,
    pub destinations: destinations::Destinations,
    pub node_runs: node_runs::NodeRuns,
    pub watch: watch::Watch,
    pub long_results: long_results::Allowance,
    pub range: range::Range,
    pub last_words: LastWords,
}

pub(crate) static RECORDER: AtomicPtr<Recorder> = AtomicPtr::new(std::ptr::null_mut());

/// The recorder of the current generation; only after `generation()` was found to be the caller's.
#[inline(always)]
pub(crate) fn recorder() -> &'static Recorder {
    // SAFETY: set before the generation becomes visible, and never freed.
    unsafe { &*RECORDER.load(Acquire) }
}

/// The recorder of this process, if it has recorded: also when recording is off, but not in a forked child.
pub(crate) fn of_this_process() -> Option<&'static Recorder> {
    generation::has_recorded().then(recorder)
}

impl Recorder {
    /// Whether the device can reach host memory, so that the CPU may write there or read without a call.
    #[inline(always)]
    pub(crate) fn shares_any(&self) -> bool {
        self.around.pinned.any() || self.watch.managed.any()
    }

    /// Whether all of this is memory of the host that the device can reach, or managed.
    pub(crate) fn shares(&self, address: u64, len: u64) -> bool {
        self.around.pinned.holds(address, len) || self.watch.managed.holds(address, len)
    }

    /// The words of these bytes that may be addresses of such memory: of most that is ruled out at once.
    pub(crate) fn may_share<'b>(&'b self, bytes: &'b [u8]) -> impl Iterator<Item = u64> + use<'b> {
        let words = bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().expect("8 bytes")));
        words.filter(|word| self.may_be_shared(*word))
    }

    #[inline]
    pub(crate) fn may_be_shared(&self, address: u64) -> bool {
        self.around.pinned.may_hold(address) || self.watch.managed.may_hold(address)
    }

    pub(crate) fn reaches_host(&self) -> bool {
        self.around.pinned.any() || self.watch.managed.any() || self.watch.any() || self.destinations.any()
    }

    /// Where what collectives deliver is kept.
    pub(crate) fn collectives(&self) -> Option<&Deliveries> {
        self.deliveries.as_ref().filter(|_| self.keeps_collectives)
    }

    /// Puts something that the trace lacks into its last words.
    pub(crate) fn say_last(&self, what: &str, count: u64) {
        self.last_words.say(&self.threads, what, count);
    }
}
