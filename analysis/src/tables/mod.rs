//! Tables, and how they are written: for the eye, as CSV, as JSON. Imports `text` and `error`.

pub mod durations;
pub mod render;
pub mod table;
pub mod tally;
pub mod unit;
