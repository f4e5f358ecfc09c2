//! How records are written: a thread's lane, its start and end, annotations, device times. Imports from `recording` and below.

pub(crate) mod annotate;
pub(crate) mod draft;
pub(crate) mod early;
pub(crate) mod finish;
pub(crate) mod join;
pub(crate) mod lane;
pub(crate) mod notes;
pub(crate) mod start;
pub(crate) mod times;
