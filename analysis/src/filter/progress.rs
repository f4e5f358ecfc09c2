//! How far a walk over the calls of a trace has come, for whoever waits for what is made of them.

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
