//! The driver's state, as recorded calls tell it.

pub mod captures;
pub mod change;
pub mod contexts;
pub mod graph_memory;
pub mod memory;
pub mod order;
pub mod outstanding;
pub mod physical;
pub mod stream;
pub mod streams;
pub mod touched;
