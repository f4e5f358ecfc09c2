//! Modules whose origin is in the trace.

use crate::os::lock::Lock;
use std::collections::HashMap;

/// Modules whose origin is in the trace.
#[derive(Default)]
pub(crate) struct Modules {
    /// Each with the library it belongs to, 0 for none, and the context it was found in.
    modules: Lock<HashMap<u64, (u64, u64)>>,
}

impl Modules {
    /// A recorded call made or named this module.
    pub(crate) fn add(&self, module: u64, library: u64, context: u64) {
        self.modules.lock().insert(module, (library, context));
    }

    /// The library that the module belongs to, 0 for none.
    pub(crate) fn library_of(&self, module: u64) -> u64 {
        self.modules.lock().get(&module).map_or(0, |(library, _)| *library)
    }

    /// The handle may be another module's from now on.
    pub(crate) fn remove(&self, module: u64) {
        self.modules.lock().remove(&module);
    }

    /// Modules go with their library, and with their context.
    pub(crate) fn owner_ends(&self, owner: u64) {
        // Some of the calls that end contexts name a device instead, by its number.
        if owner < 4096 {
            return;
        }
        self.modules.lock().retain(|_, (library, context)| *library != owner && *context != owner);
    }

    /// Whether this module had no origin until now.
    pub(crate) fn is_new(&self, module: u64, context: u64) -> bool {
        self.modules.lock().insert(module, (0, context)).is_none()
    }
}
