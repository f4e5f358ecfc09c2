//! What an allocating call asks for: which kind of memory, where, and how much.

use super::ledger::Side;
use crate::report::walk::Step;
use std::mem::offset_of;
use trace::api::copies::element_bytes;
use trace::api::enums::CUarray_format;
use trace::api::structs::{CUmemAllocationProp, CUmemLocation};
use trace::api::types::Form;
use trace::call::When;

/// The kind of memory that a call gets, and where.
pub fn place(step: &Step) -> (&'static str, Side) {
    let device = || Side::Device(step.contexts.device_of_allocation(&step.call));
    let line = step.line();
    match line {
        "cuMemAllocManaged" => ("managed", device()),
        "cuMemAllocAsync" | "cuMemAllocFromPoolAsync" => ("pool", device()),
        "cuMemCreate" => ("virtual", Side::Device(physical_device(step).unwrap_or(0))),
        _ if line.starts_with("cuMemHostRegister") => ("registered", Side::Host),
        _ if line.starts_with("cuMemAllocHost") || line.starts_with("cuMemHostAlloc") => ("pinned", Side::Host),
        _ if line.starts_with("cuArray") || line.starts_with("cuMipmapped") => ("array", device()),
        _ => ("device", device()),
    }
}

/// The device of a CUmemAllocationProp.
fn physical_device(step: &Step) -> Option<i32> {
    let at = offset_of!(CUmemAllocationProp, location) + offset_of!(CUmemLocation, id);
    let bytes = step.call.memory(When::Entry, step.call.argument("prop")?.checked_add(at as u64)?, 4)?;
    Some(i32::from_le_bytes(bytes.as_ref().try_into().ok()?))
}

/// The bytes that an allocating call asks for.
pub fn asked(step: &Step) -> Option<u64> {
    let argument = |name| step.call.argument(name);
    let plain = argument("bytesize").or_else(|| argument("size"));
    plain.or_else(|| argument("WidthInBytes")?.checked_mul(argument("Height")?))
}

/// Bytes of an array's elements; of mipmapped arrays, of the first level. None where elements have no size of their own.
pub fn array_bytes(step: &Step) -> Option<u64> {
    let param = step.function?.params.iter().find(|p| p.name.contains("Desc") || p.name == "pAllocateArray")?;
    let (Form::Pointer(ty), address) = (param.ty.form, step.call.argument(param.name)?) else { return None };
    let Form::Struct(fields) = ty.form else { return None };
    let bytes = step.call.memory(When::Entry, address, ty.size.into())?;
    let field = |name: &str| {
        let field = fields.iter().find(|field| field.name == name)?;
        let mut word = [0; 8];
        let size = field.ty.size.min(8) as usize;
        word[..size].copy_from_slice(bytes.get(field.offset as usize..)?.get(..size)?);
        Some(u64::from_le_bytes(word))
    };
    let extent = ["Width", "Height", "Depth"].map(|name| field(name).unwrap_or(0).max(1));
    let element = element_bytes(CUarray_format(field("Format")? as u32), field("NumChannels")? as u32)?;
    extent.into_iter().try_fold(element, |product, n| product.checked_mul(n))
}
