//! Reading a trace: its index, its calls, its annotations. Imports from `file` and below.

pub mod annotation;
pub mod call;
pub(crate) mod call_counts;
pub(crate) mod calls;
pub mod collective;
pub(crate) mod described;
pub mod device_times;
pub mod host_writes;
pub(crate) mod image_index;
pub(crate) mod index;
pub mod reader;
pub mod recorded_memory;
pub(crate) mod references;
pub mod requested_size;
pub(crate) mod results;
pub(crate) mod segments;
pub mod shared_handles;
pub mod summary;
pub(crate) mod thread_reader;
