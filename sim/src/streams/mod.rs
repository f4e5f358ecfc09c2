//! Contexts, the streams in them, what streams do, and events. A stream that captures adds to a graph, so this folder and
//! `graphs` import from each other; else from `cupti` and below.

pub mod context;
pub mod event;
pub mod signal;
pub mod stream;
pub mod work;
