//! Machine code: the section `.text.<kernel>` of a cubin, instructions of 16 bytes (devices from 7.0 on).
//!
//! The encodings are those that ptxas 12.9 produces for 7.5, 8.0, 9.0, 10.0 and 12.0, as nvdisasm 13.5 shows
//! them (trace/tests/images/varying):
//!
//! ```text
//! bits 0-11   operation   0x805 CS2R, 0x919 S2R, 0x9c3 S2UR: a special register is read
//! bits 0-8    operation   0x18a ATOM, 0x1a8 ATOMG, 0x18c ATOMS; with .CAS 0x18b, 0x1a9, 0x18d
//!                         0x1a2 ATOM, 0x1a3 ATOMG of floating-point numbers (from 9.0 on)
//!                         0x18e RED, 0x1a6 REDG of floating-point numbers (from 9.0 on)
//! bits 16-23  the register that is filled; 255 for none
//! bits 72-79  S2R...: which special register. 80 and 81 CLOCK, 82 and 83 GLOBALTIMER
//! bits 73-75  ATOM..., RED: 3 for .F32, 4 for .F16x2, 6 for .F64
//! bits 87-89  ATOM..., RED: 0 for .ADD
//! ```
//!
//! Functions that were not inlined, device malloc among them, have sections of their own, which are not
//! searched.

use super::Cause;
use crate::base::bytes::{u32_at, u64_at};
use crate::code::parameters::cubin::Sections;
use std::collections::{BTreeSet, HashMap};

const INSTRUCTION: usize = 16;
/// In `e_flags` of the older form of cubins the low byte is the device, in the newer one the byte behind it.
const OLDEST: u32 = 70;
const NEWEST: u32 = 129;
const NONE: u64 = 255;

/// A cubin's kernels.
pub(super) struct Machine<'f> {
    /// By name.
    code: HashMap<&'f [u8], &'f [u8]>,
    /// How many bytes may still be looked at.
    budget: usize,
}

impl<'f> Machine<'f> {
    /// None if it is no cubin, or for a device whose instructions are others.
    pub(super) fn parse(file: &'f [u8]) -> Option<Machine<'f>> {
        let sections = Sections::parse(file)?;
        let flags = u32_at(file, 48);
        // Which form it is is told by the ABI version.
        let sm = if file[8] < 8 { flags & 0xff } else { flags >> 8 & 0xff };
        if !(OLDEST..=NEWEST).contains(&sm) {
            return None;
        }
        // Names and sections may lie over one another: all of them together are no larger than the file where
        // it is honest.
        let mut machine = Machine { code: HashMap::new(), budget: file.len() };
        for header in (1..sections.count).map_while(|index| sections.header(index)) {
            let Some(name) = sections.name_after(header, b".text.") else { continue };
            machine.budget = machine.budget.checked_sub(name.len())?;
            if let Some(code) = sections.content(header) {
                machine.code.entry(name).or_insert(code);
            }
        }
        Some(machine)
    }

    pub(super) fn names(&self) -> Vec<&'f [u8]> {
        self.code.keys().copied().collect()
    }

    /// None if there is no such kernel.
    pub(super) fn causes(&mut self, kernel: &str) -> Option<BTreeSet<Cause>> {
        let code = self.code.get(kernel.as_bytes())?;
        self.budget = self.budget.checked_sub(code.len())?;
        Some(code.chunks_exact(INSTRUCTION).filter_map(cause).flatten().collect())
    }
}

/// Sections for variables, or what the heap is asked for; also where that cannot be told.
pub(super) fn has_variables(file: &[u8]) -> bool {
    const HEAP: &[u8] = b"\0malloc\0";
    let Some(sections) = Sections::parse(file) else { return true };
    let names = [&b".nv.global"[..], b".nv.constant3", b".nv.constant4", b".nv.managed", b".bss"];
    let is_of_variables = |index| {
        let header = sections.header(index);
        header.is_none_or(|header| names.iter().any(|name| sections.name_after(header, name).is_some()))
    };
    (1..sections.count).any(is_of_variables) || file.windows(HEAP.len()).any(|window| window == HEAP)
}

fn cause(instruction: &[u8]) -> Option<impl Iterator<Item = Cause>> {
    let (low, high) = (u64_at(instruction, 0), u64_at(instruction, 8));
    let fills = low >> 16 & 0xff != NONE;
    let adds = high >> 23 & 7 == 0;
    let is_float = matches!(high >> 9 & 7, 3 | 4 | 6);
    if matches!(low & 0xfff, 0x805 | 0x919 | 0x9c3) {
        let is_clock = (80..=83).contains(&(high >> 8 & 0xff));
        return Some(is_clock.then_some(Cause::Clock).into_iter().chain(None));
    }
    let (adds_floats, gives) = match low & 0x1ff {
        0x1a2 | 0x1a3 => (adds, fills),
        0x18a | 0x1a8 => (adds && is_float, fills),
        0x18b..=0x18d | 0x1a9 => (false, fills),
        0x18e => (adds && is_float, false),
        0x1a6 => (adds, false),
        _ => return None,
    };
    let first = adds_floats.then_some(Cause::FloatAtomic);
    let second = gives.then_some(Cause::AtomicResult);
    Some(first.into_iter().chain(second))
}
