//! Tracks, and the numbers of those without a parent track.

pub(crate) const PROCESS_TRACK: u64 = 1;
/// Of the first thread.
pub(crate) const THREAD_TRACKS: u64 = 2;

/// A track to declare: its number, its parent's and its name.
pub(crate) struct Track {
    pub number: u64,
    pub parent: Option<u64>,
    pub name: String,
}
