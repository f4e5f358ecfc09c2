//! The terminal: taken, given back, read and written. Imports `view/`, `state/` and what those may.

pub(crate) mod classic;
pub mod input;
pub mod screen;
