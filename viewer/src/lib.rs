//! The timeline in the terminal.
//!
//! [`data`] is what a trace amounts to.

pub mod data;
pub mod synthetic;
pub mod text;
