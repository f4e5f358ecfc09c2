//! What somebody should look at, as a report prints it and the viewer lists it. Imports `text`.

pub mod finding;
pub mod holes;
