//! Data that a trace only names, as parts of the program's files, for commands that need it.

use crate::terminal::exit::{FAILED, UNREADABLE, failure};
use analysis::text::figures::{counted, size};
use anyhow::Result;
use std::path::PathBuf;
use trace::Trace;
use trace::show::text::plain;

/// Files that are named at once.
const NAMED: usize = 5;

/// Has that data read from these files, and from no other: a stranger's trace may name any.
pub(crate) fn follow(trace: &mut Trace, among: &[PathBuf]) -> Result<()> {
    let sources = trace.sources();
    if sources.is_empty() {
        return Ok(());
    }
    let path = trace.path.display().to_string();
    if among.is_empty() {
        let (pieces, bytes) = sources
            .iter()
            .fold((0, 0u64), |(pieces, bytes), (_, more, len)| (pieces + more, bytes.saturating_add(*len)));
        let mut names: Vec<&str> = sources.iter().take(NAMED).map(|(source, ..)| source.path.as_str()).collect();
        let more = format!("and {} more", sources.len().saturating_sub(NAMED));
        if sources.len() > NAMED {
            names.push(&more);
        }
        let what = format!(
            "{path}: {} in {} were recorded by reference to parts of {}: give them with --weights FILE|DIR",
            size(bytes),
            counted(pieces, "piece"),
            names.join(", "),
        );
        return Err(failure(FAILED, plain(&what)));
    }
    let wrong = trace.follow_references(among);
    if wrong.is_empty() {
        return Ok(());
    }
    let more = wrong.len().saturating_sub(NAMED);
    let more = if more == 0 { String::new() } else { format!("; and {}", counted(more as u64, "more file")) };
    let named = wrong.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join("; ");
    Err(failure(UNREADABLE, plain(&format!("{path}: --weights: {named}{more}"))))
}
