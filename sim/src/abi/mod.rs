//! The C ABI: raw pointers, results, and the structures of the interface. Imports nothing.

pub mod code;
pub mod pointers;
pub mod structs;

pub use pointers::*;
