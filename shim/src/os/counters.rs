//! Counts of what is not recorded. A process reports them when it ends; a forked child starts again at 0.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Calls that came while their own thread was writing a record: forwarded unrecorded. A signal handler's; or,
/// after a jump out of such a handler, all that follow.
pub(crate) static REENTRANT: AtomicU64 = AtomicU64::new(0);

/// Annotations that came so.
pub(crate) static INTERRUPTING: AtomicU64 = AtomicU64::new(0);

/// Calls of functions without a known prototype: passed on, only counted.
pub(crate) static OPAQUE_CALLS: AtomicU64 = AtomicU64::new(0);

/// Lookups of driver names that this table does not know: handed out unwrapped, and counted.
pub(crate) static UNKNOWN_NAMES: AtomicU64 = AtomicU64::new(0);

/// Calls that came when recording had been switched off.
pub(crate) static AFTERWARDS: AtomicU64 = AtomicU64::new(0);

/// A recording begins.
pub(crate) fn reset() {
    [&REENTRANT, &INTERRUPTING, &OPAQUE_CALLS, &UNKNOWN_NAMES, &AFTERWARDS]
        .iter()
        .for_each(|counter| counter.store(0, Relaxed));
}
