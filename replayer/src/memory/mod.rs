//! Where recorded memory lies in the replay: at its own addresses, or elsewhere and translated.

pub mod bound;
pub mod buffer;
pub mod captures;
pub mod devices;
pub mod handover;
pub mod objects;
pub mod of_graphs;
pub mod ordered;
pub mod pieces;
pub mod pinned;
pub mod place;
pub mod reserve;
pub mod translate;
pub mod words;
