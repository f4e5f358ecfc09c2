//! The order of a trace's calls, as a plan and as a gate, and submissions without an order.

pub mod lifetimes;
pub mod partial_order;
pub mod unordered;
pub mod waits;
