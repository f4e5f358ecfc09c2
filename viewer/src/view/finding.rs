//! A finding in words, and its place on the timeline.

use crate::details::{Detail, Tone, detail};
use crate::state::State;
use crate::state::command::quoted;
use crate::state::table::Value;
use crate::text::{duration, moment, tame};
use analysis::findings::finding::{Cost, Gap, IDLE, LOST};

/// Stretches and holes that are listed.
const LISTED: usize = 8;
/// Calls that are named.
const CALLS: usize = 24;

/// Of the row that is selected in their table.
pub(super) fn selected(state: &State) -> Vec<Detail> {
    let Some(findings) = state.opened.findings() else {
        let when = if state.opened.is_live() { "computed when the trace is closed" } else { "still being computed" };
        return vec![detail("", format!("findings are {when}"), Tone::Quiet)];
    };
    // The table may be sorted in another order: the number tells which it is.
    let number = state.table.rows.get(state.table_row).and_then(|row| match row.cells.first() {
        Some(Value::Count(number)) => usize::try_from(*number).ok()?.checked_sub(1),
        _ => None,
    });
    let Some(found) = number.and_then(|number| findings.get(number)) else {
        return vec![detail("", "no findings", Tone::Quiet)];
    };
    let (summary, path) = (state.opened.summary(), quoted(&state.opened.path.display().to_string()));
    let calls: Vec<String> = found.calls.iter().take(CALLS).map(u64::to_string).collect();
    let is_cut = found.times > calls.len() as u64;
    let of = is_cut.then(|| format!("{} of {}", calls.len(), found.times));
    let order = (calls.len() > 1 && matches!(found.cost, Cost::Time(_))).then(|| "costliest first".to_owned());
    let about = of.into_iter().chain(order).collect::<Vec<_>>().join(", ");
    let about = if about.is_empty() { about } else { format!(" ({about})") };
    let mut all = vec![
        detail("", tame(&found.what), Tone::Title),
        detail("evidence", tame(&found.evidence), Tone::Plain),
        detail("next", tame(&found.command(&path)), Tone::Plain),
    ];
    if !calls.is_empty() {
        all.push(detail("calls", format!("{}{about}", calls.join(" ")), Tone::Plain));
        all.push(detail("", format!("enter goes to call {}", calls[0]), Tone::Quiet));
    }
    // Stretches in which a device was idle: what the host did meanwhile.
    let gaps = found.calls.iter().filter_map(|call| summary.gaps.iter().find(|gap| u64::from(gap.before) == *call));
    if IDLE.contains(&found.kind.as_str()) {
        all.extend(gaps.take(LISTED).map(|gap| detail(duration(gap.length()), blamed(state, gap), Tone::Plain)));
    }
    if found.kind == LOST {
        let lines = summary.holes.iter().take(LISTED).map(|hole| {
            let text = format!("{} {}, {}: {}", hole.title(), moment(hole.begin, 1_000), hole.about(), hole.what);
            detail("lost", tame(&text), Tone::Bad)
        });
        all.extend(lines);
    }
    all
}

/// Why a device was idle, by its own times; or what the host did meanwhile: the call that took most of it, or
/// its own work between calls.
fn blamed(state: &State, gap: &Gap) -> String {
    let model = &state.opened.model;
    let name = |call: u32| model.find_call(call).map_or("?", |(lane, at)| model.name(model.lanes[lane].name[at]));
    let from = format!("from call {} ({}) to call {} ({})", gap.after, name(gap.after), gap.before, name(gap.before));
    if let Some((host, launch)) = gap.causes {
        let parts = [(host, "nothing submitted"), (launch, "in its call")];
        let rest = (gap.length().saturating_sub(host + launch), "after the call");
        let told = parts.into_iter().chain([rest]).filter(|(time, _)| *time > 0);
        let told: Vec<String> = told.map(|(time, what)| format!("{} {what}", duration(time))).collect();
        return format!("{from}: {}", told.join(", "));
    }
    let Some((lane, at)) = model.find_call(gap.before) else { return from };
    let (lane, cell) = (&model.lanes[lane], model.lanes[lane].cell(gap.begin, gap.end));
    let longest = cell.longest.map(|longest| longest as usize).filter(|longest| *longest != at);
    match longest {
        Some(at) => {
            let within = lane.end(at).min(gap.end).saturating_sub(lane.begin[at].max(gap.begin));
            let outside = duration(gap.length().saturating_sub(cell.busy));
            let (call, took) = (lane.call[at], duration(within));
            format!("{from}: {took} in call {call} ({}), {outside} outside the driver", name(call))
        }
        None => format!("{from}: no call of the thread in between"),
    }
}
