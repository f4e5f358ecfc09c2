//! Memory that graphs allocate: an address for as long as the graph lives, contents from the allocating node
//! to the freeing one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::abi::Handle;
use crate::code::{Code, Result};
use crate::memory::allocate;
use crate::memory::pages::{self, GRANULE};
use crate::memory::table::{self, Access, Kind};

#[derive(Debug)]
pub struct Memory {
    pub at: u64,
    pub size: u64,
    pub device: i32,
}

/// What has been allocated by launches so far and not been freed by a launch or a call, in the order of the
/// calls.
static LIVE: Mutex<BTreeSet<u64>> = Mutex::new(BTreeSet::new());

/// By device: the most that was live at a time, since that was asked for anew.
static HIGH: Mutex<BTreeMap<i32, u64>> = Mutex::new(BTreeMap::new());

impl Memory {
    pub fn new(size: u64, device: i32, context: Handle) -> Result<Arc<Self>> {
        let at = allocate::allocate(size, Kind::Graph, device, context)?;
        activate(at, false);
        Ok(Arc::new(Self { at, size, device }))
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        LIVE.lock().remove(&self.at);
        if let Some(range) = table::remove(self.at, |r| r.kind == Kind::Graph) {
            allocate::release(range);
        }
    }
}

/// Gives or takes away access, when the node is reached. Without it nobody can read there, the CPU neither.
pub fn activate(at: u64, active: bool) {
    let access = if active { Access::OF_ALL } else { Access::default() };
    table::set_access(at, at + 1, |of| *of = access);
    if let Some(range) = table::read().find(at) {
        pages::protect(range.start, range.size.next_multiple_of(GRANULE), active, active);
    }
}

/// Notes that a launch allocates this. A graph that left it allocated cannot allocate it again.
pub fn launch(at: u64) -> Result {
    if !LIVE.lock().insert(at) {
        return Err(Code::INVALID_VALUE);
    }
    if let Some(device) = table::read().find(at).map(|range| range.device) {
        attribute(device, 1)?;
    }
    Ok(())
}

/// Whether a launch has allocated this and nothing has freed it since.
pub fn live(at: u64) -> bool {
    LIVE.lock().contains(&at)
}

/// What launches have allocated on a device, in bytes.
fn used(device: i32) -> u64 {
    // Never both locks at once: a submission takes them in the other order.
    let live = LIVE.lock().clone();
    let ranges = table::read();
    live.iter().filter_map(|at| ranges.find(*at)).filter(|range| range.device == device).map(|range| range.size).sum()
}

/// By the values of CUgraphMem_attribute: used, the most used, and the same of what is reserved, which is as
/// much here.
pub fn attribute(device: i32, which: u32) -> Result<u64> {
    let used = used(device);
    match which {
        0 | 2 => Ok(used),
        1 | 3 => Ok(*HIGH.lock().entry(device).and_modify(|high| *high = used.max(*high)).or_insert(used)),
        _ => Err(Code::INVALID_VALUE),
    }
}

pub fn reset_high(device: i32) {
    let used = used(device);
    HIGH.lock().insert(device, used);
}

/// Notes that a launch or a call frees this; false if it is not allocated.
pub fn free(at: u64) -> bool {
    LIVE.lock().remove(&at)
}
