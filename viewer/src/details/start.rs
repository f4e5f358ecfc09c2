//! The contents of a trace, before anything is selected.

use super::detail::{Detail, Tone, detail};
use crate::data::event::NO_CALL;
use crate::data::lane::Source;
use crate::data::tables::Row;
use crate::state::State;
use crate::state::parts::action::Action;
use crate::state::parts::scope::Scope;
use crate::state::parts::tab::Tab;
use crate::state::table::busy;
use crate::text::{counted, cut, duration, percent, tame};
use analysis::calls::device_work::SIMULATED;
use analysis::text::kernel_name::last_part;

/// Functions, kernels and findings that are named.
const NAMED: usize = 3;
/// Cells of a name.
const LONGEST: usize = 32;

pub(super) fn page(state: &State) -> Vec<Detail> {
    let (opened, summary) = (&state.opened, state.opened.summary());
    let plain = |label: &str, text: String| detail(label, text, Tone::Plain);
    let key = |tab: Tab| state.keymap.first(Action::Show(tab)).unwrap_or("").to_owned();
    let program = opened.trace.preamble.program.rsplit('/').next().unwrap_or("");
    let calls = counted(opened.calls_made(), "call");
    let title = tame(&format!("process {} {program}: {calls} in {}", opened.trace.preamble.pid, duration(summary.end)));
    let mut all = vec![detail("trace", title, Tone::Title)];
    if let Some(job) = &opened.job {
        let processes = counted(job.specs.all.len() as u64, "process");
        let text = format!("{processes} on one time axis; sums and tables show {}, the first to begin", job.label(0));
        all.push(plain("job", tame(&text)));
    }
    all.push(plain("host", host(state)));
    all.extend(devices(state).into_iter().map(|line| plain("device", line)));
    if opened.trace.is_simulated() {
        all.push(plain("times", SIMULATED.into()));
    }
    if let Some((at, index)) = state.event {
        let lane = &opened.model.lanes[at];
        let (event, open) = (lane.event(index), state.keymap.first(Action::Open).unwrap_or("").to_owned());
        let name = cut(last_part(opened.model.name(event.name)), LONGEST);
        let call = if event.call == NO_CALL { String::new() } else { format!(", call {}", event.call) };
        all.push(plain("longest", format!("{} {name}{call}: {open} goes there", duration(event.length()))));
    }
    let listed = |label: &str, rows: &[Row], tab: Tab| {
        let total: u64 = rows.iter().map(|row| row.total).sum();
        let named = rows.iter().take(NAMED).map(|row| {
            let name = cut(last_part(opened.model.name(row.name)), LONGEST);
            format!("{name} {}", percent(row.total, total))
        });
        let named: Vec<String> = named.collect();
        (!named.is_empty()).then(|| plain(label, format!("{}; {} lists all", named.join(", "), key(tab))))
    };
    all.extend(listed("functions", &summary.functions, Tab::Api));
    let kernels = summary.timing.as_ref().map_or(&summary.kernels, |timing| &timing.kernels);
    all.extend(listed("kernels", kernels, Tab::Kernels));
    all.extend(findings(state, &key(Tab::Findings)));
    all
}

/// How much of the threads' time went to the driver.
fn host(state: &State) -> String {
    let lanes = &state.opened.model.lanes;
    let threads: Vec<_> = lanes.iter().filter(|lane| matches!(lane.source, Source::Thread { depth: 0, .. })).collect();
    let end = state.opened.summary().end;
    let busy = threads.iter().map(|lane| lane.cell(0, u64::MAX).busy).fold(0u64, u64::saturating_add);
    let whole = end.saturating_mul(threads.len() as u64);
    let of = counted(threads.len() as u64, "thread");
    let outside = duration(whole.saturating_sub(busy));
    format!("{} in the driver ({}), {outside} outside it, {of}", duration(busy), percent(busy, whole))
}

/// Each device, with how busy it was.
fn devices(state: &State) -> Vec<String> {
    let opened = &state.opened;
    let mut numbers: Vec<i32> =
        opened.model.lanes.iter().filter_map(|lane| Some(lane.source.queue()?.device)).collect();
    numbers.sort_unstable();
    numbers.dedup();
    let busy = busy::lines(opened, Scope::Whole, busy::FRAME);
    let lines = numbers.into_iter().map(|number| {
        let named = opened.trace.devices.iter().find(|about| about.ordinal == number);
        let name = named.map_or(String::new(), |about| format!(" {}", about.name));
        let own = format!("device {number}: ");
        let share = busy.iter().find_map(|line| line.strip_prefix(&own));
        let no_share = match state.opened.trace.may_be_replayed() {
            true => "no device times: busy share unknown (replay --profile)",
            false => "no device times: busy share unknown (record --gpu-times)",
        };
        let share = share.unwrap_or(no_share);
        tame(&format!("{number}{name}: {share}"))
    });
    lines.collect()
}

fn findings(state: &State, key: &str) -> Vec<Detail> {
    let Some(found) = state.opened.findings() else {
        let when = if state.opened.is_live() { "computed when the trace is closed" } else { "still being computed" };
        return vec![detail("findings", when, Tone::Quiet)];
    };
    if found.is_empty() {
        return vec![detail("findings", "none", Tone::Plain)];
    }
    let lines = found
        .iter()
        .take(NAMED)
        .enumerate()
        .map(|(at, found)| detail(if at == 0 { "findings" } else { "" }, tame(&found.line()), Tone::Plain));
    let more = found.len().saturating_sub(NAMED) as u64;
    let more = if more > 0 { format!("and {more} more: ") } else { String::new() };
    lines.chain([detail("", format!("{more}press {key} for the list"), Tone::Quiet)]).collect()
}
