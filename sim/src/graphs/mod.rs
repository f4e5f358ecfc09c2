//! Graphs: nodes, the edges between them, the work of each node, captures, and instantiated graphs. Imports
//! `streams` and its imports.

pub(crate) mod capture;
pub(crate) mod exec;
pub(crate) mod graph;
pub(crate) mod node;
pub(crate) mod user_object;
