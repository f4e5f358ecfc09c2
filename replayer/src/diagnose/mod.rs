//! Finding what is wrong: launches one at a time, what each made of memory, and the one that failed.
//!
//! Imports `profile/` and what that may.

pub mod bisection;
pub mod culprit;
pub mod digest;
pub mod graph_execs;
pub mod launch_hashes;
pub mod serial_launches;
pub mod unroll;
