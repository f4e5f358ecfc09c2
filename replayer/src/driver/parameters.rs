//! The parameters that live functions have, asked of the driver once per function: it reads an argument for each of them, whatever the
//! trace says of the function.

use crate::driver::stream::relaxed;
use crate::driver::{Driver, Failure, result};
use parking_lot::RwLock;
use std::collections::HashMap;
use std::sync::Arc;
use trace::Function;
use trace::api::roles::Class;

/// Offset and size by ordinal.
pub type Layout = Arc<[(usize, usize)]>;

#[derive(Default)]
pub struct Parameters {
    /// By live CUfunction or CUkernel; None where the driver cannot tell.
    known: RwLock<HashMap<u64, Option<Layout>>>,
}

/// More than a function can have.
const MOST: usize = 1 << 16;

impl Parameters {
    /// None: the driver would not tell (those before CUDA 12.4 cannot).
    pub fn of(&self, driver: &Driver, function: u64) -> Option<Layout> {
        if let Some(known) = self.known.read().get(&function) {
            return known.clone();
        }
        // The question has a function loaded that was not yet, as its launch would.
        let layout = match relaxed(driver, || ask(driver, function)) {
            Ok(layout) => Some(layout.into()),
            Err(Failure { code: None, .. }) => None,
            // It may be told later: in another context, or once another call has failed.
            Err(_) => return None,
        };
        self.known.write().insert(function, layout.clone());
        layout
    }

    /// Handles may be other functions' from now on.
    pub fn forget(&self) {
        self.known.write().clear();
    }
}

fn ask(driver: &Driver, function: u64) -> Result<Vec<(usize, usize)>, Failure> {
    match parameters(driver, "cuFuncGetParamInfo", function) {
        // How a CUkernel is answered.
        Err(Failure { code: Some(result::INVALID_HANDLE), .. }) => parameters(driver, "cuKernelGetParamInfo", function),
        told => told,
    }
}

fn parameters(driver: &Driver, name: &'static str, function: u64) -> Result<Vec<(usize, usize)>, Failure> {
    let mut found = Vec::new();
    loop {
        let (mut offset, mut size) = (0usize, 0usize);
        let words = [function, found.len() as u64, &raw mut offset as u64, &raw mut size as u64];
        // SAFETY: a live handle, an ordinal, two output words.
        match unsafe { driver.ask(name, &words) } {
            Ok(()) if found.len() < MOST => found.push((offset, size)),
            // An ordinal out of range is how the list ends.
            Err(Failure { code: Some(result::INVALID_VALUE), .. }) => return Ok(found),
            Ok(()) => return Ok(found),
            Err(failure) => return Err(failure),
        }
    }
}

/// Whether functions may end with this call.
pub fn end_with(function: &Function) -> bool {
    function.class == Class::unload
        || function.family == "context"
            && (function.class == Class::destroy
                || matches!(function.common_name(), "cuDevicePrimaryCtxRelease" | "cuCtxDetach"))
}
