//! A trace of CUDA driver calls in the formats of other tools.
//!
//! [`perfetto`], [`chrome`] and [`jsonl`] are written from front to back; [`tables`] are those of Nsight
//! Systems' exports, as a database, Parquet or CSV. Where files lie, and when they get their names, is whose
//! who asks.
//!
//! Of this workspace's crates `analysis` and `trace` are below. Within this one, [`events`] is below the
//! formats.

pub mod chrome;
pub mod events;
pub mod jsonl;
pub mod perfetto;
pub mod tables;
