//! Kernel arguments in both forms, and arrays of attribute values.

use crate::call::build::{Builder, Here};
use crate::call::frame::Output;
use crate::driver::parameters::Layout;
use crate::memory::buffer::{Memory, Refusal};
use trace::api::roles::Field;
use trace::api::types::{Form, Kind, Type};
use trace::call::{Content, When};
use trace::extra::{self, Extra};
use trace::segment::{u32_at, u64_at};
use trace::walk::{Direction, select};

impl Builder<'_, '_> {
    /// What the driver will read for the function that these fields name, if it tells.
    pub fn live_parameters(&self, fields: &[Field], base: u32, here: Here) -> Option<Layout> {
        let handle = |field: &Field| match field.ty.form {
            Form::Handle(Kind::Function | Kind::Kernel) => here.load(base + field.offset, 8).filter(|word| *word != 0),
            _ => None,
        };
        let live = self.session.objects.live(Kind::Function, fields.iter().find_map(handle)?)?;
        self.session.parameters.of(self.session.driver, live)
    }

    /// The pointer-array form: an array of pointers to values. `live`: what the driver will read.
    pub fn arguments(
        &mut self,
        name: &'static str,
        address: u64,
        live: Option<&[(usize, usize)]>,
    ) -> Result<u64, Refusal> {
        let found = self.call.images().find_map(|image| match image.content {
            Content::Arguments { kernel, count, packed } if image.address == address => Some((kernel, count, packed)),
            _ => None,
        });
        let Some((kernel, count, packed)) = found else { return Err(self.missing(name)) };
        let kernel = self.session.trace.kernels.get(&kernel);
        let Some(params) = kernel.and_then(|kernel| kernel.params.as_ref()) else {
            return Err(Refusal(
                "neither the driver nor the code would tell how large the kernel's arguments are".into(),
            ));
        };
        let params = &params[..params.len().min(count as usize)];
        cover(params, live.unwrap_or_default())?;
        let mut values = self.frame.holding(packed)?;
        let mut pointers = Vec::with_capacity(params.len() * 8);
        let mut at = 0;
        for (_, size) in params {
            let size = *size as usize;
            let bytes = packed.get(at..at + size).ok_or_else(|| self.missing(name))?;
            for (offset, live) in self.argument(bytes) {
                values.put(at + offset, &live.to_le_bytes());
            }
            pointers.extend((values.address() + at as u64).to_le_bytes());
            at += size.next_multiple_of(8);
        }
        self.own(values);
        let pointers = self.frame.holding(&pointers)?;
        Ok(self.own(pointers))
    }

    /// The packed form: pairs of a code and an address, ended by a zero. `live`: what the driver may read.
    pub fn extra(&mut self, name: &'static str, address: u64, live: Option<&[(usize, usize)]>) -> Result<u64, Refusal> {
        let word = |at: u64| {
            let bytes = self.call.memory(When::Entry, at, 8)?;
            Some(u64::from_le_bytes(bytes.as_ref().try_into().ok()?))
        };
        let recorded = Extra::read(address, word);
        let (Some(pointer), Some(size)) = (recorded.buffer(), recorded.size_at().and_then(word)) else {
            return Err(self.missing(name));
        };
        let bytes = self.call.memory(When::Entry, pointer, size).ok_or_else(|| self.missing(name))?;
        // Zeros behind a buffer that is too small, which the driver takes.
        let most = live.unwrap_or_default().iter().map(|(offset, size)| offset + size).max().unwrap_or(0);
        let behind = vec![0; most.saturating_sub(bytes.len())];
        let mut values = self.frame.holding(&[&bytes[..], &behind].concat())?;
        for (at, live) in self.packed_arguments(&bytes) {
            values.put(at, &live.to_le_bytes());
        }
        let size = self.frame.holding(&size.to_le_bytes())?;
        let (values, size) = (self.own(values), self.own(size));
        let live = [extra::BUFFER, values, extra::SIZE, size, 0].map(u64::to_le_bytes).concat();
        let live = self.frame.holding(&live)?;
        Ok(self.own(live))
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
            let address = u64_at(pointer, 0);
            let code = u32_at(code, 0);
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
}

/// Refuses arguments of these sizes for a function that takes more.
fn cover(recorded: &[(u32, u32)], live: &[(usize, usize)]) -> Result<(), Refusal> {
    if recorded.len() < live.len() {
        return Err(Refusal(format!(
            "the kernel takes {} arguments, of which the trace has {}",
            live.len(),
            recorded.len()
        )));
    }
    let sizes = recorded.iter().zip(live).map(|((_, recorded), (_, live))| (*recorded as usize, *live));
    match sizes.enumerate().find(|(_, (recorded, live))| recorded < live) {
        Some((at, (recorded, live))) => {
            Err(Refusal(format!("argument {at} of the kernel has {live} bytes, of which the trace has {recorded}")))
        }
        None => Ok(()),
    }
}
