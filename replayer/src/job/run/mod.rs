//! The job's part of the run: calls that concern other processes, shared with their replays or substituted.
//! Imports `run/` and the layers below.

pub mod shared_handles;
pub mod single_rank;
