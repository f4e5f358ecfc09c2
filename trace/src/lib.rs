//! What a driver call is, and how calls are stored.
//!
//! [`api`] describes the driver, [`walk`] follows a call's arguments by that description, [`record`] and
//! [`segment`] are the bytes of a trace (field by field in FORMAT.md), [`Trace`] reads them back and
//! [`finish`] closes them. [`model`] follows the driver's state through recorded calls. [`decode`] makes
//! [values](value) of a call, [`objects`] names what they refer to, [`text`] writes them down; kernel
//! arguments have types by [`signature`].

mod ahead;
pub mod amount;
pub mod annotation;
pub mod announcements;
pub mod api;
pub mod argument;
pub mod asked;
pub mod beside;
pub mod by_thread;
pub mod call;
mod calls;
pub mod closed_end;
pub mod collective;
pub mod control;
mod counted;
pub mod crossing;
mod crowded;
pub mod cupti;
pub mod damage;
pub mod declared;
pub mod decode;
mod described;
pub mod digits;
mod ended;
pub mod extend;
pub mod extra;
pub mod finish;
pub mod gone;
pub mod hash;
pub mod idle;
pub mod image;
mod index;
pub mod invented;
pub mod job;
pub mod known;
mod lane;
mod large_pages;
pub mod launch;
mod located;
mod lookup;
pub mod mapped;
mod mapping;
pub mod maps;
pub mod mark;
pub mod misfit;
pub mod model;
pub mod objects;
mod open_chunks;
pub mod origin;
pub mod origins;
pub mod pack;
mod packed;
pub mod parameters;
pub mod preamble;
mod prefetch;
pub mod reader;
pub mod record;
pub mod recorded;
pub mod redact;
pub mod reference;
mod references;
pub mod repeats;
mod results;
pub mod room;
mod scale;
pub mod segment;
mod segments;
pub mod shared_memory;
pub mod signature;
pub mod sources;
pub mod storage;
mod stretches;
pub mod text;
pub mod timed;
pub mod value;
pub mod varying;
pub mod walk;
mod writer;
pub mod written;

pub use api::Function;
pub use call::Call;
pub use damage::Damage;
pub use reader::{Error, Trace};
pub use references::Lacking;
