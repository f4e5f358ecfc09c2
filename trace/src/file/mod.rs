//! The bytes of a trace, as FORMAT.md describes them field by field. Imports from `code` and below.

pub(crate) mod call_table;
pub mod control;
pub mod end_mark;
pub(crate) mod lookup;
pub(crate) mod mapping;
pub mod mark;
pub(crate) mod open_chunks;
pub mod origin;
pub(crate) mod packed;
pub mod preamble;
pub(crate) mod program_end;
pub mod record;
pub mod reference;
pub mod repeats;
pub(crate) mod scale;
pub mod segment;
pub mod shared_memory;
pub mod storage;
pub(crate) mod writer;
