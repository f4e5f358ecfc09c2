//! Graphs before they run: the calls that become nodes, the memory of the nodes, the launches that run them.

pub mod callbacks;
pub mod captures;
pub mod nodes;
pub mod uses;
