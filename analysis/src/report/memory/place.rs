//! The location of memory, and the names of its kind and of the function that allocated it.

use super::ledger::Side;
use crate::report::walk::Step;
use trace::Trace;
use trace::api::effect::Memory;
use trace::model::graph_memory::POOL;
use trace::model::memory::Allocation;

/// What is listed together: where it is, its kind, the function that got it, bytes.
pub(super) type Same<'t> = (Side, &'static str, &'t str, u64);

/// None of what is not listed.
pub(super) fn same<'t>(trace: &'t Trace, one: &Allocation) -> Option<Same<'t>> {
    let function = trace.call(one.call).map_or("", |call| call.name());
    let kind = if one.pool == Some(POOL) { "graph" } else { name(one.kind) };
    Some((Side::from_allocation(one)?, kind, function, one.bytes.unwrap_or(0)))
}

/// Where a call gets memory, or was to get it.
pub(super) fn place(step: &Step) -> Side {
    match step.allocates() {
        Some(kind) if kind.is_host() => Side::Host,
        _ => Side::Device(step.contexts().device_of_allocation(step.call)),
    }
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
