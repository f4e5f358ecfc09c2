//! The order of the calls of a trace, as a plan and as a gate, and what has none.

pub mod lifetimes;
pub mod partial_order;
pub mod unordered;
pub mod waits;
