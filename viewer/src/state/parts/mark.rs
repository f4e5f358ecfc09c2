//! Marks.

/// A moment with a note.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// Nanoseconds.
    pub time: u64,
    /// The user's text, which may be empty.
    pub note: String,
}
