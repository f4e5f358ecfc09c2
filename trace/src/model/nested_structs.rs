//! The structs and the arrays of addresses and handles among a recorded call's inputs, at any depth: behind
//! its parameters, in arrays, in unions, in each other.

use crate::api::Function;
use crate::api::roles::{Field, Role};
use crate::api::types::{Form, Type};
use crate::api::walk::{Direction, Target, has_structure, member, resolve};
use crate::read::call::Call;
use crate::read::call::When;
use crate::read::recorded_memory::Recorded;

/// Shows `see` each of them: its type and its bytes.
pub fn structs(call: &Call, function: &'static Function, see: &mut dyn FnMut(&'static Type, &[u8])) {
    descriptions(call, function, &mut |ty, bytes| {
        if matches!(ty.form, Form::Struct(_)) {
            see(ty, bytes);
        }
    });
}

/// Shows `see` each struct, and each whole array of addresses or handles, with the type of an element.
pub fn descriptions(call: &Call, function: &'static Function, see: &mut dyn FnMut(&'static Type, &[u8])) {
    fields(call, function.params, call.argument_bytes(), see);
}

fn fields(call: &Call, all: &'static [Field], bytes: &[u8], see: &mut dyn FnMut(&'static Type, &[u8])) {
    let view = Recorded { call, bytes, when: When::Entry };
    for (index, field) in all.iter().enumerate() {
        let ty = match field.role {
            Role::Union(..) => member(all, index, 0, &view).unwrap_or(field.ty),
            _ => field.ty,
        };
        match ty.form {
            Form::Struct(_) => {
                let part = field.offset as usize..(field.offset + ty.size) as usize;
                bytes.get(part).into_iter().for_each(|bytes| value(call, ty, bytes, see));
            }
            Form::Pointer(to) if has_structure(to) => {
                let Target::Span { address, element, count, direction } = resolve(all, index, 0, &view) else {
                    continue;
                };
                let is_read = direction.is_input() && direction != Direction::Source;
                let len = count.checked_mul(element.size.into()).filter(|len| *len > 0 && is_read);
                let Some(memory) = len.and_then(|len| call.memory(When::Entry, address, len)) else { continue };
                match element.form {
                    Form::Struct(_) => {
                        memory.chunks_exact(element.size as usize).for_each(|bytes| value(call, element, bytes, see));
                    }
                    _ => see(element, &memory),
                }
            }
            _ => {}
        }
    }
}

fn value(call: &Call, ty: &'static Type, bytes: &[u8], see: &mut dyn FnMut(&'static Type, &[u8])) {
    let Form::Struct(all) = ty.form else { return };
    see(ty, bytes);
    fields(call, all, bytes, see);
}
