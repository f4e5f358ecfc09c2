//! Kernel arguments in both forms, and arrays of attribute values.

use crate::call::buffers::Builder;
use crate::call::frame::{Memory, Output, Refusal};
use trace::api::types::Type;
use trace::call::{Content, When};
use trace::extra::{self, Extra};
use trace::walk::{Direction, select};

impl Builder<'_, '_> {
    /// The pointer-array form: an array of pointers to values.
    pub fn arguments(&mut self, name: &'static str, address: u64) -> Result<u64, Refusal> {
        let found = self.call.images().find_map(|image| match image.content {
            Content::Arguments { kernel, count, packed } if image.address == address => Some((kernel, count, packed)),
            _ => None,
        });
        let Some((kernel, count, packed)) = found else { return Err(self.missing(name)) };
        let params = self.world.trace.kernels.get(&kernel).and_then(|kernel| kernel.params.as_ref());
        let Some(params) = params else {
            return Err(Refusal("the driver would not tell how large the kernel's arguments are".into()));
        };
        let mut values = Memory::of(packed)?;
        let mut pointers = Vec::with_capacity(count as usize * 8);
        let mut at = 0;
        for (_, size) in params.iter().take(count as usize) {
            let size = *size as usize;
            let bytes = packed.get(at..at + size).ok_or_else(|| self.missing(name))?;
            self.argument(bytes, at, &mut values);
            pointers.extend((values.address() + at as u64).to_le_bytes());
            at += size.next_multiple_of(8);
        }
        self.own(values);
        Ok(self.own(Memory::of(&pointers)?))
    }

    /// The packed form: pairs of a code and an address, ended by a zero.
    pub fn extra(&mut self, name: &'static str, address: u64) -> Result<u64, Refusal> {
        let word = |at: u64| {
            let bytes = self.call.memory(When::Entry, at, 8)?;
            Some(u64::from_le_bytes(bytes.as_ref().try_into().ok()?))
        };
        let recorded = Extra::read(address, word);
        let (Some(pointer), Some(size)) = (recorded.buffer(), recorded.size_at().and_then(word)) else {
            return Err(self.missing(name));
        };
        let bytes = self.call.memory(When::Entry, pointer, size).ok_or_else(|| self.missing(name))?;
        let mut values = Memory::of(&bytes)?;
        self.argument(&bytes, 0, &mut values);
        let (values, size) = (self.own(values), self.own(Memory::of(&size.to_le_bytes())?));
        let live = [extra::BUFFER, values, extra::SIZE, size, 0].map(u64::to_le_bytes).concat();
        Ok(self.own(Memory::of(&live)?))
    }

    /// Pointers to values whose types the codes tell.
    pub fn attributes(
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
            let address = u64::from_le_bytes(pointer.try_into().expect("8 bytes"));
            let code = u32::from_le_bytes(code.try_into().expect("4 bytes"));
            let memory = self.frame.memory.len();
            if let Some(element) = select(types, code.into()) {
                let direction = Direction::Out;
                self.frame.outputs.push(Output::Values { name, memory, address, element, count: 1, direction });
            }
            let own = if address == 0 { 0 } else { self.own(Memory::zeroed(WIDEST)?) };
            live.extend(own.to_le_bytes());
        }
        Ok(self.own(Memory::of(&live)?))
    }

    /// Rewrites what must be in one argument: addresses in translated ranges, and objects that kernels use by value.
    fn argument(&mut self, bytes: &[u8], at: usize, values: &mut Memory) {
        let world = self.world;
        for (n, word) in bytes.chunks_exact(8).enumerate() {
            let value = u64::from_le_bytes(word.try_into().expect("8 bytes"));
            let object = || if bytes.len() == 8 { world.objects.in_arguments(value) } else { None };
            if let Some(live) = world.translation.live(value).or_else(object) {
                values.put(at + n * 8, &live.to_le_bytes());
            } else if looks_like_address(value)
                && !world.plan.device.contains(value)
                && !world.plan.host.contains(value)
            {
                self.tally.unresolved_pointers += 1;
            }
        }
    }
}

/// Within what x86-64 gives a process, and too large for a small number.
pub fn looks_like_address(value: u64) -> bool {
    (1 << 32..1 << 47).contains(&value)
}
