//! Shared handles: calls that export an object for other processes, and calls that open another process's
//! export. Both are matched by their bytes, which the program passes on.

use crate::api::Function;
use crate::api::effect::{Effect, Memory};
use crate::api::roles::{Field, Role};
use crate::api::structs::{CUipcEventHandle, CUipcMemHandle, CUmemPoolPtrExportData};
use crate::api::types::{Form, Kind, Type, Typed};
use crate::file::record::Passed;
use crate::read::call::{Call, When};
use crate::read::reader::Trace;

/// The kind of a shared object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum What {
    /// Device memory, by the address of its allocation.
    Memory,
    /// An event.
    Event,
    /// Physical memory, and a pool, by a descriptor.
    Physical,
    /// A memory pool, by a descriptor.
    Pool,
}

/// The direction in which a call passes an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Crossing {
    /// The call hands out a handle for other processes.
    Exports(What),
    /// The call opens a handle of another process.
    Imports(What),
    /// Memory of another process is given up.
    Closes,
}

/// The key under which the preamble says that what imported memory held when it was used was to be kept.
pub const KEPT: &str = "shared memory";

impl Trace {
    /// Whether what memory of other processes held when this one used it was to be kept.
    pub fn keeps_shared_memory(&self) -> bool {
        self.preamble.more.iter().any(|(key, _)| key == KEPT)
    }
}

/// Of a function; none of one that stays within the process.
pub fn crossing_of(function: &Function) -> Option<Crossing> {
    let direction = |is_exported, what| if is_exported { Crossing::Exports(what) } else { Crossing::Imports(what) };
    if let Some((_, _, is_exported)) = function.descriptor() {
        let is_of_pool = function.handle(Kind::MemoryPool).or(function.creates(Kind::MemoryPool)).is_some();
        return Some(direction(is_exported, if is_of_pool { What::Pool } else { What::Physical }));
    }
    if let Some((param, what)) = struct_that_tells(function) {
        return Some(direction(matches!(param.role, Role::Volatile(_)), what));
    }
    // Memory of other interfaces ends by a handle.
    let is_by_address = matches!(function.params, [only] if matches!(only.ty.form, Form::Address));
    (function.effect == Effect::Free(Memory::Imported) && is_by_address).then_some(Crossing::Closes)
}

/// Whether a call hands something out for other processes to use.
pub fn exports(call: &Call) -> bool {
    matches!(call.function().and_then(crossing_of), Some(Crossing::Exports(_)))
}

/// The parameter whose bytes tell what it is about, where that is no descriptor.
fn struct_that_tells(function: &Function) -> Option<(&'static Field, What)> {
    function.params.iter().find_map(|param| {
        let ty = if let Form::Pointer(to) = param.ty.form { to } else { param.ty };
        let is = |of: &Type| ty.name == of.name;
        let is_memorys = is(CUipcMemHandle::TYPE) || is(CUmemPoolPtrExportData::TYPE);
        let what = if is_memorys { Some(What::Memory) } else { is(CUipcEventHandle::TYPE).then_some(What::Event) };
        Some((param, what?))
    })
}

/// The address of memory that a call exports.
pub fn exported_address(call: &Call, function: &Function) -> Option<u64> {
    let is_address = |param: &Field| matches!(param.ty.form, Form::Address);
    call.argument_of(function.params.iter().position(is_address)?)
}

/// The bytes by which a call that exports or imports names what it is about: its handle's, or what tells the
/// open file behind its descriptor. None where that was not recorded.
pub fn bytes(call: &Call, function: &Function) -> Option<Vec<u8>> {
    if function.descriptor().is_some() {
        let Passed { owner, signal, device, inode, .. } = *call.passed()?;
        let (marks, file) = ([owner, signal].map(i32::to_le_bytes), [device, inode].map(u64::to_le_bytes));
        return Some([marks.concat(), file.concat()].concat());
    }
    let (param, _) = struct_that_tells(function)?;
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
        let all = FUNCTIONS.iter().filter_map(|function| Some((function.name, crossing_of(function)?)));
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
