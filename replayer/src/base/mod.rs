//! The common base of the other folders: addresses and their ranges, comparison of bytes, work on several
//! threads, errors. Imports nothing of this crate.

pub(crate) mod addresses;
pub(crate) mod error;
pub(crate) mod extent;
pub(crate) mod parallel;
pub(crate) mod ranges;
#[cfg(test)]
pub(crate) mod sample;
