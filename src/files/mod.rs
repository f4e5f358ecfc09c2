//! Files that are written: each gets its name when it is whole. Imports `process` and `terminal`.

pub mod directories;
pub mod output;
pub mod references;
pub mod sink;
