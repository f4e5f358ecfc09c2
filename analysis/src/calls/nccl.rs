//! NCCL's own reports, as `dump` shows them.

use crate::error::Result;
use crate::filter::selection::Selection;
use crate::text::figures::seconds;
use serde_json::{Map, Value};
use std::collections::HashMap;
use trace::Trace;
use trace::api::types::Kind;
use trace::file::record::nccl::{Communicator, began};
use trace::model::objects::Objects;
use trace::read::collective::{Event, text};
use trace::show::text::{handle, plain};

/// What was told at a time.
enum What<'t> {
    Communicator(&'t Communicator),
    Began(Event),
    Returned(Event),
}

/// An event that NCCL's profiler interface reported.
pub struct NcclEvent<'t> {
    /// Stamp of the recording's clock.
    pub time: u64,
    thread: Option<u32>,
    what: What<'t>,
}

/// What of it is asked for, the latest first.
pub fn selected_events<'t>(trace: &'t Trace, selection: &Selection) -> Result<Vec<NcclEvent<'t>>> {
    let wanted = selection.annotation_filter(trace)?;
    let mut all = Vec::new();
    for communicator in &trace.communicators {
        all.push(NcclEvent { time: communicator.time, thread: None, what: What::Communicator(communicator) });
    }
    for event in trace.nccl_events() {
        let thread = Some(event.thread);
        all.push(NcclEvent { time: event.about.time, thread, what: What::Began(event) });
        all.extend(event.end.map(|time| NcclEvent { time, thread, what: What::Returned(event) }));
    }
    all.retain(|said| wanted(said.thread.unwrap_or(0), trace.call_from(said.time)));
    all.sort_by_key(|said| std::cmp::Reverse(said.time));
    Ok(all)
}

/// As messages name it: its name, or NCCL's number.
pub fn communicator_name(communicator: &Communicator) -> String {
    match communicator.name.as_str() {
        "" => format!("{:#018x}", communicator.id),
        name => format!("{:?}", plain(name)),
    }
}

/// Communicators by the numbers that operations give them.
pub fn by_number(trace: &Trace) -> HashMap<u32, &Communicator> {
    trace.communicators.iter().map(|communicator| (communicator.number, communicator)).collect()
}

impl NcclEvent<'_> {
    fn word(&self) -> &'static str {
        match &self.what {
            What::Communicator(_) => "communicator",
            What::Returned(_) => "return",
            What::Began(event) if matches!(event.about.what, began::COLLECTIVE_CALL | began::TRANSFER_CALL) => "call",
            What::Began(_) => "give",
        }
    }

    /// The event as `dump` prints it; `of` has the communicators by number.
    pub fn text(&self, trace: &Trace, of: &HashMap<u32, &Communicator>, objects: &Objects) -> String {
        let thread = self.thread.map_or(String::new(), |thread| format!("t{thread}"));
        let mut line = format!("{:>7} {} {thread:<3} nccl {}", "", seconds(trace, self.time), self.word());
        let fields = self.fields(of, objects);
        let shown = |value: &Value| match value {
            Value::String(text) => plain(text).into_owned(),
            other => other.to_string(),
        };
        let bare = |name: &str| matches!(name, "function" | "communicator");
        fields.iter().for_each(|(name, value)| match bare(name) {
            true => line += &format!(" {}", shown(value)),
            false => line += &format!("  {name}={}", shown(value)),
        });
        line
    }

    /// The event as `dump --json` prints it.
    pub fn object(&self, trace: &Trace, of: &HashMap<u32, &Communicator>, objects: &Objects) -> Value {
        let mut object = Map::new();
        object.insert("kind".into(), "nccl".into());
        object.insert("nccl".into(), self.word().into());
        object.insert("time_ns".into(), trace.nanoseconds(self.time).into());
        self.thread.iter().for_each(|thread| _ = object.insert("thread".into(), (*thread).into()));
        object.extend(self.fields(of, objects));
        Value::Object(object)
    }

    fn fields(&self, of: &HashMap<u32, &Communicator>, objects: &Objects) -> Vec<(String, Value)> {
        let mut fields: Vec<(String, Value)> = Vec::new();
        let mut field = |name: &str, value: Value| fields.push((name.into(), value));
        let about = match &self.what {
            What::Communicator(communicator) => {
                field("communicator", communicator_name(communicator).into());
                field("id", format!("{:#018x}", communicator.id).into());
                field("rank", communicator.rank.into());
                if communicator.ranks > 0 {
                    field("ranks", communicator.ranks.into());
                }
                field("interface", communicator.version.into());
                return fields;
            }
            What::Began(event) | What::Returned(event) => &event.about,
        };
        field("function", text(&about.function).into());
        let unknown = || format!("communicator {}", about.communicator);
        field(
            "communicator",
            of.get(&about.communicator).map_or_else(unknown, |known| communicator_name(known)).into(),
        );
        if let What::Returned(_) = self.what {
            return fields;
        }
        field("count", about.count.into());
        field("type", text(&about.datatype).into());
        if about.peer >= 0 {
            let is_transfer = matches!(about.what, began::TRANSFER_CALL | began::TRANSFER);
            field(if is_transfer { "peer" } else { "root" }, about.peer.into());
        }
        if matches!(about.what, began::COLLECTIVE_CALL | began::TRANSFER_CALL) {
            field("stream", handle(Kind::Stream, about.stream, objects).into());
        }
        if about.captured {
            field("captured", true.into());
        }
        for (name, value) in [("algorithm", &about.algorithm), ("protocol", &about.protocol)] {
            if value[0] != 0 {
                field(name, text(value).into());
            }
        }
        if about.channels > 0 {
            field("channels", about.channels.into());
        }
        fields
    }
}
