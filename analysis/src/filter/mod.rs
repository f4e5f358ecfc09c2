//! Which calls of a trace are asked for, and how far a walk over them has come. Imports `text` and `error`.

pub mod grep;
pub mod progress;
pub mod selection;
