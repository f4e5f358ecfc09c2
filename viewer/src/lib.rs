//! The timeline in the terminal.
//!
//! [`data`] holds the data of a trace, [`state`] the part that is shown, [`details`] one event in words;
//! `update` changes the state by an input, and [`view`] draws it. [`terminal`] knows the terminal; nothing
//! below it does. [`app`] joins them. The folders are layers in this order: no file imports from one above
//! its own.

#![warn(missing_docs, unreachable_pub)]

pub mod app;
pub mod config;
pub mod data;
pub mod details;
pub mod export;
pub mod report;
pub mod state;
pub mod synthetic;
pub mod terminal;
pub mod text;
mod update;
pub mod view;
