//! The program's ways into the recorder: exported functions, interposition, NVTX, NCCL. Imports from
//! everything below.

pub(crate) mod call;
pub(crate) mod constructor;
pub(crate) mod effects;
pub(crate) mod graph_dot;
pub(crate) mod interpose;
pub(crate) mod nccl;
pub(crate) mod nvtx;
pub(crate) mod steps;
pub(crate) mod wrappers;
