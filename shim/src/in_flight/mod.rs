//! Work that is not known to have completed, and the host memory that it may read or write. Imports from
//! `driver` and below.

pub(crate) mod host_functions;
pub(crate) mod landing_range;
pub(crate) mod long_results;
pub(crate) mod node_runs;
pub(crate) mod pending;
pub(crate) mod pinned;
pub(crate) mod running_callbacks;
pub(crate) mod users;
