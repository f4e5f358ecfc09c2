//! The process itself: its memory, its signals, its address space, and the program that it starts. Imports
//! `terminal`.

pub(crate) mod allocation;
pub(crate) mod layout;
pub(crate) mod program;
pub(crate) mod program_output;
pub(crate) mod signals;
