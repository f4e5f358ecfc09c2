//! Diagnosis: launches one at a time, the memory that each one changed, and the one that failed.
//!
//! Imports `profile/` and the layers below.

pub mod bisection;
pub mod culprit;
pub mod digest;
pub mod graph_execs;
pub mod launch_hashes;
pub mod serial_launches;
pub mod unroll;
