//! Numbers of calls for the report of a replay, on which no decision depends.

#[derive(Default)]
pub struct CallCounts {
    /// Calls made inside other calls: the driver makes them again by itself.
    pub inner: u64,
    /// Calls that were under way when the recording ended.
    pub unfinished: Vec<u64>,
    pub launches: u64,
    pub unreached_launches: u64,
    /// Submissions to one stream that overlapped in time, so that their order is not known.
    pub overlapping_submissions: u64,
}
