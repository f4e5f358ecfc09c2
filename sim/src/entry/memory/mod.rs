//! The functions for memory: allocations of each kind, copies, fills, arrays, textures.

pub(super) mod allocate;
pub(super) mod array;
pub(super) mod batch;
pub(super) mod copy;
pub(super) mod hint;
pub(super) mod host;
pub(super) mod ipc;
pub(super) mod mipmap;
pub(super) mod pointer;
pub(super) mod pool;
pub(super) mod set;
pub(super) mod tensor_map;
pub(super) mod texture;
pub(super) mod virt;
