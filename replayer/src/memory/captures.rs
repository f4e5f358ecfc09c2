//! Captures in progress: none would survive a wait for its whole context, or a query of its stream.

use parking_lot::{RwLock, RwLockReadGuard};
use std::sync::atomic::{AtomicI64, Ordering::*};
use std::time::Duration;

/// Whoever waits may wait for what follows the capture: then it begins all the same.
const PATIENCE: Duration = Duration::from_secs(1);

#[derive(Default)]
pub(crate) struct Captures {
    under_way: AtomicI64,
    gate: RwLock<()>,
}

pub(crate) type CaptureGuard<'c> = RwLockReadGuard<'c, ()>;

impl Captures {
    pub(crate) fn any(&self) -> bool {
        self.under_way.load(SeqCst) > 0
    }

    /// While this is held none begins, or is known to have ended.
    pub(crate) fn hold(&self) -> CaptureGuard<'_> {
        // Callbacks look as well, which a wait that holds it may be for: it must not queue behind who wants
        // to begin one.
        self.gate.read_recursive()
    }

    /// Held across what would break a capture; none if one is under way.
    pub(crate) fn none(&self) -> Option<CaptureGuard<'_>> {
        Some(self.hold()).filter(|_| !self.any())
    }

    /// Before the call that begins one.
    pub(crate) fn begins(&self) {
        let _gate = self.gate.try_write_for(PATIENCE);
        self.under_way.fetch_add(1, SeqCst);
    }

    /// After the call that ended it, or did not begin it.
    pub(crate) fn ends(&self) {
        self.under_way.fetch_sub(1, SeqCst);
    }
}
