//! The parameters that live functions have, asked of the driver once per function: it reads an argument for
//! each of them, whatever the trace says of the function.

use crate::driver::stream::relaxed;
use crate::driver::{Driver, Failure};
use parking_lot::RwLock;
use std::collections::HashMap;
use std::sync::Arc;
use trace::Function;
use trace::api::effect::Effect;
use trace::api::roles::Class;
use trace::api::types::Kind;

/// Offset and size by ordinal.
pub type Layout = Arc<[(usize, usize)]>;

#[derive(Default)]
pub struct Parameters {
    /// By live CUfunction or CUkernel; None where the driver cannot tell.
    known: RwLock<HashMap<u64, Option<Layout>>>,
}

impl Parameters {
    /// None: the driver would not tell (those before CUDA 12.4 cannot).
    pub fn of(&self, driver: &Driver, function: u64) -> Option<Layout> {
        if let Some(known) = self.known.read().get(&function) {
            return known.clone();
        }
        // The question has a function loaded that was not yet, as its launch would.
        let layout = match relaxed(driver, || driver.parameters(function)) {
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

/// Whether functions may end with this call.
pub fn end_with(function: &Function) -> bool {
    let ends_context = matches!(function.effect, Effect::ReleasePrimary | Effect::ResetPrimary | Effect::DetachContext)
        || [Kind::Context, Kind::GreenContext].into_iter().any(|kind| function.ends(kind).is_some());
    ends_context || function.class == Class::unload
}
