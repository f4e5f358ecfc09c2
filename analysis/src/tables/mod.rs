//! Tables, and their output as text, CSV and JSON. Imports `text` and `error`.

pub mod durations;
pub mod render;
pub mod table;
pub mod tally;
pub mod unit;
