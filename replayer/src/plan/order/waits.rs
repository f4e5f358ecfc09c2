//! Stream waits for a value in memory.
//!
//! The program's own CPU may have written a value in host memory, without a call: then a replay would wait
//! forever. The replay waits only if the last recorded change of this memory is a stream's write of a
//! matching value, and the earlier contents would not have ended the wait: otherwise somebody may have
//! restored them meanwhile.

use crate::base::ranges::Ranges;
use crate::plan::comparability::mapped_memory::arguments;
use crate::plan::comparability::reach::Allocations;
use std::collections::{BTreeMap, HashSet};
use std::ops::Range;
use trace::api::effect::{Effect, Work};
use trace::api::enums::{CUstreamBatchMemOpType as Kind, CUstreamWaitValue_flags as Until};
use trace::api::roles::{Class, Extent, Field, Role};
use trace::api::structs::CUstreamBatchMemOpParams;
use trace::api::types::{Form, Type, Typed};
use trace::model::copy_endpoints::memory;
use trace::model::nested_structs::structs;
use trace::read::call::Image;
use trace::{Call, Function, Trace};

/// Why such a wait is left out.
pub(crate) const WHY: &str = "waits for a value that the CPU wrote";

/// Bytes of the longest value.
const WIDEST: u64 = 8;

/// The known memory at a call.
pub(crate) struct Memories<'m> {
    pub host: &'m Ranges,
    pub live: &'m Allocations,
    /// Whether the call makes a node of a graph.
    pub makes_node: bool,
}

/// One operation on a value, from a call or a batch.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Operation {
    pub waits: bool,
    pub memory: Range<u64>,
    value: u64,
    flags: u32,
}

impl Operation {
    fn new(waits: bool, is_wide: bool, address: u64, value: u64, flags: u32) -> Operation {
        let value = if is_wide { value } else { value & u64::from(u32::MAX) };
        Operation { waits, memory: address..address.saturating_add(if is_wide { 8 } else { 4 }), value, flags }
    }

    pub(crate) fn of_call(call: &Call, function: &Function) -> Option<Operation> {
        let of_value = |param: &Field| match param.role {
            Role::Reads(Extent::Fixed(bytes)) => Some((true, bytes)),
            Role::Writes(Extent::Fixed(bytes)) => Some((false, bytes)),
            _ => None,
        };
        let is_value = function.work() == Some(Work::Value);
        let (waits, bytes) = function.params.iter().filter(|_| is_value).find_map(of_value)?;
        let is_wide = bytes == 8;
        let argument = |is: fn(&Field) -> bool| call.argument_of(function.params.iter().position(is)?);
        let address = argument(|param| matches!(param.role, Role::Reads(_) | Role::Writes(_)))?;
        let value = argument(|param| matches!((param.role, param.ty.form), (Role::Plain, Form::Unsigned)))?;
        let flags = argument(|param| matches!(param.role, Role::Bits(_)))? as u32;
        Some(Operation::new(waits, is_wide, address, value, flags))
    }

    /// One of a batch.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Operation> {
        let half = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        let word = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
        let (waits, is_wide) = match Kind(half(0)?) {
            Kind::CU_STREAM_MEM_OP_WAIT_VALUE_32 => (true, false),
            Kind::CU_STREAM_MEM_OP_WAIT_VALUE_64 => (true, true),
            Kind::CU_STREAM_MEM_OP_WRITE_VALUE_32 => (false, false),
            Kind::CU_STREAM_MEM_OP_WRITE_VALUE_64 => (false, true),
            _ => return None,
        };
        Some(Operation::new(waits, is_wide, word(8)?, word(16)?, half(24)?))
    }

    /// Whether a wait ends with this value there.
    fn ends_with(&self, value: u64) -> bool {
        let is_wide = self.memory.end - self.memory.start == 8;
        match Until(self.flags & 3) {
            Until::CU_STREAM_WAIT_VALUE_GEQ if is_wide => value.wrapping_sub(self.value) as i64 >= 0,
            Until::CU_STREAM_WAIT_VALUE_GEQ => (value as u32).wrapping_sub(self.value as u32) as i32 >= 0,
            Until::CU_STREAM_WAIT_VALUE_EQ => value == self.value,
            Until::CU_STREAM_WAIT_VALUE_AND => value & self.value != 0,
            _ => !(value | self.value) & if is_wide { u64::MAX } else { u32::MAX.into() } != 0,
        }
    }
}

/// All of a call, each with its place in the batch.
fn operations(call: &Call, function: &'static Function) -> Vec<Option<Operation>> {
    let mut all = Vec::new();
    all.extend(Operation::of_call(call, function).map(Some));
    structs(call, function, &mut |ty, bytes| all.extend(is_operation(ty).then(|| Operation::from_bytes(bytes))));
    all
}

/// Whether the field points to the operations of a batch.
pub(crate) fn are_operations(field: &Field) -> bool {
    matches!(field.ty.form, Form::Pointer(to) if is_operation(to))
}

fn is_operation(ty: &Type) -> bool {
    ty.name == CUstreamBatchMemOpParams::TYPE.name
}

/// Values that streams write to host memory, up to the present call.
#[derive(Default)]
pub(crate) struct Signals {
    /// By the start of the memory: apart from each other.
    values: BTreeMap<u64, Value>,
    /// Waits that one of them ends: the call, and the place in its batch.
    ended: HashSet<(u64, usize)>,
}

#[derive(Default)]
struct Value {
    len: u64,
    now: u64,
    /// What was there when a stream was given that to write, if anything tells; if the CPU wrote it, the
    /// same.
    before: Option<u64>,
    by_stream: bool,
}

impl Signals {
    /// Whether the call waits so that it is left out, by itself or in one of its operations, or makes a node
    /// that does.
    pub(crate) fn observe(
        &mut self,
        trace: &Trace,
        call: &Call,
        function: &'static Function,
        memory: Memories,
    ) -> bool {
        let Memories { host, live, makes_node } = memory;
        if host.is_empty() {
            return false;
        }
        let operations = operations(call, function);
        if operations.is_empty() {
            if !self.values.is_empty() {
                call.written().flat_map(|written| written.images()).for_each(|image| self.by_cpu(trace, &image));
                self.observe_other_writes(call, function, live);
            }
            return false;
        }
        let in_host =
            |(at, one): (usize, Option<Operation>)| Some((at, one.filter(|one| host.contains(one.memory.start))?));
        let operations: Vec<(usize, Operation)> = operations.into_iter().enumerate().filter_map(in_host).collect();
        for (_, Operation { memory, .. }) in &operations {
            let len = memory.end - memory.start;
            if self.values.get(&memory.start).is_none_or(|value| value.len != len) {
                self.forget(memory);
                self.values.insert(memory.start, Value { len, ..Value::default() });
            }
        }
        // Where it begins to be followed, all of it.
        call.written().flat_map(|written| written.images()).for_each(|image| self.by_cpu(trace, &image));
        let mut leaves_out = false;
        for (at, one) in operations {
            let Some(value) = self.values.get_mut(&one.memory.start) else { continue };
            if makes_node {
                leaves_out |= one.waits;
                self.forget(&one.memory);
            } else if !one.waits {
                *value = Value { before: value.known_value(), now: one.value, by_stream: true, ..*value };
            } else if value.by_stream && one.ends_with(value.now) && !value.before.is_some_and(|was| one.ends_with(was))
            {
                self.ended.insert((call.number, at));
            } else {
                leaves_out = true;
            }
        }
        leaves_out
    }

    /// What the CPU has put there, or was taken to have because the page was touched.
    fn by_cpu(&mut self, trace: &Trace, image: &Image) {
        let range = image.memory();
        let bytes = trace.bytes(image).unwrap_or_default();
        let first = range.start.saturating_sub(WIDEST);
        for (start, value) in self.values.range_mut(first..range.end) {
            let found = || {
                let at = usize::try_from(start.checked_sub(range.start)?).ok()?;
                let bytes = bytes.get(at..)?.get(..value.len as usize)?;
                Some(bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
            };
            let meets = start.saturating_add(value.len) > range.start;
            match found() {
                Some(now) if value.known_value() != Some(now) => {
                    *value = Value { len: value.len, now, before: Some(now), by_stream: false }
                }
                None if meets => *value = Value { len: value.len, ..Value::default() },
                _ => {}
            }
        }
    }

    /// Copies, fills and kernels write there, too, and memory that is freed is another's.
    fn observe_other_writes(&mut self, call: &Call, function: &'static Function, live: &Allocations) {
        if function.launches_graph() {
            return self.values.clear();
        }
        match function.class {
            Class::launch => {
                let given: Vec<Range<u64>> = arguments(call).filter_map(|word| live.range_around(word)).collect();
                given.iter().for_each(|range| self.forget(range));
            }
            Class::copy | Class::submit => memory(call, function).iter().for_each(|range| self.forget(range)),
            _ if matches!(function.effect, Effect::Free(kind) if kind.is_host()) => {
                self.values.retain(|start, _| live.holds(*start));
            }
            _ => {}
        }
    }

    fn forget(&mut self, range: &Range<u64>) {
        let near = self.values.range(range.start.saturating_sub(WIDEST)..range.end);
        let met: Vec<u64> = near
            .filter(|(start, value)| start.saturating_add(value.len) > range.start)
            .map(|(start, _)| *start)
            .collect();
        met.iter().for_each(|start| _ = self.values.remove(start));
    }

    pub(crate) fn into_ended(self) -> HashSet<(u64, usize)> {
        self.ended
    }
}

impl Value {
    fn known_value(&self) -> Option<u64> {
        (self.by_stream || self.before.is_some()).then_some(self.now)
    }
}
