//! The location of recorded memory in the replay: at its own addresses, or elsewhere and translated.
//!
//! Imports `plan/` and the layers below.

pub(crate) mod arguments;
pub(crate) mod buffer;
pub(crate) mod captures;
pub(crate) mod cross_stream_reuse;
pub(crate) mod devices;
pub(crate) mod graph_host_memory;
pub(crate) mod live_address;
mod long_buffers;
pub(crate) mod objects;
pub(crate) mod pieces;
pub(crate) mod pinned;
pub(crate) mod place;
pub(crate) mod reserve;
pub(crate) mod stream_ordered;
pub(crate) mod translate;
pub(crate) mod words;
