//! Calls, arguments and kernels as text. Imports from `model` and below.

pub mod argument;
pub mod launch;
pub mod signature;
pub mod sources;
pub mod text;
