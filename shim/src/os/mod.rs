//! Linux, glibc and the process: clocks, locks, mappings, pages, threads, texts. Imports from no other
//! folder.

pub(crate) mod clock;
pub(crate) mod config;
pub(crate) mod counters;
pub(crate) mod descriptors;
pub(crate) mod dirty_pages;
pub(crate) mod dl;
pub(crate) mod environment;
pub(crate) mod external_writers;
pub(crate) mod forks;
pub(crate) mod generation;
pub(crate) mod guard;
pub(crate) mod intervals;
pub(crate) mod lock;
pub(crate) mod log;
pub(crate) mod maps;
pub(crate) mod probe;
pub(crate) mod shared;
pub(crate) mod text;
pub(crate) mod thread;
pub(crate) mod transparency;
pub(crate) mod unwinder;
