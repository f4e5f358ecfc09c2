//! Waits of a stream for a value in memory.
//!
//! A value in host memory may have come from the program's own CPU, by no call: a replay would wait for ever. It is waited for if a stream
//! has been given that value to write, and the CPU has been seen to write nothing else since.

use crate::call::buffers::{Builder, Here, Recorded};
use crate::call::frame::{Memory, Refusal};
use crate::memory::ranges::Ranges;
use crate::plan::captures::named_memory;
use crate::plan::nested::structs;
use std::collections::HashSet;
use std::ops::Range;
use trace::api::enums::{CUstreamBatchMemOpType as Kind, CUstreamWaitValue_flags as Until};
use trace::api::roles::{Class, Extent, Field, Role};
use trace::api::structs::CUstreamBatchMemOpParams;
use trace::api::types::{Form, Type, Typed};
use trace::call::{Image, When};
use trace::walk::{Target, resolve};
use trace::{Call, Function, Trace};

/// Why such a wait is left out.
pub const WHY: &str = "waits for a value that the CPU wrote";

/// One on a value, of a call or of a batch.
#[derive(Clone, PartialEq, Eq)]
struct Operation {
    waits: bool,
    memory: Range<u64>,
    value: u64,
    flags: u32,
}

impl Operation {
    fn new(waits: bool, is_wide: bool, address: u64, value: u64, flags: u32) -> Operation {
        let value = if is_wide { value } else { value & u64::from(u32::MAX) };
        Operation { waits, memory: address..address.saturating_add(if is_wide { 8 } else { 4 }), value, flags }
    }

    fn of_call(call: &Call, function: &Function) -> Option<Operation> {
        let waits = function.name.starts_with("cuStreamWaitValue");
        if !waits && !function.name.starts_with("cuStreamWriteValue") {
            return None;
        }
        let is_wide = function.name.contains("64");
        let flags = call.argument("flags")? as u32;
        Some(Operation::new(waits, is_wide, call.argument("addr")?, call.argument("value")?, flags))
    }

    /// One of a batch.
    fn of(bytes: &[u8]) -> Option<Operation> {
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
    structs(call, function, &mut |ty, bytes| all.extend(is_operation(ty).then(|| Operation::of(bytes))));
    all
}

/// Whether the field points to the operations of a batch.
pub fn are_operations(field: &Field) -> bool {
    matches!(field.ty.form, Form::Pointer(to) if is_operation(to))
}

fn is_operation(ty: &Type) -> bool {
    ty.name == CUstreamBatchMemOpParams::TYPE.name
}

/// What streams have been given to write to host memory, as far as the calls go that have been seen.
#[derive(Default)]
pub struct Signals {
    written: Vec<Operation>,
    /// Waits that one of them ends: the call, and the place in its batch.
    ended: HashSet<(u64, usize)>,
}

impl Signals {
    /// Whether the call waits so that it is left out, by itself or in one of its operations, or makes a node that does.
    pub fn see(
        &mut self,
        trace: &Trace,
        call: &Call,
        function: &'static Function,
        makes_node: bool,
        host: &Ranges,
    ) -> bool {
        if host.is_empty() {
            return false;
        }
        if !self.written.is_empty() {
            call.written().flat_map(|written| written.images()).for_each(|image| self.by_cpu(trace, &image));
        }
        let operations = operations(call, function);
        if operations.is_empty() && !self.written.is_empty() && matches!(function.class, Class::copy | Class::submit) {
            let named = named_memory(call, function);
            self.written.retain(|one| !named.iter().any(|range| meet(range, &one.memory)));
        }
        let mut leaves_out = false;
        for (at, one) in operations.into_iter().enumerate() {
            let Some(one) = one.filter(|one| host.contains(one.memory.start)) else { continue };
            if !one.waits {
                self.written.extend((!makes_node).then_some(one));
            } else if !makes_node && self.written.iter().any(|by| by.memory == one.memory && one.ends_with(by.value)) {
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
        let found = |one: &Operation| {
            let at = usize::try_from(one.memory.start.checked_sub(range.start)?).ok()?;
            let bytes = bytes.get(at..)?.get(..(one.memory.end - one.memory.start) as usize)?;
            Some(bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
        };
        let is_streams =
            |at: &Operation| self.written.iter().any(|by| by.memory == at.memory && found(at) == Some(by.value));
        let gone: Vec<Range<u64>> = self
            .written
            .iter()
            .filter(|one| meet(&range, &one.memory) && !is_streams(one))
            .map(|one| one.memory.clone())
            .collect();
        self.written.retain(|one| !gone.contains(&one.memory));
    }

    pub fn into_ended(self) -> HashSet<(u64, usize)> {
        self.ended
    }
}

fn meet(one: &Range<u64>, other: &Range<u64>) -> bool {
    one.start < other.end && other.start < one.end
}

impl Builder<'_, '_> {
    /// Whether the whole call is a wait that might not end.
    pub fn is_endless_wait(&self) -> bool {
        let one = Operation::of_call(&self.call, self.function);
        one.is_some_and(|one| one.waits && self.is_endless(&one, 0))
    }

    fn is_endless(&self, one: &Operation, at: usize) -> bool {
        let plan = &self.world.plan;
        plan.host.contains(one.memory.start) && !plan.ended_waits.contains(&(self.call.number, at))
    }

    /// Memory operations of a stream, less those that would wait for ever.
    pub fn operations(&mut self, fields: &'static [Field], index: usize, base: u32, here: Here) -> Result<(), Refusal> {
        let field = &fields[index];
        let view = Recorded { call: &self.call, bytes: here.recorded, when: When::Entry };
        let (Target::Span { address, element, count, .. }, Role::In(Extent::Len(number))) =
            (resolve(fields, index, base, &view), field.role)
        else {
            return self.pointer(fields, index, base, here);
        };
        let size = element.size as usize;
        let recorded = count.checked_mul(size as u64).and_then(|len| self.call.memory(When::Entry, address, len));
        let recorded = recorded.ok_or_else(|| self.missing(field.name))?;
        let is_kept =
            |(at, one): &(usize, &[u8])| Operation::of(one).is_none_or(|one| !one.waits || !self.is_endless(&one, *at));
        let kept = recorded.chunks_exact(size).enumerate().filter(is_kept);
        let kept: Vec<u8> = kept.flat_map(|(_, one)| one).copied().collect();
        if kept.len() == recorded.len() {
            return self.pointer(fields, index, base, here);
        }
        if kept.is_empty() {
            return Err(Refusal(WHY.into()));
        }
        self.tally.leave_out(self.function.name, WHY, true, self.call.number);
        let memory = self.frame.memory.len();
        let live = self.own(Memory::of(&kept)?);
        for n in 0..kept.len() / size {
            self.value(element, (n * size) as u32, Here { recorded: &kept, memory, offset: 0 })?;
        }
        let number = &fields[number.0 as usize];
        self.put(here, base + number.offset, number.ty.size, (kept.len() / size) as u64);
        self.put(here, base + field.offset, 8, live);
        Ok(())
    }
}
