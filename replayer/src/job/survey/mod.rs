//! The job's part of the walk that makes a plan: what calls export, import and lack. Imports `plan/` and what that may.

pub mod graphs;
pub mod missing_processes;
pub mod shared_handles;
pub mod single_rank;
