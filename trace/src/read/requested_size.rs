//! The address and size that a call allocates, copies or fills, derived from its table line.

use crate::api::Function;
use crate::api::copies::element_bytes;
use crate::api::effect::{Bytes, Effect};
use crate::api::enums::CUarray_format;
use crate::api::roles::{Extent, Role, Sibling};
use crate::api::types::Form;
use crate::read::call::{Call, When};
use crate::read::recorded_memory::load;

/// Where what the call got begins, or its handle.
pub fn place(call: &Call, function: &Function) -> Option<u64> {
    match handed_out(function) {
        Some(at) => call.output_of(at),
        // Host memory that the program has already.
        None => call.argument_of(function.params.iter().position(|param| matches!(param.role, Role::HostAddress))?),
    }
}

/// The position of the argument through which the call hands that out.
pub fn handed_out(function: &Function) -> Option<usize> {
    function.params.iter().position(|param| matches!(param.role, Role::Create(_) | Role::HostAlloc(_)))
}

/// The bytes that the call asks for: of rows, as many as it got, if it got them; of mipmapped arrays those of
/// the first level. None where the call does not tell, or where the elements of an array have no size of
/// their own.
pub fn bytes(call: &Call, function: &Function) -> Option<u64> {
    let Effect::Allocate { bytes, .. } = function.effect else { return None };
    let argument = |Sibling(at)| call.argument_of(at.into());
    match bytes {
        Bytes::Of(len) => argument(len),
        Bytes::Rows { pitch, width, rows } => {
            let pitch = if call.succeeded() { call.output_of(pitch.0.into()) } else { argument(width) };
            pitch?.checked_mul(argument(rows)?)
        }
        Bytes::OfArray(Sibling(description)) => array_bytes(call, function, description.into()),
        Bytes::Untold => None,
    }
}

/// The bytes that a copy or a fill moves, where its arguments alone say it.
pub fn moved(call: &Call, function: &Function) -> Option<u64> {
    let argument = |Sibling(at)| call.argument_of(at.into());
    let extents = function.params.iter().filter_map(|param| match param.role {
        Role::Source(extent) | Role::Sink(extent) | Role::Writes(extent) | Role::Reads(extent) => Some(extent),
        _ => None,
    });
    let known = |extent| match extent {
        Extent::Len(bytes) => argument(bytes),
        Extent::Scaled(count, size) => Some(argument(count)?.saturating_mul(size.into())),
        Extent::Rect { width, height, element, .. } => {
            Some(argument(width)?.saturating_mul(argument(height)?).saturating_mul(element.into()))
        }
        _ => None,
    };
    extents.into_iter().find_map(known)
}

fn array_bytes(call: &Call, function: &Function, description: usize) -> Option<u64> {
    let Form::Pointer(ty) = function.params.get(description)?.ty.form else { return None };
    let Form::Struct(fields) = ty.form else { return None };
    let bytes = call.memory(When::Entry, call.argument_of(description)?, ty.size.into())?;
    let field = |name: &str| {
        let field = fields.iter().find(|field| field.name == name)?;
        load(&bytes, field.offset, field.ty.size)
    };
    let extent = ["Width", "Height", "Depth"].map(|name| field(name).unwrap_or(0).max(1));
    let element = element_bytes(CUarray_format(field("Format")? as u32), field("NumChannels")? as u32)?;
    extent.into_iter().try_fold(element, |product, n| product.checked_mul(n))
}
