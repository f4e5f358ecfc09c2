//! The viewer's data of a trace: lanes of events with a pyramid over each, memory over time and sums; the
//! lives of objects; and findings. [`build`] makes it from a [`trace::Trace`], and [`store`] keeps it in a
//! file beside the trace.
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
