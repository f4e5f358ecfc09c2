//! Pageable host memory that graph nodes read and write. A graph must see the writes of the CPU and of other
//! work there, so all of them use one buffer for it, from the start.

use crate::base::ranges::Ranges;
use crate::memory::buffer::{HostBuffer, Refusal};
use crate::memory::live_address::LiveAddress;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::ops::Range;

#[derive(Default)]
pub(crate) struct GraphHostMemory {
    /// By the recorded start.
    places: Mutex<BTreeMap<u64, HostBuffer>>,
}

impl GraphHostMemory {
    /// What overlaps lies in one piece. Pinned memory, at another time, has its place already.
    pub(crate) fn prepare(of_nodes: &Ranges, is_placed: impl Fn(&Range<u64>) -> bool) -> GraphHostMemory {
        let memory = GraphHostMemory::default();
        for range in of_nodes.iter().filter(|range| !is_placed(range)) {
            // What there is no room for the call that needs it is refused for.
            let _ = memory.hold(&range);
        }
        memory
    }

    /// Live address of a recorded range.
    pub(crate) fn live(&self, recorded: &Range<u64>) -> Option<u64> {
        let places = self.places.lock();
        let (start, memory) = places.range(..=recorded.start).next_back()?;
        let offset = recorded.start - start;
        let room = memory.bytes().len() as u64;
        (offset <= room && recorded.end - recorded.start <= room - offset).then(|| memory.address() + offset)
    }

    /// Stands for memory that is nowhere.
    pub(crate) fn stand_in(&self, recorded: &Range<u64>) -> Result<LiveAddress, Refusal> {
        self.hold(recorded).map(LiveAddress::host)
    }

    /// The same, of memory that nobody could foresee as well.
    pub(crate) fn hold(&self, recorded: &Range<u64>) -> Result<u64, Refusal> {
        if let Some(live) = self.live(recorded) {
            return Ok(live);
        }
        let memory = HostBuffer::zeroed((recorded.end - recorded.start) as usize)?;
        let live = memory.address();
        if let Some(outgrown) = self.places.lock().insert(recorded.start, memory) {
            // Nodes have been given it.
            std::mem::forget(outgrown);
        }
        Ok(live)
    }
}
