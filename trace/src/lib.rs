//! What a driver call is, and how calls are stored.
//!
//! [`api`] describes the driver, [`walk`] follows a call's arguments by that description, [`record`] and
//! [`segment`] are the bytes of a trace (field by field in FORMAT.md), [`Trace`] reads them back and
//! [`finish`] closes them. [`model`] follows the driver's state through recorded calls. [`decode`] makes
//! [values](value) of a call, [`objects`] names what they refer to, [`text`] writes them down; kernel
//! arguments have types by [`signature`].

#![warn(unreachable_pub)]

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
