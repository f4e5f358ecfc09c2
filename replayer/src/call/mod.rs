//! One call made again: its arguments and memory from the recording, its objects from the replay, the driver
//! it goes to.
//!
//! Imports `session/` and what that may.

pub mod arguments;
pub mod build;
pub mod code;
pub mod devices;
pub mod frame;
pub mod host;
pub mod live;
pub mod pointers;
pub mod readback;
pub mod value_ops;
pub mod words;
