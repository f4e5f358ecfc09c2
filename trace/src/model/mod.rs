//! The driver's state, as recorded calls tell it.

pub mod contexts;
pub mod stream;
