//! The functions for graphs, their nodes, and captures.

pub(super) mod any;
pub(super) mod attribute;
pub(super) mod capture;
pub(super) mod exec;
pub(super) mod graph;
pub(super) mod memory;
pub(super) mod node;
pub(super) mod parameters;
pub(super) mod user_object;
