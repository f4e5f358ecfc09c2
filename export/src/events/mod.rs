//! The calls of a trace as events, from which slices, counters and tables are made. Imports `analysis` alone.

pub mod counters;
pub mod device_clock;
pub mod event;
pub mod outstanding;
pub mod track;
pub mod walk;
