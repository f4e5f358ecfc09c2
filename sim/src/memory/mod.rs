//! Memory that devices can reach. `table` says what is live; the others say where it comes from.

pub mod allocate;
pub mod arena;
pub mod attribute;
pub mod ipc;
pub mod pages;
pub mod pinned;
pub mod pool;
pub mod reserve;
pub mod shared_file;
pub mod table;
pub mod virt;
