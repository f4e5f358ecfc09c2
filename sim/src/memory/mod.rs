//! Memory that devices can reach, and copies. `table` lists the live ranges; the others allocate them.
//! Imports `base` and `abi`.

pub mod allocate;
pub mod arena;
pub mod attribute;
pub mod copy;
pub mod graph_allocation;
pub mod ipc;
pub mod pages;
pub mod pinned;
pub mod pool;
pub mod reserve;
pub mod shared_file;
pub mod table;
pub mod virt;
