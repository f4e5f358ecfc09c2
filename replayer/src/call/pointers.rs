//! Targets of a recorded call's pointers: spans, text, code, arguments, options, each a buffer of our own.

use crate::call::build::{Builder, FieldContext, SCRATCH};
use crate::call::devices::names_devices;
use crate::call::frame::Output;
use crate::memory::buffer::{HostBuffer, Refusal};
use crate::memory::live_address::LiveAddress;
use std::borrow::Cow;
use trace::api::copies::Region;
use trace::api::effect::Effect;
use trace::api::roles::{Extent, Field, Role};
use trace::api::structs::{CUmemAccessDesc, CUtensorMap};
use trace::api::types::{Form, Type, Typed};
use trace::api::walk::{Direction, Target, has_structure, resolve};
use trace::base::bytes::u64_at;
use trace::read::call::When;
use trace::read::recorded_memory::Recorded;

/// Outputs are given a little more room than the recorded call had use for.
const SLACK: usize = 64;

impl<'t> Builder<'_, 't> {
    pub(crate) fn pointer(
        &mut self,
        fields: &'static [Field],
        index: usize,
        base: u32,
        here: FieldContext,
    ) -> Result<(), Refusal> {
        let field = &fields[index];
        let at = base + field.offset;
        let target = |when| resolve(fields, index, base, &Recorded { call: &self.call, bytes: here.recorded, when });
        let live = match target(When::Entry) {
            Target::Nothing => match here.load(at, 8) {
                None | Some(0) => 0,
                Some(_) if matches!(field.role, Role::Plain | Role::Opaque) => 0,
                Some(_) if self.call.succeeded() && is_input(&field.role) => {
                    return Err(Refusal(format!("{} points to data of an unknown type", field.name)));
                }
                Some(_) => self.own(HostBuffer::zeroed(SCRATCH)?),
            },
            Target::Span { address, element, count, direction } => {
                // A count that the driver lowers says at entry how much room there is.
                let returned = match target(When::Return) {
                    Target::Span { count, .. } => count,
                    _ => count,
                };
                let sizes = matches!(element.form, Form::Address).then(|| self.sizes(fields, base, here, count));
                let memory = self.frame.memory.len();
                let live = self.span(field, address, element, (count, returned), direction, sizes.flatten())?;
                if let (Role::In(Extent::Len(counted)), true) = (field.role, element.name == CUmemAccessDesc::TYPE.name)
                {
                    let (left, counted) = (self.accesses(memory, count), &fields[counted.0 as usize]);
                    self.write(here, base + counted.offset, counted.ty.size, left);
                }
                live
            }
            Target::Text { address, out: false, .. } => match self.text(address) {
                Some(text) => self.own(HostBuffer::from_bytes(&text)?),
                None => return Err(self.missing(field.name)),
            },
            Target::Text { address, limit, .. } => {
                let memory = self.frame.memory.len();
                let volatile = matches!(field.role, Role::Volatile(_));
                self.frame.outputs.push(Output::Text { name: field.name, memory, address, volatile });
                self.own(HostBuffer::zeroed(limit.min(1 << 20) as usize + SLACK)?)
            }
            Target::Path { .. } => self.path(field.name)?,
            Target::Value { element } => return self.value(element, at, here),
            Target::TextOut { address } => {
                let memory = self.frame.memory.len();
                self.frame.outputs.push(Output::TextOut { name: field.name, memory, address });
                self.own(HostBuffer::zeroed(8)?)
            }
            Target::Owned { address, element, .. } => {
                let memory = self.frame.memory.len();
                self.frame.outputs.push(Output::Owned { name: field.name, index, memory, address, element });
                self.own(HostBuffer::zeroed(8)?)
            }
            Target::HostAlloc { .. } => self.own(HostBuffer::zeroed(8)?),
            Target::Image { address, size } => self.image(field.name, address, size)?,
            Target::Arguments { address, .. } => self.arguments(field.name, address)?,
            Target::Extra { address } => self.extra(field.name, address)?,
            Target::Options { address, codes, count } => {
                let Role::Options { codes: of, .. } = field.role else { unreachable!("resolved from this role") };
                self.options(fields[of.0 as usize].ty, address, codes, count)?
            }
            Target::Attributes { address, codes, count, types } => {
                self.attributes(field.name, address, codes, count, types)?
            }
            Target::CopyHost { .. } => return Ok(()),
        };
        self.write(here, at, 8, live);
        Ok(())
    }

    fn span(
        &mut self,
        field: &'static Field,
        address: u64,
        element: &'static Type,
        (count, returned): (u64, u64),
        direction: Direction,
        sizes: Option<Cow<[u8]>>,
    ) -> Result<u64, Refusal> {
        let most = count.max(returned);
        let too_much = || Refusal(format!("{} claims {most} elements", field.name));
        let len = count.checked_mul(element.size.into()).ok_or_else(too_much)?;
        match direction {
            Direction::Source => return self.source(field.name, Region::dense(address, len)).map(LiveAddress::word),
            Direction::Sink => return self.sink(field.name, Region::dense(address, len)).map(LiveAddress::word),
            _ => {}
        }
        // Places within a span are kept in 32 bits.
        let fits = |bytes: &u64| *bytes <= u64::from(u32::MAX) - SLACK as u64;
        let room = most.checked_mul(element.size.into()).filter(fits);
        let room = room.ok_or_else(too_much)? as usize;
        let memory = self.frame.memory.len();
        if direction.is_output() {
            let output = Output::Values { name: field.name, memory, address, element, count: returned, direction };
            self.frame.outputs.push(output);
        }
        if !direction.is_input() {
            let own = self.frame.zeroed(room + SLACK)?;
            return Ok(self.own(own));
        }
        let recorded: Cow<[u8]> = match self.call.memory(When::Entry, address, len) {
            Some(recorded) => recorded,
            None if len == 0 => Cow::Borrowed(&[]),
            // Recorded when the table said that the call only wrote there.
            None if direction.is_output() && self.call.memory(When::Return, address, len).is_some() => {
                Cow::Borrowed(&[])
            }
            None => return Err(self.missing(field.name)),
        };
        let mut own = self.frame.zeroed(room + SLACK)?;
        own.write(0, &recorded);
        // An argument of a launch to come, put into the function.
        if self.function.effect == Effect::SetArgument {
            for (at, live) in self.argument(&recorded) {
                own.write(at, &live.to_le_bytes());
            }
        }
        let live = self.own(own);
        let here = FieldContext { recorded: &recorded, memory, offset: 0 };
        // The first word is the device address.
        if element.name == CUtensorMap::TYPE.name {
            self.write(here, 0, 8, self.for_device(here.load(0, 8).unwrap_or(0)));
        }
        if has_structure(element) || names_devices(element) {
            for n in 0..count {
                let at = (n * u64::from(element.size)) as u32;
                match sizes.as_ref().map(|sizes| u64_at(sizes, n as usize * 8)) {
                    None => self.value(element, at, here)?,
                    Some(size) => {
                        let start = here.load(at, 8).unwrap_or(0);
                        let live = self.bound(field.name, start..start.saturating_add(size))?;
                        self.write(here, at, 8, live.word());
                    }
                }
            }
        }
        Ok(live)
    }

    /// How many bytes there are at each address of an array, where a sibling says so.
    fn sizes(&self, fields: &'static [Field], base: u32, here: FieldContext, count: u64) -> Option<Cow<'t, [u8]>> {
        let sizes = fields.iter().find(|field| field.name == "sizes")?;
        self.call.memory(When::Entry, here.load(base + sizes.offset, 8)?, count.checked_mul(8)?)
    }
}

fn is_input(role: &Role) -> bool {
    matches!(role, Role::In(_) | Role::InOut(_) | Role::Source(_) | Role::AttributeIn(..) | Role::Sink(_))
}
