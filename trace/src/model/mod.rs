//! The driver's state, as recorded calls tell it.

pub mod change;
pub mod contexts;
pub mod stream;
