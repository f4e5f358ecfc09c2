//! The tables of Nsight Systems' exports, and their file formats. Imports `events`.

pub mod csv;
pub mod nsys;
pub mod parquet;
pub mod sqlite;
