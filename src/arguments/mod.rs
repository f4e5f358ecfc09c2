//! Flags that several commands share, and the traces that they select. Imports the folders below it.

pub mod input;
pub mod rank_filter;
pub mod reading;
