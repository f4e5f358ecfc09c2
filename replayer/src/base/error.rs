//! The reasons for which no replay takes place.

use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{path}: cannot load the driver: {source}")]
    Driver { path: PathBuf, source: libloading::Error },
    #[error("the driver does not start: {failure}")]
    Init { failure: String },
    #[error("some recorded addresses are already in use in this process: {what}")]
    Collision { what: String },
    #[error("cannot query the memory of device {device}: {failure}")]
    Device { device: i32, failure: String },
    #[error("cannot start a thread for recorded thread {thread}: {source}")]
    Thread { thread: u32, source: std::io::Error },
    #[error("cannot start the watchdog thread: {source}")]
    Watch { source: std::io::Error },
    #[error("device {here} does not exist on this machine (the driver has {count}); map it with --device")]
    NoDevice { here: i32, count: i32 },
    #[error("cannot use CUPTI: {why}")]
    Cupti { why: String },
    #[error("cannot repeat the range: {why}")]
    Repeat { why: String },
    #[error("{path}: {why}")]
    Dump { path: PathBuf, why: String },
    #[error("a replay thread panicked; see its message above")]
    Worker,
}
