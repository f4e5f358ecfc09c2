//! The C ABI: raw pointers, results, and the structures of the interface. Imports nothing.

pub(crate) mod code;
pub(crate) mod pointers;
pub(crate) mod structs;

pub(crate) use pointers::*;
