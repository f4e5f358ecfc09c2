//! Stream operations on values in memory, except those that would wait forever.

use crate::call::build::{Builder, FieldContext};
use crate::memory::buffer::{HostBuffer, Refusal};
use crate::plan::order::waits::{Operation, WHY};
use trace::api::roles::{Extent, Field, Role};
use trace::api::walk::{Target, resolve};
use trace::read::call::When;
use trace::read::recorded_memory::Recorded;

impl Builder<'_, '_> {
    /// Whether the whole call is a wait that might not end.
    pub(crate) fn is_endless_wait(&self) -> bool {
        let one = Operation::of_call(&self.call, self.function);
        one.is_some_and(|one| one.waits && self.is_endless(&one, 0))
    }

    fn is_endless(&self, one: &Operation, at: usize) -> bool {
        let plan = &self.session.plan;
        plan.addresses.host.contains(one.memory.start)
            && !plan.special_calls.ended_waits.contains(&(self.call.number, at))
    }

    /// Memory operations of a stream, less those that would wait for ever.
    pub(crate) fn operations(
        &mut self,
        fields: &'static [Field],
        index: usize,
        base: u32,
        here: FieldContext,
    ) -> Result<(), Refusal> {
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
        let is_kept = |(at, one): &(usize, &[u8])| {
            Operation::from_bytes(one).is_none_or(|one| !one.waits || !self.is_endless(&one, *at))
        };
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
        let live = self.own(HostBuffer::from_bytes(&kept)?);
        for n in 0..kept.len() / size {
            self.value(element, (n * size) as u32, FieldContext { recorded: &kept, memory, offset: 0 })?;
        }
        let number = &fields[number.0 as usize];
        self.write(here, base + number.offset, number.ty.size, (kept.len() / size) as u64);
        self.write(here, base + field.offset, 8, live);
        Ok(())
    }
}
