//! The column under the cursor, if it stands for several events.

use super::detail::{Detail, Tone, detail};
use crate::data::event::NO_CALL;
use crate::details::name_sums;
use crate::state::State;
use crate::state::parts::action::Action;
use crate::state::parts::rows;
use crate::text::{counted, duration, grouped, percent};

/// Empty if there is no more than one, or one was chosen.
pub(super) fn under_cursor(state: &State) -> Vec<Detail> {
    let Some((at, from, to, cell)) = state.crowd() else { return Vec::new() };
    let model = &state.opened.model;
    let row = state.rows.get(state.row).map_or(String::new(), |row| rows::title(row, &state.opened));
    let failed = if cell.failed > 0 { format!(", {} failed", grouped(cell.failed.into())) } else { String::new() };
    let (busy, width) = (percent(cell.busy, to - from), duration(to - from));
    let text = format!("{}{failed} in this column ({width}), busy {busy}", counted(cell.count, "event"));
    let mut all = vec![detail("here", format!("{text} ({row})"), Tone::Title)];
    if let Some(longest) = cell.longest {
        let lane = state.filter.as_ref().and_then(|filter| filter.lanes.get(at)).map(|passing| &passing.lane);
        let event = lane.unwrap_or(&model.lanes[at]).event(longest as usize);
        let call = if event.call == NO_CALL { String::new() } else { format!(" (call {})", event.call) };
        let text = format!("{} {}{call}", duration(event.length()), model.name(event.name));
        all.push(detail("longest", text, if event.flags.failed() { Tone::Bad } else { Tone::Plain }));
    }
    let key = |action: Action| state.keymap.first(action).unwrap_or("").to_owned();
    let text = format!("{} zooms to them, {} goes to the next one", key(Action::Open), key(Action::NextEvent));
    all.push(detail("", text, Tone::Quiet));
    all.extend(name_sums::of_lanes(state, &[at], from, to));
    all
}
