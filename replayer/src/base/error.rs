//! Why there is no replay.

use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{path}: the driver cannot be loaded: {source}")]
    Driver { path: PathBuf, source: libloading::Error },
    #[error("the driver does not start: {failure}")]
    Init { failure: String },
    #[error("recorded memory cannot all go where it was in this process: {what}")]
    Collision { what: String },
    #[error("device {device} cannot be asked for its memory: {failure}")]
    Device { device: i32, failure: String },
    #[error("a thread for the recorded thread {thread} cannot be started: {source}")]
    Thread { thread: u32, source: std::io::Error },
    #[error("no thread can be started that looks after calls which do not come back: {source}")]
    Watch { source: std::io::Error },
    #[error(
        "there is no device {here} here to stand in for a recorded one; the driver has {count} (--device names others)"
    )]
    NoDevice { here: i32, count: i32 },
    #[error("CUPTI cannot be used: {why}")]
    Cupti { why: String },
    #[error("the range cannot be repeated: {why}")]
    Repeat { why: String },
    #[error("{path}: {why}")]
    Dump { path: PathBuf, why: String },
    #[error("a worker of the replay panicked; its message stands above")]
    Worker,
}
