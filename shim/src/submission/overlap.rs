//! Calls that overwrite their inputs: the variable of a node that is the dependency of the next one, the
//! remainder of a resource that is split again. Inputs are otherwise read after the call, when these are
//! gone.
//!
//! The table line shows at compile time which calls can do it; the pointers before the call show whether one
//! does. A copy may likewise overwrite its own description, a struct or the arrays of a batch. Payloads of
//! copies are not the subject of this file: `payload.rs` decides when they are read.

use crate::os::guard::guarded;
use crate::os::probe::{bytes_at, copy_of, word_at};
use crate::records::lane::Lane;
use crate::submission::copy_endpoints::{Ends, Words, describes, describes_copies};
use trace::Function;
use trace::api::extra::Extra;
use trace::api::roles::{Field, Role};
use trace::api::types::{Form, Type};
use trace::api::walk::{Direction, Target, View, member, most, resolve};
use trace::base::hash::{Hash, Hasher};

/// Whether a call may write over what another of its parameters has it read.
pub(crate) const fn is_possible(function: &Function) -> bool {
    let (mut reads, mut writes) = (false, false);
    let mut i = 0;
    while i < function.params.len() {
        let field = &function.params[i];
        reads |= is_read(field);
        writes |= is_written(field.role) || is_copy(field) || is_destination(field.role);
        reads |= is_copy(field);
        i += 1;
    }
    reads && writes
}

/// Whether the parameter describes a copy, whose destination may be anywhere.
const fn is_copy(field: &Field) -> bool {
    matches!(field.ty.form, Form::Pointer(to) if describes(to))
}

/// Whether memory that the parameter or field leads to is read, copies and images aside: code does not lie in
/// its own handle.
const fn is_read(field: &Field) -> bool {
    match (field.role, field.ty.form) {
        (Role::InOut(_), Form::Pointer(to)) => leads_on(to),
        (Role::In(_) | Role::AttributeIn(..) | Role::Text | Role::Arguments(_) | Role::Extra, _) => true,
        (Role::ReadsEach { .. } | Role::WritesEach { .. }, _) => true,
        (_, Form::Struct(_) | Form::Array(..)) => leads_on(field.ty),
        _ => false,
    }
}

/// Whether a value of this type leads to memory that is read.
pub(crate) const fn leads_on(ty: &Type) -> bool {
    match ty.form {
        Form::Array(element, _) => leads_on(element),
        Form::Struct(fields) => {
            let mut i = 0;
            while i < fields.len() {
                if is_read(&fields[i]) || any_leads_on(fields[i].role) {
                    return true;
                }
                i += 1;
            }
            false
        }
        _ => false,
    }
}

const fn any_leads_on(role: Role) -> bool {
    let Role::Union(_, members) = role else { return false };
    let mut i = 0;
    while i < members.len() {
        if leads_on(members[i].1) {
            return true;
        }
        i += 1;
    }
    false
}

/// Whether a copy writes there, or to the addresses that stand there.
const fn is_destination(role: Role) -> bool {
    matches!(role, Role::Writes(_) | Role::Sink(_) | Role::WritesEach { .. })
}

/// Values of attributes aside: what they are is told by the array that they would lie in.
const fn is_written(role: Role) -> bool {
    matches!(
        role,
        Role::Out(_)
            | Role::Create(_)
            | Role::Volatile(_)
            | Role::InOut(_)
            | Role::AttributeOut(..)
            | Role::TextOut
            | Role::Owned(_)
            | Role::HostAlloc(_)
            | Role::EntryPoint
    )
}

/// Inputs read before a call that may overwrite or free them.
#[derive(Default)]
pub(crate) struct Early {
    /// The parameters, a bit each, whose inputs these are.
    pub parameters: u32,
    /// By address. What is walked again at the return is walked here.
    memory: Vec<(u64, Vec<u8>)>,
    /// What pageable sources held that callbacks under way may write before the driver has read them.
    sources: Vec<(u64, u64, Hash)>,
    /// Arguments of a kernel whose parameters nobody could tell before the call, which may have freed them.
    pub left: Option<u64>,
}

impl Early {
    pub(crate) fn new(parameters: u32) -> Early {
        Early { parameters, ..Early::default() }
    }

    /// Whether the call's return has to know of it.
    pub(crate) fn is_needed(&self) -> bool {
        self.parameters != 0 || !self.sources.is_empty()
    }

    /// What cannot be read is the driver's to find out.
    pub(crate) fn source(&mut self, address: u64, len: u64) {
        self.sources.extend(hash_of(address, len).map(|hash| (address, len, hash)));
    }

    /// Whether a source holds something else now.
    pub(crate) fn has_changed(&self, address: u64, len: u64) -> bool {
        let mut known = self.sources.iter().filter(|(at, of, _)| (*at, *of) == (address, len));
        known.any(|(.., hash)| hash_of(address, len) != Some(*hash))
    }

    /// Whether this is one of the copies that stand for memory as it was before the call.
    pub(crate) fn is_copy(&self, place: u64) -> bool {
        self.memory.iter().any(|(_, bytes)| bytes.as_ptr() as u64 == place)
    }

    pub(crate) fn keep(&mut self, address: u64, bytes: &[u8]) {
        self.memory.push((address, bytes.to_vec()));
    }

    /// Where these bytes stand as they were before the call.
    pub(crate) fn place_of(&self, address: u64, len: u64) -> u64 {
        let kept = self.memory.iter().find(|(at, bytes)| *at == address && bytes.len() as u64 >= len);
        kept.map_or(address, |(_, bytes)| bytes.as_ptr() as u64)
    }
}

/// Of memory that may be anybody's; none if it cannot be read.
fn hash_of(address: u64, len: u64) -> Option<Hash> {
    const AT_ONCE: u64 = 256 << 10;
    let (mut hasher, mut scratch) = (Hasher::default(), Vec::new());
    for from in (0..len).step_by(AT_ONCE as usize) {
        if !copy_of(address.checked_add(from)?, AT_ONCE.min(len - from) as usize, &mut scratch) {
            return None;
        }
        hasher.update(&scratch);
    }
    Some(hasher.finish())
}

/// The parameters, a bit each, whose inputs lie where this call is going to write.
#[inline(never)]
pub(crate) fn overwritten(lane: &Lane, function: &'static Function, words: &[u64]) -> u32 {
    let mut found = 0;
    guarded(|| {
        let view = Words(words);
        let outputs = Outputs::collect(lane, function, &view);
        let meets = |index: &usize| outputs.meet(function.params, *index, 0, &view);
        found = (0..function.params.len()).filter(meets).fold(0, |found, index| found | 1 << index);
    });
    found
}

/// The memory that a call is going to write: where it begins, and its bytes.
struct Outputs<'a> {
    lane: &'a Lane,
    places: [(u64, u64); MOST_OUTPUTS],
    count: usize,
    /// Of copies that the call has described in memory.
    copies: Vec<(u64, u64)>,
}

/// More than any function has.
const MOST_OUTPUTS: usize = 8;
/// What is written where the table gives no length, as a word that the driver puts there.
const WORD: u64 = 8;
/// A name that a call is given is taken for so long: to take it early costs little, to look for its end costs
/// more.
const LONG_NAME: u64 = 4096;
/// More elements are not looked into.
const MOST_ELEMENTS: u64 = 4096;

impl<'a> Outputs<'a> {
    fn collect(lane: &'a Lane, function: &'static Function, view: &Words) -> Outputs<'a> {
        let mut outputs = Outputs { lane, places: [(0, 0); MOST_OUTPUTS], count: 0, copies: Vec::new() };
        if describes_copies(function) {
            let ends = Ends::find(lane, function, view.0, |address, _| address);
            outputs.copies.extend(ends.host_destinations().filter(|(address, _)| *address != 0));
        }
        for (index, field) in function.params.iter().enumerate() {
            let address = view.load(field.offset, 8).unwrap_or(0);
            let is_flat = matches!(field.role, Role::Writes(_) | Role::Sink(_));
            if address != 0 && (is_flat || is_written(field.role)) && outputs.count < MOST_OUTPUTS {
                let len = match resolve(function.params, index, 0, view) {
                    _ if is_flat => most(function.params, index, 0, view).unwrap_or(0),
                    Target::Span { element, count, .. } => count.saturating_mul(element.size.into()),
                    Target::Text { limit, .. } => limit,
                    _ => WORD,
                };
                outputs.places[outputs.count] = (address, len);
                outputs.count += 1;
            }
        }
        outputs
    }

    fn touch(&self, address: u64, len: u64) -> bool {
        let mut places = self.places[..self.count].iter().chain(&self.copies);
        places.any(|(start, size)| address < start.saturating_add(*size) && *start < address.saturating_add(len))
    }

    /// Whether an output lies in what `fields[index]` has the call read.
    fn meet(&self, fields: &'static [Field], index: usize, base: u32, view: &impl View) -> bool {
        match resolve(fields, index, base, view) {
            Target::Span { address, element, count, direction } => {
                let is_touched = || self.touch(address, count.saturating_mul(element.size.into()));
                match direction {
                    Direction::In => is_touched() || self.meet_behind(address, element, count),
                    // What is read and written itself is always read before the call.
                    Direction::InOut => self.meet_behind(address, element, count),
                    _ => false,
                }
            }
            Target::Text { address, out: false, .. } => self.touch(address, LONG_NAME),
            Target::Arguments { address, function } => self.meet_arguments(address, function),
            Target::Extra { address } => {
                let extra = Extra::read(address, |at| word_at(at, 8, true));
                let (size, buffer) = (extra.size_at().unwrap_or(0), extra.buffer().unwrap_or(0));
                let len = word_at(size, 8, true).unwrap_or(0);
                self.touch(address, extra.len) || self.touch(size, WORD) || self.touch(buffer, len)
            }
            _ => false,
        }
    }

    fn meet_behind(&self, address: u64, element: &'static Type, count: u64) -> bool {
        if !leads_on(element) || count > MOST_ELEMENTS {
            return false;
        }
        let Some(bytes) = bytes_at(address, count as usize * element.size as usize, true) else { return false };
        (0..count as u32).any(|i| self.meet_inside(element, i * element.size, &Bytes(&bytes)))
    }

    fn meet_inside(&self, ty: &'static Type, at: u32, view: &Bytes) -> bool {
        match ty.form {
            Form::Array(element, count) => (0..count).any(|i| self.meet_inside(element, at + i * element.size, view)),
            Form::Struct(fields) => fields.iter().enumerate().any(|(index, field)| match (field.role, field.ty.form) {
                (Role::Union(..), _) => {
                    member(fields, index, at, view).is_some_and(|ty| self.meet_inside(ty, at + field.offset, view))
                }
                (_, Form::Pointer(_)) => self.meet(fields, index, at, view),
                _ => leads_on(field.ty) && self.meet_inside(field.ty, at + field.offset, view),
            }),
            _ => false,
        }
    }

    /// The arguments of a kernel that becomes a node. Of one that nobody knows they are read after the call.
    fn meet_arguments(&self, address: u64, function: u64) -> bool {
        let Some(sizes) = self.lane.layout_before_launch(function).and_then(|layout| layout.sizes.as_ref()) else {
            return false;
        };
        let len = sizes.len() * 8;
        let Some(pointers) = bytes_at(address, len, true) else { return false };
        let pointers = pointers.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().expect("8 bytes")));
        self.touch(address, len as u64) || pointers.zip(sizes).any(|(at, size)| self.touch(at, (*size).into()))
    }
}

/// A copy of structures.
struct Bytes<'a>(&'a [u8]);

impl View for Bytes<'_> {
    fn load(&self, offset: u32, size: u32) -> Option<u64> {
        let bytes = self.0.get(offset as usize..)?.get(..size.min(8) as usize)?;
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        Some(u64::from_le_bytes(word))
    }

    fn read_word(&self, address: u64, size: u32) -> Option<u64> {
        word_at(address, size, true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace::api::by_name;

    #[test]
    fn calls_that_read_and_write_are_looked_at_and_no_others() {
        let nodes = trace::api::FUNCTIONS
            .iter()
            .filter(|f| f.name.starts_with("cuGraphAdd") && f.params[0].name == "phGraphNode");
        let others = ["cuDevSmResourceSplitByCount", "cuDeviceGetHostAtomicCapabilities", "cuModuleGetFunction"];
        let all = nodes.chain(others.map(|name| by_name(name).expect("in the table")));
        all.for_each(|function| assert!(is_possible(function), "{}", function.name));
        // Launches, flat copies and waits: nothing of this is on their way.
        let frequent = trace::api::FUNCTIONS.iter().filter(|function| {
            use trace::api::roles::Class;
            matches!(function.class, Class::launch | Class::submit | Class::copy | Class::synchronize | Class::poll)
        });
        let looked_at = frequent.filter(|function| is_possible(function) && !function.params.iter().any(is_copy));
        let looked_at: Vec<&str> = looked_at.map(|function| function.common_name()).collect();
        let described =
            ["cuMemcpyBatchAsync", "cuMemcpyBatchAsync_v2", "cuMemcpyWithAttributesAsync", "cuMemBatchDecompressAsync"];
        assert!(looked_at.iter().all(|name| described.contains(name)), "{looked_at:?}");
        assert!(described.iter().all(|name| looked_at.contains(name)), "{looked_at:?}");
    }
}
