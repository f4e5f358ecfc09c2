//! The request for a replay of a job.

use crate::arguments::rank_filter::Among;
use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

pub(crate) struct ReplayRequest<'a> {
    pub directory: &'a Path,
    /// Its processes that are replayed.
    pub processes: &'a Among,
    /// Options of `cutrace replay` for each of them.
    pub options: Vec<OsString>,
    /// `--timeout`
    pub timeout: Option<Duration>,
    pub json: bool,
}
