//! The job's part of the plan's walk: exports, imports and missing objects. Imports `plan/` and the layers
//! below.

pub(crate) mod graphs;
pub(crate) mod missing_processes;
pub(crate) mod shared_handles;
pub(crate) mod single_rank;
