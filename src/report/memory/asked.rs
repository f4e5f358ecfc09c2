//! What an allocating call asks for: which kind of memory, where, and how much.

use super::ledger::Side;
use crate::report::walk::Step;
use std::mem::offset_of;
use trace::api::copies::element_bytes;
use trace::api::effect::{Bytes, Effect, Memory};
use trace::api::enums::CUarray_format;
use trace::api::roles::Sibling;
use trace::api::structs::{CUmemAllocationProp, CUmemLocation};
use trace::api::types::Form;
use trace::call::When;

/// The kind of memory that a call gets, as it is named, and where.
pub fn place(step: &Step) -> (&'static str, Side) {
    let kind = step.allocates().unwrap_or(Memory::Device);
    let side = match kind {
        Memory::Pinned | Memory::Registered => Side::Host,
        Memory::Physical => Side::Device(physical_device(step).unwrap_or(0)),
        _ => Side::Device(step.contexts.device_of_allocation(&step.call)),
    };
    (name(kind), side)
}

const fn name(kind: Memory) -> &'static str {
    match kind {
        Memory::Managed => "managed",
        Memory::Pooled => "pool",
        Memory::Physical => "virtual",
        Memory::Registered => "registered",
        Memory::Pinned => "pinned",
        Memory::Array => "array",
        Memory::Device | Memory::Addresses | Memory::Imported => "device",
    }
}

/// The device of a CUmemAllocationProp.
fn physical_device(step: &Step) -> Option<i32> {
    let at = offset_of!(CUmemAllocationProp, location) + offset_of!(CUmemLocation, id);
    let bytes = step.call.memory(When::Entry, step.call.argument("prop")?.checked_add(at as u64)?, 4)?;
    Some(i32::from_le_bytes(bytes.as_ref().try_into().ok()?))
}

/// The bytes that an allocating call asks for; of mipmapped arrays those of the first level. None of arrays whose elements have no
/// size of their own.
pub fn asked(step: &Step) -> Option<u64> {
    let Effect::Allocate { bytes, .. } = step.function?.effect else { return None };
    let argument = |Sibling(at)| step.call.argument_of(at.into());
    match bytes {
        Bytes::Of(len) => argument(len),
        // The pitch is not known of one that failed.
        Bytes::Rows { rows, .. } => step.call.argument("WidthInBytes")?.checked_mul(argument(rows)?),
        Bytes::OfArray(Sibling(description)) => array_bytes(step, description.into()),
        Bytes::Untold => None,
    }
}

fn array_bytes(step: &Step, description: usize) -> Option<u64> {
    let (Form::Pointer(ty), address) =
        (step.function?.params.get(description)?.ty.form, step.call.argument_of(description)?)
    else {
        return None;
    };
    let Form::Struct(fields) = ty.form else { return None };
    let bytes = step.call.memory(When::Entry, address, ty.size.into())?;
    let field = |name: &str| {
        let field = fields.iter().find(|field| field.name == name)?;
        let mut word = [0; 8];
        let size = field.ty.size.min(8) as usize;
        word[..size].copy_from_slice(bytes.get(field.offset as usize..)?.get(..size)?);
        Some(u64::from_le_bytes(word))
    };
    let extent = ["Width", "Height", "Depth"].map(|name| field(name).unwrap_or(0).max(1));
    let element = element_bytes(CUarray_format(field("Format")? as u32), field("NumChannels")? as u32)?;
    extent.into_iter().try_fold(element, |product, n| product.checked_mul(n))
}
