//! The reasons for which no replay takes place.

use std::path::PathBuf;

/// A failure that prevents a replay or ends it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The driver's library cannot be loaded.
    #[error("{path}: cannot load the driver: {source}")]
    Driver {
        /// Path of the library.
        path: PathBuf,
        /// Error of the dynamic linker.
        source: libloading::Error,
    },
    /// cuInit or cuDeviceGetCount failed.
    #[error("the driver does not start: {failure}")]
    Init {
        /// The driver's error.
        failure: String,
    },
    /// A recorded range cannot be reserved; another process may have it free.
    #[error("some recorded addresses are already in use in this process: {what}")]
    Collision {
        /// The mapping that is in the way.
        what: String,
    },
    /// A query of a device's memory failed.
    #[error("cannot query the memory of device {device}: {failure}")]
    Device {
        /// Ordinal of the device on this machine.
        device: i32,
        /// The driver's error.
        failure: String,
    },
    /// The operating system refused a thread.
    #[error("cannot start a thread for recorded thread {thread}: {source}")]
    Thread {
        /// Number of the recorded thread.
        thread: u32,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// The operating system refused the thread that watches for a lack of progress.
    #[error("cannot start the watchdog thread: {source}")]
    Watch {
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// A recorded device is mapped to an ordinal that the driver does not have.
    #[error("device {here} does not exist on this machine (the driver has {count}); choose others with --device")]
    NoDevice {
        /// The ordinal.
        here: i32,
        /// Devices of this machine.
        count: i32,
    },
    /// NVIDIA's profiling library is required and cannot be used.
    #[error("cannot use CUPTI: {why}")]
    Cupti {
        /// The reason, of each library that was tried.
        why: String,
    },
    /// The range contains calls that cannot be repeated.
    #[error("cannot repeat the range: {why}")]
    Repeat {
        /// The reason.
        why: String,
    },
    /// Dumped memory could not be written to its file.
    #[error("{path}: {why}")]
    Dump {
        /// Path of the file.
        path: PathBuf,
        /// The reason.
        why: String,
    },
    /// A worker thread panicked.
    #[error("a replay thread panicked; see its message above")]
    Worker,
}
