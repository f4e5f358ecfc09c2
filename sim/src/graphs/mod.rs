//! Graphs: nodes, the edges between them, what each node does, captures, and instantiated graphs. Imports `streams`, and
//! what that may import.

pub mod capture;
pub mod exec;
pub mod graph;
pub mod node;
pub mod user_object;
