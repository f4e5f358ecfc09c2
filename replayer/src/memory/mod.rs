//! The location of recorded memory in the replay: at its own addresses, or elsewhere and translated.
//!
//! Imports `plan/` and the layers below.

pub mod arguments;
pub mod buffer;
pub mod captures;
pub mod cross_stream_reuse;
pub mod devices;
pub mod graph_host_memory;
pub mod live_address;
mod long_buffers;
pub mod objects;
pub mod pieces;
pub mod pinned;
pub mod place;
pub mod reserve;
pub mod stream_ordered;
pub mod translate;
pub mod words;
