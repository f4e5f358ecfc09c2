//! What a call copies: from where to where, how much, and which bytes.

use crate::report::walk::Step;
use std::collections::HashSet;
use trace::api::copies::region;
use trace::api::roles::{Role, Side};
use trace::api::types::{Form, Kind, Type};
use trace::call::{Content, When};
use trace::hash::{Hash, Hasher};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Place {
    Pageable,
    Pinned,
    Managed,
    Device,
    Array,
}

impl Place {
    pub fn name(self) -> &'static str {
        match self {
            Place::Pageable => "pageable",
            Place::Pinned => "pinned",
            Place::Managed => "managed",
            Place::Device => "device",
            Place::Array => "array",
        }
    }

    pub fn is_host(self) -> bool {
        matches!(self, Place::Pageable | Place::Pinned)
    }
}

#[derive(Debug, Clone, Copy)]
pub struct Transfer {
    pub from: Place,
    pub to: Place,
    /// Where the first byte goes; none for arrays.
    pub destination: Option<u64>,
    /// Whether the bytes lie in one piece there.
    pub is_dense: bool,
    pub bytes: u64,
    /// Of what the host gave, if it was recorded.
    pub hash: Option<Hash>,
}

/// One end of a copy, as far as the call tells by itself.
#[derive(Clone, Copy)]
enum End {
    Host(u64),
    Device(u64),
    /// Whose it is, the live ranges tell.
    Unified(u64),
    Array,
}

/// Whether the function copies.
pub fn is_copy(step: &Step) -> bool {
    step.function.is_some_and(|function| function.family == "copy" && function.name.starts_with("cuMemcpy"))
}

/// The copies of a call; `managed`: where managed memory begins.
pub fn copies(step: &Step, managed: &HashSet<u64>) -> Vec<Transfer> {
    let Some(function) = step.function else { return Vec::new() };
    if let Some(all) = batch(step, managed) {
        return all;
    }
    let (mut from, mut to) = (None, None);
    let is_unified = matches!(step.line(), "cuMemcpy" | "cuMemcpyAsync" | "cuMemcpyWithAttributesAsync");
    for param in function.params {
        let address = step.call.argument(param.name).unwrap_or(0);
        let either = if is_unified { End::Unified(address) } else { End::Device(address) };
        match (param.role, param.ty.form) {
            (Role::Source(_), _) => from = Some(End::Host(address)),
            (Role::Sink(_), _) => to = Some(End::Host(address)),
            (Role::Reads(_), _) => from = Some(either),
            (Role::Writes(_), _) => to = Some(either),
            (_, Form::Handle(Kind::Array)) if param.name.starts_with("src") => from = Some(End::Array),
            (_, Form::Handle(Kind::Array)) => to = Some(End::Array),
            _ => {}
        }
    }
    if let Some((from, to)) = from.zip(to) {
        let bytes = step.call.argument("ByteCount").or_else(|| step.call.argument("size")).unwrap_or(0);
        return vec![copy(step, managed, (from, to), bytes, true)];
    }
    let mut all = Vec::new();
    replayer::structs(&step.call, function, &mut |ty, bytes| all.extend(described(step, managed, ty, bytes)));
    all
}

fn copy(step: &Step, managed: &HashSet<u64>, (from, to): (End, End), bytes: u64, is_dense: bool) -> Transfer {
    let destination = match to {
        End::Host(at) | End::Device(at) | End::Unified(at) => Some(at),
        End::Array => None,
    };
    let hash = match from {
        End::Host(at) | End::Unified(at) => hash(step, at, bytes),
        End::Device(_) | End::Array => None,
    };
    let (from, to) = (place(step, managed, from), place(step, managed, to));
    Transfer { from, to, destination, is_dense, bytes, hash }
}

fn place(step: &Step, managed: &HashSet<u64>, end: End) -> Place {
    let (address, otherwise) = match end {
        End::Host(at) | End::Unified(at) => (at, Place::Pageable),
        End::Device(at) => (at, Place::Device),
        End::Array => return Place::Array,
    };
    match step.objects.range(address) {
        Some(range) if range.label == "host" => Place::Pinned,
        Some(range) if managed.contains(&range.base) => Place::Managed,
        Some(_) => Place::Device,
        None => otherwise,
    }
}

/// Of the recorded bytes at an address. Inline or apart, the same bytes have the same hash.
fn hash(step: &Step, address: u64, bytes: u64) -> Option<Hash> {
    let one = |address| {
        let image = step.call.images_at(address).next()?;
        let hash = match image.content {
            Content::Bytes(bytes) => Hash::of(bytes),
            Content::Blob(hash) => hash,
            _ => return None,
        };
        Some((image, hash))
    };
    let (image, first) = one(address)?;
    if image.rows || image.len >= bytes {
        return Some(first);
    }
    // Longer than a piece: the hash of the pieces' hashes.
    let (mut hasher, mut done) = (Hasher::default(), 0);
    while done < bytes {
        let (image, hash) = one(address.checked_add(done)?)?;
        hasher.update(&hash.to_bytes());
        done += image.len.max(1);
    }
    Some(hasher.finish())
}

/// Arrays of addresses and sizes.
fn batch(step: &Step, managed: &HashSet<u64>) -> Option<Vec<Transfer>> {
    let function = step.function?;
    let list = |name| {
        let (address, count) = (step.call.argument(name)?, step.call.argument("count")?);
        let bytes = step.call.memory(When::Entry, address, count.checked_mul(8)?)?;
        Some(bytes.chunks_exact(8).map(|b| u64::from_le_bytes(b.try_into().expect("8 bytes"))).collect::<Vec<_>>())
    };
    let param = |wanted: fn(Role) -> bool| function.params.iter().find(|param| wanted(param.role)).map(|p| p.name);
    let to = param(|role| matches!(role, Role::WritesEach { .. }))?;
    let from = param(|role| matches!(role, Role::ReadsEach { .. }))?;
    let (to, from, sizes) = (list(to)?, list(from)?, list("sizes")?);
    let each = from.into_iter().zip(to).zip(sizes);
    Some(each.map(|((from, to), n)| copy(step, managed, (End::Unified(from), End::Unified(to)), n, true)).collect())
}

/// A copy by its descriptor.
fn described(step: &Step, managed: &HashSet<u64>, ty: &'static Type, bytes: &[u8]) -> Option<Transfer> {
    let Form::Struct(fields) = ty.form else { return None };
    let fields: Vec<(&str, usize, &'static Type)> =
        fields.iter().map(|field| (field.name, field.offset as usize, field.ty)).collect();
    let field = |name: &str| {
        let (_, offset, ty) = fields.iter().find(|(n, ..)| *n == name)?;
        word(bytes.get(*offset..)?.get(..ty.size.min(8) as usize)?)
    };
    let named = |side| if side == Side::Source { "src" } else { "dst" };
    // The sides on the host or at a unified address, and where they begin; what is none is an array or on a device.
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
    let ends = (end(Side::Source)?, end(Side::Destination)?);
    let extent = match fields.iter().find(|(name, ..)| *name == "extent") {
        Some((_, offset, _)) => {
            let at = |index: usize| word(bytes.get(offset + 8 * index..)?.get(..8)?);
            [at(0)?, at(1)?, at(2)?]
        }
        None => [field("WidthInBytes")?, field("Height")?, field("Depth").unwrap_or(1)],
    };
    let total = extent.into_iter().try_fold(1u64, |product, n| product.checked_mul(n))?;
    Some(copy(step, managed, ends, total, false))
}

fn word(bytes: &[u8]) -> Option<u64> {
    let mut word = [0; 8];
    word.get_mut(..bytes.len())?.copy_from_slice(bytes);
    Some(u64::from_le_bytes(word))
}
