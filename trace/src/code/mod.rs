//! The kernels of a module image: parameters, types, sources of nondeterminism. Imports from `api` and below.

pub mod image;
pub mod parameter_types;
pub mod parameters;
pub mod varying;
