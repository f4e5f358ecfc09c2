//! Counts of a trace's contents.

use analysis::calls::line::NOT_READY;
use analysis::filter::selection::Selection;
use anyhow::Result;
use bincode::{Decode, Encode};
use foldhash::HashMap;
use serde::Serialize;
use std::collections::{BTreeMap, HashSet};
use std::ops::Range;
use trace::api::roles::Side;
use trace::base::hash::Hash;
use trace::base::parallel;
use trace::file::record::annotated::MARK;
use trace::model::decode::decode;
use trace::model::value::Value as Shown;
use trace::read::annotation::Annotation;
use trace::read::call::Content;
use trace::{Call, Trace};

#[derive(Default, Clone, Encode, Decode)]
pub(crate) struct Counts {
    pub calls: u64,
    pub functions: Vec<(String, OfFunction)>,
    pub failed: u64,
    pub in_flight: u64,
    pub module_images: Amount,
    pub to_device: Amount,
    pub from_device: Amount,
    pub results_hashed: Amount,
    /// Could not be read, or recording had ended.
    pub not_recorded: Amount,
    /// Was still under way when the recording ended.
    pub not_arrived: Amount,
    /// What the calls name is not in the file.
    pub missing: Amount,
    pub arguments: Amount,
}

/// Calls, and how many of them failed.
pub(super) type OfFunction = (u64, u64);

/// Pieces of memory, and their bytes.
#[derive(Default, Clone, Copy, Serialize, Encode, Decode)]
pub(crate) struct Amount {
    pub pieces: u64,
    pub bytes: u64,
}

impl Amount {
    fn add(&mut self, bytes: u64) {
        *self = self.with(Amount { pieces: 1, bytes });
    }

    pub(crate) fn with(self, more: Amount) -> Amount {
        Amount { pieces: self.pieces.saturating_add(more.pieces), bytes: self.bytes.saturating_add(more.bytes) }
    }
}

/// What one worker counted.
#[derive(Default)]
struct Part {
    counts: Counts,
    by_id: Vec<OfFunction>,
    /// Module images that are blobs, with their bytes: each counts once.
    images: HashMap<Hash, u64>,
}

pub(super) fn count(trace: &Trace, selection: &Selection) -> Result<Counts> {
    let wanted = selection.test(trace)?;
    let is_named = |(name, _): &(String, u16)| selection.grep.as_ref().is_none_or(|pattern| pattern.is_match(name));
    let named: Vec<bool> = trace.preamble.functions.iter().map(is_named).collect();
    let passes = |call: &Call| named.get(usize::from(call.function_id())).copied().unwrap_or(false) && wanted(call);
    let workers = parallel::processors() as u64;
    let all = trace.len() as u64;
    let ranges = (0..workers).map(|n| all * n / workers..all * (n + 1) / workers);
    let parts = parallel::map(workers as usize, ranges, |range| part(trace, range, &passes));
    let mut counts = together(trace, parts);
    // No call names what was loaded unseen; how long it was nobody knows.
    let images = trace.adopted.iter().flat_map(|adopted| &adopted.images).map(|image| Hash::from_bytes(*image));
    images.filter(|image| trace.lacks(*image)).for_each(|_| counts.missing.add(0));
    Ok(counts)
}

fn part(trace: &Trace, range: Range<u64>, passes: &impl Fn(&Call) -> bool) -> Part {
    let mut part = Part { by_id: vec![(0, 0); trace.preamble.functions.len()], ..Part::default() };
    for call in range.filter_map(|number| trace.call(number)).filter(passes) {
        part.see(trace, &call);
    }
    part
}

fn together(trace: &Trace, parts: Vec<Part>) -> Counts {
    let mut counts = Counts::default();
    let mut functions: BTreeMap<&str, OfFunction> = BTreeMap::new();
    let mut images: HashMap<Hash, u64> = HashMap::default();
    for part in parts {
        counts = counts.with(&part.counts);
        for ((calls, failed), (name, _)) in part.by_id.iter().zip(&trace.preamble.functions) {
            if *calls != 0 {
                let sum = functions.entry(name).or_default();
                *sum = (sum.0.saturating_add(*calls), sum.1.saturating_add(*failed));
            }
        }
        for (hash, bytes) in part.images {
            images.entry(hash).or_insert(bytes);
        }
    }
    images.values().for_each(|bytes| counts.module_images.add(*bytes));
    counts.functions = functions.into_iter().map(|(name, of)| (name.to_owned(), of)).collect();
    counts
}

impl Part {
    fn see(&mut self, trace: &Trace, call: &Call) {
        let Part { counts, by_id, .. } = self;
        let made = call.count();
        counts.calls = counts.calls.saturating_add(made);
        let entry = &mut by_id[usize::from(call.function_id())];
        entry.0 = entry.0.saturating_add(made);
        if !matches!(call.result, None | Some(0 | NOT_READY)) {
            entry.1 = entry.1.saturating_add(made);
            counts.failed = counts.failed.saturating_add(made);
        }
        counts.in_flight += u64::from(call.inside_since().is_some());
        let mut has_memory = false;
        for image in call.images() {
            has_memory |= !matches!(image.content, Content::Arguments { .. });
            match image.content {
                Content::Arguments { packed, .. } => counts.arguments.add(packed.len() as u64),
                Content::Hash { .. } => counts.results_hashed.add(image.len),
                Content::Lost if trace.preamble.is_data_left_out() => counts.missing.add(image.len),
                Content::Lost => counts.not_recorded.add(image.len),
                Content::Pending => counts.not_arrived.add(image.len),
                Content::Blob(hash) if trace.lacks(hash) => counts.missing.add(image.len),
                Content::Bytes(_) | Content::Blob(_) => {}
            }
        }
        // What is moved is memory that the call has in the file.
        let decoded = if has_memory { decode(call) } else { None };
        for (_, value) in decoded.iter().flat_map(|d| d.arguments.iter().chain(&d.outputs)) {
            self.payloads(value);
        }
    }

    fn payloads(&mut self, value: &Shown) {
        match value {
            Shown::Payload { side: Some(Side::Source), len, .. } => self.counts.to_device.add(*len),
            Shown::Payload { side: Some(Side::Destination), len, .. } => self.counts.from_device.add(*len),
            Shown::Payload { side: None, len, content: Content::Blob(hash), .. } => {
                self.images.entry(*hash).or_insert(*len);
            }
            Shown::Payload { side: None, len, .. } => self.counts.module_images.add(*len),
            Shown::Struct(fields) => fields.iter().for_each(|(_, v)| self.payloads(v)),
            Shown::List(all) => all.iter().for_each(|v| self.payloads(v)),
            _ => {}
        }
    }
}

impl Counts {
    /// But for the functions.
    fn with(self, more: &Counts) -> Counts {
        Counts {
            calls: self.calls.saturating_add(more.calls),
            functions: self.functions,
            failed: self.failed.saturating_add(more.failed),
            in_flight: self.in_flight + more.in_flight,
            module_images: self.module_images.with(more.module_images),
            to_device: self.to_device.with(more.to_device),
            from_device: self.from_device.with(more.from_device),
            results_hashed: self.results_hashed.with(more.results_hashed),
            not_recorded: self.not_recorded.with(more.not_recorded),
            not_arrived: self.not_arrived.with(more.not_arrived),
            missing: self.missing.with(more.missing),
            arguments: self.arguments.with(more.arguments),
        }
    }
}

/// Annotations by NVTX, of all threads: they are not calls, so a selection of calls does not apply to them.
#[derive(Clone, Serialize, Encode, Decode)]
pub(crate) struct Annotated {
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
    pub(crate) fn of(trace: &Trace) -> Annotated {
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

/// By name.
pub(super) type Functions<'a> = [(&'a str, OfFunction)];
