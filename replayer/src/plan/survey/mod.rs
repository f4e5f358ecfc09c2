//! The walk over a trace that makes its plan. Imports the other folders of `plan/`, and `job/`.

pub(crate) mod inputs;
pub(crate) mod memory;
pub(crate) mod walk;
