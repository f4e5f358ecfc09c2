//! The viewer's data of a trace: lanes of events with a pyramid over each, memory over time and sums; the
//! lives of objects; and findings. [`build`] makes it from a [`trace::Trace`], and [`store`] keeps it in a
//! file beside the trace.
//!
//! Imports `text`.

pub mod build;
pub(crate) mod column;
pub mod compare;
pub(crate) mod device;
pub mod event;
pub mod job;
pub mod lane;
pub(crate) mod lives;
pub(crate) mod memory;
mod model;
pub mod open;
pub mod ops;
pub(crate) mod pyramid;
pub(crate) mod ranges;
pub mod side_files;
pub mod store;
pub(crate) mod streams;
pub(crate) mod tables;
pub(crate) mod threads;
pub mod uses;
pub(crate) mod walk;

pub use model::{Model, Name, Summary};
