//! The functions for graphs, their nodes, and captures.

pub mod any;
pub mod attribute;
pub mod capture;
pub mod exec;
pub mod graph;
pub mod memory;
pub mod node;
pub mod parameters;
pub mod user_object;
