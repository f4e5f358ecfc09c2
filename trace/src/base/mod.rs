//! Hashes, numbers, threads, and Linux's view of memory. Imports nothing else of this crate.

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
