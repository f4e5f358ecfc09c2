//! Tables, and their output as text, CSV and JSON. Imports `text` and `error`.

pub(crate) mod durations;
pub mod render;
pub mod table;
pub(crate) mod tally;
pub mod unit;
