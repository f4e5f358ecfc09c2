//! Contexts, their streams, the streams' work, and events. A capturing stream adds to a graph, so this folder
//! and `graphs` import from each other; otherwise from `cupti` and below.

pub(crate) mod context;
pub(crate) mod event;
pub(crate) mod signal;
pub(crate) mod stream;
pub(crate) mod work;
