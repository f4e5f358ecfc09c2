//! The terminal: setup, restoration, input and output. Imports `view/`, `state/` and the layers below.

pub(crate) mod classic;
pub mod input;
pub mod screen;
