//! Where an allocating call gets memory, and how its kind is named.

use super::ledger::Side;
use crate::report::walk::Step;
use std::mem::offset_of;
use trace::api::effect::Memory;
use trace::api::structs::{CUmemAllocationProp, CUmemLocation};
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
