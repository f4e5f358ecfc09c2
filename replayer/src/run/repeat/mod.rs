//! Repetition of a range of calls for timing: the calls that allow it, and the memory restored in between.

pub(crate) mod gate;
pub(crate) mod prepared_call;
pub(crate) mod repeatable;
pub(crate) mod restore;
pub(crate) mod timing;
