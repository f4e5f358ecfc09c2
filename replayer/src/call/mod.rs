//! One call, rebuilt and made: its arguments and memory come from the recording, its objects from the replay.
//!
//! Imports `session/` and the layers below.

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
