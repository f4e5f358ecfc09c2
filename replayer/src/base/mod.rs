//! What the other folders stand on: addresses and ranges of them, bytes compared, work on several threads, errors.
//! Imports nothing of this crate.

pub(crate) mod addresses;
pub(crate) mod error;
pub(crate) mod extent;
pub(crate) mod parallel;
pub(crate) mod ranges;
#[cfg(test)]
pub(crate) mod sample;
