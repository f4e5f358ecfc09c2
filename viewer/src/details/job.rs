//! An operation on one of NCCL's communicators, and the progress of the job's other ranks with it.

use super::{Detail, Tone, detail};
use crate::data::Model;
use crate::data::job::{Job, Operation};
use crate::data::lane::Source;
use crate::text::{duration, moment, tame};

/// Ranks that are shown beside it.
const RANKS: usize = 64;

pub(super) fn operation(job: &Job, model: &Model, lane: usize, at: usize) -> Vec<Detail> {
    let Some(operation) = job.operation(lane, at) else { return Vec::new() };
    let title = format!("#{}", operation.number);
    let mut all = vec![detail(title, model.name(model.lanes[lane].name[at]), Tone::Title)];
    all.push(detail("when", when(operation), Tone::Plain));
    if operation.is_captured {
        all.push(detail("", "captured: runs when its graph is launched", Tone::Quiet));
    }
    let others = job.counterparts(lane, at);
    for (other, index) in others.iter().take(RANKS) {
        let Some(found) = job.operation(*other, *index) else { continue };
        let apart = found.begin as i64 - operation.begin as i64;
        let how = if apart < 0 { "earlier" } else { "later" };
        let name = model.name(model.lanes[*other].name[*index]);
        // Ranks that call different operations are what a job hangs by.
        let differs = name != model.name(model.lanes[lane].name[at]);
        let (what, tone) = if differs { (format!("{name}, "), Tone::Bad) } else { (String::new(), Tone::Plain) };
        let text = format!("{what}began {} {how}, {}", duration(apart.unsigned_abs()), done(found));
        all.push(detail(tame(label(job, model, *other)), text, tone));
    }
    let behind = job.missing_ranks(lane, at).into_iter().take(RANKS);
    all.extend(behind.map(|of| detail(tame(label(job, model, of)), "has not begun", Tone::Bad)));
    all
}

fn label<'j>(job: &'j Job, model: &Model, lane: usize) -> &'j str {
    match model.lanes[lane].source {
        Source::Operations { process, .. } => job.label(process),
        _ => "?",
    }
}

fn when(operation: &Operation) -> String {
    format!("began at {}, {}", moment(operation.begin, 1_000), done(operation))
}

fn done(operation: &Operation) -> String {
    match operation.done {
        Some(done) => format!("completed within {}", duration(done.saturating_sub(operation.begin))),
        None if operation.is_captured => "captured".into(),
        None => "end unknown".into(),
    }
}
