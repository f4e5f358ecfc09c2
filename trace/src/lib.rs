//! Driver calls and their storage: the table, the file format, and the model of the driver's state.
//!
//! [`api`] describes the driver, and [`api::walk`] follows a call's arguments by that description.
//! [`file::record`] and [`file::segment`] are the bytes of a trace (field by field in FORMAT.md), [`Trace`]
//! reads them and [`write::finish`] closes them. [`model`] follows the driver's state through recorded calls:
//! [`model::decode`] makes [values](model::value) of a call, [`model::objects`] names the objects in them,
//! and [`show::text`] prints them; kernel arguments get their types from [`show::signature`].

#![warn(missing_docs, unreachable_pub)]

pub mod api;
pub mod base;
pub mod code;
pub mod cupti;
pub mod file;
pub mod model;
pub mod read;
pub mod show;
pub mod write;

pub use api::Function;
pub use base::damage::Damage;
pub use read::call::Call;
pub use read::reader::{Error, Trace};
pub use read::references::Lacking;
