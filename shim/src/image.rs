//! How long a module image is: the calls that load one carry no size, its own headers do.

use trace::segment::{u32_at, u64_at};

const WRAPPER: u32 = 0x4662_43b1;
const FATBIN: u32 = 0xba55_ed50;
const ELF: &[u8] = b"\x7fELF";
const ARCHIVE: &[u8] = b"!<arch>\n";
/// Longer text than this is not taken for PTX.
const TEXT_LIMIT: usize = 1 << 30;

/// Pieces of memory that make up an image.
pub enum Pieces {
    Found(Vec<(u64, usize)>),
    /// Why its extent cannot be known.
    Unknown(&'static str),
}

/// `read` gives memory at an address, or nothing where it cannot be read.
pub fn pieces(address: u64, read: &dyn Fn(u64, usize) -> Option<Vec<u8>>) -> Pieces {
    let Some(start) = read(address, 8) else { return Pieces::Unknown("a module image that cannot be read") };
    let magic = u32_at(&start, 0);
    let found = if magic == WRAPPER {
        wrapper(address, read)
    } else if magic == FATBIN {
        fatbin(address, read).map(|len| vec![(address, len)])
    } else if start.starts_with(ELF) {
        elf(address, read).map(|len| vec![(address, len)])
    } else if start == ARCHIVE {
        return Pieces::Unknown("a module image that is an archive, whose length nothing tells");
    } else {
        text(address, read).map(|len| vec![(address, len)])
    };
    found.map_or(Pieces::Unknown("a module image whose headers make no sense"), Pieces::Found)
}

/// `u32 magic, u32 version, data, more`: version 2 ends in a null-terminated array of further fatbins.
fn wrapper(address: u64, read: &dyn Fn(u64, usize) -> Option<Vec<u8>>) -> Option<Vec<(u64, usize)>> {
    let bytes = read(address, 24)?;
    let (version, data, mut more) = (u32_at(&bytes, 4), u64_at(&bytes, 8), u64_at(&bytes, 16));
    let mut all = vec![(address, 24), (data, fatbin(data, read)?)];
    while version == 2 && more != 0 && all.len() < 4096 {
        let next = u64_at(&read(more, 8)?, 0);
        all.push((more, 8));
        if next == 0 {
            break;
        }
        all.push((next, fatbin(next, read)?));
        more += 8;
    }
    Some(all)
}

/// `u32 magic, u16 version, u16 header size, u64 body size`.
fn fatbin(address: u64, read: &dyn Fn(u64, usize) -> Option<Vec<u8>>) -> Option<usize> {
    let bytes = read(address, 16)?;
    if u32_at(&bytes, 0) != FATBIN {
        return None;
    }
    let header = u16::from_le_bytes([bytes[6], bytes[7]]) as usize;
    header.checked_add(usize::try_from(u64_at(&bytes, 8)).ok()?)
}

/// The end of whatever lies last: program headers, section headers, or the content of either.
fn elf(address: u64, read: &dyn Fn(u64, usize) -> Option<Vec<u8>>) -> Option<usize> {
    let header = read(address, 64)?;
    let short = |at: usize| u16::from_le_bytes([header[at], header[at + 1]]) as u64;
    let (phoff, shoff) = (u64_at(&header, 32), u64_at(&header, 40));
    let (phsize, phcount, shsize, shcount) = (short(54), short(56), short(58), short(60));
    let mut end = 64u64.max(phoff + phsize * phcount).max(shoff + shsize * shcount);
    for i in 0..phcount {
        let segment = read(address + phoff + i * phsize, 56)?;
        end = end.max(u64_at(&segment, 8).checked_add(u64_at(&segment, 32))?);
    }
    const NOBITS: u32 = 8;
    for i in 0..shcount {
        let section = read(address + shoff + i * shsize, 64)?;
        if u32_at(&section, 4) != NOBITS {
            end = end.max(u64_at(&section, 24).checked_add(u64_at(&section, 32))?);
        }
    }
    usize::try_from(end).ok()
}

/// PTX: up to and including the NUL.
fn text(address: u64, read: &dyn Fn(u64, usize) -> Option<Vec<u8>>) -> Option<usize> {
    let mut len = 0;
    while len < TEXT_LIMIT {
        // Never past the page the text is known to reach.
        let at = address + len as u64;
        let step = 4096 - (at % 4096) as usize;
        let bytes = read(at, step)?;
        if let Some(nul) = bytes.iter().position(|b| *b == 0) {
            return Some(len + nul + 1);
        }
        len += step;
    }
    None
}
