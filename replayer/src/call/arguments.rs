//! Kernel arguments in both forms, and arrays of attribute values.

use crate::call::build::Builder;
use crate::call::frame::Output;
use crate::memory::arguments::RegionKind;
use crate::memory::buffer::{HostBuffer, Refusal};
use trace::api::extra::{self, Extra};
use trace::api::types::Type;
use trace::api::walk::{Direction, select};
use trace::base::bytes::{u32_at, u64_at};
use trace::read::call::{Content, When};

impl Builder<'_, '_> {
    /// The pointer-array form: an array of pointers to values.
    pub(crate) fn arguments(&mut self, name: &'static str, address: u64) -> Result<u64, Refusal> {
        let found = self.call.images().find_map(|image| match image.content {
            Content::Arguments { kernel, count, packed } if image.address == address => Some((kernel, count, packed)),
            _ => None,
        });
        let Some((kernel, count, packed)) = found else { return Err(self.missing(name)) };
        let kernel = self.session.trace.kernels.get(&kernel);
        let Some(params) = kernel.and_then(|kernel| kernel.params.as_ref()) else {
            return Err(Refusal(
                "the sizes of the kernel's arguments are unknown: neither the driver nor the code has them".into(),
            ));
        };
        if params.len() > count as usize {
            return Err(Refusal(format!("the kernel takes {} arguments, the trace has {count}", params.len())));
        }
        let mut values = self.launch_memory(RegionKind::Values, packed)?;
        let mut pointers = Vec::with_capacity(params.len() * 8);
        let mut at = 0;
        for (_, size) in params {
            let size = *size as usize;
            let bytes = packed.get(at..at + size).ok_or_else(|| self.missing(name))?;
            for (offset, live) in self.argument(bytes) {
                values.write(at + offset, &live.to_le_bytes());
            }
            pointers.extend((values.address() + at as u64).to_le_bytes());
            at += size.next_multiple_of(8);
        }
        self.own(values);
        let pointers = self.launch_memory(RegionKind::Pointers, &pointers)?;
        Ok(self.own(pointers))
    }

    /// The packed form: pairs of a code and an address, ended by a zero.
    pub(crate) fn extra(&mut self, name: &'static str, address: u64) -> Result<u64, Refusal> {
        let word = |at: u64| {
            let bytes = self.call.memory(When::Entry, at, 8)?;
            Some(u64::from_le_bytes(bytes.as_ref().try_into().ok()?))
        };
        let recorded = Extra::read(address, word);
        let (Some(pointer), Some(size)) = (recorded.buffer(), recorded.size_at().and_then(word)) else {
            return Err(self.missing(name));
        };
        let bytes = self.call.memory(When::Entry, pointer, size).ok_or_else(|| self.missing(name))?;
        // The driver takes one that is too small.
        let mut values = self.launch_memory(RegionKind::Values, &bytes)?;
        for (at, live) in self.packed_arguments(&bytes) {
            values.write(at, &live.to_le_bytes());
        }
        let size = self.frame.holding(&size.to_le_bytes())?;
        let (values, size) = (self.own(values), self.own(size));
        let live = [extra::BUFFER, values, extra::SIZE, size, 0].map(u64::to_le_bytes).concat();
        let live = self.frame.holding(&live)?;
        Ok(self.own(live))
    }

    fn launch_memory(&self, holds: RegionKind, bytes: &[u8]) -> Result<HostBuffer, Refusal> {
        self.session.arguments.holding(holds, bytes, self.frame.arena.is_some())
    }

    /// Pointers to values whose types the codes tell.
    pub(crate) fn attributes(
        &mut self,
        name: &'static str,
        address: u64,
        codes: u64,
        count: u64,
        types: &'static [(u32, &'static Type)],
    ) -> Result<u64, Refusal> {
        const WIDEST: usize = 256;
        let array = |address, size: u64| self.call.memory(When::Entry, address, count.checked_mul(size)?);
        let (pointers, codes) = array(address, 8).zip(array(codes, 4)).ok_or_else(|| self.missing(name))?;
        let mut live = Vec::with_capacity(pointers.len());
        for (pointer, code) in pointers.chunks_exact(8).zip(codes.chunks_exact(4)) {
            let address = u64_at(pointer, 0);
            let code = u32_at(code, 0);
            let memory = self.frame.memory.len();
            if let Some(element) = select(types, code.into()) {
                let direction = Direction::Out;
                self.frame.outputs.push(Output::Values { name, memory, address, element, count: 1, direction });
            }
            let own = if address == 0 { 0 } else { self.own(HostBuffer::zeroed(WIDEST)?) };
            live.extend(own.to_le_bytes());
        }
        Ok(self.own(HostBuffer::from_bytes(&live)?))
    }
}
