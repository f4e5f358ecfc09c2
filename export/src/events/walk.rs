//! One walk over a trace, for all formats.

use super::event::Event;
use analysis::error::Result;
use analysis::filter::grep::Grep;
use analysis::filter::progress::Progress;
use analysis::filter::selection::Selection;
use trace::Trace;
use trace::model::change::resolve;
use trace::model::decode::decode;
use trace::model::objects::Objects;
use trace::model::outstanding::Outstanding;

/// The data that a format writes besides times, names and results.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Needs {
    pub arguments: bool,
    /// Memory, streams and what is outstanding on them.
    pub model: bool,
    /// Also calls that are not asked for.
    pub all: bool,
}

/// The calls passed to the format.
pub(crate) struct Walked {
    pub calls: u64,
    /// How many they stand for.
    pub made: u64,
    /// What is alive behind the last of them.
    pub objects: Objects,
}

/// Hands over the calls that are asked for.
pub(crate) fn walk<'t>(
    trace: &'t Trace,
    selection: &Selection,
    needs: Needs,
    progress: &mut dyn Progress,
    mut see: impl FnMut(&Event<'_, 't>) -> Result<()>,
) -> Result<Walked> {
    let (wanted, grep) = (selection.test(trace)?, Grep::new(selection));
    let (mut objects, mut outstanding) = (Objects::default(), Outstanding::default());
    let end = selection.numbers(trace).end.min(trace.len() as u64);
    progress.begin("writing", end);
    let (most, mut calls, mut made) = (selection.limit.unwrap_or(u64::MAX), 0, 0u64);
    for call in trace.calls().take_while(|call| call.number < end) {
        progress.advance();
        if calls == most || progress.is_unread() {
            break;
        }
        let selected = wanted(&call) && grep.matches(&call);
        let decoded = (selected && needs.arguments || objects.concerned(&call)).then(|| decode(&call)).flatten();
        objects.advance(&call, decoded.as_ref());
        let function = call.function().filter(|_| needs.model && !call.inner);
        let step = function.map(|function| {
            let change = call.took_effect().then(|| resolve(&call, function)).flatten();
            let (_, followed) = outstanding.step(&call, function, change, &objects);
            (followed, outstanding.take_done())
        });
        let (followed, finished) = step.unwrap_or_default();
        if selected {
            calls += 1;
            made = made.saturating_add(call.count());
        }
        if selected || needs.all {
            let is_selected = selected;
            let (objects, outstanding) = (&objects, &outstanding);
            let event = Event { call, decoded, objects, is_selected, followed, finished, outstanding };
            see(&event).map_err(|error| error.with_place("writing the export"))?;
        }
    }
    progress.end();
    Ok(Walked { calls, made, objects })
}
