//! Memory that graphs allocate: an address for as long as the graph lives, contents from the allocating node to the
//! freeing one.

use std::collections::BTreeSet;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::abi::Handle;
use crate::code::{Code, Result};
use crate::memory::allocate;
use crate::memory::table::{self, Kind};

#[derive(Debug)]
pub struct Memory {
    pub at: u64,
    pub size: u64,
    pub device: i32,
}

/// What has been allocated by launches so far and not been freed by a launch or a call, in the order of the calls.
static LIVE: Mutex<BTreeSet<u64>> = Mutex::new(BTreeSet::new());

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

/// Gives or takes away access, when the node is reached.
pub fn activate(at: u64, active: bool) {
    table::set_access(at, at + 1, active, active);
}

/// Notes that a launch allocates this. A graph that left it allocated cannot allocate it again.
pub fn launch(at: u64) -> Result {
    if LIVE.lock().insert(at) { Ok(()) } else { Err(Code::INVALID_VALUE) }
}

/// Whether a launch has allocated this and nothing has freed it since.
pub fn live(at: u64) -> bool {
    LIVE.lock().contains(&at)
}

/// Notes that a launch or a call frees this; false if it is not allocated.
pub fn free(at: u64) -> bool {
    LIVE.lock().remove(&at)
}
