//! Writing a trace after its process: closing, repairing, extending, packing. Imports from `read` and below.

pub mod extend;
pub mod finish;
pub mod pack;
pub mod redact;
