//! One call in words: arguments and enumerations by their names, handles and addresses by their objects.
//!
//! Imports `state/` and the layers below.

mod arguments;
mod column;
mod detail;
mod job;
mod memory;
mod name_sums;
mod selection;
mod start;
mod work;

pub(crate) use detail::detail;
pub use detail::{Detail, Tone};
pub use selection::selection;

use crate::data::Model;
use crate::data::event::{Category, Event, NO_CALL, change};
use crate::data::lane::{Lane, Source};
use crate::data::lives::{Life, Lives};
use crate::data::open::Opened;
use crate::state::State;
use crate::text::{bytes, counted, duration, moment, tame};
use analysis::findings::holes::Hole;
use analysis::text::kernel_name::{Names, Style};
use trace::Call;
use trace::api::enums::CUresult;
use trace::model::copy_bounds::misfits;
use trace::model::decode::{Decoded, decode};
use trace::model::objects::Objects;
use trace::model::value::Value;
use trace::read::call::{Content, Image};
use trace::show::text::{Text, symbol};

/// What is known of the current event; empty if there is none.
pub fn details(state: &State) -> Vec<Detail> {
    if state.welcome {
        return start::page(state);
    }
    if state.is_group(state.row) {
        return name_sums::group(state, state.row);
    }
    if let Some(selected) = selection::panel(state) {
        return selected;
    }
    if let Some(memory) = state.rows.get(state.row).and_then(|row| row.memory) {
        return memory::map(state, memory);
    }
    let crowd = column::under_cursor(state);
    if !crowd.is_empty() {
        return crowd;
    }
    let Some((at, event)) = state.current() else { return nothing(state) };
    let model = &state.opened.model;
    let Some(lane) = model.lanes.get(at) else { return Vec::new() };
    let mut all = heading(state, at, lane, &event);
    if event.call == NO_CALL {
        return all;
    }
    let opened = state.whose(at);
    let Some(call) = opened.call(event.call) else {
        all.push(detail("", "cannot read the record of this call", Tone::Bad));
        return all;
    };
    all.extend(outcome(&call, &event));
    let Some(decoded) = decode(&call) else {
        let words: Vec<String> = call.words().map(|word| format!("{word:#x}")).collect();
        all.push(detail("words", words.join(" "), Tone::Quiet));
        return all;
    };
    let (met, objects) = named_lives(opened.lives(), &decoded, event.call);
    all.extend(misfits(&call, &objects).into_iter().map(|what| detail("", what, Tone::Bad)));
    add_arguments(&mut all, &decoded, &objects);
    for (name, value) in &decoded.outputs {
        all.push(detail(format!("-> {name}"), tame(&Text(value, &objects).to_string()), Tone::Plain));
    }
    all.extend(met.iter().filter_map(|life| life_of(opened.lives()?, life, event.call).into()));
    all.extend(lost_data(opened, &call));
    all
}

/// What the call returned, and how often it did.
fn outcome(call: &Call, event: &Event) -> Vec<Detail> {
    let mut told = Vec::new();
    if let Some(result) = call.result {
        let tone = if event.flags.failed() { Tone::Bad } else { Tone::Plain };
        let name = symbol(CUresult::ENUM, result.into());
        told.push(detail("result", if result == 0 { name } else { format!("{name} ({result})") }, tone));
    } else {
        told.push(detail("result", "did not return before the trace ended", Tone::Bad));
    }
    if let Some(repeats) = call.repeats.filter(|repeats| repeats.calls > 0) {
        let inside = duration(call.repeats_took().max(0) as u64);
        let text = format!("{} with the same result, {inside} in the driver", counted(repeats.calls, "further call"));
        told.push(detail("repeated", text, Tone::Plain));
    }
    told
}

/// The kernel of a launch goes first, below the title.
fn add_arguments(all: &mut Vec<Detail>, decoded: &Decoded, objects: &Objects) {
    let launch = shape(&decoded.arguments);
    for (name, value) in &decoded.arguments {
        if let Value::Launch { kernel, arguments, given } = value {
            let list = [arguments::list(arguments, objects), given.note().unwrap_or_default()];
            let list = list.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("; ");
            let kernel = Names::new(Style::Short).display_name(kernel);
            all.insert(1, detail("kernel", tame(&format!("{kernel}({list})")), Tone::Plain));
            continue;
        }
        if let Some(shape) = launch.as_ref().filter(|_| SHAPE.contains(name)) {
            if *name == SHAPE[0] {
                all.push(detail("grid, block", shape.clone(), Tone::Plain));
            }
            continue;
        }
        if let Value::Struct(fields) = value
            && let Some(shape) = shape(fields)
        {
            all.push(detail("grid, block", shape, Tone::Plain));
            let rest: Vec<String> = fields
                .iter()
                .filter(|(field, _)| !SHAPE.contains(field))
                .map(|(field, value)| format!("{field}={}", Text(value, objects)))
                .collect();
            all.push(detail(*name, tame(&rest.join(", ")), Tone::Plain));
            continue;
        }
        let text = match value {
            Value::Result(address) => format!("output to {address:#x}"),
            value => tame(&Text(value, objects).to_string()),
        };
        all.push(detail(*name, text, Tone::Plain));
    }
}

/// Where no event is: what is lost there, or else what the trace holds.
fn nothing(state: &State) -> Vec<Detail> {
    let lost = hole(state);
    if !lost.is_empty() {
        return lost;
    }
    let hint = detail("", "no event under the cursor; . and , go to events", Tone::Quiet);
    std::iter::once(hint).chain(start::page(state)).collect()
}

/// What is known of the piece under the cursor that cannot be read.
fn hole(state: &State) -> Vec<Detail> {
    let lanes = state.rows.get(state.row).map_or(&[][..], |row| &row.lanes);
    let is_shown = |thread: u32| {
        let own = Source::Thread { thread, depth: 0 };
        lanes.iter().filter_map(|at| state.opened.model.lanes.get(*at)).any(|lane| lane.source == own)
    };
    let (from, to) = (state.window.cursor, state.window.cursor.saturating_add(state.window.step()));
    let here = |hole: &&Hole| hole.begin < to && from <= hole.end && is_shown(hole.thread);
    let Some(hole) = state.opened.summary().holes.iter().find(here) else { return Vec::new() };
    vec![
        detail("lost", tame(&hole.title()), Tone::Bad),
        detail("when", format!("{} to {}", moment(hole.begin, 1_000), moment(hole.end, 1_000)), Tone::Plain),
        detail("where", hole.about(), Tone::Plain),
        detail("damage", tame(&hole.what), Tone::Plain),
        detail("", "the calls before and after are intact; cutrace info lists all damage", Tone::Quiet),
    ]
}

/// Parameters that are shown as one line.
const SHAPE: [&str; 7] = ["gridDimX", "gridDimY", "gridDimZ", "blockDimX", "blockDimY", "blockDimZ", "sharedMemBytes"];

/// `4 x 1 x 1 blocks of 256 x 1 x 1 threads, 0 B shared`, of a launch, or of a struct that stands for one,
/// that has all these.
fn shape(named: &[(&str, Value)]) -> Option<String> {
    let mut found = [0; 7];
    for (name, into) in SHAPE.iter().zip(&mut found) {
        *into = named.iter().find_map(|(other, value)| match value {
            Value::Unsigned(value) if other == name => Some(*value),
            _ => None,
        })?;
    }
    let [gx, gy, gz, bx, by, bz, shared] = found;
    Some(format!("{gx} x {gy} x {gz} blocks of {bx} x {by} x {bz} threads, {} of shared memory", bytes(shared)))
}

fn heading(state: &State, at: usize, lane: &Lane, event: &Event) -> Vec<Detail> {
    let model = &state.opened.model;
    let name = model.name(event.name);
    let title = if event.call == NO_CALL { "NVTX".into() } else { format!("call {}", event.call) };
    let mut all = vec![detail(title, name, Tone::Title)];
    let step = state.window.step().min(1_000);
    match &lane.source {
        Source::Thread { thread, .. } => {
            let at = format!("{} for {} on t{thread}", moment(event.begin, step), duration(event.length()));
            all.push(detail("when", at, Tone::Plain));
            if let Some(second) = &state.opened.second {
                let (pair, other) = (second.of_first(event.call), &second.opened.model);
                all.push(difference("second", pair, other, event.length(), false));
            }
            all.extend(work::of_call(state, event.call, event.end));
        }
        Source::Stream(_) => {
            all.push(detail("submitted", moment(event.begin, step), Tone::Plain));
            let index = lane.of_call(event.call).unwrap_or(0);
            let returned = model.find_call(event.call).map_or(event.begin, |(at, index)| model.lanes[at].end(index));
            all.push(detail("work", work::outstanding(state, lane, index, returned), Tone::Plain));
        }
        Source::Device { .. } => {
            let text = format!("{} for {} on the device", moment(event.begin, step), duration(event.length()));
            all.push(detail("when", text, Tone::Plain));
            let index = state.event.filter(|(lane, _)| *lane == at).map(|(_, index)| index);
            let index = index.or_else(|| lane.event_at(event.begin)).unwrap_or(0);
            all.extend(work::measured(state, lane, index));
        }
        Source::Second(_) => {
            let text = format!("{} for {}", moment(event.begin, step), duration(event.length()));
            all.push(detail("when", text, Tone::Plain));
            match &state.opened.second {
                Some(second) => {
                    all.push(difference("first", second.of_second(event.call), model, event.length(), true))
                }
                None => all.push(difference("recorded", Some(event.call), model, event.length(), true)),
            }
        }
        Source::Peer { process, .. } => {
            let text = format!("{} for {}", moment(event.begin, step), duration(event.length()));
            all.push(detail("when", text, Tone::Plain));
            all.extend(state.opened.job.iter().map(|job| detail("process", tame(job.label(*process)), Tone::Plain)));
        }
        Source::Operations { .. } => {
            let index = state.index_of(at, event);
            return state
                .opened
                .job
                .iter()
                .zip(index)
                .flat_map(|(job, index)| job::operation(job, model, at, index))
                .collect();
        }
        Source::Range { thread, .. } => {
            let open = if event.flags.open() { ", open at the end of the trace" } else { "" };
            let text = format!("{} for {}{open}", moment(event.begin, step), duration(event.length()));
            all.push(detail("when", text, Tone::Plain));
            all.extend(work::range_contents(state, *thread, event));
            if let Some(index) = state.event.map(|(_, index)| index).or_else(|| lane.event_at(event.begin)) {
                all.extend(name_sums::of_range(state, (at, index), event.begin, event.end));
            }
        }
    }
    all
}

/// The call of the other run that belongs to one, and how much longer the later of the two took. `later`: the
/// one at hand.
fn difference(label: &str, pair: Option<u32>, model: &Model, took: u64, later: bool) -> Detail {
    let found = pair.and_then(|call| Some((call, model.find_call(call)?)));
    let Some((call, (lane, at))) = found else {
        return detail(label, "no matching call", Tone::Bad);
    };
    let other = model.lanes[lane].length(at);
    let (before, after) = if later { (other, took) } else { (took, other) };
    let percent = (after as f64 - before as f64) / before.max(1) as f64 * 100.0;
    let tone = if change(before, after) == Category::Slower { Tone::Bad } else { Tone::Plain };
    detail(label, format!("call {call}, {} ({percent:+.0}%)", duration(other)), tone)
}

/// The lives that a call's values name, and what stands for them in text.
fn named_lives(lives: Option<&Lives>, decoded: &Decoded, call: u32) -> (Vec<Life>, Objects) {
    match lives {
        Some(lives) => {
            let met = lives.named_lives(decoded, call);
            let objects = lives.objects(&met);
            (met, objects)
        }
        None => (Vec::new(), Default::default()),
    }
}

/// `mem#2: 4.1 kB, made by call 9, ended by call 17`
fn life_of(lives: &Lives, life: &Life, call: u32) -> Detail {
    let size = if life.is_range() { format!("{}, ", bytes(life.len)) } else { String::new() };
    let end = if life.is_range() { "freed" } else { "destroyed" };
    let ended = match life.ended {
        u32::MAX => format!("never {end}"),
        call => format!("{end} by call {call}"),
    };
    let (before, tone) = if life.ended < call { (", before this call", Tone::Bad) } else { ("", Tone::Quiet) };
    let text = format!("{size}made by call {}, {ended}{before}", life.made);
    detail(lives.title(life), text, tone)
}

/// Data that the call should have and that the file has not, or not as it was.
fn lost_data(opened: &Opened, call: &Call) -> Vec<Detail> {
    let wrong = call.images().filter_map(|image| match image.content {
        Content::Blob(hash) if opened.trace.lacks(hash) => Some((image, "is not in the file")),
        Content::Blob(hash) if opened.is_damaged(hash) => Some((image, "is damaged")),
        _ => None,
    });
    let told = |(image, what): (Image, &str)| {
        let text = format!("{} at {:#x} {what}; see cutrace info", bytes(image.len), image.address);
        detail("data", text, Tone::Bad)
    };
    wrong.map(told).collect()
}

/// An event in one line: a call as `dump` writes it.
pub fn line(state: &State, lane: usize, event: &Event) -> String {
    let opened = state.whose(lane);
    let number = event.call;
    if number == NO_CALL {
        let (from, took) = (moment(event.begin, 1), duration(event.length()));
        return format!("NVTX {} {from} {took}", state.opened.model.name(event.name));
    }
    let Some(call) = opened.call(number) else { return format!("{number} ?") };
    let trace = &opened.trace;
    let ns = trace.nanoseconds(call.begin).max(0);
    let mut text =
        format!("{number} {}.{:09} t{} {}(", ns / 1_000_000_000, ns % 1_000_000_000, call.thread, tame(call.name()));
    let decoded = decode(&call);
    if let Some(decoded) = &decoded {
        let (_, objects) = named_lives(opened.lives(), decoded, number);
        let arguments: Vec<String> = decoded
            .arguments
            .iter()
            .map(|(name, value)| match value {
                Value::Result(_) => format!("&{name}"),
                value => format!("{name}={}", Text(value, &objects)),
            })
            .collect();
        text.push_str(&arguments.join(", "));
        text.push_str(") -> ");
        decoded.outputs.iter().for_each(|(name, value)| text.push_str(&format!("{name}={}, ", Text(value, &objects))));
    } else {
        text.push_str("?) -> ");
    }
    match (call.result, call.end) {
        (Some(result), Some(end)) => {
            let took = (trace.nanoseconds(end) - trace.nanoseconds(call.begin)).max(0) as u64;
            text.push_str(&format!("{}  {}", symbol(CUresult::ENUM, result.into()), duration(took)));
            if let Some(repeats) = call.repeats.filter(|repeats| repeats.calls > 0) {
                let until = trace.nanoseconds(repeats.end).max(0);
                let (s, ns) = (until / 1_000_000_000, until % 1_000_000_000);
                text.push_str(&format!(", and {} more until {s}.{ns:09}", counted(repeats.calls, "time")));
            }
        }
        _ => text.push_str("(did not return)"),
    }
    tame(&text)
}
