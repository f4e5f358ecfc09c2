//! The words that a call passes to the device, before the driver has seen the call: any of them may be bad.

use crate::os::probe::{bytes_at, gathered};
use crate::records::lane::Lane;
use crate::submission::copy_endpoints::Words;
use crate::submission::readable::Readable;
use crate::submission::shape::Launch;
use std::borrow::Cow;
use trace::Function;
use trace::api::extra::Extra;
use trace::api::roles::Role;
use trace::api::types::Form;
use trace::api::walk::{Target, resolve};

/// Those of a launch's arguments that are wanted; none if nobody can tell which its arguments are.
pub(crate) fn of_launch(
    lane: &Lane,
    launch: Launch,
    words: &[u64],
    is_wanted: impl Fn(u64) -> bool,
) -> Option<Vec<u64>> {
    let (array, extra) = (words[launch.arguments as usize], words[launch.extra as usize]);
    let readable = Readable::here(lane);
    if array == 0 {
        let is_packed = launch.extra != 0 && extra != 0;
        let packed = if is_packed { packed(&readable, extra) } else { Cow::default() };
        return Some(all(&packed).filter(|word| is_wanted(*word)).collect());
    }
    // A handle that nobody is known to have been given may be anything, and the driver may not survive being
    // asked about it.
    let layout = lane.layout_before_launch(words[launch.function as usize])?;
    let sizes = layout.sizes.as_ref()?;
    let pointers = readable.bytes(array, sizes.len() * 8)?;
    let (mut found, mut elsewhere) = (Vec::new(), Vec::new());
    for (pointer, size) in all(&pointers).zip(sizes).filter(|(_, size)| **size >= 8) {
        match readable.at_once(pointer, *size as usize) {
            Some(bytes) => found.extend(all(bytes).filter(|word| is_wanted(*word))),
            None => elsewhere.push((pointer, *size as usize / 8 * 8)),
        }
    }
    // What cannot be read is the driver's to find out.
    let read = if elsewhere.is_empty() { None } else { gathered(&elsewhere) };
    found.extend(read.iter().flat_map(|bytes| all(bytes)).filter(|word| is_wanted(*word)));
    Some(found)
}

/// Of other work: its arguments, and what stands in the structs and lists that it is given.
pub(crate) fn of_work(function: &'static Function, words: &[u64]) -> Vec<u64> {
    /// More describes no copy.
    const MOST: usize = 1 << 16;
    let given = function.params.iter().enumerate().filter_map(|(index, param)| {
        let is_read =
            matches!(param.role, Role::In(_) | Role::InOut(_) | Role::ReadsEach { .. } | Role::WritesEach { .. });
        if !is_read || !matches!(param.ty.form, Form::Pointer(_)) {
            return None;
        }
        let Target::Span { address, element, count, .. } = resolve(function.params, index, 0, &Words(words)) else {
            return None;
        };
        let bytes = (count as usize).checked_mul(element.size as usize).filter(|bytes| *bytes <= MOST)?;
        bytes_at(address, bytes, true)
    });
    words.iter().copied().chain(given.flat_map(|bytes| all(&bytes).collect::<Vec<_>>())).collect()
}

fn all(bytes: &[u8]) -> impl Iterator<Item = u64> + use<'_> {
    bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().expect("8 bytes")))
}

fn packed(readable: &Readable, extra: u64) -> Cow<'static, [u8]> {
    let word_at = |at| readable.bytes(at, 8).and_then(|bytes| all(&bytes).next());
    let extra = Extra::read(extra, word_at);
    let size = extra.size_at().and_then(word_at).unwrap_or(0).min(1 << 16);
    extra.buffer().and_then(|at| readable.bytes(at, size as usize)).unwrap_or_default()
}
