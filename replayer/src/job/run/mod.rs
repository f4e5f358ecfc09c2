//! The job's part of the run: calls that concern other processes, shared with their replays or substituted.
//! Imports `run/` and the layers below.

pub(crate) mod shared_handles;
pub(crate) mod single_rank;
