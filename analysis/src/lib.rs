//! What a trace of CUDA driver calls says: reports, findings, calls as lines, jobs.
//!
//! The command prints what is made here, and the viewer shows the same findings. Nothing here parses
//! arguments, writes to a terminal or knows an exit status: an [`error`] has a kind, and whoever waits for a
//! walk over a trace hears of its [`progress`](filter::progress).
//!
//! ```
//! let trace = trace::Trace::open("../tests/golden/failing_calls.bin")?;
//! let found = analysis::report::findings::find(&trace);
//! assert_eq!(found[0].kind, "failed_calls");
//! # Ok::<(), trace::Error>(())
//! ```
//!
//! A folder imports only from those that stand before it in this list: [`error`], [`text`], [`filter`],
//! [`calls`], [`job`], [`findings`], [`tables`], [`report`]. Of other crates of this workspace only `trace` is
//! below.

#![warn(unreachable_pub)]

pub mod calls;
pub mod error;
pub mod filter;
pub mod findings;
pub mod job;
pub mod report;
pub mod tables;
pub mod text;
