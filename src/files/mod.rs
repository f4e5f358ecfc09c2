//! Output files: each gets its name only when it is complete. Imports `process` and `terminal`.

pub mod directories;
pub mod output;
pub mod references;
pub mod sink;
