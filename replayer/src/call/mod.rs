//! One call, rebuilt and made: its arguments and memory come from the recording, its objects from the replay.
//!
//! Imports `session/` and the layers below.

pub(crate) mod arguments;
pub(crate) mod build;
pub(crate) mod code;
pub(crate) mod devices;
pub(crate) mod frame;
pub(crate) mod host;
pub(crate) mod live;
pub(crate) mod pointers;
pub(crate) mod readback;
pub(crate) mod value_ops;
pub(crate) mod words;
