//! x

pub mod chrome;
pub mod events;
pub mod jsonl;
pub mod perfetto;
pub mod tables;
