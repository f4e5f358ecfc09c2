//! Memory that devices can reach, and copies. `table` lists the live ranges; the others allocate them.
//! Imports `base` and `abi`.

pub(crate) mod allocate;
pub(crate) mod arena;
pub(crate) mod attribute;
pub(crate) mod copy;
pub(crate) mod graph_allocation;
pub(crate) mod ipc;
pub(crate) mod pages;
pub(crate) mod pinned;
pub(crate) mod pool;
pub(crate) mod reserve;
pub(crate) mod shared_file;
pub(crate) mod table;
pub(crate) mod virt;
