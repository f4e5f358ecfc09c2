//! Output files: each gets its name only when it is complete. Imports `process` and `terminal`.

pub(crate) mod directories;
pub(crate) mod output;
pub(crate) mod references;
pub(crate) mod sink;
