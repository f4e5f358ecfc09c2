//! What a trace is to the viewer: lanes of events with a pyramid over each, memory over time and sums; the
//! lives of objects; and findings. Made from a [`trace::Trace`] by [`build`], kept in a file beside it by
//! [`store`].
//!
//! Imports `text`.

pub mod build;
pub mod column;
pub mod compare;
pub mod device;
pub mod event;
pub mod job;
pub mod lane;
pub mod lives;
pub mod memory;
mod model;
pub mod open;
pub mod ops;
pub mod pyramid;
pub mod ranges;
pub mod side_files;
pub mod store;
pub mod streams;
pub mod tables;
pub mod threads;
pub mod uses;
pub mod walk;

pub use model::{Model, Name, Summary};
