//! Callbacks of the application that the recorder has replaced by its own.

use crate::in_flight::node_runs::Turn;
use std::collections::HashMap;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering::*};

/// A callback passed to the driver.
pub(crate) struct Callback {
    pub function: u64,
    pub data: u64,
    /// Of which recording it is: a forked child does not know it.
    pub generation: u64,
    /// The call that handed it over: thread index and call number.
    pub thread: u32,
    pub call: u32,
    /// None for a node, which is run by graphs.
    pub turn: Option<Turn>,
    pub runs: AtomicU32,
    /// Of nodes: the one handed over before.
    pub before: AtomicPtr<Callback>,
}

/// The last that was handed over for a node: graphs, their copies and what is instantiated from them run it
/// as long as they live, so that it stays.
pub(crate) static OF_NODES: AtomicPtr<Callback> = AtomicPtr::new(std::ptr::null_mut());

/// Whether any was handed over for a node.
#[inline(always)]
pub(crate) fn any_of_nodes() -> bool {
    !OF_NODES.load(Relaxed).is_null()
}

/// Function and data of the application's by the data that the driver was given, of all nodes.
pub(crate) fn of_nodes() -> HashMap<u64, (u64, u64)> {
    let mut all = HashMap::new();
    let mut next = OF_NODES.load(Acquire);
    // SAFETY: what is in this list is never freed.
    while let Some(callback) = unsafe { next.as_ref() } {
        all.insert(next as u64, (callback.function, callback.data));
        next = callback.before.load(Acquire);
    }
    all
}

/// Handed over and not run yet, those of graphs aside. While there are any, what a copy will read may still
/// be written by one.
pub(crate) static UNDER_WAY: AtomicUsize = AtomicUsize::new(0);

pub(crate) fn any_under_way() -> bool {
    UNDER_WAY.load(Relaxed) != 0
}
