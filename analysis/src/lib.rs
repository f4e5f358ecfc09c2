//! Analysis of traces of CUDA driver calls: reports, findings, calls as lines, jobs.
//!
//! The command prints the results, and the viewer shows the same findings. Nothing here parses arguments,
//! writes to a terminal or knows an exit status: an [`error`] has a kind, and the caller receives the
//! [`progress`](filter::progress) of a walk over a trace.
//!
//! ```
//! let trace = trace::Trace::open("../tests/golden/failing_calls.bin")?;
//! let found = analysis::report::findings::find(&trace);
//! assert_eq!(found[0].kind, "failed_calls");
//! # Ok::<(), trace::Error>(())
//! ```
//!
//! A folder imports only from those before it in this list: [`error`], [`text`], [`filter`], [`calls`],
//! [`job`], [`findings`], [`tables`], [`report`]. Of this workspace's other crates only `trace` is below.

#![warn(missing_docs, unreachable_pub)]

pub mod calls;
pub mod error;
pub mod filter;
pub mod findings;
pub mod job;
pub mod report;
pub mod tables;
pub mod text;
