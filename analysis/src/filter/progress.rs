//! The progress of a walk over the calls of a trace, for the user who waits for its result.

/// A receiver of the progress of walks; `()` ignores it.
pub trait Progress {
    /// A walk over this number of calls begins; `what` names it: `reading`.
    fn begin(&mut self, _what: &str, _calls: u64) {}

    /// One more call is done.
    fn advance(&mut self) {}

    /// The walk is over.
    fn end(&mut self) {}

    /// Whether nobody reads any more what is made: the rest may be left out.
    fn is_unread(&self) -> bool {
        false
    }
}

/// Nobody waits.
impl Progress for () {}
