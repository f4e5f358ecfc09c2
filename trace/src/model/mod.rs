//! The driver's state, reconstructed from recorded calls.

pub(crate) mod captures;
pub mod change;
pub mod contexts;
pub mod copy_bounds;
pub mod copy_endpoints;
pub mod decode;
pub mod driver_addresses;
pub(crate) mod ended_objects;
pub mod graph_memory;
pub mod graph_node;
pub mod idle;
pub mod memory;
pub mod nested_structs;
pub mod objects;
pub mod order;
pub mod origins;
pub mod outstanding;
pub(crate) mod physical;
pub mod stream;
pub mod streams;
pub mod touched;
pub mod value;
