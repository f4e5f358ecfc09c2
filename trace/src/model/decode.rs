//! A call's arguments and results as [values](Value), by the table, for `dump`, the viewer and comparisons.

use crate::api::Function;
use crate::api::attributes::LOG_BUFFERS;
use crate::api::copies::{self, Region};
use crate::api::extra::Extra;
use crate::api::roles::{Field, Role, Side};
use crate::api::types::{Form, Kind, Type};
use crate::api::walk::{self, Direction, Target, View};
use crate::base::bytes::{u32_at, u64_at};
use crate::code::image::Wrapper;
use crate::file::record::{Kernel, LONGEST, PIECE};
use crate::model::value::{ArgumentPassing, Fields, Slot, Value};
use crate::read::call::Call;
use crate::read::call::{Content, Image, When};
use crate::read::references::Lacking;
use std::borrow::Cow;

/// A call's arguments and outputs.
#[derive(Debug, Clone)]
pub struct Decoded<'a> {
    /// Inputs by parameter, in the order of the prototype.
    pub arguments: Fields<'a>,
    /// What the call wrote, by parameter.
    pub outputs: Fields<'a>,
}

/// Structures deeper than this are not followed.
const DEPTH: u32 = 8;

/// The arguments and outputs of a call; none if this build does not know the function.
pub fn decode<'a>(call: &Call<'a>) -> Option<Decoded<'a>> {
    let function = call.function().filter(|f| !f.opaque)?;
    let decoder = Decoder { call, function };
    let mut decoded = Decoded { arguments: Vec::with_capacity(function.params.len()), outputs: Vec::new() };
    let words = call.argument_bytes();
    for index in 0..function.params.len() {
        decoder.parameter(index, words, &mut decoded);
    }
    decoded.outputs.extend(call.logs().map(|(option, text)| (option, Value::Text(text))));
    Some(decoded)
}

struct Decoder<'c, 'a> {
    call: &'c Call<'a>,
    function: &'static Function,
}

/// A struct's bytes (or the argument words), and the call's memory behind it.
struct Container<'b, 'c, 'a> {
    bytes: &'b [u8],
    call: &'c Call<'a>,
    when: When,
}

impl View for Container<'_, '_, '_> {
    fn load(&self, offset: u32, size: u32) -> Option<u64> {
        word(self.bytes.get(offset as usize..)?.get(..size as usize)?)
    }

    fn read_word(&self, address: u64, size: u32) -> Option<u64> {
        word(&self.call.memory(self.when, address, size.into())?)
    }
}

/// Up to 8 bytes, little endian, zero-extended.
fn word(bytes: &[u8]) -> Option<u64> {
    let mut value = [0; 8];
    value.get_mut(..bytes.len())?.copy_from_slice(bytes);
    Some(u64::from_le_bytes(value))
}

impl<'a> Decoder<'_, 'a> {
    fn parameter(&self, index: usize, words: &[u8], decoded: &mut Decoded<'a>) {
        let params = self.function.params;
        let field = &params[index];
        let (mut argument, mut output) = (None, None);
        let Form::Pointer(_) = field.ty.form else {
            let value = self.field(params, index, words, When::Entry, 0);
            decoded.arguments.push((field.name, value));
            return;
        };
        let address = self.container(words, When::Entry).load(field.offset, 8).unwrap_or(0);
        match walk::resolve(params, index, 0, &self.container(words, When::Return)) {
            Target::Span { address, element, count, direction } => match direction {
                Direction::InOut => {
                    argument = Some(self.span(address, element, count, When::Entry, false));
                    output = self.written(address, element, count, false, When::Entry);
                }
                Direction::Out | Direction::Create | Direction::Volatile => {
                    output = self.written(address, element, count, direction == Direction::Create, When::Return);
                }
                Direction::Sink => {
                    output =
                        self.payload(address, Some(Side::Destination), Some(count.saturating_mul(element.size.into())));
                }
                Direction::In | Direction::Source => {
                    argument = Some(self.target(params, index, words, When::Entry, 0));
                }
            },
            Target::Text { out: true, address, .. } => output = self.call.text(address).map(Value::Text),
            Target::TextOut { .. } | Target::Owned { .. } | Target::HostAlloc { .. } | Target::Attributes { .. } => {
                output = self.recorded(self.target(params, index, words, When::Return, 0));
            }
            _ if matches!(field.role, Role::EntryPoint) && address != 0 => {
                output = self.container(words, When::Return).read_word(address, 8).map(Value::Pointer);
            }
            Target::Nothing if is_output(field.role) && address != 0 => {}
            _ => argument = Some(self.target(params, index, words, When::Entry, 0)),
        }
        let argument = argument.unwrap_or(if address == 0 { Value::Null } else { Value::Result(address) });
        decoded.arguments.push((field.name, argument));
        decoded.outputs.extend(output.map(|value| (field.name, value)));
    }

    fn container<'b>(&self, bytes: &'b [u8], when: When) -> Container<'b, '_, 'a> {
        Container { bytes, call: self.call, when }
    }

    /// What a call wrote there; none if nothing was recorded, or if it still is what it was before.
    fn written(&self, address: u64, element: &'static Type, count: u64, born: bool, than: When) -> Option<Value<'a>> {
        self.call.end?;
        let size = count.checked_mul(element.size.into())?;
        if self.call.output_at(address, size).is_none() {
            return self.recorded(Value::Unrecorded(address));
        }
        if than == When::Entry {
            let before = self.call.memory(When::Entry, address, size);
            if before == self.call.memory(When::Return, address, size) {
                return None;
            }
        }
        self.recorded(self.span(address, element, count, When::Return, born))
    }

    fn recorded(&self, value: Value<'a>) -> Option<Value<'a>> {
        match value {
            Value::Unrecorded(_) if !self.call.succeeded() => None,
            Value::Null => None,
            value => Some(value),
        }
    }

    /// The field `fields[index]` of the container `bytes`.
    fn field(&self, fields: &'static [Field], index: usize, bytes: &[u8], when: When, depth: u32) -> Value<'a> {
        let field = &fields[index];
        if let Form::Pointer(_) = field.ty.form {
            return self.target(fields, index, bytes, when, depth);
        }
        let Some(own) = bytes.get(field.offset as usize..).and_then(|b| b.get(..field.ty.size as usize)) else {
            return Value::Unrecorded(0);
        };
        match field.role {
            Role::Union(..) => match walk::member(fields, index, 0, &self.container(bytes, when)) {
                Some(ty) if ty.size as usize <= own.len() => self.value(ty, &own[..ty.size as usize], when, depth + 1),
                _ => Value::Bytes(Cow::Owned(own.to_vec())),
            },
            Role::Bits(names) => Value::Bits(names, word(own).unwrap_or(0)),
            Role::Created | Role::Allocated(_) => match self.value(field.ty, own, when, depth) {
                Value::Handle { kind, value, .. } => Value::Handle { kind, value, born: when == When::Return },
                Value::Address { value, .. } => Value::Address { value, born: when == When::Return },
                other => other,
            },
            _ => self.value(field.ty, own, when, depth),
        }
    }

    /// A value by its type alone.
    fn value(&self, ty: &'static Type, bytes: &[u8], when: When, depth: u32) -> Value<'a> {
        let unsigned = || word(bytes).unwrap_or(0);
        let signed = || match bytes.len() {
            1 => bytes[0] as i8 as i64,
            2 => i16::from_le_bytes([bytes[0], bytes[1]]).into(),
            4 => (u32_at(bytes, 0) as i32).into(),
            _ => unsigned() as i64,
        };
        match ty.form {
            Form::Unsigned => Value::Unsigned(unsigned()),
            Form::Signed | Form::Char => Value::Signed(signed()),
            Form::Float if bytes.len() == 4 => Value::Float(f32::from_bits(u32_at(bytes, 0)).into()),
            Form::Float => Value::Float(f64::from_bits(unsigned())),
            Form::Void => Value::Bytes(Cow::Owned(bytes.to_vec())),
            Form::Address => Value::Address { value: unsigned(), born: false },
            Form::Enum(names) => Value::Symbol(names, signed()),
            Form::Handle(kind) => Value::Handle { kind, value: unsigned(), born: false },
            Form::Callback | Form::Pointer(_) if unsigned() == 0 => Value::Null,
            Form::Callback | Form::Pointer(_) => Value::Pointer(unsigned()),
            Form::Array(element, _) if is_byte(element) => Value::Bytes(Cow::Owned(bytes.to_vec())),
            Form::Array(element, _) => {
                let size = (element.size as usize).max(1);
                Value::List(bytes.chunks_exact(size).map(|b| self.value(element, b, when, depth + 1)).collect())
            }
            Form::Struct(_) if depth > DEPTH => Value::Bytes(Cow::Owned(bytes.to_vec())),
            Form::Struct(fields) => {
                let mut named = Vec::with_capacity(fields.len());
                for (index, field) in fields.iter().enumerate() {
                    let value = match field.role {
                        // What stood there before the call means nothing.
                        Role::Filled | Role::Created | Role::Allocated(_) if when == When::Entry => continue,
                        Role::Unless(_) if !walk::is_meant(fields, index, 0, &self.container(bytes, when)) => continue,
                        Role::CopyHost(side) => self.copied(ty, index, side, bytes, when, depth + 1),
                        _ => self.field(fields, index, bytes, when, depth + 1),
                    };
                    if !is_padding(field.name, &value) {
                        named.push((field.name, value));
                    }
                }
                Value::Struct(named)
            }
        }
    }

    /// One side of a copy descriptor: the host bytes it stands for, if they were recorded.
    fn copied(&self, ty: &'static Type, index: usize, side: Side, bytes: &[u8], when: When, depth: u32) -> Value<'a> {
        let Form::Struct(fields) = ty.form else { return Value::Null };
        let of_region = |region: Region| match self.payload(region.address, Some(side), Some(region.bytes()))? {
            // Rows in several pieces have gaps between them.
            Value::Payload { side, len, pieces, content, missing } if region.bytes() > PIECE as u64 => {
                Some(Value::Payload { side, len: len.max(region.bytes()), pieces, content, missing })
            }
            payload => Some(payload),
        };
        let payload = copies::region(ty, bytes, side, |_| None).and_then(of_region);
        match (self.field(fields, index, bytes, when, depth), payload) {
            (Value::Struct(mut operand), payload) => {
                operand.extend(payload.map(|payload| ("bytes", payload)));
                Value::Struct(operand)
            }
            (_, Some(payload)) => payload,
            (pointer, None) => pointer,
        }
    }

    /// What the pointer `fields[index]` leads to. Within structs outputs are shown in their place.
    fn target(&self, fields: &'static [Field], index: usize, bytes: &[u8], when: When, depth: u32) -> Value<'a> {
        let view = self.container(bytes, when);
        let raw = view.load(fields[index].offset, 8).unwrap_or(0);
        if raw == 0 {
            return Value::Null;
        }
        let text = |address| self.call.text(address).map_or(Value::Unrecorded(address), Value::Text);
        let payload = |address, side, len| self.payload(address, side, len).unwrap_or(Value::Unrecorded(address));
        let whole = |element: &Type, count: u64| Some(count.saturating_mul(element.size.into()));
        match walk::resolve(fields, index, 0, &view) {
            Target::Nothing => match fields[index].role {
                Role::Address | Role::HostAddress | Role::Destroy | Role::Reads(_) | Role::Writes(_) => {
                    Value::Address { value: raw, born: false }
                }
                _ => Value::Pointer(raw),
            },
            Target::Span { address, element, count, direction } => match direction {
                Direction::Source => payload(address, Some(Side::Source), whole(element, count)),
                Direction::Sink => payload(address, Some(Side::Destination), whole(element, count)),
                _ if depth > DEPTH => Value::Pointer(raw),
                _ => {
                    let when = if direction.is_input() { when } else { When::Return };
                    self.nested(address, element, count, when, direction == Direction::Create, depth)
                }
            },
            Target::Text { address, .. } | Target::Path { address } => text(address),
            Target::Value { element } => self.value(element, &raw.to_le_bytes()[..element.size as usize], when, depth),
            Target::TextOut { address } => match view.read_word(address, 8) {
                None => Value::Unrecorded(address),
                Some(0) => Value::Null,
                Some(address) => text(address),
            },
            Target::Owned { address, element, count } => match view.read_word(address, 8) {
                None => Value::Unrecorded(address),
                Some(0) => Value::Null,
                Some(at) => self.nested(at, element, count, When::Return, false, depth),
            },
            Target::HostAlloc { address, .. } => match self.container(bytes, When::Return).read_word(address, 8) {
                None => Value::Unrecorded(address),
                Some(value) => Value::Address { value, born: true },
            },
            Target::Image { address, .. } => payload(self.behind_wrapper(address), None, None),
            Target::CopyHost { address } => Value::Pointer(address),
            Target::Arguments { address, function } => self.arguments(address, function),
            Target::Extra { address } => self.packed(address, fields, bytes).unwrap_or(Value::Unrecorded(address)),
            Target::Options { address, codes, count } => {
                self.options(fields[index].role, fields, address, codes, count).unwrap_or(Value::Unrecorded(address))
            }
            Target::Attributes { address, codes, count, types } => self
                .attributes(fields[index].role, fields, (address, codes, count), types)
                .unwrap_or(Value::Unrecorded(address)),
        }
    }

    fn span(&self, address: u64, element: &'static Type, count: u64, when: When, born: bool) -> Value<'a> {
        self.nested(address, element, count, when, born, 0)
    }

    fn nested(
        &self,
        address: u64,
        element: &'static Type,
        count: u64,
        when: When,
        born: bool,
        depth: u32,
    ) -> Value<'a> {
        if count == 0 {
            return Value::List(Vec::new());
        }
        let Some(size) = count.checked_mul(element.size.max(1).into()) else { return Value::Unrecorded(address) };
        if let Some(image) = self.image(address).filter(|_| is_byte(element) && count > 1) {
            return match self.call.memory(when, address, size) {
                Some(bytes) if bytes.len() <= crate::file::record::INLINE_LIMIT => Value::Bytes(bytes),
                _ => self.payload_of(None, image.len, image.content),
            };
        }
        let Some(bytes) = self.call.memory(when, address, size) else { return Value::Unrecorded(address) };
        let one = |bytes: &[u8]| match self.value(element, bytes, when, depth + 1) {
            Value::Handle { kind, value, .. } => Value::Handle { kind, value, born },
            Value::Address { value, .. } => Value::Address { value, born },
            other => other,
        };
        match count {
            1 => one(&bytes),
            _ => Value::List(bytes.chunks_exact(element.size.max(1) as usize).map(one).collect()),
        }
    }

    fn image(&self, address: u64) -> Option<Image<'a>> {
        self.call.images_at(address).filter(|_| address != 0).last()
    }

    /// Memory in several pieces is one payload. `whole`: how long it is; nobody knows that of an image.
    fn payload(&self, address: u64, side: Option<Side>, whole: Option<u64>) -> Option<Value<'a>> {
        let image = self.call.images_at(address).next()?;
        let is_cut = |len: u64, last: u64| match whole {
            Some(whole) => last > 0 && len < whole,
            None => last > 0 && last.is_multiple_of(LONGEST as u64),
        };
        let (mut len, mut last, mut pieces, mut content) = (image.len, image.len, 1, image.content);
        let mut missing = self.missing(&content);
        while is_cut(len, last) {
            let next = address.checked_add(len).and_then(|end| self.call.images_at(end).next());
            let Some(piece) = next else { break };
            last = piece.len;
            let Some(longer) = len.checked_add(last) else { break };
            len = longer;
            pieces += 1;
            missing = missing.or(self.missing(&piece.content));
            // It is shown by its first piece, unless a later one is not there.
            if matches!(piece.content, Content::Lost | Content::Pending) {
                content = piece.content;
            }
        }
        Some(Value::Payload { side, len, pieces, content, missing })
    }

    fn missing(&self, content: &Content) -> Option<Lacking> {
        match content {
            Content::Blob(hash) => self.call.trace.lacking(*hash),
            Content::Lost => self.left_out(),
            _ => None,
        }
    }

    fn left_out(&self) -> Option<Lacking> {
        self.call.trace.preamble.is_data_left_out().then_some(Lacking::LeftOut)
    }

    fn payload_of(&self, side: Option<Side>, len: u64, content: Content<'a>) -> Value<'a> {
        Value::Payload { side, len, pieces: 1, content, missing: self.missing(&content) }
    }

    /// What a fatbin wrapper leads to first.
    fn behind_wrapper(&self, address: u64) -> u64 {
        let bytes = self.call.memory(When::Return, address, Wrapper::SIZE as u64);
        bytes.and_then(|bytes| Wrapper::decode(&bytes)).map_or(address, |wrapper| wrapper.data)
    }

    fn arguments(&self, address: u64, function: u64) -> Value<'a> {
        let recorded = self.call.images_at(address).find_map(|image| match image.content {
            Content::Arguments { kernel, packed, .. } => Some((kernel, packed)),
            _ => None,
        });
        let trace = self.call.trace;
        let Some((kernel, packed)) = recorded.and_then(|(id, packed)| Some((trace.kernels.get(&id)?, packed))) else {
            let kernel = trace.kernel(function);
            let parameters = kernel.and_then(|kernel| Some(kernel.params.as_ref()?.len()));
            let given = ArgumentPassing::Unread { parameters, why: self.unread(address, parameters.is_some()) };
            return Value::Launch { kernel: kernel.map_or("?", |k| k.name.as_str()), arguments: Vec::new(), given };
        };
        let parameters = kernel.params.as_ref().map_or(0, Vec::len);
        if packed.is_empty() && parameters > 0 && self.left_out().is_some() {
            let given = ArgumentPassing::Unread { parameters: Some(parameters), why: "left out" };
            return Value::Launch { kernel: &kernel.name, arguments: Vec::new(), given };
        }
        let mut rest = packed;
        let mut arguments = Vec::new();
        for (index, (_, size)) in kernel.params.iter().flatten().enumerate() {
            let size = *size as usize;
            arguments.push(match rest.get(..size) {
                Some(bytes) => Value::Argument { bytes: Cow::Borrowed(bytes), of: self.slot(kernel, index) },
                None => Value::Unrecorded(address),
            });
            rest = rest.get(size.div_ceil(8) * 8..).unwrap_or(&[]);
        }
        Value::Launch { kernel: &kernel.name, arguments, given: ArgumentPassing::Each }
    }

    /// Why the arguments at this address are not in the trace.
    fn unread(&self, address: u64, is_known: bool) -> &'static str {
        let is_lost = || self.call.images_at(address).any(|image| matches!(image.content, Content::Lost));
        match (self.call.end, is_known) {
            (None, _) => "the call did not return",
            (_, true) if is_lost() => "unreadable",
            _ if is_lost() => "their sizes are unknown",
            _ if self.call.succeeded() => "the record of the kernel is lost",
            _ => "the kernel's first launch failed",
        }
    }

    fn slot(&self, kernel: &Kernel, index: usize) -> Slot<'a> {
        Slot { trace: self.call.trace, kernel: kernel.id, call: self.call.number, index }
    }

    fn packed(&self, address: u64, fields: &'static [Field], bytes: &[u8]) -> Option<Value<'a>> {
        let view = self.container(bytes, When::Entry);
        let extra = Extra::read(address, |at| view.read_word(at, 8));
        let buffer = extra.buffer().filter(|_| extra.is_whole)?;
        let size = view.read_word(extra.size_at()?, 8)?;
        let packed = self.call.memory(When::Entry, buffer, size)?;
        let function = fields.iter().find_map(|f| match f.ty.form {
            Form::Handle(Kind::Function) => view.load(f.offset, 8),
            _ => None,
        });
        let kernel = function.and_then(|f| self.call.trace.kernel(f));
        let ends = kernel
            .and_then(|kernel| kernel.params.as_ref())
            .map(|params| params.iter().map(|(offset, size)| u64::from(*offset) + u64::from(*size)).max().unwrap_or(0));
        let given = ArgumentPassing::Packed { bytes: size, declared: ends };
        let arguments = match kernel.and_then(|kernel| Some((kernel, kernel.params.as_ref()?))) {
            None => vec![Value::Bytes(packed)],
            Some((kernel, params)) => {
                let argument = |(index, (offset, size)): (usize, &(u32, u32))| match packed
                    .get(*offset as usize..)
                    .and_then(|rest| rest.get(..*size as usize))
                {
                    Some(bytes) => Value::Argument { bytes: bytes.to_vec().into(), of: self.slot(kernel, index) },
                    None => Value::NotGiven,
                };
                params.iter().enumerate().map(argument).collect()
            }
        };
        Some(Value::Launch { kernel: kernel.map_or("?", |k| k.name.as_str()), arguments, given })
    }

    fn options(&self, role: Role, fields: &'static [Field], at: u64, codes: u64, count: u64) -> Option<Value<'a>> {
        let Role::Options { codes: sibling, .. } = role else { return None };
        let Form::Pointer(code) = fields[sibling.0 as usize].ty.form else { return None };
        let names = self.call.memory(When::Entry, codes, count.checked_mul(4)?)?;
        let words = self.call.memory(When::Entry, at, count.checked_mul(8)?)?;
        let pairs = names.chunks_exact(4).zip(words.chunks_exact(8)).map(|(name, word)| {
            let value = u64_at(word, 0);
            let text = LOG_BUFFERS.contains(&u32_at(name, 0)).then(|| self.call.text(value)).flatten();
            let shown = text.map(Value::Text).unwrap_or(match value {
                0..=0xffff_ffff => Value::Unsigned(value),
                _ => Value::Pointer(value),
            });
            (self.value(code, name, When::Entry, 0), shown)
        });
        Some(Value::Options(pairs.collect()))
    }

    fn attributes(
        &self,
        role: Role,
        fields: &'static [Field],
        (at, codes, count): (u64, u64, u64),
        types: &'static [(u32, &'static Type)],
    ) -> Option<Value<'a>> {
        let Role::AttributesOut(sibling, ..) = role else { return None };
        let Form::Pointer(code) = fields[sibling.0 as usize].ty.form else { return None };
        let names = self.call.memory(When::Entry, codes, count.checked_mul(4)?)?;
        let pointers = self.call.memory(When::Entry, at, count.checked_mul(8)?)?;
        let pairs = names.chunks_exact(4).zip(pointers.chunks_exact(8)).map(|(name, pointer)| {
            let address = u64_at(pointer, 0);
            let value = match walk::select(types, u32_at(name, 0).into()) {
                Some(ty) => self.span(address, ty, 1, When::Return, false),
                None => Value::Pointer(address),
            };
            (self.value(code, name, When::Entry, 0), value)
        });
        Some(Value::Options(pairs.collect()))
    }
}

fn is_output(role: Role) -> bool {
    matches!(
        role,
        Role::Out(_) | Role::Create(_) | Role::Volatile(_) | Role::Sink(_) | Role::AttributeOut(..) | Role::EntryPoint
    )
}

fn is_byte(ty: &Type) -> bool {
    ty.size == 1 && matches!(ty.form, Form::Void | Form::Char | Form::Unsigned)
}

fn is_padding(name: &str, value: &Value) -> bool {
    let unused = name.starts_with("reserved") || name.starts_with("pad") || name.starts_with('_');
    unused
        && match value {
            Value::Unsigned(0) | Value::Signed(0) | Value::Null => true,
            Value::Bytes(bytes) => bytes.iter().all(|b| *b == 0),
            Value::List(all) => all.iter().all(|v| matches!(v, Value::Unsigned(0) | Value::Signed(0))),
            _ => false,
        }
}
