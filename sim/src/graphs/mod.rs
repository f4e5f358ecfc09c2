//! Graphs: nodes, the edges between them, the work of each node, captures, and instantiated graphs. Imports
//! `streams` and its imports.

pub mod capture;
pub mod exec;
pub mod graph;
pub mod node;
pub mod user_object;
