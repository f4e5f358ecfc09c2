//! The timeline in the terminal.
//!
//! [`data`] is what a trace amounts to, [`state`] what is shown of it and how input changes that, [`view`]
//! draws it. [`input`] and [`term`] know the terminal; nothing else does. [`app`] joins them.

pub mod app;
mod classic;
pub mod config;
pub mod data;
pub mod details;
pub mod export;
pub mod input;
pub mod kernel_name;
pub mod report;
pub mod state;
pub mod synthetic;
pub mod term;
pub mod text;
pub mod view;
