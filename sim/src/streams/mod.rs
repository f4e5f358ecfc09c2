//! Contexts, their streams, the streams' work, and events. A capturing stream adds to a graph, so this folder
//! and `graphs` import from each other; otherwise from `cupti` and below.

pub mod context;
pub mod event;
pub mod signal;
pub mod stream;
pub mod work;
