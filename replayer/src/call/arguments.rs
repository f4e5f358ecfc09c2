//! Kernel arguments in both forms, and arrays of attribute values.

use crate::call::buffers::Builder;
use crate::call::frame::{Memory, Output, Refusal};
use trace::api::types::Type;
use trace::call::{Content, When};
use trace::walk::{Direction, select};

const BUFFER_POINTER: u64 = 1;
const BUFFER_SIZE: u64 = 2;

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

    /// The packed form: an array of tags and pointers that ends with a zero.
    pub fn extra(&mut self, name: &'static str, address: u64) -> Result<u64, Refusal> {
        const MOST: u64 = 16;
        let word = |at: u64| {
            let bytes = self.call.memory(When::Entry, at, 8)?;
            Some(u64::from_le_bytes(bytes.as_ref().try_into().ok()?))
        };
        let mut tags = Vec::new();
        for n in 0..MOST {
            match word(address + n * 16).ok_or_else(|| self.missing(name))? {
                0 => break,
                tag => tags.push((tag, word(address + n * 16 + 8).ok_or_else(|| self.missing(name))?)),
            }
        }
        let size_at = tags.iter().find(|(tag, _)| *tag == BUFFER_SIZE).map(|(_, at)| *at);
        let size = size_at.and_then(word).ok_or_else(|| self.missing(name))?;
        let mut live = Vec::new();
        for (tag, pointer) in tags {
            let target = match tag {
                BUFFER_POINTER => {
                    let bytes = self.call.memory(When::Entry, pointer, size).ok_or_else(|| self.missing(name))?;
                    let mut values = Memory::of(&bytes)?;
                    self.argument(&bytes, 0, &mut values);
                    self.own(values)
                }
                BUFFER_SIZE => self.own(Memory::of(&size.to_le_bytes())?),
                _ => return Err(Refusal(format!("{name} holds an entry of unknown kind {tag}"))),
            };
            live.extend(tag.to_le_bytes());
            live.extend(target.to_le_bytes());
        }
        live.extend([0; 8]);
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
fn looks_like_address(value: u64) -> bool {
    (1 << 32..1 << 47).contains(&value)
}
