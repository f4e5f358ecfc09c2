//! Headers of module images and of packed arguments, read from memory made of a few invented ranges.

use trace::api::extra::Extra;
use trace::code::image::{Format, Pieces, Wrapper, length, pieces};

/// Memory at addresses of our choosing.
struct Memory(Vec<(u64, Vec<u8>)>);

impl Memory {
    fn read(&self, address: u64, len: usize) -> Option<Vec<u8>> {
        self.0.iter().find_map(|(start, bytes)| {
            let skip = address.checked_sub(*start)? as usize;
            bytes.get(skip..skip.checked_add(len)?).map(<[u8]>::to_vec)
        })
    }

    fn word(&self, address: u64) -> Option<u64> {
        self.read(address, 8).map(|bytes| u64::from_le_bytes(bytes.try_into().expect("8 bytes")))
    }

    fn pieces(&self, address: u64) -> Pieces {
        pieces(address, &|at, len| self.read(at, len))
    }
}

fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn fatbin(body: u64) -> Vec<u8> {
    let mut bytes = 0xba55_ed50u32.to_le_bytes().to_vec();
    bytes.extend([1, 0, 16, 0]);
    bytes.extend(body.to_le_bytes());
    bytes
}

fn wrapper(version: u32, data: u64, more: u64) -> Vec<u8> {
    [0x4662_43b1u32.to_le_bytes(), version.to_le_bytes()].concat().into_iter().chain(words(&[data, more])).collect()
}

#[test]
fn wrappers_lead_to_their_fatbins() {
    let memory = Memory(vec![
        (0x100, wrapper(1, 0x1000, 0x666)),
        (0x200, wrapper(2, 0x1000, 0x300)),
        (0x300, words(&[0x2000, 0])),
        (0x1000, fatbin(100)),
        (0x2000, fatbin(8)),
        (0x3000, fatbin(u64::MAX)),
        (0x4000, wrapper(1, 0x5000, 0)),
    ]);
    assert_eq!(memory.pieces(0x100), Pieces::Found(vec![(0x100, 24), (0x1000, 116)]));
    let all = vec![(0x200, 24), (0x1000, 116), (0x300, 8), (0x2000, 24), (0x308, 8)];
    assert_eq!(memory.pieces(0x200), Pieces::Found(all));
    assert_eq!(memory.pieces(0x1000), Pieces::Found(vec![(0x1000, 116)]));
    for (address, why) in [(0x3000, "invalid headers"), (0x4000, "invalid headers"), (0x50, "cannot be read")] {
        assert!(matches!(memory.pieces(address), Pieces::Unknown(text) if text.ends_with(why)), "{address:#x}");
    }
    let decoded = Wrapper::decode(&memory.0[1].1).expect("a wrapper");
    assert_eq!((decoded.version, decoded.data, decoded.more), (2, 0x1000, 0x300));
    assert!(Wrapper::may_begin(&memory.0[0].1[..8]) && !Wrapper::may_begin(&fatbin(0)));
}

#[test]
fn formats_are_told_by_their_first_bytes() {
    let of = |bytes: &[u8]| Format::detect(bytes);
    assert_eq!(of(&wrapper(1, 0, 0)), Format::Wrapper);
    assert_eq!(of(&fatbin(0)), Format::Fatbin);
    assert_eq!(of(b"\x7fELF\x02\x01\x01\x33"), Format::Elf);
    assert_eq!(of(b"!<arch>\n"), Format::Archive);
    assert_eq!((of(b"//\n.version"), of(b""), of(b"abc")), (Format::Text, Format::Text, Format::Text));
}

#[test]
fn an_elf_that_would_end_beyond_all_memory_has_no_length() {
    let mut elf = b"\x7fELF".to_vec();
    elf.resize(64, 0xff);
    assert!(matches!(Memory(vec![(0x100, elf)]).pieces(0x100), Pieces::Unknown(_)));
}

/// More sections than the header can count: the first says how many.
#[test]
fn an_elf_of_very_many_sections() {
    let mut elf = b"\x7fELF".to_vec();
    elf.resize(64 * 4, 0);
    (elf[40], elf[58], elf[64 + 32]) = (64, 64, 3);
    // The last one's content ends last.
    (elf[64 * 3 + 25], elf[64 * 3 + 32]) = (1, 9);
    elf.resize(4096, 0);
    assert_eq!(Memory(vec![(0x1000, elf)]).pieces(0x1000), Pieces::Found(vec![(0x1000, 0x109)]));
}

#[test]
fn an_image_ends_where_the_next_one_begins() {
    // As the linker lays out the images of a library: without gaps.
    let mut first = fatbin(8);
    first.resize(24, 0);
    let memory = Memory(vec![(0x1000, [first, fatbin(100), vec![0; 100]].concat())]);
    let length = |address| length(address, &|at, len| memory.read(at, len));
    assert_eq!((length(0x1000), length(0x1018)), (Some(24), Some(116)));
}

#[test]
fn text_ends_with_its_nul() {
    let mut text = vec![b'/'; 5000];
    text.push(0);
    text.resize(8192, 7);
    assert_eq!(Memory(vec![(0x1000, text)]).pieces(0x1000), Pieces::Found(vec![(0x1000, 5001)]));
}

#[test]
fn packed_arguments_are_pairs_up_to_an_end() {
    let memory = Memory(vec![
        (0x100, words(&[1, 0x1000, 2, 0x2000, 0, 9])),
        (0x200, words(&[2, 0x2000])),
        (0x300, words(&[5; 64])),
    ]);
    let read = |at| Extra::read(at, |at| memory.word(at));
    let extra = read(0x100);
    assert_eq!((extra.buffer(), extra.size_at(), extra.len, extra.is_whole), (Some(0x1000), Some(0x2000), 40, true));
    assert_eq!(extra.pairs, [(1, 0x1000), (2, 0x2000)]);
    let extra = read(0x200);
    assert_eq!((extra.buffer(), extra.size_at(), extra.len, extra.is_whole), (None, Some(0x2000), 16, false));
    let extra = read(0x300);
    assert_eq!((extra.pairs.len(), extra.is_whole), (8, false));
    assert_eq!(read(u64::MAX - 7).pairs, []);
}
