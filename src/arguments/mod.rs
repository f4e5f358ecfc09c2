//! Flags that several commands share, and the traces that they select. Imports the folders below it.

pub(crate) mod input;
pub(crate) mod rank_filter;
pub(crate) mod reading;
