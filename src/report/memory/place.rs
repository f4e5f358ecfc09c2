//! Where an allocating call gets memory, and how its kind is named.

use super::ledger::Side;
use crate::report::walk::Step;
use trace::api::effect::Memory;

/// The kind of memory that a call gets, as it is named, and where.
pub fn place(step: &Step) -> (&'static str, Side) {
    let kind = step.allocates().unwrap_or(Memory::Device);
    let side = match kind {
        Memory::Pinned | Memory::Registered => Side::Host,
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
