//! The tables of Nsight Systems' exports, and what they are written as. Imports `events`.

pub mod csv;
pub mod nsys;
pub mod parquet;
pub mod sqlite;
