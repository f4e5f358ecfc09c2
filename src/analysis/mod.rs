//! x

pub mod calls;
pub mod error;
pub mod filter;
pub mod job;
pub mod report;
pub mod tables;
pub mod text;
