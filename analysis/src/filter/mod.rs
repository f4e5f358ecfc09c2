//! The selection of a trace's calls, and the progress of a walk over them. Imports `text` and `error`.

pub mod grep;
pub mod progress;
pub mod selection;
