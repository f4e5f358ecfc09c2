//! The call that returned a handle, as the index stores it.

use bincode::{Decode, Encode};

/// A handle that a call returned for code it loaded, or for an object it found in code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
pub struct Origin {
    /// A [`Kind`](crate::api::types::Kind).
    pub(crate) kind: u8,
    pub(crate) handle: u64,
    /// The call, by its number in the trace, then as [`Trace::call_at`](crate::Trace::call_at) wants it.
    pub(crate) call: u64,
    pub(crate) thread: u32,
    pub(crate) sequence: u32,
    pub(crate) is_inner: bool,
    /// What it was found in, or given to; none of what was loaded, and of a new linker.
    pub(crate) owner: Option<(u8, u64)>,
}
