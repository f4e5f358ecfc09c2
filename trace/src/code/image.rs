//! The format and length of a module image: its headers give both, because a load call passes no size.

use crate::base::bytes::{u32_at, u64_at};

const WRAPPER: u32 = 0x4662_43b1;
const FATBIN: u32 = 0xba55_ed50;
const ELF: &[u8] = b"\x7fELF";
const ARCHIVE: &[u8] = b"!<arch>\n";
/// Longer text than this is not taken for PTX.
const TEXT_LIMIT: usize = 1 << 30;
/// More fatbins than any wrapper lists.
const FATBINS: usize = 4096;

/// Form of a module image, by its first bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Points to fatbins.
    Wrapper,
    /// A fatbin: a header, and code for several architectures behind it.
    Fatbin,
    /// A cubin.
    Elf,
    /// An `ar` archive, as nvcc makes of relocatable code.
    Archive,
    /// PTX, or anything else that ends with a NUL.
    Text,
}

impl Format {
    /// By the first bytes, of which 8 are enough.
    pub fn detect(start: &[u8]) -> Format {
        match start {
            _ if magic(start) == Some(WRAPPER) => Format::Wrapper,
            _ if magic(start) == Some(FATBIN) => Format::Fatbin,
            _ if start.starts_with(ELF) => Format::Elf,
            _ if start.starts_with(ARCHIVE) => Format::Archive,
            _ => Format::Text,
        }
    }
}

fn magic(start: &[u8]) -> Option<u32> {
    (start.len() >= 4).then(|| u32_at(start, 0))
}

/// `u32 magic, u32 version, data, more`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wrapper {
    /// 1 or 2.
    pub version: u32,
    /// Address of a fatbin.
    pub data: u64,
    /// Version 2: address of a null-terminated array of addresses of further fatbins. Else a file's name, or
    /// nothing.
    pub more: u64,
}

impl Wrapper {
    /// Bytes of a wrapper in memory.
    pub const SIZE: usize = 24;
    /// Where the addresses stand.
    pub const DATA_AT: usize = 8;
    /// Offset of `more`.
    pub const MORE_AT: usize = 16;

    /// None if the bytes are no wrapper.
    pub fn decode(bytes: &[u8]) -> Option<Wrapper> {
        let bytes = bytes.get(..Wrapper::SIZE).filter(|bytes| magic(bytes) == Some(WRAPPER))?;
        let address = |at| u64_at(bytes, at);
        Some(Wrapper { version: u32_at(bytes, 4), data: address(Wrapper::DATA_AT), more: address(Wrapper::MORE_AT) })
    }

    /// Whether a wrapper of a known version may begin with these 8 bytes.
    pub fn may_begin(start: &[u8]) -> bool {
        magic(start) == Some(WRAPPER) && start.len() >= 8 && (1..=2).contains(&u32_at(start, 4))
    }
}

/// Pieces of memory that make up an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pieces {
    /// Addresses and lengths in bytes.
    Found(Vec<(u64, usize)>),
    /// Why its extent cannot be known.
    Unknown(&'static str),
}

/// Reads memory: nothing where it cannot be read.
pub type Read<'a> = &'a dyn Fn(u64, usize) -> Option<Vec<u8>>;

/// Finds the pieces of the image at this address, by the lengths in its headers.
pub fn pieces(address: u64, read: Read) -> Pieces {
    let Some(start) = read(address, 8) else { return Pieces::Unknown("a module image that cannot be read") };
    let found = match Format::detect(&start) {
        Format::Wrapper => wrapper(address, read),
        Format::Fatbin | Format::Elf => length(address, read).map(|len| vec![(address, len)]),
        Format::Archive => return Pieces::Unknown("a module image that is an archive of unknown length"),
        Format::Text => text(address, read).map(|len| vec![(address, len)]),
    };
    found.map_or(Pieces::Unknown("a module image with invalid headers"), Pieces::Found)
}

/// How long a single image is, by its own headers; none for what has no length in them.
pub fn length(address: u64, read: Read) -> Option<usize> {
    match Format::detect(&read(address, 8)?) {
        Format::Wrapper => Some(Wrapper::SIZE),
        Format::Fatbin => fatbin(address, read),
        Format::Elf => elf(address, read),
        Format::Archive | Format::Text => None,
    }
}

fn wrapper(address: u64, read: Read) -> Option<Vec<(u64, usize)>> {
    let Wrapper { version, data, mut more } = Wrapper::decode(&read(address, Wrapper::SIZE)?)?;
    let mut all = vec![(address, Wrapper::SIZE), (data, fatbin(data, read)?)];
    while version == 2 && more != 0 && all.len() < FATBINS {
        let next = u64_at(&read(more, 8)?, 0);
        all.push((more, 8));
        if next == 0 {
            break;
        }
        all.push((next, fatbin(next, read)?));
        more = more.checked_add(8)?;
    }
    Some(all)
}

/// `u32 magic, u16 version, u16 header size, u64 body size`.
fn fatbin(address: u64, read: Read) -> Option<usize> {
    let bytes = read(address, 16)?;
    if magic(&bytes) != Some(FATBIN) {
        return None;
    }
    let header = u16::from_le_bytes([bytes[6], bytes[7]]) as usize;
    header.checked_add(usize::try_from(u64_at(&bytes, 8)).ok()?)
}

/// The end of whatever lies last: program headers, section headers, or the content of either.
fn elf(address: u64, read: Read) -> Option<usize> {
    let header = read(address, 64)?;
    let short = |at: usize| u16::from_le_bytes([header[at], header[at + 1]]) as u64;
    let (phoff, shoff) = (u64_at(&header, 32), u64_at(&header, 40));
    let (phsize, phcount, shsize, mut shcount) = (short(54), short(56), short(58), short(60));
    if shcount == 0 && shoff != 0 && shsize == 64 {
        // More than the field can count: the first section counts them (ELF's extended numbering).
        shcount = u64_at(&read(address.checked_add(shoff)?, 64)?, 32);
    }
    let mut end = 64u64.max(phoff.checked_add(phsize * phcount)?).max(shoff.checked_add(shsize.checked_mul(shcount)?)?);
    for i in 0..phcount {
        let segment = read(address.checked_add(phoff + i * phsize)?, 56)?;
        end = end.max(u64_at(&segment, 8).checked_add(u64_at(&segment, 32))?);
    }
    const NOBITS: u32 = 8;
    for i in 0..shcount {
        let section = read(address.checked_add(shoff + i * shsize)?, 64)?;
        if u32_at(&section, 4) != NOBITS {
            end = end.max(u64_at(&section, 24).checked_add(u64_at(&section, 32))?);
        }
    }
    usize::try_from(end).ok()
}

/// PTX: up to and including the NUL.
fn text(address: u64, read: Read) -> Option<usize> {
    let mut len = 0;
    while len < TEXT_LIMIT {
        // Never past the page the text is known to reach.
        let at = address.checked_add(len as u64)?;
        let step = 4096 - (at % 4096) as usize;
        let bytes = read(at, step)?;
        if let Some(nul) = bytes.iter().position(|b| *b == 0) {
            return Some(len + nul + 1);
        }
        len += step;
    }
    None
}
