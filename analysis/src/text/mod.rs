//! Numbers, JSON, command lines and names, for people and scripts. Imports nothing of this crate.

pub mod figures;
pub mod json;
pub mod kernel_name;
pub mod numbers;
pub mod shell;
