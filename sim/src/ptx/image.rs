//! Module images: PTX text, fat binaries, and the container that linking makes.
//!
//! The layout of fat binaries is the one that `fatbinary` of CUDA 13.0 writes. Only uncompressed PTX entries
//! can be used.

use std::ffi::c_char;

use crate::abi::Input;
use crate::abi::code::{Code, Result};
use crate::base::state::knobs;
use crate::ptx::Kernel;

const WRAPPER: u32 = 0x466243B1;
const FATBIN: u32 = 0xBA55_ED50;
const ELF: u32 = 0x464C_457F;
const KIND_PTX: u16 = 1;
const KIND_ELF: u16 = 2;
/// Entry flags: either kind of compression.
const COMPRESSED: u64 = 0x2000 | 0x8000;

fn u16_at(bytes: &[u8], at: usize) -> Result<u16> {
    bytes.get(at..at + 2).map(|b| u16::from_le_bytes([b[0], b[1]])).ok_or(Code::INVALID_IMAGE)
}

fn u32_at(bytes: &[u8], at: usize) -> Result<u32> {
    Ok(u32::from(u16_at(bytes, at)?) | u32::from(u16_at(bytes, at + 2)?) << 16)
}

fn u64_at(bytes: &[u8], at: usize) -> Result<u64> {
    Ok(u64::from(u32_at(bytes, at)?) | u64::from(u32_at(bytes, at + 4)?) << 32)
}

/// The PTX texts of an image in memory, whose length only its own contents tell.
pub(crate) fn texts_at(image: *const u8) -> Result<Vec<String>> {
    if image.is_null() {
        return Err(Code::INVALID_VALUE);
    }
    let read = |at: usize, length: usize| Input::from_raw(image.wrapping_add(at)).all(length);
    // An empty text ends after its first byte.
    if read(0, 1)? == [0] {
        return Err(Code::INVALID_IMAGE);
    }
    match u32_at(&read(0, 4)?, 0)? {
        WRAPPER => texts_at(u64_at(&read(0, 16)?, 8)? as *const u8),
        FATBIN => {
            let header = read(0, 16)?;
            let length = u64::from(u16_at(&header, 6)?) + u64_at(&header, 8)?;
            texts_in(&read(0, length as usize)?)
        }
        ELF => {
            // No further than the bytes so far make sense.
            identified(&read(0, IDENT.len())?)?;
            let header = read(0, SECTION)?;
            texts_in(&read(0, length_of(&header)?)?)
        }
        _ => {
            let text = Input::<c_char>::from_raw(image.cast()).text()?;
            plausible(&text)?;
            Ok(vec![text])
        }
    }
}

/// The PTX texts of an image of known length, such as a file.
pub(crate) fn texts_in(image: &[u8]) -> Result<Vec<String>> {
    match u32_at(image, 0) {
        Ok(FATBIN) => fatbin(image).map(|text| vec![text]),
        Ok(ELF) => sections(image),
        _ => text_of(image).map(|text| vec![text]),
    }
}

/// PTX text, with or without its nul.
pub(crate) fn text_of(bytes: &[u8]) -> Result<String> {
    let end = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
    let text = String::from_utf8_lossy(&bytes[..end]).into_owned();
    plausible(&text)?;
    Ok(text)
}

/// Whether this is text at all; whether it is PTX, the parser says.
fn plausible(text: &str) -> Result {
    let odd = |c: char| c == char::REPLACEMENT_CHARACTER || c.is_control() && !c.is_whitespace();
    if text.is_empty() || text.chars().take(64).any(odd) { Err(Code::INVALID_IMAGE) } else { Ok(()) }
}

fn fatbin(image: &[u8]) -> Result<String> {
    let mut at = usize::from(u16_at(image, 6)?);
    let end = at + u64_at(image, 8)? as usize;
    let mut best: Option<(u32, String)> = None;
    while at + 64 <= end {
        let (kind, header) = (u16_at(image, at)?, u32_at(image, at + 4)? as usize);
        let size = u64_at(image, at + 8)? as usize;
        let (architecture, flags) = (u32_at(image, at + 28)?, u64_at(image, at + 40)?);
        let body = image.get(at + header..at + header + size).ok_or(Code::INVALID_IMAGE)?;
        let usable = kind == KIND_PTX && flags & COMPRESSED == 0 && architecture <= knobs().compute;
        if usable && best.as_ref().is_none_or(|(known, _)| *known < architecture) {
            best = Some((architecture, text_of(body)?));
        }
        if kind == KIND_ELF
            && let Ok(mut texts) = sections(body)
            && let Some(text) = texts.pop()
        {
            return Ok(text);
        }
        at += header + size;
    }
    best.map(|(_, text)| text).ok_or(Code::NO_BINARY_FOR_GPU)
}

/// Size of a section's header, and of the file's.
const SECTION: usize = 64;
/// Which section holds the texts.
const TEXTS: usize = 2;
/// ELF of 64 bits, little endian, in its first version.
const IDENT: [u8; 7] = [0x7f, b'E', b'L', b'F', 2, 1, 1];
/// No image is larger: a header that says so is broken.
const LARGEST: u64 = 1 << 30;
const MACHINE_CUDA: u16 = 190;
/// e_flags of a container: "sim".
const OURS: u32 = 0x006D_6973;

/// The container that linking makes: an ELF file with a section that holds the texts, each ended by a nul,
/// and one for each kernel that tells its parameters, as a cubin has it.
pub(crate) fn container(texts: &[String], kernels: &[Kernel]) -> Vec<u8> {
    let mut names = b"\0.shstrtab\0.sim.ptx\0".to_vec();
    let mut body: Vec<u8> = texts.iter().flat_map(|text| text.bytes().chain([0])).collect();
    // Name, type, content.
    let mut sections = vec![(0, 0, 0..0), (1, 3, 0..0), (11, 1, 0..body.len())];
    for kernel in kernels {
        let start = body.len();
        for (ordinal, parameter) in kernel.parameters.iter().enumerate().rev() {
            const KPARAM_INFO_V2: u8 = 0x45;
            body.extend([4, KPARAM_INFO_V2, 12, 0, 0, 0, 0, 0]);
            body.extend([ordinal, parameter.offset, parameter.size, 0].map(|n| (n as u16).to_le_bytes()).concat());
        }
        sections.push((names.len() as u32, 0x7000_0000, start..body.len()));
        names.extend([b".nv.info.", kernel.name.as_bytes(), b"\0"].concat());
    }
    sections[1].2 = body.len()..body.len() + names.len();
    body.extend(names);
    let table = (SECTION + body.len()).next_multiple_of(8);
    let mut out = Vec::with_capacity(table + sections.len() * SECTION);
    out.extend_from_slice(&IDENT);
    out.extend_from_slice(&[0x33, 7, 0, 0, 0, 0, 0, 0, 0]);
    for half in [2u16, MACHINE_CUDA] {
        out.extend_from_slice(&half.to_le_bytes());
    }
    out.extend_from_slice(&1u32.to_le_bytes());
    for word in [0u64, 0, table as u64] {
        out.extend_from_slice(&word.to_le_bytes());
    }
    out.extend_from_slice(&OURS.to_le_bytes());
    for half in [SECTION as u16, 56, 0, SECTION as u16, sections.len() as u16, 1] {
        out.extend_from_slice(&half.to_le_bytes());
    }
    out.extend_from_slice(&body);
    out.resize(table, 0);
    for (name, kind, place) in sections {
        let (name, kind): (u32, u32) = (name, kind);
        out.extend_from_slice(&name.to_le_bytes());
        out.extend_from_slice(&kind.to_le_bytes());
        for word in [0, 0, SECTION + place.start, place.len(), 0, 1, 0] {
            out.extend_from_slice(&(word as u64).to_le_bytes());
        }
    }
    out
}

fn identified(image: &[u8]) -> Result {
    if image.starts_with(&IDENT) { Ok(()) } else { Err(Code::INVALID_IMAGE) }
}

/// The length that a container's header says. Other ELF files are machine code, which nothing here can run.
fn length_of(header: &[u8]) -> Result<usize> {
    identified(header)?;
    if u16_at(header, 18)? != MACHINE_CUDA {
        return Err(Code::INVALID_IMAGE);
    }
    if u32_at(header, 48)? != OURS {
        return Err(Code::NO_BINARY_FOR_GPU);
    }
    let (sections, size, count) = (u64_at(header, 40)?, u16_at(header, 58)?, u16_at(header, 60)?);
    if sections > LARGEST || usize::from(size) != SECTION || count < TEXTS as u16 + 1 {
        return Err(Code::INVALID_IMAGE);
    }
    Ok(sections as usize + usize::from(count) * SECTION)
}

/// The texts of a container.
fn sections(image: &[u8]) -> Result<Vec<String>> {
    length_of(image)?;
    let section = u64_at(image, 40)? as usize + TEXTS * SECTION;
    let (at, size) = (u64_at(image, section + 24)?, u64_at(image, section + 32)?);
    let end = at.checked_add(size).ok_or(Code::INVALID_IMAGE)?;
    let body = image.get(at as usize..end as usize).ok_or(Code::INVALID_IMAGE)?;
    Ok(body.split(|&b| b == 0).filter(|t| !t.is_empty()).map(|t| String::from_utf8_lossy(t).into_owned()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCES: [&str; 2] = [".version 8.0 // one", ".version 8.0 // two"];

    #[test]
    fn a_container_gives_its_texts_back() {
        let image = container(&SOURCES.map(str::to_owned), &[]);
        assert_eq!(texts_in(&image).unwrap(), SOURCES);
        assert_eq!(texts_at(image.as_ptr()).unwrap(), SOURCES);
    }

    /// Sections end where the file ends, so anybody can tell its length from its header.
    #[test]
    fn a_container_has_the_length_its_header_says() {
        let image = container(&SOURCES.map(str::to_owned), &[]);
        let sections = u64_at(&image, 40).unwrap() as usize;
        let (size, count) = (u16_at(&image, 58).unwrap(), u16_at(&image, 60).unwrap());
        assert_eq!(image.len(), sections + usize::from(size) * usize::from(count));
    }

    fn fatbin(flags: u64, architecture: u32) -> Vec<u8> {
        let text = b".version 8.0\0\0\0\0";
        let mut image = FATBIN.to_le_bytes().to_vec();
        image.extend([1, 0, 16, 0]);
        image.extend((64 + text.len() as u64).to_le_bytes());
        image.extend([KIND_PTX as u8, 0, 1, 1, 64, 0, 0, 0]);
        image.extend((text.len() as u64).to_le_bytes());
        image.extend([0; 12]);
        image.extend(architecture.to_le_bytes());
        image.extend([0; 8]);
        image.extend(flags.to_le_bytes());
        image.extend([0; 16]);
        image.extend(text);
        image
    }

    #[test]
    fn ptx_in_a_fat_binary() {
        let image = fatbin(0x11, 75);
        assert_eq!(texts_at(image.as_ptr()).unwrap(), [".version 8.0"]);
        let wrapper = [u64::from(WRAPPER) | 1 << 32, image.as_ptr() as u64, 0];
        assert_eq!(texts_at(wrapper.as_ptr().cast()).unwrap(), [".version 8.0"]);
    }

    #[test]
    fn what_cannot_be_run_is_refused() {
        assert_eq!(texts_in(&fatbin(0x8011, 75)), Err(Code::NO_BINARY_FOR_GPU));
        assert_eq!(texts_in(&fatbin(0x11, 100)), Err(Code::NO_BINARY_FOR_GPU));
        assert_eq!(texts_in(b"\x01\x02\x03\x04"), Err(Code::INVALID_IMAGE));
        assert_eq!(texts_at(std::ptr::null()), Err(Code::INVALID_VALUE));
    }

    #[test]
    fn a_broken_elf_file_is_refused() {
        assert_eq!(texts_at(c"\x7fELFgarbage".as_ptr().cast()), Err(Code::INVALID_IMAGE));
        let image = container(&SOURCES.map(str::to_owned), &[]);
        // Another class, another machine, sections nowhere, sections of another size, too few of them.
        for (at, value) in [(4, 1), (18, 3), (46, 0x7f), (58, 1), (60, 2)] {
            let mut image = image.clone();
            image[at] = value;
            assert_eq!(texts_at(image.as_ptr()), Err(Code::INVALID_IMAGE), "byte {at}");
            assert_eq!(texts_in(&image), Err(Code::INVALID_IMAGE), "byte {at}");
        }
        let mut foreign = image.clone();
        foreign[48] = 0;
        assert_eq!(texts_at(foreign.as_ptr()), Err(Code::NO_BINARY_FOR_GPU));
    }
}
