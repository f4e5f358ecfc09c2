//! The replayer's own driver calls, by subject: no other file names a driver function.
//!
//! Handles passed in are live ones, which the driver has returned to this replay, and so are addresses that
//! it only treats as numbers. A call is unsafe if the driver follows an address. An object that no longer
//! exists is an error of the driver's.

pub(crate) mod capture;
mod code;
mod device;
mod graph;
mod memory;
mod stream;

pub(crate) use code::Launch;
pub(crate) use graph::{ATTRIBUTE, COPY_WORDS};
pub(crate) use memory::ordered_write;

use super::{Driver, Failure};

impl Driver {
    /// A call that hands out one value, whose address `words` puts among the arguments.
    ///
    /// # Safety
    /// As for [`call`](Driver::call).
    unsafe fn output_of<T: Default, const N: usize>(
        &self,
        name: &'static str,
        words: impl FnOnce(u64) -> [u64; N],
    ) -> Result<T, Failure> {
        let mut value = T::default();
        // SAFETY: forwarded; the value outlives the call.
        unsafe { self.ask(name, &words(&raw mut value as u64)) }?;
        Ok(value)
    }
}
