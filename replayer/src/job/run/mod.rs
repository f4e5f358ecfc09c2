//! The job's part of the run: calls about other processes, shared with their replays or stood in for. Imports `run/`
//! and what that may.

pub mod shared_handles;
pub mod single_rank;
