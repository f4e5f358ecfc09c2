//! The source, destination and size of a copy, as far as the call itself shows them.

use super::nested_structs::structs;
use crate::api::Function;
use crate::api::copies::{device_region, region};
use crate::api::roles::{Role, Side};
use crate::api::types::{Form, Kind, Type};
use crate::api::walk::reach;
use crate::read::call::Call;
use crate::read::call::When;
use crate::read::recorded_memory::Recorded;
use std::ops::Range;

/// One end of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Host memory at this address.
    Host(u64),
    /// Device memory at this address.
    Device(u64),
    /// Whose it is, the live ranges tell.
    Unified(u64),
    /// An array, which has no address.
    Array,
}

impl End {
    /// The address; None for an array.
    pub fn address(self) -> Option<u64> {
        match self {
            End::Host(at) | End::Device(at) | End::Unified(at) => Some(at),
            End::Array => None,
        }
    }
}

/// Both ends of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CopyEndpoints {
    /// The end that is read.
    pub from: End,
    /// The end that is written.
    pub to: End,
    /// Bytes that are copied.
    pub bytes: u64,
    /// Whether the bytes lie in one piece at both ends.
    pub is_dense: bool,
}

/// The copies of a call.
pub fn copy_endpoints(call: &Call, function: &'static Function) -> Vec<CopyEndpoints> {
    if let Some(all) = batch(call, function) {
        return all;
    }
    if let Some(one) = flat_copy(call, function) {
        return vec![one];
    }
    let mut all = Vec::new();
    structs(call, function, &mut |ty, bytes| all.extend(described(ty, bytes)));
    all
}

/// The copy of a call whose arguments are its two ends and a length, as those of most copies are: none of
/// others.
pub fn flat_copy(call: &Call, function: &'static Function) -> Option<CopyEndpoints> {
    let (mut from, mut to) = (None, None);
    let is_unified = function.copies_unified();
    let writes = |role| matches!(role, Role::Sink(_) | Role::Writes(_));
    // Of two arrays the first is the destination.
    let mut has_destination = function.params.iter().any(|param| writes(param.role));
    for (at, param) in function.params.iter().enumerate() {
        let address = call.argument_of(at).unwrap_or(0);
        let either = if is_unified { End::Unified(address) } else { End::Device(address) };
        match (param.role, param.ty.form) {
            (Role::Source(_), _) => from = Some(End::Host(address)),
            (Role::Sink(_), _) => to = Some(End::Host(address)),
            (Role::Reads(_), _) => from = Some(either),
            (Role::Writes(_), _) => to = Some(either),
            (_, Form::Handle(Kind::Array)) if has_destination => from = Some(End::Array),
            (_, Form::Handle(Kind::Array)) => (to, has_destination) = (Some(End::Array), true),
            _ => {}
        }
    }
    let (from, to) = from.zip(to)?;
    let bytes = call.argument("ByteCount").or_else(|| call.argument("size")).unwrap_or(0);
    Some(CopyEndpoints { from, to, bytes, is_dense: true })
}

/// The memory that a call's copies and fills touch, whosever it is: rows by themselves, unless they are very
/// many.
pub fn memory(call: &Call, function: &'static Function) -> Vec<Range<u64>> {
    const MOST: u64 = 4096;
    let touches = |role| matches!(role, Role::Reads(_) | Role::Writes(_) | Role::Source(_) | Role::Sink(_));
    let view = Recorded { call, bytes: call.argument_bytes(), when: When::Entry };
    let flat = function
        .params
        .iter()
        .enumerate()
        .filter(|(_, param)| touches(param.role))
        .filter_map(|(index, param)| Some((call.argument(param.name)?, reach(function.params, index, 0, &view)?)));
    let batched = batch(call, function).unwrap_or_default().into_iter();
    let batched =
        batched.flat_map(|copied| [copied.from, copied.to].map(|end| (end.address().unwrap_or(0), copied.bytes)));
    let mut all: Vec<Range<u64>> =
        flat.chain(batched).map(|(address, len)| address..address.saturating_add(len)).collect();
    structs(call, function, &mut |ty, bytes| {
        for side in [Side::Source, Side::Destination] {
            let Some(end) = region(ty, bytes, side, |_| None).or_else(|| device_region(ty, bytes, side)) else {
                continue;
            };
            match end.is_dense() || end.rows.saturating_mul(end.slices) > MOST {
                true => all.push(end.address..end.address + end.span()),
                false => all.extend(end.row_addresses().map(|row| row..row + end.row_bytes)),
            }
        }
    });
    all
}

/// Arrays of addresses and sizes.
fn batch(call: &Call, function: &'static Function) -> Option<Vec<CopyEndpoints>> {
    let list = |name| {
        let (address, count) = (call.argument(name)?, call.argument("count")?);
        let bytes = call.memory(When::Entry, address, count.checked_mul(8)?)?;
        Some(bytes.chunks_exact(8).map(|b| u64::from_le_bytes(b.try_into().expect("8 bytes"))).collect::<Vec<_>>())
    };
    let param = |wanted: fn(Role) -> bool| function.params.iter().find(|param| wanted(param.role)).map(|p| p.name);
    let to = param(|role| matches!(role, Role::WritesEach { .. }))?;
    let from = param(|role| matches!(role, Role::ReadsEach { .. }))?;
    let (to, from, sizes) = (list(to)?, list(from)?, list("sizes")?);
    let each = from.into_iter().zip(to).zip(sizes);
    let copy = |((from, to), bytes)| {
        let (from, to) = (End::Unified(from), End::Unified(to));
        CopyEndpoints { from, to, bytes, is_dense: true }
    };
    Some(each.map(copy).collect())
}

/// A copy by its descriptor.
fn described(ty: &'static Type, bytes: &[u8]) -> Option<CopyEndpoints> {
    let Form::Struct(fields) = ty.form else { return None };
    let fields: Vec<(&str, usize, &'static Type)> =
        fields.iter().map(|field| (field.name, field.offset as usize, field.ty)).collect();
    let field = |name: &str| {
        let (_, offset, ty) = fields.iter().find(|(n, ..)| *n == name)?;
        word(bytes.get(*offset..)?.get(..ty.size.min(8) as usize)?)
    };
    let named = |side| if side == Side::Source { "src" } else { "dst" };
    // The sides on the host or at a unified address, and where they begin; what is none is an array or on a
    // device.
    let end = |side| {
        let host = region(ty, bytes, side, |_| Some(1));
        let name = named(side);
        match field(&format!("{name}MemoryType")) {
            Some(1) => host.map(|region| End::Host(region.address)),
            Some(2) => field(&format!("{name}Device")).map(End::Device),
            Some(3) => Some(End::Array),
            Some(4) => host.map(|region| End::Unified(region.address)),
            // An operand of a batch: a pointer, or an array.
            _ if fields.iter().any(|(n, ..)| *n == name) => {
                Some(host.map_or(End::Array, |region| End::Unified(region.address)))
            }
            _ => None,
        }
    };
    let (from, to) = (end(Side::Source)?, end(Side::Destination)?);
    let extent = match fields.iter().find(|(name, ..)| *name == "extent") {
        Some((_, offset, _)) => {
            let at = |index: usize| word(bytes.get(offset + 8 * index..)?.get(..8)?);
            [at(0)?, at(1)?, at(2)?]
        }
        None => [field("WidthInBytes")?, field("Height")?, field("Depth").unwrap_or(1)],
    };
    let total = extent.into_iter().try_fold(1u64, |product, n| product.checked_mul(n))?;
    Some(CopyEndpoints { from, to, bytes: total, is_dense: false })
}

fn word(bytes: &[u8]) -> Option<u64> {
    let mut word = [0; 8];
    word.get_mut(..bytes.len())?.copy_from_slice(bytes);
    Some(u64::from_le_bytes(word))
}
