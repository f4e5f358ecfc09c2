//! A finding in words, and where it shows.

use crate::data::findings::{Gap, HOLES_TITLE, IDLE_TITLE, WAITED};
use crate::details::{Detail, Tone, detail};
use crate::state::State;
use crate::text::{duration, moment, tame};

/// Stretches and holes that are listed.
const LISTED: usize = 8;

/// Of the row that is selected in their table.
pub fn selected(state: &State) -> Vec<Detail> {
    // The table may be sorted in another order: the title tells which it is.
    let title = state.table.rows.get(state.table_row).and_then(|row| row.cells.get(2)).map(|value| value.text());
    let summary = state.opened.summary();
    let Some(found) = summary.findings.iter().find(|finding| Some(&finding.title) == title.as_ref()) else {
        return vec![detail("", "nothing was found that is worth looking at", Tone::Quiet)];
    };
    let calls: Vec<String> = found.evidence.iter().take(24).map(u32::to_string).collect();
    let mut all = vec![
        detail("", tame(&found.title), Tone::Title),
        detail("what it means", found.why.clone(), Tone::Plain),
        detail("calls", calls.join(" "), Tone::Plain),
        detail("", "enter goes to the first of them", Tone::Quiet),
    ];
    // Stretches in which a device was idle: what the host did meanwhile.
    let gaps = found.evidence.iter().filter_map(|call| summary.gaps.iter().find(|gap| gap.before == *call));
    if found.title == IDLE_TITLE || found.title.ends_with(WAITED) {
        all.extend(gaps.take(LISTED).map(|gap| detail(duration(gap.length()), blamed(state, gap), Tone::Plain)));
    }
    if found.title == HOLES_TITLE {
        let lines = summary.holes.iter().take(LISTED).map(|hole| {
            let text = format!("{} {}, {}: {}", hole.title(), moment(hole.begin, 1_000), hole.about(), hole.what);
            detail("lost", tame(&text), Tone::Bad)
        });
        all.extend(lines);
    }
    all
}

/// Why a device was idle, by its own times; or what the host did meanwhile: the call that took most of it, or its own work between
/// calls.
fn blamed(state: &State, gap: &Gap) -> String {
    let model = &state.opened.model;
    let name = |call: u32| model.find_call(call).map_or("?", |(lane, at)| model.name(model.lanes[lane].name[at]));
    let from = format!("from call {} ({}) to call {} ({})", gap.after, name(gap.after), gap.before, name(gap.before));
    if let Some((host, launch)) = gap.causes {
        let parts = [(host, "the host asked for nothing"), (launch, "its call was made")];
        let rest = (gap.length().saturating_sub(host + launch), "behind the call");
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
            format!("{from}: {took} in call {call} ({}), {outside} outside of the driver", name(call))
        }
        None => format!("{from}: the thread made no call in between"),
    }
}
