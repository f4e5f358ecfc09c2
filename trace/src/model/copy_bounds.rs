//! Copies and fills that exceed the memory they name, which the driver refuses without saying why.

use crate::api::copies::{device_region, region};
use crate::api::enums::CUresult;
use crate::api::roles::{Field, Role, Sibling, Side};
use crate::api::types::Form;
use crate::api::walk::{self, Target, View};
use crate::base::bytes::u64_at;
use crate::model::objects::Objects;
use crate::read::call::{Call, When};

/// What a failed call was given that its memory does not hold: `4000 bytes into the 1000 of mem#1`. Empty
/// where all fits, and where the failure says that something else was wrong.
pub fn misfits(call: &Call, objects: &Objects) -> Vec<String> {
    if call.result != Some(CUresult::CUDA_ERROR_INVALID_VALUE.0) {
        return Vec::new();
    }
    let all = touched(call);
    all.into_iter().filter_map(|(address, len, side)| misfit(address, len, side, objects)).collect()
}

/// Of `len` bytes that are copied out of memory at this address, or into it.
pub fn misfit(address: u64, len: u64, side: Side, objects: &Objects) -> Option<String> {
    let range = objects.range(address)?;
    let (skipped, rest) = (address - range.base, range.len.saturating_sub(address - range.base));
    let way = if side == Side::Source { "from" } else { "into" };
    let place = match skipped {
        0 => format!("{}#{}", range.label, range.number),
        _ => format!("{}#{}+{skipped:#x}", range.label, range.number),
    };
    (len > rest).then(|| format!("{len} bytes {way} {place}, which has {rest}"))
}

/// Pieces of memory that the call copies or fills: address, bytes, and which side of a copy it is.
fn touched(call: &Call) -> Vec<(u64, u64, Side)> {
    let Some(function) = call.function() else { return Vec::new() };
    let view = Words { call };
    let list = |name: &str, count: u64| -> Option<Vec<u64>> {
        let bytes = call.memory(When::Entry, call.argument(name)?, count.checked_mul(8)?)?;
        Some(bytes.chunks_exact(8).map(|word| u64_at(word, 0)).collect())
    };
    let name = |at: Sibling| function.params[at.0 as usize].name;
    let mut all = Vec::new();
    for (index, param) in function.params.iter().enumerate() {
        match param.role {
            Role::Reads(_) | Role::Writes(_) | Role::Source(_) | Role::Sink(_) => {
                let side = if matches!(param.role, Role::Reads(_) | Role::Source(_)) {
                    Side::Source
                } else {
                    Side::Destination
                };
                let len = walk::reach(function.params, index, 0, &view);
                all.extend(call.argument(param.name).zip(len).map(|(address, len)| (address, len, side)));
            }
            Role::ReadsEach { count, sizes } | Role::WritesEach { count, sizes } => {
                let side = if matches!(param.role, Role::ReadsEach { .. }) { Side::Source } else { Side::Destination };
                let count = call.argument(name(count)).unwrap_or(0);
                let each = list(param.name, count).zip(list(name(sizes), count));
                all.extend(
                    each.into_iter().flat_map(|(at, sizes)| at.into_iter().zip(sizes)).map(|(a, l)| (a, l, side)),
                );
            }
            _ => described(call, function.params, index, &view, &mut all),
        }
    }
    all
}

/// By a descriptor, or several.
fn described(call: &Call, params: &'static [Field], index: usize, view: &Words, all: &mut Vec<(u64, u64, Side)>) {
    let Form::Pointer(to) = params[index].ty.form else { return };
    let (Form::Struct(_), Target::Span { address, element, count, .. }) =
        (to.form, walk::resolve(params, index, 0, view))
    else {
        return;
    };
    let len = count.checked_mul(element.size.into()).filter(|len| *len > 0);
    let Some(bytes) = len.and_then(|len| call.memory(When::Entry, address, len)) else { return };
    for one in bytes.chunks_exact(element.size as usize) {
        for side in [Side::Source, Side::Destination] {
            let region = device_region(element, one, side).or_else(|| region(element, one, side, |_| None));
            all.extend(region.map(|region| (region.address, region.span(), side)));
        }
    }
}

/// The call's argument words, and the memory that it saw.
struct Words<'c, 't> {
    call: &'c Call<'t>,
}

impl View for Words<'_, '_> {
    fn load(&self, offset: u32, size: u32) -> Option<u64> {
        word(self.call.argument_bytes().get(offset as usize..)?.get(..size as usize)?)
    }

    fn read_word(&self, address: u64, size: u32) -> Option<u64> {
        word(&self.call.memory(When::Entry, address, size.into())?)
    }
}

fn word(bytes: &[u8]) -> Option<u64> {
    let mut value = [0; 8];
    value.get_mut(..bytes.len())?.copy_from_slice(bytes);
    Some(u64::from_le_bytes(value))
}
