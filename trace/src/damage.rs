//! What of a file could not be used.

/// Something in the file that could not be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    pub offset: u64,
    /// What was found and what was expected.
    pub what: String,
}
