//! Marks.

/// A moment with a note.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// Nanoseconds.
    pub time: u64,
    pub note: String,
}
