//! The job's part of the plan's walk: exports, imports and missing objects. Imports `plan/` and the layers
//! below.

pub mod graphs;
pub mod missing_processes;
pub mod shared_handles;
pub mod single_rank;
