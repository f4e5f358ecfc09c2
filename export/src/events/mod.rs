//! The calls of a trace as events, from which slices, counters and tables are made. Imports `analysis` alone.

pub(crate) mod counters;
pub(crate) mod device_clock;
pub(crate) mod event;
pub(crate) mod outstanding;
pub(crate) mod track;
pub(crate) mod walk;
