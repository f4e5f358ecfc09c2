//! One recording: its parts, its range, and the NVTX registrations. Imports from `host_memory` and below.

pub(crate) mod nvtx_registry;
pub(crate) mod range;
pub(crate) mod recorder;
