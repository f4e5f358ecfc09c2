//! Recorded memory: allocations, their addresses and names, and the order between streams that share it.

pub mod addresses;
pub mod allocation_names;
pub mod allocations;
pub mod cross_stream_reuse;
pub mod tagged_addresses;
