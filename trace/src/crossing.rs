//! What crosses processes: calls that hand something out for other processes to use, and calls by which a
//! process uses what another has handed out. Both are told by the same bytes, which the program passes on.

use crate::api::Function;
use crate::api::effect::{Effect, Memory};
use crate::api::roles::{Field, Role};
use crate::api::structs::{CUipcEventHandle, CUipcMemHandle};
use crate::api::types::{Form, Typed};
use crate::call::Call;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum What {
    /// Device memory, by the address of its allocation.
    Memory,
    Event,
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
    let found = function.params.iter().find_map(|param| Some((param, what(param)?)));
    match found {
        Some((param, what)) if matches!(param.role, Role::Volatile(_)) => Some(Crossing::Exports(what)),
        Some((_, what)) => Some(Crossing::Imports(what)),
        None => (function.effect == Effect::Free(Memory::Imported) && function.family == "memory")
            .then_some(Crossing::Closes),
    }
}

fn what(param: &Field) -> Option<What> {
    let name = match param.ty.form {
        Form::Pointer(to) => to.name,
        _ => param.ty.name,
    };
    match name {
        name if name == CUipcMemHandle::TYPE.name => Some(What::Memory),
        name if name == CUipcEventHandle::TYPE.name => Some(What::Event),
        _ => None,
    }
}

/// The bytes by which a call that exports or imports names what it is about.
pub fn bytes(call: &Call, function: &Function) -> Option<Vec<u8>> {
    let param = function.params.iter().find(|param| what(param).is_some())?;
    match param.ty.form {
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
            ]
        );
    }
}
