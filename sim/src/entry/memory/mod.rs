//! The functions for memory: allocations of each kind, copies, fills, arrays, textures.

pub mod allocate;
pub mod array;
pub mod batch;
pub mod copy;
pub mod hint;
pub mod host;
pub mod ipc;
pub mod mipmap;
pub mod pointer;
pub mod pool;
pub mod set;
pub mod tensor_map;
pub mod texture;
pub mod virt;
