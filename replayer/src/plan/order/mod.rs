//! The order of a trace's calls, as a plan and as a gate, and submissions without an order.

pub(crate) mod lifetimes;
pub(crate) mod partial_order;
pub(crate) mod unordered;
pub(crate) mod waits;
