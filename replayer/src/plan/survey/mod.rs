//! The walk over a trace that makes its plan. Imports the other folders of `plan/`, and `job/`.

pub mod inputs;
pub mod memory;
pub mod walk;
