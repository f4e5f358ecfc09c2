//! Diagnosis: launches one at a time, the memory that each one changed, and the one that failed.
//!
//! Imports `profile/` and the layers below.

pub mod bisection;
pub(crate) mod culprit;
pub(crate) mod digest;
pub(crate) mod graph_execs;
pub(crate) mod launch_hashes;
pub(crate) mod serial_launches;
pub(crate) mod unroll;
