//! The parts of a file that could not be read.

/// A part of the file that could not be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// Byte in the unpacked file at which the damage begins.
    pub offset: u64,
    /// What was found and what was expected.
    pub what: String,
    /// Whether what stood there is gone: what stands twice, or is made anew when the trace is closed, is not.
    pub loses: bool,
}

impl Damage {
    pub(crate) fn new(offset: u64, what: impl Into<String>) -> Damage {
        Damage { offset, what: what.into(), loses: true }
    }

    /// That `repair` can mend.
    pub(crate) fn mendable(offset: u64, what: impl Into<String>) -> Damage {
        Damage { loses: false, ..Damage::new(offset, what) }
    }
}
