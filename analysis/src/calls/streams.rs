//! Names of streams in tables of measured work: `stream#1`, as everywhere, beside the number that the source
//! of the times uses (Nsight Systems' `Strm`).

use std::collections::BTreeMap;
use trace::Trace;
use trace::file::record::Timed;
use trace::model::objects::Objects;
use trace::model::outstanding::Outstanding;
use trace::read::device_times::known_number;

/// Device, context and stream, as the source of the times counts them.
type Key = (u32, u32, u32);

type Names = BTreeMap<Key, Vec<String>>;

/// Names of streams by device, context and the number in device times.
pub struct Streams(Names);

/// Streams of one number that are named: a handle that is used again may keep its number.
const NAMED: usize = 3;

fn key(about: &Timed) -> Key {
    (about.device, about.context, about.stream)
}

impl Streams {
    /// By the calls whose work was timed on them. Branches of graphs may be on streams of the driver's own:
    /// of those that only graphs used, the names say on which stream these were launched.
    pub fn from_trace(trace: &Trace) -> Streams {
        let calls = trace.timed().filter_map(|work| Some((work.call?, key(&work.about), work.about.node != 0)));
        let mut calls: Vec<(u64, Key, bool)> = calls.collect();
        calls.sort_unstable();
        calls.dedup();
        let (mut names, mut graphs) = (Names::new(), Names::new());
        let (mut objects, mut walk) = (Objects::default(), Outstanding::default());
        let mut calls = calls.into_iter().peekable();
        for call in trace.calls() {
            if calls.peek().is_none() {
                break;
            }
            objects.follow(&call);
            let function = call.function();
            if let Some(function) = function.filter(|_| !call.inner) {
                walk.advance(&call, function, &objects);
            }
            while let Some((_, key, in_graph)) = calls.next_if(|(number, ..)| *number <= call.number) {
                let Some(function) = function else { continue };
                let (all, of) = if in_graph { (&mut graphs, "graphs of ") } else { (&mut names, "") };
                let name = format!("{of}{}", walk.stream_name(&call, function, &objects));
                let known = all.entry(key).or_default();
                if !known.contains(&name) {
                    known.push(name);
                }
            }
        }
        graphs.into_iter().for_each(|(key, of)| _ = names.entry(key).or_insert(of));
        Streams(names)
    }

    /// `stream#1 (Strm 13)`
    pub fn title(&self, about: &Timed) -> String {
        let Some(number) = known_number(about.stream) else { return "unknown stream".into() };
        match (self.0.get(&key(about)), known_number(about.context)) {
            (Some(names), _) => format!("{} (Strm {number})", joined(names)),
            (None, Some(context)) => format!("Strm {number} of context {context}"),
            (None, None) => format!("Strm {number}"),
        }
    }

    /// What stands below a table that has the numbers alone.
    pub fn note(&self) -> Option<String> {
        let contexts =
            self.0.keys().map(|(device, context, _)| (device, context)).collect::<std::collections::BTreeSet<_>>();
        let told = self.0.iter().map(|((device, context, stream), names)| {
            let of = if contexts.len() > 1 { format!(" of Ctx {context} on device {device}") } else { String::new() };
            format!("Strm {stream}{of} is {}", joined(names))
        });
        let told: Vec<String> = told.collect();
        (!told.is_empty()).then(|| told.join("; "))
    }
}

fn joined(names: &[String]) -> String {
    let more = if names.len() > NAMED { ", ..." } else { "" };
    format!("{}{more}", names.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join(", "))
}
