//! Graphs before they run: the calls that become nodes, the memory of the nodes, the launches that run them.

pub(crate) mod callbacks;
pub(crate) mod captures;
pub(crate) mod nodes;
pub(crate) mod uses;
