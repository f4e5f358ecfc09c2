//! The calls of a trace as what slices, counters and tables are made of. Imports `analysis` alone.

pub mod counters;
pub mod device_clock;
pub mod event;
pub mod outstanding;
pub mod track;
pub mod walk;
