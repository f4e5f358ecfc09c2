//! Annotations by NVTX and reports by NCCL, as `dump` shows them among the calls, each at its time.

use crate::calls::nccl::{self, NcclEvent};
use crate::error::Result;
use crate::filter::selection::Selection;
use crate::text::figures::seconds;
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use std::io::Write;
use std::iter::Peekable;
use std::sync::Arc;
use trace::Trace;
use trace::api::types::Kind;
use trace::file::record::annotated;
use trace::file::record::nccl::Communicator;
use trace::model::objects::Objects;
use trace::read::annotation::{Annotation, Payload};
use trace::show::text::{handle, plain};

/// What NVTX calls them.
const NAMES: &[(u8, &str)] = &[
    (annotated::MARK, "mark"),
    (annotated::PUSH, "push"),
    (annotated::POP, "pop"),
    (annotated::START, "start"),
    (annotated::END, "end"),
    (annotated::CATEGORY, "name category"),
    (annotated::THREAD, "name thread"),
    (annotated::DEVICE, "name device"),
    (annotated::CONTEXT, "name context"),
    (annotated::STREAM, "name stream"),
    (annotated::EVENT, "name event"),
    (annotated::DOMAIN_DESTROYED, "destroy domain"),
];

/// The remaining annotations, by time.
pub struct Ahead<'a> {
    trace: &'a Trace,
    wanted: Box<dyn Fn(u32, u64) -> bool>,
    left: Peekable<Box<dyn Iterator<Item = Annotation<'a>> + 'a>>,
}

impl<'a> Ahead<'a> {
    /// An error if the selection names a thread that the trace lacks.
    pub fn new(trace: &'a Trace, selection: &Selection) -> Result<Ahead<'a>> {
        let all: Box<dyn Iterator<Item = Annotation>> = Box::new(trace.annotations());
        Ok(Ahead { trace, wanted: Box::new(selection.annotation_filter(trace)?), left: all.peekable() })
    }

    /// The next, if it was made before `time`; and whether it is asked for.
    pub fn next_before(&mut self, time: u64) -> Option<(Annotation<'a>, bool)> {
        let next = self.left.next_if(|annotation| annotation.about.time < time)?;
        let is_wanted = (self.wanted)(next.thread, self.trace.call_from(next.about.time));
        Some((next, is_wanted))
    }

    fn is_due(&mut self, time: u64) -> bool {
        self.left.peek().is_some_and(|annotation| annotation.about.time < time)
    }

    fn skip(&mut self, time: u64) {
        while self.left.next_if(|annotation| annotation.about.time < time).is_some() {}
    }
}

/// The annotations, as `dump` prints them.
pub struct Annotations<'a> {
    trace: &'a Trace,
    selection: &'a Selection,
    json: bool,
    ahead: Ahead<'a>,
    categories: HashMap<(u32, u32), String>,
    /// NCCL's, the latest first: of a long trace they are many, and one list does for all who print them.
    said: Arc<[NcclEvent<'a>]>,
    /// As many of those have not been seen yet.
    unsaid: usize,
    communicators: HashMap<u32, &'a Communicator>,
}

impl<'a> Annotations<'a> {
    /// `json` prints objects of JSON instead of lines.
    pub fn new(trace: &'a Trace, selection: &'a Selection, json: bool) -> Result<Annotations<'a>> {
        Annotations::from_events(nccl::selected_events(trace, selection)?.into(), trace, selection, json)
    }

    /// `said`: all that [`nccl::selected_events`] gives.
    pub fn from_events(
        said: Arc<[NcclEvent<'a>]>,
        trace: &'a Trace,
        selection: &'a Selection,
        json: bool,
    ) -> Result<Annotations<'a>> {
        Ok(Annotations {
            trace,
            selection,
            json,
            ahead: Ahead::new(trace, selection)?,
            categories: trace.categories(),
            unsaid: said.len(),
            said,
            communicators: nccl::by_number(trace),
        })
    }

    /// Whether there are any before `time`.
    pub fn are_due(&mut self, time: u64) -> bool {
        self.unsaid > 0 && self.said[self.unsaid - 1].time < time || self.ahead.is_due(time)
    }

    /// Those before `time`: `told` after each what has been written so far.
    pub fn print<W: Write>(
        &mut self,
        out: &mut W,
        time: u64,
        objects: &Objects,
        mut told: impl FnMut(&W),
    ) -> Result<()> {
        while self.unsaid > 0 && self.said[self.unsaid - 1].time < time {
            self.unsaid -= 1;
            // Here alone: the workers of a dump share the list, and its count is not for each call.
            let all = self.said.clone();
            let said = &all[self.unsaid];
            self.print_annotations(out, said.time, objects, &mut told)?;
            let text = said.text(self.trace, &self.communicators, objects);
            let object = || said.object(self.trace, &self.communicators, objects);
            self.line(out, &text, object, &mut told)?;
        }
        self.print_annotations(out, time, objects, &mut told)
    }

    fn print_annotations<W: Write>(
        &mut self,
        out: &mut W,
        time: u64,
        objects: &Objects,
        told: &mut impl FnMut(&W),
    ) -> Result<()> {
        while let Some((annotation, is_wanted)) = self.ahead.next_before(time) {
            if is_wanted {
                let text = self.text(&annotation, objects);
                self.line(out, &text, || self.object(&annotation, objects), told)?;
            }
        }
        Ok(())
    }

    /// Passes those before `time`.
    pub fn skip(&mut self, time: u64) {
        self.ahead.skip(time);
        self.unsaid = self.said[..self.unsaid].partition_point(|said| said.time >= time);
    }

    fn line<W: Write>(
        &self,
        out: &mut W,
        text: &str,
        object: impl Fn() -> Value,
        told: &mut impl FnMut(&W),
    ) -> Result<()> {
        if self.selection.grep.as_ref().is_some_and(|pattern| !pattern.is_match(text)) {
            return Ok(());
        }
        match self.json {
            true => crate::text::json::write(&mut *out, &object()).map_err(std::io::Error::from)?,
            false => out.write_all(text.as_bytes())?,
        }
        out.write_all(b"\n")?;
        told(out);
        Ok(())
    }

    fn text(&self, annotation: &Annotation, objects: &Objects) -> String {
        let about = &annotation.about;
        let time = seconds(self.trace, about.time);
        let mut line = format!("{:>7} {time} t{:<2} nvtx {}", "", annotation.thread, name(about.what));
        match about.what {
            annotated::START | annotated::END => line += &format!(" {}", about.subject),
            _ => line.extend(subject(annotation, objects).map(|subject| format!(" {}", plain(&subject)))),
        }
        line.extend(annotation.message.as_ref().map(|message| format!(" {:?}", message)));
        line.extend(annotation.domain.as_ref().map(|domain| format!("  domain={}", plain(domain))));
        line.extend(self.category(annotation).map(|category| format!("  category={}", plain(&category))));
        line.extend(annotation.payload().map(|payload| format!("  payload={}", in_text(payload))));
        line.extend(annotation.color().map(|color| format!("  color=#{color:08x}")));
        line
    }

    fn object(&self, annotation: &Annotation, objects: &Objects) -> Value {
        let about = &annotation.about;
        let mut fields = Map::new();
        let mut field = |name: &str, value: Option<Value>| {
            value.into_iter().for_each(|value| {
                fields.insert(name.into(), value);
            });
        };
        field("kind", Some("annotation".into()));
        field("annotation", Some(name(about.what).into()));
        field("time_ns", Some(self.trace.nanoseconds(about.time).into()));
        field("thread", Some(annotation.thread.into()));
        field("message", annotation.message.as_deref().map(Value::from));
        field("domain", annotation.domain.as_deref().map(Value::from));
        match about.what {
            annotated::START | annotated::END => field("range", Some(about.subject.into())),
            _ => field("of", subject(annotation, objects).map(Value::from)),
        }
        field("category", self.category(annotation).map(Value::from));
        field("payload", annotation.payload().map(in_json));
        field("color", annotation.color().map(|color| format!("#{color:08x}").into()));
        Value::Object(fields)
    }

    /// The category's name, or its number; 0 is none.
    fn category(&self, annotation: &Annotation) -> Option<String> {
        let (domain, number) = (annotation.about.domain, annotation.about.category);
        let named = || self.categories.get(&(domain, number)).cloned().unwrap_or_else(|| number.to_string());
        (number != 0).then(named)
    }
}

fn name(what: u8) -> &'static str {
    NAMES.iter().find(|(known, _)| *known == what).map_or("of unknown kind", |(_, name)| name)
}

/// What is named.
fn subject(annotation: &Annotation, objects: &Objects) -> Option<String> {
    let value = annotation.about.subject;
    Some(match annotation.about.what {
        annotated::CATEGORY | annotated::THREAD => value.to_string(),
        annotated::DEVICE => handle(Kind::Device, value, objects),
        annotated::CONTEXT => handle(Kind::Context, value, objects),
        annotated::STREAM => handle(Kind::Stream, value, objects),
        annotated::EVENT => handle(Kind::Event, value, objects),
        _ => return None,
    })
}

fn in_text(payload: Payload) -> String {
    match payload {
        Payload::Unsigned(n) => n.to_string(),
        Payload::Signed(n) => n.to_string(),
        Payload::Float(x) => format!("{x:?}"),
        Payload::Unknown(bits) => format!("{bits:#x} (of an unknown type)"),
    }
}

/// What JSON has no number for is a string.
pub fn in_json(payload: Payload) -> Value {
    match payload {
        Payload::Unsigned(n) => n.into(),
        Payload::Signed(n) => n.into(),
        Payload::Float(x) if x.is_finite() => json!(x),
        Payload::Float(_) | Payload::Unknown(_) => in_text(payload).into(),
    }
}
