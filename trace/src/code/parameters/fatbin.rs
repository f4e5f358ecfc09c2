//! Fatbins: their entries, the devices of each, and the entry that the driver would choose.
//!
//! ```text
//! fatbin  magic u32 | version u16 | header size u16 | body size u64 | entries
//! entry   kind u16 | version u16 | header size u32 | stored size u64 | compressed size u32 | options u32 |
//! PTX version u16 u16
//!         | sm u32 | name at u32 | name len u32 | flags u64 | zero u64 | plain size u64 | code
//! ```
//!
//! `fatbinary` of CUDA 11.8 to 13.0 writes this layout; headers of fatbins and entries may be longer.

use super::parameter::{Kernels, Unread};
use super::{cubin, lz4, ptx, zstd};
use crate::base::bytes::{u32_at, u64_at};
use crate::code::image::{Format, Read};

const HEADER: usize = 16;
const ENTRY: usize = 64;
const PTX: u16 = 1;
const ELF: u16 = 2;
const LZ4: u64 = 0x2000;
const ZSTD: u64 = 0x8000;
/// `sm_90a`: runs on this very architecture only, and is preferred there.
const SPECIFIC: u64 = 0x10_0000;
/// More entries than any fatbin has.
const ENTRIES: usize = 1 << 16;
/// The base version of what a driver compiles for, where nothing says what the device is.
const ANY: u32 = 75;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Ptx,
    Cubin,
    Else,
}

/// One piece of code.
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    kind: Kind,
    at: u64,
    len: usize,
    /// Compute capability, 90 for 9.0; 0 where it stands alone and is what it is.
    sm: u32,
    flags: u64,
    /// Size in bytes once it is decompressed.
    plain: u64,
    /// The device that parameters are laid out for.
    target: u32,
}

impl Entry {
    pub(super) fn cubin(at: u64, len: usize) -> Entry {
        Entry { kind: Kind::Cubin, at, len, sm: 0, flags: 0, plain: 0, target: 0 }
    }

    pub(super) fn text(at: u64, len: usize) -> Entry {
        Entry { kind: Kind::Ptx, ..Entry::cubin(at, len) }
    }

    pub(super) fn is_text(&self) -> bool {
        self.kind == Kind::Ptx
    }

    /// Whether the device can run it: machine code of its generation and no newer, or PTX that is no newer.
    pub(super) fn suits(&mut self, device: Option<u32>) -> bool {
        self.target = device.unwrap_or(self.sm.max(ANY));
        let Some(device) = device else { return self.kind != Kind::Else };
        match self.kind {
            Kind::Else => false,
            _ if self.sm == 0 => true,
            Kind::Cubin if self.flags & SPECIFIC != 0 => self.sm == device,
            Kind::Cubin => self.sm / 10 == device / 10 && self.sm <= device,
            Kind::Ptx => self.sm <= device,
        }
    }

    /// Greater is better.
    pub(super) fn preference(&self) -> (bool, u32, bool) {
        (self.kind == Kind::Cubin, self.sm, self.flags & SPECIFIC != 0)
    }

    /// The code, decompressed, and whether it is text.
    pub(crate) fn content(&self, read: Read) -> Result<(Vec<u8>, bool), Unread> {
        let stored = read(self.at, self.len).ok_or(Unread::Broken)?;
        let code = match (self.flags & LZ4 != 0, self.flags & ZSTD != 0) {
            (false, false) => stored,
            (true, _) => lz4::block(&stored, self.plain).ok_or(Unread::Broken)?,
            (false, true) => zstd::frame(&stored, self.plain)?,
        };
        match (self.kind, Format::detect(&code)) {
            (_, Format::Elf) => Ok((code, false)),
            (Kind::Ptx, _) => Ok((code, true)),
            _ => Err(Unread::Broken),
        }
    }

    /// Its kernels, and whether those are all.
    pub(super) fn kernels(&self, read: Read) -> Result<(Kernels, bool), Unread> {
        match self.content(read)? {
            (code, true) => ptx::kernels(&code, self.target),
            (code, false) => cubin::kernels(&code).ok_or(Unread::Broken),
        }
    }
}

/// Adds the entries of the fatbin at this address, of which no more than `len` bytes are read; false if it
/// ends in the midst of one.
pub(super) fn entries(address: u64, len: usize, read: Read, all: &mut Vec<Entry>) -> bool {
    let Some(header) = (len >= HEADER).then(|| read(address, HEADER)).flatten() else { return false };
    if Format::detect(&header) != Format::Fatbin {
        return false;
    }
    let first = u64::from(u16::from_le_bytes([header[6], header[7]]));
    let Some(end) = u64_at(&header, 8).checked_add(first) else { return false };
    let cut = end > len as u64;
    let end = end.min(len as u64);
    let mut at = first;
    while at < end && all.len() < ENTRIES {
        let Some(next) = entry(address, at, end, read, all) else { return false };
        at = next;
    }
    !cut
}

/// Where the next entry is, from the start of the fatbin.
fn entry(address: u64, at: u64, end: u64, read: Read, all: &mut Vec<Entry>) -> Option<u64> {
    let place = address.checked_add(at)?;
    let head = (end - at >= ENTRY as u64).then(|| read(place, ENTRY)).flatten()?;
    let short = |at: usize| u16::from_le_bytes([head[at], head[at + 1]]);
    let (header, stored, compressed) = (u64::from(u32_at(&head, 4)), u64_at(&head, 8), u64::from(u32_at(&head, 16)));
    let code = at.checked_add(header)?;
    let next = code.checked_add(stored)?;
    if header < ENTRY as u64 || next > end {
        return None;
    }
    let flags = u64_at(&head, 40);
    let len = if flags & (LZ4 | ZSTD) != 0 { compressed } else { stored };
    let kind = match short(0) {
        PTX => Kind::Ptx,
        ELF => Kind::Cubin,
        _ => Kind::Else,
    };
    all.push(Entry {
        kind,
        at: address.checked_add(code)?,
        len: usize::try_from(len.min(stored)).ok()?,
        sm: u32_at(&head, 28),
        flags,
        plain: u64_at(&head, 56),
        target: 0,
    });
    Some(next)
}
