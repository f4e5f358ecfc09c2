//! Waits of a stream for a value in memory.
//!
//! A value in host memory may have come from the program's own CPU, by no call: a replay would wait for ever.

use crate::call::buffers::{Builder, Here, Recorded};
use crate::call::frame::{Memory, Refusal};
use crate::memory::ranges::Ranges;
use crate::plan::nested::structs;
use trace::api::enums::CUstreamBatchMemOpType as Operation;
use trace::api::roles::{Extent, Field, Role};
use trace::api::structs::CUstreamBatchMemOpParams;
use trace::api::types::{Form, Type, Typed};
use trace::call::When;
use trace::walk::{Target, resolve};
use trace::{Call, Function};

/// Why such a wait is left out.
pub const WHY: &str = "waits for a value that the CPU wrote";

/// Whether the whole call is a wait for a value in this host memory.
pub fn is_wait(call: &Call, function: &Function, host: &Ranges) -> bool {
    function.name.starts_with("cuStreamWaitValue") && call.argument("addr").is_some_and(|at| host.contains(at))
}

/// Whether the field points to the operations of a batch.
pub fn are_operations(field: &Field) -> bool {
    matches!(field.ty.form, Form::Pointer(to) if is_operation(to))
}

fn is_operation(ty: &Type) -> bool {
    ty.name == CUstreamBatchMemOpParams::TYPE.name
}

/// Whether this operation of a batch is such a wait.
fn is_waiting(operation: &[u8], host: &Ranges) -> bool {
    let kind = operation.get(..4).map(|kind| u32::from_le_bytes(kind.try_into().expect("4 bytes")));
    let address = operation.get(8..16).map(|word| u64::from_le_bytes(word.try_into().expect("8 bytes")));
    let waits = [Operation::CU_STREAM_MEM_OP_WAIT_VALUE_32.0, Operation::CU_STREAM_MEM_OP_WAIT_VALUE_64.0];
    kind.is_some_and(|kind| waits.contains(&kind)) && address.is_some_and(|at| host.contains(at))
}

/// Whether the call waits so, by itself or in one of its operations, or makes a node that does.
pub fn has_wait(call: &Call, function: &'static Function, host: &Ranges) -> bool {
    if host.is_empty() {
        return false;
    }
    let mut found = is_wait(call, function, host);
    structs(call, function, &mut |ty, bytes| found |= is_operation(ty) && is_waiting(bytes, host));
    found
}

impl Builder<'_, '_> {
    /// Memory operations of a stream, less those that would wait for ever.
    pub fn operations(&mut self, fields: &'static [Field], index: usize, base: u32, here: Here) -> Result<(), Refusal> {
        let (field, host) = (&fields[index], &self.world.plan.host);
        let view = Recorded { call: &self.call, bytes: here.recorded, when: When::Entry };
        let (Target::Span { address, element, count, .. }, Role::In(Extent::Len(number))) =
            (resolve(fields, index, base, &view), field.role)
        else {
            return self.pointer(fields, index, base, here);
        };
        let size = element.size as usize;
        let recorded = count.checked_mul(size as u64).and_then(|len| self.call.memory(When::Entry, address, len));
        let recorded = recorded.ok_or_else(|| self.missing(field.name))?;
        let kept: Vec<u8> =
            recorded.chunks_exact(size).filter(|one| !is_waiting(one, host)).flatten().copied().collect();
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
