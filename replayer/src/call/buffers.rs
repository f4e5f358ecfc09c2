//! The memory of a call, built again from its recording.
//!
//! Every span that the recorded call read becomes a buffer of our own, with pointers to the other buffers, live handles
//! and live addresses in it; every span that it wrote becomes an empty one, to be compared afterwards. What a span is
//! follows from the roles of the table; the argument words are the first buffer.

use crate::call::frame::{CallbackSlot, Frame, Output};
use crate::call::words;
use crate::driver::stream::Queue;
use crate::memory::bound::HeldAddress;
use crate::memory::buffer::{Memory, Refusal, Room};
use crate::memory::objects::Found;
use crate::plan::waits;
use crate::session::Session;
use crate::tally::Tally;
use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;
use trace::api::copies::Region;
use trace::api::effect::Effect;
use trace::api::roles::{Class, Field, Role, Sibling};
use trace::api::structs::CUtensorMap;
use trace::api::types::{Form, Kind, Type, Typed};
use trace::call::When;
use trace::recorded::{Recorded, load};
use trace::segment::u64_at;
use trace::walk::{Direction, Target, has_structure, member, most, reach, resolve};
use trace::{Call, Function};

/// Argument words or a struct, recorded and live, around the fields that are being walked.
#[derive(Clone, Copy)]
pub struct Here<'r> {
    pub recorded: &'r [u8],
    /// The buffer, and where in it the container begins.
    pub memory: usize,
    pub offset: usize,
}

impl Here<'_> {
    pub fn load(&self, at: u32, size: u32) -> Option<u64> {
        load(self.recorded, at, size)
    }
}

pub struct Builder<'w, 't> {
    pub session: &'w Session<'t>,
    pub call: Call<'t>,
    pub function: &'static Function,
    pub frame: Frame<'t>,
    pub tally: &'w mut Tally,
}

/// Where a pointer leads whose target nobody knows: the driver may write there.
const SCRATCH: usize = 4096;
/// Outputs are given a little more room than the recorded call had use for.
const SLACK: usize = 64;

impl<'w, 't> Builder<'w, 't> {
    /// The frame, and why it is not whole, if it is not: what it says of host memory holds in either case.
    pub fn build(
        session: &'w Session<'t>,
        call: Call<'t>,
        function: &'static Function,
        tally: &'w mut Tally,
        room: Option<&Arc<Room>>,
    ) -> (Frame<'t>, Result<(), Refusal>) {
        let frame = Frame { room: room.cloned(), ..Frame::default() };
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
        let here = Here { recorded: call.argument_bytes(), memory: 0, offset: 0 };
        self.fields(self.function.params, None, 0, here)?;
        self.ask_for_length()
    }

    pub fn fields(
        &mut self,
        fields: &'static [Field],
        ty: Option<&'static Type>,
        base: u32,
        here: Here,
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
            if ty.name == "CUmemLocation" && here.load(base, 4) == Some(1) {
                let device = here.load(base + 4, 4).unwrap_or(0) as i32;
                self.put(here, base + 4, 4, self.session.objects.device(device) as u32 as u64);
            }
        }
        Ok(())
    }

    fn field(&mut self, fields: &'static [Field], index: usize, base: u32, here: Here) -> Result<(), Refusal> {
        let field = &fields[index];
        let at = base + field.offset;
        let word = here.load(at, field.ty.size.min(8)).unwrap_or(0);
        let is_pointer = matches!(field.ty.form, Form::Pointer(_));
        match field.role {
            // Read when the driver had put it there, which takes no other's (a node's handle in a launch's attributes; driver 580).
            Role::Created if here.memory != 0 => self.put(here, at, field.ty.size.min(8), 0),
            Role::Filled | Role::Created | Role::UserData => {}
            Role::Unless(other) if here.load(base + fields[other.0 as usize].offset, 8).unwrap_or(0) != 0 => {
                self.put(here, at, field.ty.size.min(8), 0);
            }
            // Put there with the side of the copy that they belong to.
            Role::CopyHost(_) if is_pointer => self.put(here, at, 8, 0),
            Role::CopyDevice => self.put(here, at, field.ty.size, 0),
            Role::Union(..) => {
                let view = Recorded { call: &self.call, bytes: here.recorded, when: When::Entry };
                match member(fields, index, base, &view) {
                    Some(member) => self.value(member, at, here)?,
                    None if has_empty_tag(fields, index, base, here) => {
                        self.frame.memory[here.memory].put(here.offset + at as usize, &vec![0; field.ty.size as usize]);
                    }
                    // Its words might be addresses.
                    None => {
                        return Err(Refusal(format!("{} is of a kind that this cutrace does not know", field.name)));
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
                self.put(here, at, 8, live);
            }
            // The driver only passes it on to the device.
            Role::Address => self.put(here, at, 8, self.for_device(word)),
            Role::HostAddress if word != 0 => {
                let live = self.bound(field.name, word..word.saturating_add(1))?;
                self.put_live(here, at, field, live)?;
            }
            // Of a free that failed when recorded: here it would not.
            Role::Destroy if word != 0 && (is_pointer || matches!(field.ty.form, Form::Address)) => {
                return Err(Refusal(format!("failed when recorded, and might free {} {word:#x} here", field.name)));
            }
            Role::EntryPoint if word != 0 => {
                let scratch = self.own(Memory::zeroed(SCRATCH)?);
                self.put(here, at, 8, scratch);
            }
            // The driver puts the address of an array of its own here.
            Role::Owned(_) if here.memory != 0 => self.put(here, at, 8, 0),
            _ if waits::are_operations(field) => self.operations(fields, index, base, here)?,
            _ if is_pointer => self.pointer(fields, index, base, here)?,
            _ if matches!(field.ty.form, Form::Signed) && self.function.hands_out(Kind::Device).is_some() => {
                let device = self.session.objects.device(word as i32);
                self.put(here, at, 4, device as u32 as u64);
            }
            _ if words::is_word(fields, field) => {
                let live = self.word(word);
                self.put(here, at, 8, live);
            }
            _ => self.value(field.ty, at, here)?,
        }
        Ok(())
    }

    /// A value that stands in its container: only handles, addresses and callbacks change.
    pub fn value(&mut self, ty: &'static Type, at: u32, here: Here) -> Result<(), Refusal> {
        match ty.form {
            Form::Handle(kind) => {
                let live = self.handle(kind, here.load(at, ty.size).unwrap_or(0))?;
                self.put(here, at, ty.size, live);
            }
            Form::Address => {
                let word = here.load(at, ty.size).unwrap_or(0);
                if word != 0 {
                    let live = self.bound("an address", word..word.saturating_add(1))?;
                    self.put(here, at, ty.size, live.word());
                }
            }
            Form::Callback => {
                if here.load(at, 8) == Some(0) {
                    self.put(here, at, 8, 0);
                } else if matches!(self.function.class, Class::submit | Class::graph) {
                    self.callback(ty, here.memory, here.offset + at as usize);
                } else {
                    self.put(here, at, 8, nothing as *const () as u64);
                }
            }
            // A pointer that no role explains leads nowhere here.
            Form::Pointer(_) => self.put(here, at, 8, 0),
            Form::Array(element, count) if has_structure(element) => {
                for n in 0..count {
                    self.value(element, at + n * element.size, here)?;
                }
            }
            Form::Struct(_) if ty.name == "CUdevResource" => {
                let recorded = here.recorded.get(at as usize..(at + ty.size) as usize).unwrap_or(&[]);
                let live = self.session.resources.lock().get(recorded).cloned();
                // An address of the driver's own stands in it.
                let live =
                    live.ok_or_else(|| Refusal("needs a resource that no call in the trace handed out".into()))?;
                self.frame.memory[here.memory].put(here.offset + at as usize, &live);
            }
            Form::Struct(fields) => self.fields(fields, Some(ty), at, here)?,
            _ => {}
        }
        Ok(())
    }

    /// Leaves room for our function in the place of the application's, and for the data to go with it, which stands behind it
    /// everywhere.
    fn callback(&mut self, ty: &Type, memory: usize, offset: usize) {
        let driver = self.session.driver;
        let queue = self.call.argument("hStream").map(|stream| {
            let live = match self.session.objects.find(Kind::Stream, stream) {
                Found::Live(live) => live,
                _ => 0,
            };
            let own = self.function.twin_of.is_some() && live == 0 || live == 2;
            Queue { context: driver.current_context(), stream: live, thread: own.then_some(self.call.thread) }
        });
        // Captured, it becomes a node.
        let queue = queue.filter(|queue| !queue.is_captured(driver));
        let with_status = ty.name == "CUstreamCallback";
        self.frame.callbacks.push(CallbackSlot { memory, offset, with_status, queue });
    }

    pub fn pointer(&mut self, fields: &'static [Field], index: usize, base: u32, here: Here) -> Result<(), Refusal> {
        let field = &fields[index];
        let at = base + field.offset;
        let target = |when| resolve(fields, index, base, &Recorded { call: &self.call, bytes: here.recorded, when });
        let live = match target(When::Entry) {
            Target::Nothing => match here.load(at, 8) {
                None | Some(0) => 0,
                Some(_) if matches!(field.role, Role::Plain | Role::Opaque) => 0,
                Some(_) if self.call.succeeded() && is_input(&field.role) => {
                    return Err(Refusal(format!("what {} points to is of a kind not known", field.name)));
                }
                Some(_) => self.own(Memory::zeroed(SCRATCH)?),
            },
            Target::Span { address, element, count, direction } => {
                // A count that the driver lowers says at entry how much room there is.
                let returned = match target(When::Return) {
                    Target::Span { count, .. } => count,
                    _ => count,
                };
                let sizes = matches!(element.form, Form::Address).then(|| self.sizes(fields, base, here, count));
                self.span(field, address, element, (count, returned), direction, sizes.flatten())?
            }
            Target::Text { address, out: false, .. } => match self.text(address) {
                Some(text) => self.own(Memory::of(&text)?),
                None => return Err(self.missing(field.name)),
            },
            Target::Text { address, limit, .. } => {
                let memory = self.frame.memory.len();
                let volatile = matches!(field.role, Role::Volatile(_));
                self.frame.outputs.push(Output::Text { name: field.name, memory, address, volatile });
                self.own(Memory::zeroed(limit.min(1 << 20) as usize + SLACK)?)
            }
            Target::Path { .. } => self.path(field.name)?,
            Target::Value { element } => return self.value(element, at, here),
            Target::TextOut { address } => {
                let memory = self.frame.memory.len();
                self.frame.outputs.push(Output::TextOut { name: field.name, memory, address });
                self.own(Memory::zeroed(8)?)
            }
            Target::Owned { address, element, .. } => {
                let memory = self.frame.memory.len();
                self.frame.outputs.push(Output::Owned { name: field.name, index, memory, address, element });
                self.own(Memory::zeroed(8)?)
            }
            Target::HostAlloc { .. } => self.own(Memory::zeroed(8)?),
            Target::Image { address, size } => self.image(field.name, address, size)?,
            Target::Arguments { address, .. } => {
                let live = self.live_parameters(fields, base, here);
                self.arguments(field.name, address, live.as_deref())?
            }
            Target::Extra { address } => {
                let live = self.live_parameters(fields, base, here);
                self.extra(field.name, address, live.as_deref())?
            }
            Target::Options { address, codes, count } => {
                let Role::Options { codes: of, .. } = field.role else { unreachable!("resolved from this role") };
                self.options(fields[of.0 as usize].ty, address, codes, count)?
            }
            Target::Attributes { address, codes, count, types } => {
                self.attributes(field.name, address, codes, count, types)?
            }
            Target::CopyHost { .. } => return Ok(()),
        };
        self.put(here, at, 8, live);
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
        let too_much = || Refusal(format!("{} is said to be {most} elements long", field.name));
        let len = count.checked_mul(element.size.into()).ok_or_else(too_much)?;
        match direction {
            Direction::Source => return self.source(field.name, Region::dense(address, len)).map(HeldAddress::word),
            Direction::Sink => return self.sink(field.name, Region::dense(address, len)).map(HeldAddress::word),
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
        own.put(0, &recorded);
        // An argument of a launch to come, put into the function.
        if self.function.effect == Effect::SetArgument {
            for (at, live) in self.argument(&recorded) {
                own.put(at, &live.to_le_bytes());
            }
        }
        let live = self.own(own);
        let here = Here { recorded: &recorded, memory, offset: 0 };
        // The first word is the device address.
        if element.name == CUtensorMap::TYPE.name {
            self.put(here, 0, 8, self.for_device(here.load(0, 8).unwrap_or(0)));
        }
        if has_structure(element) {
            for n in 0..count {
                let at = (n * u64::from(element.size)) as u32;
                match sizes.as_ref().map(|sizes| u64_at(sizes, n as usize * 8)) {
                    None => self.value(element, at, here)?,
                    Some(size) => {
                        let start = here.load(at, 8).unwrap_or(0);
                        let live = self.bound(field.name, start..start.saturating_add(size))?;
                        self.put(here, at, 8, live.word());
                    }
                }
            }
        }
        Ok(live)
    }

    /// How many bytes there are at each address of an array, where a sibling says so.
    fn sizes(&self, fields: &'static [Field], base: u32, here: Here, count: u64) -> Option<Cow<'t, [u8]>> {
        let sizes = fields.iter().find(|field| field.name == "sizes")?;
        self.call.memory(When::Entry, here.load(base + sizes.offset, 8)?, count.checked_mul(8)?)
    }

    /// An address that the driver does nothing with itself, like those among the arguments of kernels.
    fn for_device(&self, recorded: u64) -> u64 {
        self.session.placement.moved(recorded).unwrap_or(recorded)
    }

    /// Where memory is that the driver may touch.
    pub fn bound(&self, name: &str, recorded: Range<u64>) -> Result<HeldAddress, Refusal> {
        let placement = &self.session.placement;
        let live = if self.makes_node() { placement.bound_in_node(&recorded) } else { placement.bound(&recorded) };
        if let Some(live) = live {
            return Ok(live);
        }
        let (start, plan) = (recorded.start, self.session.plan);
        let is_known = plan.device.contains(start) || plan.host.contains(start);
        // A node may be made of any address, to ask about it (XLA has cuDNN capture graphs that never run). Ours is
        // memory of the host, which the driver takes an address for that it does not know.
        if self.makes_node() && self.call.succeeded() && !is_known {
            return self.session.graph_memory.stand_in(&recorded);
        }
        let len = recorded.end - start;
        Err(Refusal(match (self.call.succeeded(), is_known) {
            (true, true) => format!("{name} {start:#x} is memory that is not here, of {len} bytes"),
            (true, false) => format!("{name} {start:#x} lies in no memory that the trace knows of"),
            (false, _) => format!("failed when recorded, and {name} {start:#x} is memory that is not here"),
        }))
    }

    /// Puts an address where its field is.
    pub fn put_live(&mut self, here: Here, at: u32, field: &Field, live: HeldAddress) -> Result<(), Refusal> {
        if field.ty.size < 8 && live.word() >> (field.ty.size * 8) != 0 {
            return Err(Refusal(format!(
                "{} is {:#x} here, which its {} bytes cannot hold",
                field.name,
                live.word(),
                field.ty.size
            )));
        }
        self.put(here, at, field.ty.size, live.word());
        Ok(())
    }

    pub fn handle(&mut self, kind: Kind, recorded: u64) -> Result<u64, Refusal> {
        if kind == Kind::Function {
            self.adopt_function(recorded)?;
        }
        let found = match self.session.objects.find(kind, recorded) {
            // What is known by this handle is an earlier one, whose module is gone.
            Found::Live(_) if kind == Kind::Function && self.session.plan.strangers.contains(&self.call.number) => {
                Found::Unknown
            }
            found => found,
        };
        let stray = match found {
            Found::Live(live) => return Ok(live),
            Found::Unknown if kind == Kind::Module && self.adopt(recorded) => return self.handle(kind, recorded),
            Found::Unknown if kind == Kind::Context && self.adopt_context(recorded) => {
                return self.handle(kind, recorded);
            }
            Found::Absent { call } => format!("of call {call}, which was left out"),
            Found::Dead { call } => format!("that call {call} ended"),
            Found::Unknown => "that no call in the trace made".to_owned(),
        };
        // The recorded value is nobody's here, or by now another object's.
        let needs = if self.call.succeeded() {
            "needs"
        } else {
            self.tally.unknown_handles += 1;
            "failed when recorded, and names"
        };
        Err(Refusal(format!("{needs} a {} {stray}", kind.label())))
    }

    /// The length of a module's variable must be known, asked for or not: its address is going to be translated.
    fn ask_for_length(&mut self) -> Result<(), Refusal> {
        if !self.function.finds_variable() {
            return Ok(());
        }
        let Some(at) = self.function.param("bytes").map(|index| self.function.params[index].offset) else {
            return Ok(());
        };
        if self.call.argument("bytes") == Some(0) {
            let length = self.own(Memory::zeroed(8)?);
            self.frame.memory[0].put(at as usize, &length.to_le_bytes());
        }
        Ok(())
    }

    pub fn own(&mut self, memory: Memory) -> u64 {
        let address = memory.address();
        self.frame.memory.push(memory);
        address
    }

    pub fn put(&mut self, here: Here, at: u32, size: u32, value: u64) {
        let bytes = &value.to_le_bytes()[..size.min(8) as usize];
        self.frame.memory[here.memory].put(here.offset + at as usize, bytes);
    }

    pub fn missing(&self, name: &str) -> Refusal {
        Refusal(match self.call.succeeded() {
            true => format!("what {name} points to was not recorded"),
            false => format!(
                "failed when recorded, and what {name} points to is not in the trace: inputs of failed calls not always are"
            ),
        })
    }
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
fn has_empty_tag(fields: &[Field], index: usize, base: u32, here: Here) -> bool {
    let Role::Union(tag, _) = fields[index].role else { return true };
    let tag = &fields[tag.0 as usize];
    let value = here.load(base + tag.offset, tag.ty.size).unwrap_or(0);
    matches!(tag.ty.form, Form::Enum(names) if names.name_of(value as i64).is_some_and(|name| EMPTY_TAGS.contains(&name)))
}

fn is_input(role: &Role) -> bool {
    matches!(role, Role::In(_) | Role::InOut(_) | Role::Source(_) | Role::AttributeIn(..) | Role::Sink(_))
}

/// Stands for any callback of the application: what it did is not recorded, that it ran and when, is kept. Extra
/// arguments are the caller's own business in the C calling convention.
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
                let here = Here { recorded: &recorded, memory: 0, offset: 0 };
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
