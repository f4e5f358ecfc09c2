//! Copies that the recorder itself submits: imported memory and results of collectives. Imports from
//! `kernels` and below.

pub(crate) mod cloned_graphs;
pub(crate) mod imported_memory;
pub(crate) mod readback_pool;
pub(crate) mod readback_queue;
