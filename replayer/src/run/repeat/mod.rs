//! A range of calls made again and again, to be timed: which calls can be, what is put back between the times.

pub mod gate;
pub mod prepared_call;
pub mod repeatable;
pub mod restore;
pub mod timing;
