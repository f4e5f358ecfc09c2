//! What needs nothing else of this crate: hashes, numbers, threads, and what Linux says of memory.

pub mod amount;
pub mod announcements;
pub mod by_thread;
pub mod bytes;
pub mod damage;
pub mod digits;
pub mod free_memory;
pub mod hash;
pub mod job;
pub(crate) mod large_pages;
pub mod mapped;
pub mod maps;
pub mod parallel;
pub(crate) mod prefetch;
pub(crate) mod zstd;
