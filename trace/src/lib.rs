//! What a driver call is, and how calls are stored.
//!
//! [`api`] describes the driver, [`walk`] follows a call's arguments by that description, [`record`] and [`segment`] are
//! the bytes of a trace (field by field in FORMAT.md), [`Trace`] reads them back.

pub mod api;
pub mod call;
pub mod decode;
pub mod finish;
pub mod hash;
pub mod objects;
pub mod preamble;
pub mod reader;
pub mod record;
pub mod segment;
pub mod text;
pub mod walk;

pub use api::Function;
pub use call::Call;
pub use reader::{Damage, Error, Trace};
