//! Results of collectives in graphs, in a single-rank replay: graphs copy them from memory of the replay's
//! own. That memory stays until the end, because a graph may be launched as long as it exists.

use crate::driver::{Driver, Failure};
use parking_lot::Mutex;
use std::collections::HashMap;

#[derive(Default)]
pub(crate) struct GraphDeliveries(Mutex<HashMap<u64, (u64, u64)>>);

impl GraphDeliveries {
    /// Memory for so many bytes of this operation, in the current context.
    pub(crate) fn make(&self, driver: &Driver, operation: u64, len: u64) -> Result<u64, Failure> {
        if let Some(at) = self.place(operation, len) {
            return Ok(at);
        }
        let at = driver.allocate(len)?;
        self.0.lock().insert(operation, (at, len));
        Ok(at)
    }

    /// Where its graph copies from, if that is as long.
    pub(crate) fn place(&self, operation: u64, len: u64) -> Option<u64> {
        self.0.lock().get(&operation).filter(|(_, all)| len <= *all).map(|(at, _)| *at)
    }
}
