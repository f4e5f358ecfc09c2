//! Repetition of a range of calls for timing: the calls that allow it, and the memory restored in between.

pub mod gate;
pub mod prepared_call;
pub mod repeatable;
pub mod restore;
pub mod timing;
