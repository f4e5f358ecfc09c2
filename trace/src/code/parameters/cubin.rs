//! Cubins: an ELF file's `.nv.info.<kernel>` sections.
//!
//! Each record has 4 bytes, `format u8, attribute u8, value u16`, and in one format VALUE further bytes. The
//! layout comes from public readers (RWTH-ACS/cricket, cpu/cpu-elf2.c) and from the output of ptxas 12.9 and
//! 13.0:
//!
//! ```text
//! 0x17 KPARAM_INFO     index u32 | ordinal u16 | offset u16 | pointee alignment :8, space :4, bank :6, size
//! :14
//! 0x45 KPARAM_INFO_V2  index u32 | ordinal u16 | offset u16 | size u16 | pointee alignment :8, space :4
//! ```
//!
//! The second kind is used for all parameters of a kernel if one of them does not fit the first. Only
//! pointers have a space: 4 is global, 5 generic.

use super::parameter::{Kernels, MOST_BYTES, Parameter};
use crate::base::bytes::{u32_at, u64_at};
use std::collections::BTreeSet;

const PREFIX: &[u8] = b".nv.info.";
const SECTION: usize = 64;
const SYMBOL: usize = 24;
const SYMBOLS: u32 = 2;
const FUNCTION: u8 = 2;
/// In a symbol's `st_other` (cricket's STO_CUDA_ENTRY).
const CUDA_ENTRY: u8 = 0x10;
const CLASS_64: u8 = 2;
const LITTLE_ENDIAN: u8 = 1;
const MACHINE_CUDA: u16 = 190;
const SIZED: u8 = 4;
/// The formats whose value is all there is.
const UNSIZED: std::ops::RangeInclusive<u8> = 1..=3;
const KPARAM_INFO: u8 = 0x17;
const KPARAM_INFO_V2: u8 = 0x45;
const RECORD: usize = 12;
/// Section indices from here on stand elsewhere (ELF's SHN_LORESERVE).
const RESERVED: u64 = 0xff00;

/// The sections of a cubin.
pub(crate) struct Sections<'f> {
    file: &'f [u8],
    first: u64,
    pub(crate) count: u64,
    names: &'f [u8],
}

impl<'f> Sections<'f> {
    /// None: no cubin.
    pub(crate) fn parse(file: &'f [u8]) -> Option<Sections<'f>> {
        let header = file.get(..64)?;
        let short = |at: usize| u16::from_le_bytes([header[at], header[at + 1]]);
        if header[4] != CLASS_64 || header[5] != LITTLE_ENDIAN || short(18) != MACHINE_CUDA {
            return None;
        }
        let first = u64_at(header, 40);
        if usize::from(short(58)) != SECTION || first == 0 {
            return None;
        }
        let mut sections = Sections { file, first, count: u64::from(short(60)), names: &[] };
        let mut names = u64::from(short(62));
        // Where there are too many for these fields, the first section has the numbers.
        let zeroth = sections.header(0)?;
        if sections.count == 0 {
            sections.count = u64_at(zeroth, 32);
        }
        if names >= RESERVED {
            names = u32_at(zeroth, 40).into();
        }
        sections.names = sections.content(sections.header(names)?)?;
        Some(sections)
    }

    pub(crate) fn header(&self, index: u64) -> Option<&'f [u8]> {
        let at = usize::try_from(self.first.checked_add(index.checked_mul(SECTION as u64)?)?).ok()?;
        self.file.get(at..at.checked_add(SECTION)?)
    }

    pub(crate) fn content(&self, header: &[u8]) -> Option<&'f [u8]> {
        let at = usize::try_from(u64_at(header, 24)).ok()?;
        self.file.get(at..at.checked_add(usize::try_from(u64_at(header, 32)).ok()?)?)
    }

    /// What follows the prefix in a section's name.
    pub(crate) fn name_after(&self, header: &[u8], prefix: &[u8]) -> Option<&'f [u8]> {
        let name = self.names.get(u32_at(header, 0) as usize..)?.strip_prefix(prefix)?;
        name.split(|byte| *byte == 0).next()
    }
}

/// All kernels, and whether each of them was readable. None: no cubin.
pub(super) fn kernels(file: &[u8]) -> Option<(Kernels, bool)> {
    let sections = Sections::parse(file)?;
    let mut symbols = None;
    for index in 1..sections.count {
        let section = sections.header(index)?;
        if u32_at(section, 4) == SYMBOLS {
            symbols = sections.content(section);
            break;
        }
    }
    let entries = symbols.and_then(entries);

    let (mut kernels, mut whole) = (Kernels::new(), true);
    // Sections may lie over one another: all of them together are no larger than the file where it is honest.
    let mut budget = file.len();
    for index in 1..sections.count {
        let section = sections.header(index)?;
        let Some(name) = sections.name_after(section, PREFIX) else { continue };
        budget = budget.checked_sub(name.len())?;
        // The section that these are about. Device functions have information, too.
        if entries.as_ref().is_some_and(|entries| !entries.contains(&u32_at(section, 44))) {
            continue;
        }
        let Some(info) = sections.content(section) else {
            whole = false;
            continue;
        };
        budget = budget.checked_sub(info.len())?;
        match parameters(info) {
            Some(parameters) => {
                kernels.insert(String::from_utf8_lossy(name).into_owned(), parameters);
            }
            None => whole = false,
        }
    }
    Some((kernels, whole))
}

/// The sections in which kernels begin; none where a symbol does not tell its section.
fn entries(symbols: &[u8]) -> Option<BTreeSet<u32>> {
    let is_entry = |symbol: &&[u8]| symbol[4] & 15 == FUNCTION && symbol[5] & CUDA_ENTRY != 0;
    symbols
        .chunks_exact(SYMBOL)
        .filter(is_entry)
        .map(|symbol| {
            let section = u16::from_le_bytes([symbol[6], symbol[7]]);
            (u64::from(section) < RESERVED).then_some(section.into())
        })
        .collect()
}

/// By ordinal; none if a record is cut, or an ordinal missing or there twice.
fn parameters(mut info: &[u8]) -> Option<Vec<Parameter>> {
    let mut found: Vec<(u16, u32, u32, u32)> = Vec::new();
    while let [format, attribute, low, high, rest @ ..] = info {
        let value = usize::from(u16::from_le_bytes([*low, *high]));
        let (payload, after) = match *format {
            SIZED => rest.split_at_checked(value)?,
            format if UNSIZED.contains(&format) => (&[][..], rest),
            _ => return None,
        };
        info = after;
        if !matches!(*attribute, KPARAM_INFO | KPARAM_INFO_V2) || *format != SIZED {
            continue;
        }
        let record = payload.get(..RECORD)?;
        let (place, word) = (u32_at(record, 4), u32_at(record, 8));
        let (size, space) = match *attribute {
            KPARAM_INFO => (word >> 18, word >> 8 & 15),
            _ => (word & 0xffff, word >> 24 & 15),
        };
        found.push((place as u16, place >> 16, size, space));
    }
    found.sort_unstable();
    let in_order = found
        .iter()
        .enumerate()
        .all(|(i, (ordinal, offset, size, _))| usize::from(*ordinal) == i && offset + size <= MOST_BYTES);
    let parameter = |(_, offset, size, space): (_, _, u32, _)| {
        let is_pointer = if space != 0 { Some(true) } else { (size < 8).then_some(false) };
        Parameter { offset, size, is_pointer, element: None }
    };
    (info.is_empty() && in_order).then(|| found.into_iter().map(parameter).collect())
}
