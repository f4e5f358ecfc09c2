//! The process itself: its memory, its signals, its address space, and the program that it starts. Imports
//! `terminal`.

pub mod allocation;
pub mod layout;
pub mod program;
pub mod program_output;
pub mod signals;
