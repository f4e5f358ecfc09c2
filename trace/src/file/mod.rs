//! The bytes of a trace, as FORMAT.md describes them field by field. Imports from `code` and below.

pub mod closed_end;
pub mod control;
pub(crate) mod ended;
pub(crate) mod located;
pub(crate) mod lookup;
pub(crate) mod mapping;
pub mod mark;
pub(crate) mod open_chunks;
pub mod origin;
pub(crate) mod packed;
pub mod preamble;
pub mod record;
pub mod reference;
pub mod repeats;
pub(crate) mod scale;
pub mod segment;
pub mod shared_memory;
pub mod storage;
pub(crate) mod writer;
