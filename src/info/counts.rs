//! What a trace holds, counted.

use crate::line::NOT_READY;
use crate::reading::Reading;
use anyhow::Result;
use serde::Serialize;
use std::collections::{HashMap, HashSet};
use trace::Trace;
use trace::annotation::Annotation;
use trace::api::roles::Side;
use trace::call::Content;
use trace::decode::decode;
use trace::hash::Hash;
use trace::record::annotated::MARK;
use trace::value::Value as Shown;

#[derive(Default)]
pub struct Counts<'a> {
    pub calls: u64,
    pub functions: HashMap<&'a str, (u64, u64)>,
    pub failed: u64,
    pub in_flight: u64,
    pub module_images: Amount,
    pub to_device: Amount,
    pub from_device: Amount,
    pub results_hashed: Amount,
    pub not_recorded: Amount,
    pub missing: Amount,
    pub arguments: Amount,
}

/// Pieces of memory, and their bytes.
#[derive(Default, Clone, Copy, Serialize)]
pub struct Amount {
    pub pieces: u64,
    pub bytes: u64,
}

impl Amount {
    fn add(&mut self, bytes: u64) {
        self.pieces += 1;
        self.bytes += bytes;
    }
}

pub fn count<'a>(trace: &'a Trace, reading: &Reading) -> Result<Counts<'a>> {
    let wanted = reading.selection(trace)?;
    let mut counts = Counts::default();
    let mut images = HashSet::new();
    for call in trace.calls().filter(wanted) {
        if reading.grep.as_ref().is_some_and(|pattern| !pattern.is_match(call.name())) {
            continue;
        }
        let made = call.count();
        counts.calls = counts.calls.saturating_add(made);
        let entry = counts.functions.entry(call.name()).or_default();
        entry.0 = entry.0.saturating_add(made);
        match call.result {
            Some(0 | NOT_READY) => {}
            Some(_) => {
                entry.1 = entry.1.saturating_add(made);
                counts.failed = counts.failed.saturating_add(made);
            }
            None => {}
        }
        counts.in_flight += u64::from(call.inside_since().is_some());
        for image in call.images() {
            match image.content {
                Content::Arguments { packed, .. } => counts.arguments.add(packed.len() as u64),
                Content::Hash { .. } => counts.results_hashed.add(image.len),
                Content::Lost | Content::Pending => counts.not_recorded.add(image.len),
                Content::Blob(hash) if trace.lacks(hash) => counts.missing.add(image.len),
                Content::Bytes(_) | Content::Blob(_) => {}
            }
        }
        let decoded = decode(&call);
        for (_, value) in decoded.iter().flat_map(|d| d.arguments.iter().chain(&d.outputs)) {
            counts.payloads(value, &mut images);
        }
    }
    Ok(counts)
}

impl Counts<'_> {
    fn payloads(&mut self, value: &Shown, images: &mut HashSet<Hash>) {
        match value {
            Shown::Payload { side: Some(Side::Source), len, .. } => self.to_device.add(*len),
            Shown::Payload { side: Some(Side::Destination), len, .. } => self.from_device.add(*len),
            Shown::Payload { side: None, len, content, .. } => match content {
                Content::Blob(hash) if !images.insert(*hash) => {}
                _ => self.module_images.add(*len),
            },
            Shown::Struct(fields) => fields.iter().for_each(|(_, v)| self.payloads(v, images)),
            Shown::List(all) => all.iter().for_each(|v| self.payloads(v, images)),
            _ => {}
        }
    }
}

/// Annotations by NVTX, of all threads: they are no calls, and not selected by what selects calls.
#[derive(Serialize)]
pub struct Annotated {
    pub all: u64,
    pub ranges: u64,
    /// Ranges that the trace ends in.
    pub open: u64,
    pub marks: u64,
    pub names: u64,
    /// That anything was annotated in, the default one included.
    pub domains: u64,
}

impl Annotated {
    pub fn of(trace: &Trace) -> Annotated {
        let ranges = trace.annotated_ranges();
        let count = |test: &dyn Fn(&Annotation) -> bool| trace.annotations().filter(|a| test(a)).count() as u64;
        let domains: HashSet<u32> = trace.annotations().map(|annotation| annotation.about.domain).collect();
        Annotated {
            all: count(&|_| true),
            ranges: ranges.len() as u64,
            open: ranges.iter().filter(|range| range.end.is_none()).count() as u64,
            marks: count(&|annotation| annotation.about.what == MARK),
            names: count(&|annotation| annotation.is_name()),
            domains: domains.len() as u64,
        }
    }
}

/// By name: calls, and how many of them failed.
pub type Functions<'a> = [(&'a str, (u64, u64))];
