//! Shared handles: the call of one process that opens what a call of another has exported.

use crate::job::peers::{HostPart, Imports, Source};
use std::collections::HashMap;
use std::hash::Hash;
use std::ops::Range;
use trace::file::record::Shared;
use trace::model::change::{Moment, resolve};
use trace::model::memory::Memory;
use trace::model::streams::Streams;
use trace::read::shared_handles::{Crossing, What, bytes, crossing_of, exported_address};
use trace::{Call, Function, Trace};

/// The exports and imports of a process, in the order of its calls.
#[derive(Debug, Default)]
pub struct SharedHandles {
    exports: Vec<Export>,
    imports: Vec<Import>,
    registered: Vec<RegisteredMemory>,
}

/// Host memory, mapped so that other processes may have it.
#[derive(Debug)]
struct RegisteredMemory {
    call: u64,
    end: u64,
    part: Shared,
}

#[derive(Debug)]
struct Export {
    call: u64,
    end: u64,
    what: What,
    bytes: Vec<u8>,
    memory: Range<u64>,
    address: u64,
}

#[derive(Debug)]
struct Import {
    call: u64,
    begin: u64,
    what: What,
    bytes: Vec<u8>,
}

impl SharedHandles {
    /// Collects the exports, imports and shared host memory of one process.
    pub fn from_trace(trace: &Trace) -> SharedHandles {
        let (mut found, mut streams) = (SharedHandles::default(), Streams::default());
        for call in trace.calls().filter(|call| !call.inner && call.took_effect()) {
            let Some(function) = call.function() else { continue };
            if let Some(change) = resolve(&call, function) {
                streams.follow(Moment::from_call(&call), &change, false);
            }
            found.observe(&call, function, &streams.memory);
        }
        found
    }

    fn observe(&mut self, call: &Call, function: &Function, memory: &Memory) {
        let end = call.end.unwrap_or(u64::MAX);
        let registered = |part: &Shared| RegisteredMemory { call: call.number, end, part: *part };
        self.registered.extend(call.shared_mappings().iter().map(registered));
        let Some((crossing, bytes)) = crossing_of(function).zip(bytes(call, function)) else { return };
        match crossing {
            Crossing::Exports(what) => {
                let address = if what == What::Memory { exported_address(call, function).unwrap_or(0) } else { 0 };
                let around = memory.find(address).filter(|one| !one.kind.is_host());
                let memory = around.map_or(0..0, |one| one.range());
                self.exports.push(Export { call: call.number, end, what, bytes, memory, address });
            }
            Crossing::Imports(what) => {
                self.imports.push(Import { call: call.number, begin: call.begin, what, bytes });
            }
            Crossing::Closes => {}
        }
    }

    /// Whether it exports and imports nothing.
    pub fn is_empty(&self) -> bool {
        self.exports.is_empty() && self.imports.is_empty()
    }

    /// When the first of its exports had returned.
    pub fn first(&self) -> Option<u64> {
        self.exports.iter().map(|export| export.end).min()
    }
}

/// By what they are told by: processes, and their exports.
type ByBytes<'a> = HashMap<(What, &'a [u8]), Vec<(usize, &'a Export)>>;

/// For each process what it imports; what nobody exported before is not in it. The same bytes may come again:
/// the latest counts.
pub fn matched(all: &[SharedHandles]) -> Vec<Imports> {
    let mut exports = ByBytes::new();
    for (process, crossings) in all.iter().enumerate() {
        for export in &crossings.exports {
            exports.entry((export.what, &export.bytes)).or_default().push((process, export));
        }
    }
    let source = |process: usize, import: &Import| {
        let found = exports.get(&(import.what, &import.bytes[..]))?;
        let is_open_to = |from: usize| from != process || import.what == What::Physical;
        let before = found.iter().filter(|(from, export)| is_open_to(*from) && export.end < import.begin);
        let (from, export) = before.max_by_key(|(_, export)| export.end)?;
        let (memory, address) = (export.memory.clone(), export.address);
        Some(Source { process: *from as u32, call: export.call, memory, address })
    };
    let imports = |(process, crossings): (usize, &SharedHandles)| {
        let found = crossings.imports.iter().filter_map(|import| Some((import.call, source(process, import)?)));
        found.collect()
    };
    all.iter().enumerate().map(imports).collect()
}

/// Host memory that several processes share.
#[derive(Debug, Default)]
pub struct SharedHost {
    /// For each process what its calls register.
    pub parts: Vec<HashMap<u64, Vec<HostPart>>>,
    /// When the first of them had returned, for each process.
    pub first: Vec<Option<u64>>,
    /// How long the files are that all map.
    pub files: Vec<u64>,
}

/// What is registered, and by which process.
type ByProcess<'a> = Vec<(usize, &'a RegisteredMemory)>;

/// `places`: a file's numbers tell it from others within one of these alone, one for each process.
pub fn shared_host<P: Eq + Hash>(all: &[SharedHandles], places: &[P]) -> SharedHost {
    let mut by_file: HashMap<(&P, u64, u64), ByProcess> = HashMap::new();
    for (process, (crossings, place)) in all.iter().zip(places).enumerate() {
        for registered in &crossings.registered {
            let Shared { device, inode, .. } = registered.part;
            by_file.entry((place, device, inode)).or_default().push((process, registered));
        }
    }
    let mut shared = SharedHost { first: vec![None; all.len()], ..SharedHost::default() };
    shared.parts.resize_with(all.len(), HashMap::new);
    let is_shared = |of: &&ByProcess| of.iter().any(|(process, _)| *process != of[0].0);
    for of in by_file.values().filter(is_shared) {
        let file = shared.files.len() as u32;
        let end = |part: &Shared| part.offset.saturating_add(part.len);
        shared.files.push(of.iter().map(|(_, registered)| end(&registered.part)).max().unwrap_or(0));
        for (process, RegisteredMemory { call, end, part }) in of {
            let memory = part.start..part.start.saturating_add(part.len);
            let part = HostPart { memory, file, offset: part.offset };
            shared.parts[*process].entry(*call).or_default().push(part);
            let first = &mut shared.first[*process];
            *first = Some(first.map_or(*end, |first| first.min(*end)));
        }
    }
    shared
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::sample::Sample;

    const AT: u64 = 0x7f00_0000_0000;

    /// A handle of 64 bytes as argument words.
    fn handle(of: u8) -> Vec<u64> {
        vec![u64::from_le_bytes([of; 8]); 8]
    }

    fn exporter(times: &[(u64, u8)]) -> Trace {
        let mut sample = Sample::new();
        sample.call(0, "cuMemAlloc_v2", 1..2, &[0x100, 512], &[(0x100, &AT.to_le_bytes())]);
        for (time, of) in times {
            sample.call(0, "cuIpcGetMemHandle", *time..*time + 1, &[0x200, AT], &[(0x200, &[*of; 64])]);
        }
        sample.trace()
    }

    fn importer(times: &[(u64, u8)]) -> Trace {
        let mut sample = Sample::new();
        for (time, of) in times {
            let words = [vec![0x100], handle(*of), vec![1]].concat();
            let opened = (0x100, &(AT + 0x1000_0000).to_le_bytes()[..]);
            sample.call(0, "cuIpcOpenMemHandle_v2", *time..*time + 1, &words, &[opened]);
        }
        sample.trace()
    }

    #[test]
    fn the_latest_export_before_an_import_counts() {
        let traces =
            [exporter(&[(10, 7), (30, 8)]), importer(&[(5, 7), (20, 7), (40, 7), (50, 9)]), exporter(&[(33, 7)])];
        let all: Vec<SharedHandles> = traces.iter().map(SharedHandles::from_trace).collect();
        let found = matched(&all);
        assert!(found[0].is_empty() && found[2].is_empty());
        let mut by_call: Vec<_> = found[1].iter().map(|(call, of)| (*call, of.process, of.call)).collect();
        by_call.sort_unstable();
        assert_eq!(by_call, [(1, 0, 1), (2, 2, 1)]);
        assert_eq!((found[1][&1].memory.clone(), found[1][&1].address), (AT..AT + 512, AT));
    }
}
