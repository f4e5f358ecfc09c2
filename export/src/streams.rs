//! Whole documents in the formats that are written from front to back.

use crate::chrome::Chrome;
use crate::events::walk::{Needs, walk};
use crate::jsonl::Jsonl;
use crate::perfetto::Perfetto;
use analysis::error::Result;
use analysis::filter::progress::Progress;
use analysis::filter::selection::Selection;
use analysis::job::time_axis::Process;
use std::io::Write;
use trace::Trace;

/// A format that is written from front to back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// For ui.perfetto.dev and trace_processor.
    Perfetto,
    /// JSON events as PyTorch's profiler writes them.
    Chrome,
    /// One JSON object a line.
    Jsonl,
}

/// The contents of a document.
pub struct Request<'r> {
    /// In which format.
    pub format: Format,
    /// Which of them.
    pub selection: &'r Selection,
    /// Whether with their arguments; JSON Lines always have these.
    pub arguments: bool,
}

/// Writes what these processes did. `written` is called for each trace, with how many calls of it were written.
pub fn write(
    out: &mut impl Write,
    processes: &[Process],
    request: &Request,
    progress: &mut dyn Progress,
    mut written: impl FnMut(&Trace, u64),
) -> Result<()> {
    let Request { format, selection, arguments } = *request;
    let needs = Needs { arguments, model: true, all: true };
    let mut chrome = Chrome::new(arguments);
    if format == Format::Chrome {
        chrome.begin(out, processes)?;
    }
    for process in processes {
        let trace = process.trace;
        let calls = match format {
            Format::Jsonl => jsonl(out, trace, selection, progress)?,
            Format::Chrome => {
                let mut of = chrome.process(out, process)?;
                let walked = walk(trace, selection, needs, progress, |event| chrome.call(out, &mut of, event))?;
                chrome.finish(out, of, selection)?;
                walked.made
            }
            Format::Perfetto => {
                let mut perfetto = Perfetto::new(process, selection, arguments)?;
                perfetto.begin(out)?;
                let walked = walk(trace, selection, needs, progress, |event| perfetto.call(out, event))?;
                perfetto.finish(out, selection.limit == Some(walked.calls))?;
                walked.made
            }
        };
        written(trace, calls);
    }
    if format == Format::Chrome {
        chrome.end(out)?;
    }
    Ok(())
}

fn jsonl(out: &mut impl Write, trace: &Trace, selection: &Selection, progress: &mut dyn Progress) -> Result<u64> {
    let mut jsonl = Jsonl::new(trace, selection)?;
    jsonl.begin(out)?;
    let needs = Needs { arguments: true, model: false, all: false };
    let walked = walk(trace, selection, needs, progress, |event| jsonl.call(out, event))?;
    // What follows the last call was asked for, too.
    if selection.numbers(trace).end >= trace.len() as u64 && selection.limit.is_none_or(|limit| walked.calls < limit) {
        jsonl.finish(out, &walked.objects)?;
    }
    Ok(walked.made)
}
