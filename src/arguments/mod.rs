//! Flags that several commands share, and which traces they name. Imports the folders below it.

pub mod input;
pub mod rank_filter;
pub mod reading;
