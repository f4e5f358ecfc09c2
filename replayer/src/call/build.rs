//! The memory of a call, rebuilt from its recording.
//!
//! Every span that the recorded call read becomes a buffer of our own, with pointers to the other buffers,
//! live handles and live addresses in it; every span that it wrote becomes an empty one, to be compared
//! afterwards. The roles of the table give the meaning of a span; the argument words are the first buffer.

use crate::call::devices::names_devices;
use crate::call::frame::{CallbackSlot, Frame};
use crate::driver::stream::Queue;
use crate::memory::buffer::{Arena, HostBuffer, Refusal};
use crate::plan::order::waits;
use crate::session::Session;
use crate::tally::Tally;
use std::sync::Arc;
use trace::api::roles::{Class, Extent, Field, Role, Sibling};
use trace::api::structs::CUmemLocation;
use trace::api::types::{Form, Kind, Type, Typed};
use trace::api::walk::{has_structure, member, most, reach};
use trace::model::stream::StreamHandle;
use trace::read::call::When;
use trace::read::recorded_memory::{Recorded, load};
use trace::{Call, Function};

/// The argument words or struct, recorded and live, that contain the field being walked.
#[derive(Clone, Copy)]
pub(crate) struct FieldContext<'r> {
    pub recorded: &'r [u8],
    /// The buffer, and where in it the container begins.
    pub memory: usize,
    pub offset: usize,
}

impl FieldContext<'_> {
    pub(crate) fn load(&self, at: u32, size: u32) -> Option<u64> {
        load(self.recorded, at, size)
    }
}

pub(crate) struct Builder<'w, 't> {
    pub session: &'w Session<'t>,
    pub call: Call<'t>,
    pub function: &'static Function,
    pub frame: Frame<'t>,
    pub tally: &'w mut Tally,
}

/// Where a pointer leads whose target nobody knows: the driver may write there.
pub(crate) const SCRATCH: usize = 4096;

impl<'w, 't> Builder<'w, 't> {
    /// The frame, and why it is not whole, if it is not: what it says of host memory holds in either case.
    pub(crate) fn build(
        session: &'w Session<'t>,
        call: Call<'t>,
        function: &'static Function,
        tally: &'w mut Tally,
        arena: Option<&Arc<Arena>>,
    ) -> (Frame<'t>, Result<(), Refusal>) {
        let frame = Frame { arena: arena.cloned(), ..Frame::default() };
        let mut builder = Builder { session, call, function, frame, tally };
        let built = builder.all();
        (builder.frame, built)
    }

    fn all(&mut self) -> Result<(), Refusal> {
        let call = self.call;
        let words = self.frame.holding(call.argument_bytes())?;
        self.frame.memory.push(words);
        if self.is_endless_wait() {
            return Err(Refusal(waits::WHY.into()));
        }
        let here = FieldContext { recorded: call.argument_bytes(), memory: 0, offset: 0 };
        self.fields(self.function.params, None, 0, here)?;
        self.ask_for_length()
    }

    pub(crate) fn fields(
        &mut self,
        fields: &'static [Field],
        ty: Option<&'static Type>,
        base: u32,
        here: FieldContext,
    ) -> Result<(), Refusal> {
        for index in 0..fields.len() {
            self.field(fields, index, base, here)?;
        }
        if let Some(ty) = ty {
            // A host side may turn out to be one of the fields just walked, so these come last.
            for (index, field) in fields.iter().enumerate() {
                if let Role::CopyHost(side) = field.role {
                    self.copy_side(ty, fields, index, side, base, here)?;
                }
            }
            if ty.name == CUmemLocation::TYPE.name {
                self.location(base, here);
            }
        }
        Ok(())
    }

    fn field(&mut self, fields: &'static [Field], index: usize, base: u32, here: FieldContext) -> Result<(), Refusal> {
        let field = &fields[index];
        let at = base + field.offset;
        let word = here.load(at, field.ty.size.min(8)).unwrap_or(0);
        let is_pointer = matches!(field.ty.form, Form::Pointer(_));
        match field.role {
            // Read when the driver had put it there, which takes no other's (a node's handle in a launch's
            // attributes; driver 580).
            Role::Created | Role::Allocated(_) if here.memory != 0 => self.write(here, at, field.ty.size.min(8), 0),
            Role::Filled | Role::Created | Role::Allocated(_) | Role::UserData => {}
            Role::Unless(other) if here.load(base + fields[other.0 as usize].offset, 8).unwrap_or(0) != 0 => {
                self.write(here, at, field.ty.size.min(8), 0);
            }
            // Put there with the side of the copy that they belong to.
            Role::CopyHost(_) if is_pointer => self.write(here, at, 8, 0),
            Role::CopyDevice => self.write(here, at, field.ty.size, 0),
            Role::Union(..) => {
                let view = Recorded { call: &self.call, bytes: here.recorded, when: When::Entry };
                match member(fields, index, base, &view) {
                    Some(member) => self.value(member, at, here)?,
                    None if has_empty_tag(fields, index, base, here) => {
                        self.frame.memory[here.memory]
                            .write(here.offset + at as usize, &vec![0; field.ty.size as usize]);
                    }
                    // Its words might be addresses.
                    None => {
                        return Err(Refusal(format!(
                            "{} has a type that this version of cutrace does not know",
                            field.name
                        )));
                    }
                }
            }
            Role::Reads(_) | Role::Writes(_) if word != 0 => {
                let view = Recorded { call: &self.call, bytes: here.recorded, when: When::Entry };
                let len = (reach(fields, index, base, &view), most(fields, index, base, &view));
                let live = self.unified(field.name, word, len, matches!(field.role, Role::Writes(_)))?;
                self.put_live(here, at, field, live)?;
            }
            Role::ReadsEach { count, sizes } | Role::WritesEach { count, sizes } if word != 0 => {
                let sibling = |which: Sibling| here.load(base + fields[which.0 as usize].offset, 8).unwrap_or(0);
                let writes = matches!(field.role, Role::WritesEach { .. });
                let live = self.each(field.name, word, sibling(sizes), sibling(count), writes)?;
                self.write(here, at, 8, live);
            }
            // The driver only passes it on to the device.
            Role::Address => self.write(here, at, 8, self.for_device(word)),
            Role::HostAddress if word != 0 => {
                let live = self.bound(field.name, word..word.saturating_add(1))?;
                self.put_live(here, at, field, live)?;
            }
            // Of a free that failed when recorded: here it would not.
            Role::Destroy if word != 0 && (is_pointer || matches!(field.ty.form, Form::Address)) => {
                return Err(Refusal(format!(
                    "failed when recorded, and might free {} {word:#x} in a replay",
                    field.name
                )));
            }
            Role::EntryPoint if word != 0 => {
                let scratch = self.own(HostBuffer::zeroed(SCRATCH)?);
                self.write(here, at, 8, scratch);
            }
            // The driver puts the address of an array of its own here.
            Role::Owned(_) if here.memory != 0 => self.write(here, at, 8, 0),
            _ if waits::are_operations(field) => self.operations(fields, index, base, here)?,
            _ if is_pointer => self.pointer(fields, index, base, here)?,
            _ if matches!(field.ty.form, Form::Signed) && self.function.hands_out(Kind::Device).is_some() => {
                let device = self.session.objects.device(word as i32);
                self.write(here, at, 4, device as u32 as u64);
            }
            _ if is_word(fields, field) => {
                let live = self.word(word);
                self.write(here, at, 8, live);
            }
            _ => self.value(field.ty, at, here)?,
        }
        Ok(())
    }

    /// A value that stands in its container: only handles, addresses and callbacks change.
    pub(crate) fn value(&mut self, ty: &'static Type, at: u32, here: FieldContext) -> Result<(), Refusal> {
        match ty.form {
            Form::Handle(kind) => {
                let live = self.handle(kind, here.load(at, ty.size).unwrap_or(0))?;
                self.write(here, at, ty.size, live);
            }
            Form::Address => {
                let word = here.load(at, ty.size).unwrap_or(0);
                if word != 0 {
                    let live = self.bound("an address", word..word.saturating_add(1))?;
                    self.write(here, at, ty.size, live.word());
                }
            }
            Form::Callback => {
                if here.load(at, 8) == Some(0) {
                    self.write(here, at, 8, 0);
                } else if matches!(self.function.class, Class::submit | Class::graph) {
                    self.callback(ty, here.memory, here.offset + at as usize);
                } else {
                    self.write(here, at, 8, nothing as *const () as u64);
                }
            }
            // A pointer that no role explains leads nowhere here.
            Form::Pointer(_) => self.write(here, at, 8, 0),
            Form::Array(element, count) if has_structure(element) || names_devices(element) => {
                for n in 0..count {
                    self.value(element, at + n * element.size, here)?;
                }
            }
            Form::Struct(_) if ty.name == "CUdevResource" => {
                let recorded = here.recorded.get(at as usize..(at + ty.size) as usize).unwrap_or(&[]);
                let live = self.session.resources.lock().get(recorded).cloned();
                // An address of the driver's own stands in it.
                let live = live.ok_or_else(|| Refusal("needs a resource that no call in the trace returned".into()))?;
                self.frame.memory[here.memory].write(here.offset + at as usize, &live);
            }
            Form::Struct(fields) => self.fields(fields, Some(ty), at, here)?,
            _ => {}
        }
        Ok(())
    }

    /// Leaves room for our function in the place of the application's, and for the data to go with it, which
    /// stands behind it everywhere.
    fn callback(&mut self, ty: &Type, memory: usize, offset: usize) {
        let driver = self.session.driver;
        let queue = self.call.stream().map(|stream| {
            let live = self.session.objects.live(Kind::Stream, stream).unwrap_or(0);
            Queue::from_handle(driver.current_context(), StreamHandle::new(self.function, live), self.call.thread)
        });
        // Captured, it becomes a node.
        let queue = queue.filter(|queue| !queue.is_captured(driver));
        let with_status = ty.name == "CUstreamCallback";
        self.frame.callbacks.push(CallbackSlot { memory, offset, with_status, queue });
    }

    /// The length of a module's variable must be known, asked for or not: its address is going to be
    /// translated.
    fn ask_for_length(&mut self) -> Result<(), Refusal> {
        if let Some([_, bytes]) = self.function.variable()
            && self.call.argument_of(bytes) == Some(0)
        {
            let length = self.own(HostBuffer::zeroed(8)?);
            self.frame.memory[0].write(self.function.params[bytes].offset as usize, &length.to_le_bytes());
        }
        Ok(())
    }

    pub(crate) fn own(&mut self, memory: HostBuffer) -> u64 {
        let address = memory.address();
        self.frame.memory.push(memory);
        address
    }

    pub(crate) fn write(&mut self, here: FieldContext, at: u32, size: u32, value: u64) {
        let bytes = &value.to_le_bytes()[..size.min(8) as usize];
        self.frame.memory[here.memory].write(here.offset + at as usize, bytes);
    }

    pub(crate) fn missing(&self, name: &str) -> Refusal {
        Refusal(match self.call.succeeded() {
            true => format!("the data behind {name} was not recorded"),
            false => format!("failed when recorded, and the data behind {name} was not recorded"),
        })
    }
}

/// Whether the field is the word that an operation on a stream writes to memory, or compares with it.
fn is_word(fields: &[Field], field: &Field) -> bool {
    let is_memory =
        |field: &Field| matches!(field.role, Role::Reads(Extent::Fixed(8)) | Role::Writes(Extent::Fixed(8)));
    field.name == "value" && field.ty.size == 8 && fields.iter().any(is_memory)
}

/// Values that say of a union that nothing is in it.
const EMPTY_TAGS: &[&str] = &[
    "CU_GRAPH_NODE_TYPE_EMPTY",
    "CU_LAUNCH_ATTRIBUTE_IGNORE",
    "CU_STREAM_MEM_OP_BARRIER",
    "CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES",
    "CU_DEV_RESOURCE_TYPE_INVALID",
    "CU_LOGICAL_ENDPOINT_TYPE_INVALID",
];

/// Whether the value that says which member of a union is meant says that there is none.
fn has_empty_tag(fields: &[Field], index: usize, base: u32, here: FieldContext) -> bool {
    let Role::Union(tag, _) = fields[index].role else { return true };
    let tag = &fields[tag.0 as usize];
    let value = here.load(base + tag.offset, tag.ty.size).unwrap_or(0);
    matches!(tag.ty.form, Form::Enum(names) if names.name_of(value as i64).is_some_and(|name| EMPTY_TAGS.contains(&name)))
}

/// Stands for any callback of the application: what it did is not recorded, that it ran and when, is kept.
/// Extra arguments are the caller's own business in the C calling convention.
extern "C" fn nothing() {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use trace::api::FUNCTIONS;

    /// Finds the unions of a type, wherever it leads, with the fields that they stand among.
    fn unions(fields: &'static [Field], seen: &mut BTreeSet<&'static str>, found: &mut Vec<(&'static [Field], usize)>) {
        for (index, field) in fields.iter().enumerate() {
            let mut types = vec![field.ty];
            if let Role::Union(_, members) = field.role {
                found.push((fields, index));
                types.extend(members.iter().map(|(_, ty)| *ty));
            }
            while let Some(ty) = types.pop() {
                match ty.form {
                    Form::Pointer(to) => types.push(to),
                    Form::Array(element, _) => types.push(element),
                    Form::Struct(fields) if seen.insert(ty.name) => unions(fields, seen, found),
                    _ => {}
                }
            }
        }
    }

    #[test]
    fn unions_without_a_known_member_are_refused_unless_they_are_empty() {
        let (mut seen, mut found) = (BTreeSet::new(), Vec::new());
        FUNCTIONS.iter().for_each(|function| unions(function.params, &mut seen, &mut found));
        let mut empty = BTreeSet::new();
        let mut refused = BTreeSet::new();
        for (fields, index) in found {
            let Role::Union(tag, members) = fields[index].role else { unreachable!("found by this role") };
            let tag = &fields[tag.0 as usize];
            let Form::Enum(names) = tag.ty.form else {
                panic!("{} tells a member of {}", tag.name, fields[index].name)
            };
            for (name, value) in names.values {
                if members.iter().any(|(member, _)| i64::from(*member) == *value) {
                    continue;
                }
                let mut recorded = vec![0; (tag.offset + tag.ty.size) as usize];
                recorded[tag.offset as usize..].copy_from_slice(&value.to_le_bytes()[..tag.ty.size as usize]);
                let here = FieldContext { recorded: &recorded, memory: 0, offset: 0 };
                let is_empty = has_empty_tag(fields, index, 0, here);
                if is_empty {
                    empty.insert(*name)
                } else {
                    refused.insert(*name)
                };
            }
        }
        assert_eq!(empty, EMPTY_TAGS.iter().copied().collect());
        for name in ["CU_GRAPH_NODE_TYPE_RESERVED_16", "CU_GRAPH_NODE_TYPE_EXTERNAL_ENGINE"] {
            assert!(refused.contains(name), "{name} is not among {refused:?}");
        }
    }
}
