//! The summary of a long trace in its footer: `record` and `repair` write it when they close the trace, so that
//! `info` answers without reading the calls.
//!
//! ```text
//! bincode(Layout) | bincode(Known) | bincode(Summary)
//! ```
//!
//! The footer's checksum covers it. Another version of cutrace may judge differently, so a summary is valid
//! only for the version that wrote it; without a valid one, the trace is read.

use crate::commands::info::summary::Summary;
use crate::terminal::exit::say;
use crate::verdict;
use analysis::text::figures::grouped;
use bincode::{Decode, Encode};
use std::io::{IsTerminal, stderr};
use std::path::Path;
use trace::Trace;
use trace::file::preamble::{decode, encode};
use trace::file::record::Ended;
use trace::read::summary::RecordSummary;
use trace::write::finish::Judgement;

/// Traces of fewer calls are read about as fast as their summary.
const LONG: usize = 100_000;
/// Traces of more calls are closed without a verdict and a summary: reading them takes half a minute.
const LONGEST: usize = 20_000_000;
/// Traces of more calls take over a second to read.
const SLOW: usize = 2_000_000;

#[derive(Encode, Decode, PartialEq, Eq)]
struct Layout {
    version: String,
    /// Counts changes of [`RecordSummary`] and [`Summary`] within a version.
    number: u32,
}

impl Layout {
    fn own() -> Layout {
        Layout { version: env!("CARGO_PKG_VERSION").into(), number: 1 }
    }
}

/// The verdict on a trace that is being closed, with the summary of a long one. `ended`: how its process
/// ended, and when, if the trace does not hold it yet.
pub(crate) fn judge(trace: &Trace, ended: Option<(Ended, u64)>) -> Judgement {
    if trace.len() < LONG {
        return verdict::in_words(trace).into();
    }
    if trace.len() > LONGEST {
        return Judgement::default();
    }
    if trace.len() > SLOW && stderr().is_terminal() {
        say(format_args!("reading {} calls once, for the verdict", grouped(trace.len() as u64)));
    }
    let summary = Summary::of(trace);
    let bytes = if summary.is_all(trace) { encoded(trace, &summary, ended) } else { Vec::new() };
    Judgement { verdict: summary.said.verdict, reasons: summary.said.reasons, summary: bytes }
}

fn encoded(trace: &Trace, summary: &Summary, ended: Option<(Ended, u64)>) -> Vec<u8> {
    let mut known = trace.summarize_without_calls();
    known.ended = ended.map(|(ended, _)| ended).or(known.ended);
    known.ended_at = ended.map(|(_, at)| at).or(known.ended_at);
    encode(&(Layout::own(), known, summary))
}

/// The trace without its calls, and its summary.
pub(crate) fn find(path: &Path) -> Option<(Trace, Summary)> {
    let bytes = Trace::summary(path).ok()??;
    // The parts behind the layout may be encoded otherwise by another version.
    let layout: Layout = decode(&bytes)?;
    if layout != Layout::own() {
        return None;
    }
    let (_, known, summary): (Layout, RecordSummary, Summary) = decode(&bytes)?;
    Some((Trace::open_summarized(path, known).ok()?, summary))
}
