//! Recorded memory: allocations, their addresses and names, and the order between streams that share it.

pub(crate) mod addresses;
pub(crate) mod allocation_names;
pub(crate) mod allocations;
pub(crate) mod cross_stream_reuse;
pub(crate) mod tagged_addresses;
