//! Graphs before they run: which calls become nodes, which memory the nodes use, which launches run them.

pub mod callbacks;
pub mod captures;
pub mod nodes;
pub mod uses;
