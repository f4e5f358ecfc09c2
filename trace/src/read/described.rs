//! The parts of a call's recorded memory that the table describes: numbers, enumerations, handles, addresses,
//! and names for lookups of objects.
//!
//! Everything else is data of the program or the compiler: payloads, images of code, kernel arguments, logs,
//! bytes without structure, and the padding of structures.

use crate::api::Function;
use crate::api::extra::Extra;
use crate::api::roles::{Class, Field, Role};
use crate::api::types::{Form, Type};
use crate::api::walk::{self, Direction, Target, View};
use crate::read::call::{Call, When};
use crate::read::recorded_memory::Recorded;
use std::ops::Range;

/// Structures deeper than this are not followed.
const DEPTH: u32 = 8;

/// The described parts of one call.
#[derive(Default)]
pub(crate) struct Described {
    /// Bytes of the argument words.
    words: Vec<Range<u64>>,
    /// Application memory.
    memory: Vec<Range<u64>>,
    /// Addresses of texts that name a file, or are the program's own words.
    pub(crate) files: Vec<u64>,
}

/// Where a container lies.
#[derive(Clone, Copy)]
enum Place {
    Words(u64),
    Memory(u64),
}

impl Place {
    fn advance(self, bytes: u64) -> Place {
        match self {
            Place::Words(at) => Place::Words(at.saturating_add(bytes)),
            Place::Memory(at) => Place::Memory(at.saturating_add(bytes)),
        }
    }
}

impl Described {
    /// Nothing of a call whose function this build does not know.
    pub(crate) fn from_call(call: &Call) -> Described {
        let mut walk = Walk { call, found: Described::default() };
        if let Some(function) = call.function().filter(|function| !function.opaque) {
            for when in [When::Entry, When::Return] {
                walk.fields(function.params, call.argument_bytes(), Place::Words(0), when, 0);
            }
        }
        let Described { words, memory, files } = walk.found;
        Described { words: joined(words), memory: joined(memory), files }
    }

    /// The argument words with zeros in the place of what is not described.
    pub(crate) fn words(&self, words: &[u8]) -> Vec<u8> {
        masked(&self.words, 0, words).unwrap_or_else(|| vec![0; words.len()])
    }

    /// Memory at this address with zeros in the place of what is not described; none if nothing is.
    pub(crate) fn memory(&self, address: u64, bytes: &[u8]) -> Option<Vec<u8>> {
        masked(&self.memory, address, bytes)
    }
}

/// In order, and none that meets another.
fn joined(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.sort_by_key(|range| range.start);
    let mut all: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match all.last_mut().filter(|last| last.end >= range.start) {
            Some(last) => last.end = last.end.max(range.end),
            None => all.push(range),
        }
    }
    all
}

fn masked(ranges: &[Range<u64>], address: u64, bytes: &[u8]) -> Option<Vec<u8>> {
    let end = address.saturating_add(bytes.len() as u64);
    let mut out = None;
    let first = ranges.partition_point(|range| range.end <= address);
    for range in ranges[first..].iter().take_while(|range| range.start < end) {
        let within = range.start.max(address) - address..range.end.min(end) - address;
        let within = within.start as usize..within.end as usize;
        let out = out.get_or_insert_with(|| vec![0; bytes.len()]);
        out[within.clone()].copy_from_slice(&bytes[within]);
    }
    out
}

struct Walk<'c, 't> {
    call: &'c Call<'t>,
    found: Described,
}

impl Walk<'_, '_> {
    fn keep(&mut self, place: Place, bytes: u64) {
        let (at, all) = match place {
            Place::Words(at) => (at, &mut self.found.words),
            Place::Memory(at) => (at, &mut self.found.memory),
        };
        all.push(at..at.saturating_add(bytes));
    }

    fn keep_memory(&mut self, address: u64, bytes: u64) {
        self.keep(Place::Memory(address), bytes);
    }

    fn fields(&mut self, fields: &'static [Field], bytes: &[u8], place: Place, when: When, depth: u32) {
        for (index, field) in fields.iter().enumerate().filter(|(_, field)| !is_unused(field)) {
            let at = field.offset as usize;
            let Some(own) = bytes.get(at..).and_then(|rest| rest.get(..field.ty.size as usize)) else { continue };
            let place = place.advance(field.offset.into());
            match (field.role, field.ty.form) {
                // What the program has its callback given may be a value of its own.
                (Role::UserData, _) => {}
                (Role::Union(..), _) => {
                    let container = Recorded { call: self.call, bytes, when };
                    let member = walk::member(fields, index, 0, &container);
                    if let Some((ty, own)) = member.and_then(|ty| Some((ty, own.get(..ty.size as usize)?))) {
                        self.value(ty, own, place, when, depth + 1);
                    }
                }
                (_, Form::Pointer(_)) => {
                    self.keep(place, 8);
                    self.pointer(fields, index, bytes, when, depth + 1);
                }
                _ => self.value(field.ty, own, place, when, depth + 1),
            }
        }
    }

    fn value(&mut self, ty: &'static Type, bytes: &[u8], place: Place, when: When, depth: u32) {
        match ty.form {
            _ if depth > DEPTH => {}
            // What the driver makes for other processes, or to name a device.
            Form::Struct([only]) if is_bytes(only.ty) => self.keep(place, ty.size.into()),
            Form::Struct(fields) => self.fields(fields, bytes, place, when, depth),
            _ if is_bytes(ty) => {}
            Form::Array(element, _) => self.elements(element, bytes, place, when, depth),
            _ => self.keep(place, ty.size.into()),
        }
    }

    fn elements(&mut self, element: &'static Type, bytes: &[u8], place: Place, when: When, depth: u32) {
        let size = element.size.max(1);
        match element.form {
            Form::Struct(_) | Form::Array(..) => {
                for (at, bytes) in (0u64..).step_by(size as usize).zip(bytes.chunks_exact(size as usize)) {
                    self.value(element, bytes, place.advance(at), when, depth + 1);
                }
            }
            _ => self.keep(place, bytes.len() as u64),
        }
    }

    fn pointer(&mut self, fields: &'static [Field], index: usize, bytes: &[u8], when: When, depth: u32) {
        let container = Recorded { call: self.call, bytes, when };
        match walk::resolve(fields, index, 0, &container) {
            Target::Nothing | Target::Value { .. } | Target::CopyHost { .. } => {}
            Target::Image { .. } | Target::Arguments { .. } | Target::Text { out: true, .. } => {}
            Target::Span { direction: Direction::Source | Direction::Sink, .. } => {}
            Target::Span { address, element, count, .. } => self.span(address, element, count, depth),
            Target::Text { address, .. } if self.call.function().is_some_and(looks_up) => self.text(address),
            Target::Text { address, .. } | Target::Path { address } => self.found.files.push(address),
            Target::TextOut { address } => {
                self.keep_memory(address, 8);
                container.read_word(address, 8).into_iter().for_each(|text| self.text(text));
            }
            Target::Owned { address, element, count } => {
                self.keep_memory(address, 8);
                container.read_word(address, 8).into_iter().for_each(|at| self.span(at, element, count, depth));
            }
            Target::HostAlloc { address, .. } => self.keep_memory(address, 8),
            Target::Extra { address } => {
                let extra = Extra::read(address, |at| container.read_word(at, 8));
                self.keep_memory(address, extra.len);
                extra.size_at().into_iter().for_each(|at| self.keep_memory(at, 8));
            }
            Target::Options { address, count, .. } => self.keep_memory(address, count.saturating_mul(8)),
            Target::Attributes { address, codes, count, types } => {
                self.keep_memory(address, count.saturating_mul(8));
                let call = self.call;
                let words = |at: u64, size: u64| call.memory(when, at, count.checked_mul(size)?);
                let Some((codes, values)) = words(codes, 4).zip(words(address, 8)) else { return };
                for (code, value) in codes.chunks_exact(4).zip(values.chunks_exact(8)) {
                    let code = u32::from_le_bytes(code.try_into().expect("4 bytes"));
                    if let Some(ty) = walk::select(types, code.into()) {
                        self.span(u64::from_le_bytes(value.try_into().expect("8 bytes")), ty, 1, depth);
                    }
                }
            }
        }
    }

    fn span(&mut self, address: u64, element: &'static Type, count: u64, depth: u32) {
        let Some(size) = count.checked_mul(element.size.into()) else { return };
        if depth > DEPTH || size == 0 || is_byte(element) {
            return;
        }
        match element.form {
            Form::Struct(_) | Form::Array(..) => {
                for when in [When::Entry, When::Return] {
                    if let Some(bytes) = self.call.memory(when, address, size) {
                        self.elements(element, &bytes, Place::Memory(address), when, depth);
                    }
                }
            }
            _ => self.keep_memory(address, size),
        }
    }

    /// As much as was recorded of it.
    fn text(&mut self, address: u64) {
        let longest = self.call.images_at(address).map(|image| image.len).max();
        longest.into_iter().for_each(|len| self.keep_memory(address, len));
    }
}

/// Whether a text that the function is given is the name of an object.
fn looks_up(function: &Function) -> bool {
    function.class == Class::query
}

fn is_byte(ty: &Type) -> bool {
    ty.size == 1 && matches!(ty.form, Form::Void | Form::Char | Form::Unsigned)
}

fn is_bytes(ty: &Type) -> bool {
    matches!(ty.form, Form::Array(element, _) if is_byte(element))
}

/// Fills a structure up, and may hold whatever lay there before.
fn is_unused(field: &Field) -> bool {
    let name = field.name;
    let fills = name.starts_with("reserved") || name.starts_with("pad") || name.starts_with('_');
    fills && !matches!(field.role, Role::Union(..))
}
