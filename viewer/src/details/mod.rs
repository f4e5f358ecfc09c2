//! One call in words: every argument by name, enumerations by theirs, handles and addresses by their objects.

mod memory;
mod work;

use crate::data::Model;
use crate::data::compare;
use crate::data::event::{Category, Event, NO_CALL};
use crate::data::lane::{Lane, Source};
use crate::data::lives::{Life, Lives};
use crate::kernel_name::{Names, Style};
use crate::state::State;
use crate::text::{bytes, counted, duration, moment, tame};
use trace::api::enums::CUresult;
use trace::decode::{Decoded, decode};
use trace::text::{Text, symbol};
use trace::value::Value;

/// A line of the details.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Detail {
    pub label: String,
    pub text: String,
    pub tone: Tone,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    Title,
    Plain,
    Bad,
    Quiet,
}

fn detail(label: impl Into<String>, text: impl Into<String>, tone: Tone) -> Detail {
    Detail { label: label.into(), text: text.into(), tone }
}

/// What is known of the current event; empty if there is none.
pub fn of(state: &State) -> Vec<Detail> {
    if let Some(memory) = state.rows.get(state.row).and_then(|row| row.memory) {
        return memory::map(state, memory);
    }
    let Some((at, event)) = state.current() else { return Vec::new() };
    let model = &state.opened.model;
    let Some(lane) = model.lanes.get(at) else { return Vec::new() };
    let mut all = heading(state, at, lane, &event);
    if event.call == NO_CALL {
        return all;
    }
    // A call of a second trace is to be had from that one; its objects are not named.
    let second = state.opened.second.as_deref().filter(|_| matches!(lane.source, Source::Second(_)));
    let (opened, lives) = match second {
        Some(second) => (&second.opened, None),
        None => (&*state.opened, state.lives.as_deref()),
    };
    let Some(call) = opened.call(event.call) else {
        all.push(detail("", "the record of this call cannot be read any more", Tone::Bad));
        return all;
    };
    if let Some(result) = call.result {
        let tone = if event.flags.failed() { Tone::Bad } else { Tone::Plain };
        let name = symbol(CUresult::ENUM, result.into());
        all.push(detail("result", if result == 0 { name } else { format!("{name} ({result})") }, tone));
    } else {
        all.push(detail("result", "it had not returned when the trace ended", Tone::Bad));
    }
    let Some(decoded) = decode(&call) else {
        let words: Vec<String> = call.words().map(|word| format!("{word:#x}")).collect();
        all.push(detail("words", words.join(" "), Tone::Quiet));
        return all;
    };
    let (met, objects) = named(lives, &decoded, event.call);
    let shape = shape(&decoded);
    for (name, value) in &decoded.arguments {
        if let Value::Launch { kernel, arguments } = value {
            let list: Vec<String> = arguments.iter().map(|value| Text(value, &objects).to_string()).collect();
            let kernel = Names::new(Style::Short).of(kernel);
            all.insert(1, detail("kernel", tame(&format!("{kernel}({})", list.join(", "))), Tone::Plain));
            continue;
        }
        if let Some(shape) = shape.as_ref().filter(|_| SHAPE.contains(name)) {
            if *name == SHAPE[0] {
                all.push(detail("grid, block", shape.clone(), Tone::Plain));
            }
            continue;
        }
        let text = match value {
            Value::Result(address) => format!("fills {address:#x}"),
            value => tame(&Text(value, &objects).to_string()),
        };
        all.push(detail(*name, text, Tone::Plain));
    }
    for (name, value) in &decoded.outputs {
        all.push(detail(format!("-> {name}"), tame(&Text(value, &objects).to_string()), Tone::Plain));
    }
    all.extend(met.iter().filter_map(|life| life_of(state, life)));
    all
}

/// Parameters that are shown as one line.
const SHAPE: [&str; 7] = ["gridDimX", "gridDimY", "gridDimZ", "blockDimX", "blockDimY", "blockDimZ", "sharedMemBytes"];

/// `4 x 1 x 1 blocks of 256 x 1 x 1 threads, 0 B shared`, of a launch that has all these parameters.
fn shape(decoded: &Decoded) -> Option<String> {
    let mut found = [0; 7];
    for (name, into) in SHAPE.iter().zip(&mut found) {
        *into = decoded.arguments.iter().find_map(|(other, value)| match value {
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
                all.push(against("second", pair, other, event.length(), false));
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
            let index = index.or_else(|| lane.under(event.begin)).unwrap_or(0);
            all.extend(work::measured(state, lane, index));
        }
        Source::Second(_) => {
            let text = format!("{} for {}", moment(event.begin, step), duration(event.length()));
            all.push(detail("when", text, Tone::Plain));
            match &state.opened.second {
                Some(second) => all.push(against("first", second.of_second(event.call), model, event.length(), true)),
                None => all.push(against("recorded", Some(event.call), model, event.length(), true)),
            }
        }
        Source::Range { thread, .. } => {
            let open = if event.flags.open() { ", not ended when the trace did" } else { "" };
            let text = format!("{} for {}{open}", moment(event.begin, step), duration(event.length()));
            all.push(detail("when", text, Tone::Plain));
            all.extend(work::within(state, *thread, event));
        }
    }
    all
}

/// The call of the other run that belongs to one, and how much longer the later of the two took. `later`: the one at hand.
fn against(label: &str, pair: Option<u32>, model: &Model, took: u64, later: bool) -> Detail {
    let found = pair.and_then(|call| Some((call, model.find_call(call)?)));
    let Some((call, (lane, at))) = found else {
        return detail(label, "no such call there", Tone::Bad);
    };
    let other = model.lanes[lane].length(at);
    let (before, after) = if later { (other, took) } else { (took, other) };
    let change = (after as f64 - before as f64) / before.max(1) as f64 * 100.0;
    let tone = if compare::change(before, after) == Category::Slower { Tone::Bad } else { Tone::Plain };
    detail(label, format!("call {call}, {} ({change:+.0}%)", duration(other)), tone)
}

/// The objects that a call names.
pub fn objects_of(state: &State, call: u32) -> Vec<Life> {
    let lives = state.lives.as_deref();
    let found = state.opened.call(call).and_then(|call| decode(&call));
    found.map_or_else(Vec::new, |decoded| named(lives, &decoded, call).0)
}

/// The lives that a call's values name, and what stands for them in text.
fn named(lives: Option<&Lives>, decoded: &Decoded, call: u32) -> (Vec<Life>, trace::objects::Objects) {
    match lives {
        Some(lives) => {
            let met = lives.met(decoded, call);
            let objects = lives.objects(&met);
            (met, objects)
        }
        None => (Vec::new(), Default::default()),
    }
}

/// `mem#2: 4.1 kB, made by call 9, ended by call 17`
pub(crate) fn life_of(state: &State, life: &Life) -> Option<Detail> {
    let lives = state.lives.as_deref()?;
    let size = if life.is_range() { format!("{}, ", bytes(life.len)) } else { String::new() };
    let ended = match life.ended {
        u32::MAX => "never ended".into(),
        call => format!("ended by call {call}"),
    };
    let text = format!("{size}made by call {}, {ended}", life.made);
    Some(detail(lives.title(life), text, Tone::Quiet))
}

/// An event in one line: a call as `dump` writes it.
pub fn line(state: &State, event: &Event) -> String {
    let number = event.call;
    if number == NO_CALL {
        let (from, took) = (moment(event.begin, 1), duration(event.length()));
        return format!("NVTX {} {from} {took}", state.opened.model.name(event.name));
    }
    let Some(call) = state.opened.call(number) else { return format!("{number} ?") };
    let trace = &state.opened.trace;
    let ns = trace.nanoseconds(call.begin).max(0);
    let mut text =
        format!("{number} {}.{:09} t{} {}(", ns / 1_000_000_000, ns % 1_000_000_000, call.thread, tame(call.name()));
    let decoded = decode(&call);
    if let Some(decoded) = &decoded {
        let (_, objects) = named(state.lives.as_deref(), decoded, number);
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
        }
        _ => text.push_str("(did not return)"),
    }
    tame(&text)
}

/// What the selection holds, in one line for the status.
pub fn selection(state: &State) -> Option<String> {
    let (from, to) = state.selection()?;
    let width = duration(to - from);
    let Some(all) = state.statistics(from, to) else { return Some(format!("{width} selected")) };
    let share = crate::text::percent(all.busy, all.width);
    let mut text = format!("{width} selected: {}, {} busy ({share})", counted(all.count, "event"), duration(all.busy));
    if all.own != all.busy {
        text.push_str(&format!(", own {}", duration(all.own)));
    }
    text.push_str(&format!(", pauses {}", crate::text::percent(all.width.saturating_sub(all.busy), all.width)));
    if let Some([least, median, p99, most]) = all.lengths {
        let [least, median, p99, most] = [least, median, p99, most].map(duration);
        text.push_str(&format!(", min {least} med {median} p99 {p99} max {most}"));
    }
    if all.failed > 0 {
        text.push_str(&format!(", {} failed", all.failed));
    }
    Some(text)
}
