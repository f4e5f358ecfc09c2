//! Other processes of a job: shared mappings, passed descriptors, collectives. Imports from `capture` and
//! below.

pub(crate) mod collective_graphs;
pub(crate) mod collective_results;
pub(crate) mod imported_snapshots;
pub(crate) mod operations;
pub(crate) mod passed_files;
pub(crate) mod shared_mappings;
