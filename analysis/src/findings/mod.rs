//! Findings, as a report prints them and the viewer lists them. Imports `text`.

pub mod finding;
pub mod holes;
