//! A trace of CUDA driver calls in the formats of other tools.
//!
//! `perfetto`, `chrome` and `jsonl` are written from front to back; [`tables`] are those of Nsight
//! Systems' exports, as a database, Parquet or CSV. The caller decides where files lie, and when they get
//! their names.
//!
//! ```
//! use analysis::filter::selection::Selection;
//! use analysis::job::time_axis::Process;
//! use export::streams::{Format, Request, write};
//!
//! let traces = [trace::Trace::open("../tests/golden/vector_add.bin")?];
//! let request = Request { format: Format::Jsonl, selection: &Selection::default(), arguments: true };
//! let mut out = Vec::new();
//! write(&mut out, &Process::all(&traces), &request, &mut (), |_, calls| assert!(calls > 0))?;
//! assert!(out.starts_with(br#"{"kind":"header""#));
//! # Ok::<(), analysis::error::Error>(())
//! ```
//!
//! Of this workspace's crates `analysis` and `trace` are below. Within this one, `events` is below the
//! formats.

#![warn(missing_docs, unreachable_pub)]
mod chrome;
mod events;
mod jsonl;
mod perfetto;
pub mod streams;
pub mod tables;
