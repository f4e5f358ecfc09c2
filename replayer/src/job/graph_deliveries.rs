//! What collectives in graphs deliver, in a replay of one rank without the others: memory of the replay's own,
//! from which graphs copy it. It stays until the end: a graph may be launched as long as it is there.

use crate::driver::{Driver, Failure};
use parking_lot::Mutex;
use std::collections::HashMap;

#[derive(Default)]
pub struct GraphDeliveries(Mutex<HashMap<u64, (u64, u64)>>);

impl GraphDeliveries {
    /// Memory for so many bytes of this operation, in the current context.
    pub fn make(&self, driver: &Driver, operation: u64, len: u64) -> Result<u64, Failure> {
        if let Some(at) = self.place(operation, len) {
            return Ok(at);
        }
        let at = driver.allocate(len)?;
        self.0.lock().insert(operation, (at, len));
        Ok(at)
    }

    /// Where its graph copies from, if that is as long.
    pub fn place(&self, operation: u64, len: u64) -> Option<u64> {
        self.0.lock().get(&operation).filter(|(_, all)| len <= *all).map(|(at, _)| *at)
    }
}
