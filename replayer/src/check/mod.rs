//! Comparison of calls' outputs with the recorded ones. New handles and addresses are learned from them.
//!
//! Imports `call/` and the layers below.

pub(crate) mod driver_addresses;
pub(crate) mod hint;
pub(crate) mod payload;

use crate::call::frame::{Frame, Output};
use crate::memory::objects::Lookup;
use crate::session::{DriverImage, Session};
use crate::tally::{Divergence, Tally, hex};
use std::ffi::CStr;
use std::os::fd::{FromRawFd, OwnedFd};
use trace::api::enums::CUgraphInstantiate_flags;
use trace::api::roles::{Class, Field, Role};
use trace::api::structs::CUtensorMap;
use trace::api::types::{Form, Kind, Type, Typed};
use trace::api::walk::{Direction, Target, View, is_meant, member, resolve};
use trace::read::call::When;
use trace::read::recorded_memory::made_in;
use trace::read::requested_size;
use trace::{Call, Function};

/// After a call that succeeded in both worlds: its outputs.
pub(crate) fn outputs<'t>(
    session: &Session<'t>,
    call: &Call<'t>,
    function: &'static Function,
    frame: &Frame<'t>,
    tally: &mut Tally,
) {
    let mut checker = Checker { session, call, function, frame, tally, compared: false };
    checker.bind_driver_memory();
    for output in &frame.outputs {
        checker.compared = false;
        checker.output(output);
        checker.tally.checked.outputs += u64::from(checker.compared && session.verify);
    }
}

struct Checker<'c, 't> {
    session: &'c Session<'t>,
    call: &'c Call<'t>,
    function: &'static Function,
    frame: &'c Frame<'t>,
    tally: &'c mut Tally,
    /// Whether anything in this output was compared, and not only learned.
    compared: bool,
}

/// How a value was handed out.
#[derive(Clone, Copy, PartialEq)]
enum HandOver {
    Compared,
    Volatile,
    Made,
}

/// Where in an output something stands.
#[derive(Clone, Copy)]
struct OutputPlace<'a> {
    name: &'a str,
    offset: usize,
}

impl Checker<'_, '_> {
    fn output(&mut self, output: &Output) {
        match *output {
            Output::Values { name, memory, address, element, count, direction } => {
                let how = match direction {
                    Direction::Volatile => HandOver::Volatile,
                    Direction::Create => HandOver::Made,
                    _ => HandOver::Compared,
                };
                let Some(len) = count.checked_mul(element.size.into()) else { return };
                let Some(recorded) = self.call.memory(When::Return, address, len) else { return };
                let live = self.frame.memory[memory].bytes();
                let size = element.size.max(1) as usize;
                for (n, (recorded, live)) in recorded.chunks_exact(size).zip(live.chunks_exact(size)).enumerate() {
                    self.value(element, how, recorded, live, OutputPlace { name, offset: n * size });
                }
            }
            Output::Text { name, memory, address, volatile } => {
                let live = CStr::from_bytes_until_nul(self.frame.memory[memory].bytes());
                if let (false, Some(recorded), Ok(live)) = (volatile, self.call.text(address), live) {
                    self.text(name, &recorded, &live.to_string_lossy());
                }
            }
            Output::TextOut { name, memory, address } => {
                let live = self.frame.memory[memory].words()[0];
                let recorded = self.recorded_word(address).and_then(|pointer| self.call.text(pointer));
                if let (Some(recorded), true) = (recorded, live != 0) {
                    // SAFETY: the driver handed out a string of its own, and the call has just succeeded.
                    let live = unsafe { CStr::from_ptr(live as *const _) };
                    self.text(name, &recorded, &live.to_string_lossy());
                }
            }
            Output::Owned { name, index, memory, address, element } => {
                self.owned(name, index, memory, address, element);
            }
        }
    }

    /// Elements in memory of the driver's.
    fn owned(&mut self, name: &str, index: usize, memory: usize, address: u64, element: &'static Type) {
        let live = self.frame.memory[memory].words()[0];
        let view = FrameView { frame: self.frame };
        let Target::Owned { count, .. } = resolve(self.function.params, index, 0, &view) else { return };
        let Some(recorded_at) = self.recorded_word(address).filter(|at| *at != 0 && live != 0) else { return };
        if let Some(linker) = self.function.handle(Kind::Link) {
            let linker = self.call.argument(self.function.params[linker].name).unwrap_or(0);
            self.session.linked.lock().insert(recorded_at, DriverImage { address: live, len: count, linker });
            return;
        }
        let size = u64::from(element.size.max(1));
        let recorded_len: u64 =
            self.call.images().filter(|i| i.address == recorded_at).map(|i| i.len).max().unwrap_or(0);
        let len = (count * size).min(recorded_len / size * size);
        let Some(recorded) = self.call.memory(When::Return, recorded_at, len) else { return };
        // SAFETY: the driver says that this many elements are there, until the next call on the object.
        let live = unsafe { std::slice::from_raw_parts(live as *const u8, len as usize) };
        for (n, (recorded, live)) in
            recorded.chunks_exact(size as usize).zip(live.chunks_exact(size as usize)).enumerate()
        {
            self.value(element, HandOver::Compared, recorded, live, OutputPlace { name, offset: n * size as usize });
        }
    }

    fn value(&mut self, ty: &'static Type, how: HandOver, recorded: &[u8], live: &[u8], at: OutputPlace) {
        let words = || (word(recorded), word(live));
        match ty.form {
            Form::Handle(kind) => {
                let (was, is) = words();
                if !self.handle(kind, how, was, is) {
                    self.differs(at, 0, recorded, live);
                }
            }
            Form::Address => {
                let (was, is) = words();
                let known = self.session.translation.live(was).is_some()
                    || self.session.plan.addresses.device.contains(was)
                    || self.session.plan.addresses.host.contains(was);
                if how == HandOver::Compared && known {
                    self.compared = true;
                    if self.session.translation.live(was).unwrap_or(was) != is {
                        self.differs(at, 0, recorded, live);
                    }
                }
            }
            Form::Pointer(_) | Form::Callback => {}
            Form::Array(element, _) if trace::api::walk::has_structure(element) => {
                let size = element.size as usize;
                for (n, (recorded, live)) in recorded.chunks_exact(size).zip(live.chunks_exact(size)).enumerate() {
                    self.value(element, how, recorded, live, OutputPlace { offset: at.offset + n * size, ..at });
                }
            }
            Form::Struct(_) if ty.name == "CUdevResource" => {
                self.session.resources.lock().insert(recorded.to_vec(), live.to_vec());
            }
            // The first word is the device address; the rest is the same wherever that is.
            Form::Struct(_) if ty.name == CUtensorMap::TYPE.name => {
                let (was, is) = words();
                let moved = self.session.translation.live(was).unwrap_or(was) != is;
                if how == HandOver::Compared && (moved || recorded.get(8..) != live.get(8..)) {
                    self.differs(at, 0, recorded, live);
                }
            }
            Form::Struct(fields) => self.structure(fields, how, recorded, live, at),
            _ if how != HandOver::Compared => {}
            // A number may be the address of memory that is elsewhere.
            _ if recorded.len() == 8 && self.session.translation.recorded(word(live)) == Some(word(recorded)) => {
                self.compared = true;
            }
            _ => {
                self.compared = true;
                if let Some(first) = recorded.iter().zip(live).position(|(was, is)| was != is) {
                    self.differs(at, first, recorded, live);
                }
            }
        }
    }

    fn structure(&mut self, fields: &'static [Field], how: HandOver, recorded: &[u8], live: &[u8], at: OutputPlace) {
        if let (Some((was, len)), Some((is, _))) = (made_in(fields, recorded), made_in(fields, live)) {
            self.session.translation.bind_of_graph(was, len, is);
        }
        for (index, field) in fields.iter().enumerate() {
            // What the program left in a field that it does not use the driver leaves there.
            if matches!(field.role, Role::Unless(_)) && !is_meant(fields, index, 0, &Bytes(recorded)) {
                continue;
            }
            if let Role::Owned(_) = field.role {
                self.handed_out(fields, index, recorded, live);
                continue;
            }
            let how = if matches!(field.role, Role::Created | Role::Allocated(_)) { HandOver::Made } else { how };
            let member = match field.role {
                Role::Union(..) => member(fields, index, 0, &Bytes(recorded)).unwrap_or(field.ty),
                _ => field.ty,
            };
            let part = field.offset as usize..(field.offset + member.size.min(field.ty.size)) as usize;
            if let (Some(recorded), Some(live)) = (recorded.get(part.clone()), live.get(part)) {
                let offset = at.offset + field.offset as usize;
                self.value(member, how, recorded, live, OutputPlace { name: field.name, offset });
            }
        }
    }

    /// New objects in an array of the driver's, whose address it put into a struct.
    fn handed_out(&mut self, fields: &'static [Field], index: usize, recorded: &[u8], live: &[u8]) {
        let there = |bytes| match resolve(fields, index, 0, &Bytes(bytes)) {
            Target::Span { address, element, count, .. } => Some((address, element, count)),
            _ => None,
        };
        let (Some((was, element, count)), Some((is, _, live_count))) = (there(recorded), there(live)) else { return };
        let Some(len) = count.min(live_count).checked_mul(element.size.into()) else { return };
        let Some(recorded) = self.call.memory(When::Return, was, len) else { return };
        // SAFETY: the driver has just put this many elements there.
        let live = unsafe { std::slice::from_raw_parts(is as *const u8, len as usize) };
        let (size, name) = (element.size as usize, fields[index].name);
        for (n, (recorded, live)) in recorded.chunks_exact(size).zip(live.chunks_exact(size)).enumerate() {
            self.value(element, HandOver::Made, recorded, live, OutputPlace { name, offset: n * size });
        }
    }

    /// Learns a handle; false if it cannot be the same object.
    fn handle(&mut self, kind: Kind, how: HandOver, was: u64, is: u64) -> bool {
        if kind == Kind::Device {
            let expected = self.session.objects.device(was as i32);
            self.compared |= how != HandOver::Volatile;
            return how == HandOver::Volatile || expected == is as i32;
        }
        if (was == 0) != (is == 0) {
            return how == HandOver::Volatile;
        }
        // A question about the current context must find the one that was made current. Other objects may be
        // handed out by a question for the first time, or again after their module was loaded anew.
        if how == HandOver::Compared
            && kind == Kind::Context
            && self.function.class == Class::query
            && let Lookup::Live(expected) = self.session.objects.find(kind, was)
        {
            self.compared = true;
            return expected == is;
        }
        if kind == Kind::Context && is != 0 {
            self.session.contexts.lock().insert(is);
        }
        let is_for_devices = match kind {
            Kind::GraphExec => how == HandOver::Made && self.is_for_devices(),
            Kind::GraphDeviceNode => is != 0,
            _ => false,
        };
        if is_for_devices {
            // Kernels use it by this value, which may stand wherever an address may.
            self.session.translation.bind(was, 1, is);
        }
        if kind == Kind::Shareable {
            // SAFETY: the driver has just made it for this call, and only the driver is given it.
            let own = unsafe { OwnedFd::from_raw_fd(is as i32) };
            self.session.shared.lock().insert(was, own);
        }
        self.session.objects.bind(kind, was, is);
        true
    }

    /// Whether the graph that is instantiated can be launched by kernels.
    fn is_for_devices(&self) -> bool {
        let flags = || {
            let parameters = self.call.argument("instantiateParams")?;
            self.call.memory(When::Entry, parameters, 8).map(|bytes| word(&bytes))
        };
        let flags = self.call.argument("flags").or_else(flags).unwrap_or(0);
        flags & u64::from(CUgraphInstantiate_flags::CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH.0) != 0
    }

    /// Memory that the driver gave, wherever it likes.
    fn bind_driver_memory(&mut self) {
        let captured = self.session.plan.graph_nodes.allocations.get(&self.call.number).copied();
        let live = |index: usize| {
            let pointer = FrameView { frame: self.frame }.load(self.function.params[index].offset, 8)?;
            FrameView { frame: self.frame }.read_word(pointer, 8)
        };
        let both = |at: usize| self.call.output_of(at).zip(live(at));
        let translation = &self.session.translation;
        if let Some(len) = captured {
            if let Some((was, is)) = requested_size::handed_out(self.function).and_then(both) {
                translation.bind_of_graph(was, len, is);
            }
        } else if let Some([at, bytes]) = self.function.variable()
            && let (Some((was, is)), Some(len)) = (both(at), live(bytes))
        {
            translation.bind(was, len, is);
            // What nobody looked up lies with what was, if they lie in one block here, too.
            translation.tell_block(was, is);
        }
    }

    fn recorded_word(&self, address: u64) -> Option<u64> {
        self.call.memory(When::Return, address, 8).map(|bytes| word(&bytes))
    }

    fn text(&mut self, name: &str, recorded: &str, live: &str) {
        self.compared = true;
        if self.session.verify && recorded != live {
            self.report(name, None, format!("{recorded:?}"), format!("{live:?}"));
        }
    }

    fn differs(&mut self, at: OutputPlace, first: usize, recorded: &[u8], live: &[u8]) {
        if self.session.verify {
            self.report(at.name, Some((at.offset + first) as u64), hex(recorded), hex(live));
        }
    }

    fn report(&mut self, what: &str, offset: Option<u64>, expected: String, found: String) {
        self.tally.diverged(Divergence { offset, ..Divergence::new(self.call, what, expected, found) });
    }
}

/// The buffers of a call as a view: only addresses inside them can be read.
struct FrameView<'f, 't> {
    frame: &'f Frame<'t>,
}

impl View for FrameView<'_, '_> {
    fn load(&self, offset: u32, size: u32) -> Option<u64> {
        let bytes = self.frame.memory[0].bytes();
        bytes.get(offset as usize..(offset + size.min(8)) as usize).map(word)
    }

    fn read_word(&self, address: u64, size: u32) -> Option<u64> {
        self.frame.memory.iter().find_map(|memory| {
            let at = address.checked_sub(memory.address())? as usize;
            memory.bytes().get(at..at.checked_add(size.min(8) as usize)?).map(word)
        })
    }
}

/// A struct without anything around it.
struct Bytes<'b>(&'b [u8]);

impl View for Bytes<'_> {
    fn load(&self, offset: u32, size: u32) -> Option<u64> {
        self.0.get(offset as usize..(offset + size.min(8)) as usize).map(word)
    }

    fn read_word(&self, _: u64, _: u32) -> Option<u64> {
        None
    }
}

/// The first 8 bytes at most, zero-extended.
fn word(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    let len = bytes.len().min(8);
    word[..len].copy_from_slice(&bytes[..len]);
    u64::from_le_bytes(word)
}
