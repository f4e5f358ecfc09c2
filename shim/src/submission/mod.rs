//! A call before it is made: its shape, its stream, the memory that it reads and writes. Imports from
//! `records` and below.

pub(crate) mod copy_endpoints;
pub(crate) mod driver_memory;
pub(crate) mod hook;
pub(crate) mod launch_arguments;
pub(crate) mod nodes;
pub(crate) mod observation;
pub(crate) mod overlap;
pub(crate) mod readable;
pub(crate) mod shape;
pub(crate) mod substitute;
pub(crate) mod target_stream;
