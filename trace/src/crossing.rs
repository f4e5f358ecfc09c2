//! What crosses processes: calls that hand something out for other processes to use, and calls by which a
//! process uses what another has handed out. Both are told by the same bytes, which the program passes on.

use crate::api::Function;
use crate::api::effect::{Effect, Memory};
use crate::api::roles::{Field, Role};
use crate::api::structs::{CUipcEventHandle, CUipcMemHandle, CUmemPoolPtrExportData};
use crate::api::types::{Form, Kind, Type, Typed};
use crate::call::{Call, When};
use crate::record::Passed;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum What {
    /// Device memory, by the address of its allocation.
    Memory,
    Event,
    /// Physical memory, and a pool, by a descriptor.
    Physical,
    Pool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Crossing {
    Exports(What),
    Imports(What),
    /// Memory of another process is given up.
    Closes,
}

/// Of a function; none of one that stays within the process.
pub fn of(function: &Function) -> Option<Crossing> {
    let found = function.params.iter().find_map(|param| Some((param, what(function, param)?)));
    match found {
        Some((param, what)) if matches!(param.role, Role::Volatile(_) | Role::AttributeOut(..)) => {
            Some(Crossing::Exports(what))
        }
        Some((_, what)) => Some(Crossing::Imports(what)),
        None => (function.effect == Effect::Free(Memory::Imported) && function.family == "memory")
            .then_some(Crossing::Closes),
    }
}

fn what(function: &Function, param: &Field) -> Option<What> {
    if let Role::AttributeOut(_, types) | Role::AttributeIn(_, types) = param.role {
        let is_of_pool = function.handle(Kind::MemoryPool).or(function.creates(Kind::MemoryPool)).is_some();
        let what = if is_of_pool { What::Pool } else { What::Physical };
        return types.iter().any(|(_, ty)| is_descriptor(ty)).then_some(what);
    }
    let name = match param.ty.form {
        Form::Pointer(to) => to.name,
        _ => param.ty.name,
    };
    match name {
        name if name == CUipcMemHandle::TYPE.name => Some(What::Memory),
        name if name == CUmemPoolPtrExportData::TYPE.name => Some(What::Memory),
        name if name == CUipcEventHandle::TYPE.name => Some(What::Event),
        _ => None,
    }
}

fn is_descriptor(ty: &Type) -> bool {
    matches!(ty.form, Form::Handle(Kind::Shareable))
}

/// The address of memory that a call exports.
pub fn exported_address(call: &Call, function: &Function) -> Option<u64> {
    let is_address = |param: &Field| matches!(param.ty.form, Form::Address);
    call.argument_of(function.params.iter().position(is_address)?)
}

/// The bytes by which a call that exports or imports names what it is about: its handle's, or what tells the
/// open file behind its descriptor. None where that was not recorded.
pub fn bytes(call: &Call, function: &Function) -> Option<Vec<u8>> {
    let (param, what) = function.params.iter().find_map(|param| Some((param, what(function, param)?)))?;
    if matches!(what, What::Physical | What::Pool) {
        let Passed { owner, signal, device, inode, .. } = *call.passed()?;
        let (marks, file) = ([owner, signal].map(i32::to_le_bytes), [device, inode].map(u64::to_le_bytes));
        return Some([marks.concat(), file.concat()].concat());
    }
    match param.ty.form {
        // What an importing call is given stands there when it is entered.
        Form::Pointer(to) if matches!(param.role, Role::In(_)) => {
            Some(call.memory(When::Entry, call.argument(param.name)?, to.size.into())?.into_owned())
        }
        Form::Pointer(to) => Some(call.output_at(call.argument(param.name)?, to.size.into())?.into_owned()),
        _ => {
            let at = param.offset as usize;
            call.argument_bytes().get(at..at + param.ty.size as usize).map(<[u8]>::to_vec)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::FUNCTIONS;

    #[test]
    fn functions_that_cross() {
        let all = FUNCTIONS.iter().filter_map(|function| Some((function.name, of(function)?)));
        let mut all: Vec<(&str, Crossing)> = all.collect();
        all.sort_unstable_by_key(|(name, _)| *name);
        assert_eq!(
            all,
            [
                ("cuIpcCloseMemHandle", Crossing::Closes),
                ("cuIpcGetEventHandle", Crossing::Exports(What::Event)),
                ("cuIpcGetMemHandle", Crossing::Exports(What::Memory)),
                ("cuIpcOpenEventHandle", Crossing::Imports(What::Event)),
                ("cuIpcOpenMemHandle", Crossing::Imports(What::Memory)),
                ("cuIpcOpenMemHandle_v2", Crossing::Imports(What::Memory)),
                ("cuMemExportToShareableHandle", Crossing::Exports(What::Physical)),
                ("cuMemImportFromShareableHandle", Crossing::Imports(What::Physical)),
                ("cuMemPoolExportPointer", Crossing::Exports(What::Memory)),
                ("cuMemPoolExportToShareableHandle", Crossing::Exports(What::Pool)),
                ("cuMemPoolImportFromShareableHandle", Crossing::Imports(What::Pool)),
                ("cuMemPoolImportPointer", Crossing::Imports(What::Memory)),
            ]
        );
    }
}
