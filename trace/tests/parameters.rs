//! Kernel parameters from images that NVIDIA's compiler made (`images/compile`), compared with the layout
//! that C requires; and from images that were broken on purpose.

use proptest::prelude::*;
use std::path::Path;
use trace::code::parameters::{Code, Kernels, Parameter, Unread, from, of_kernel};

fn image(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/images").join(name);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn all(bytes: &[u8], sm: Option<u32>) -> (Kernels, Vec<Unread>) {
    let read = from(bytes);
    let mut code = Code::new(0, bytes.len(), sm, &read);
    (code.all(&read).clone(), code.unread().collect())
}

/// Offset and size.
fn places(parameters: &[Parameter]) -> Vec<(u32, u32)> {
    parameters.iter().map(|parameter| (parameter.offset, parameter.size)).collect()
}

/// The signatures of `images/signatures.cu`, laid out by hand. An alignment counts from where a device's
/// constant bank has the first parameter: 0x160 for 7.5, 0x210 for 9.0, 0x380 for 10.0; for 5.0, from the
/// first parameter itself.
fn expected(sm: u32) -> Vec<(&'static str, Vec<(u32, u32)>)> {
    let (wide, widest) = match sm {
        75 => (32, 32),
        90 => (48, 112),
        _ => (64, 128),
    };
    let mut many = Vec::new();
    many.extend([(0, 4), (4, 1), (6, 2), (8, 8), (16, 4), (20, 4), (24, 1), (25, 3), (32, 8), (40, 1)]);
    many.extend([(44, 4), (48, 1), (50, 2), (56, 8), (64, 4), (68, 4), (72, 1), (73, 3), (80, 8), (88, 1)]);
    many.extend([(92, 4), (96, 1), (98, 2), (104, 8), (112, 3), (116, 4), (120, 1), (121, 3), (128, 8), (136, 1)]);
    many.extend([(140, 4), (144, 1), (146, 2), (152, 8), (160, 16), (176, 4), (180, 1), (181, 3), (184, 8), (192, 1)]);
    many.push((200, 8));
    vec![
        ("_Z9templatedI6float4Li1EEvPT_S1_PKS1_", vec![(0, 8), (16, 16), (32, 8)]),
        ("_Z9templatedIdLi3EEvPT_S0_PKS0_", vec![(0, 8), (8, 8), (16, 8)]),
        ("chars", vec![(0, 1), (1, 1), (2, 1), (4, 2), (6, 1), (8, 8)]),
        ("constant", vec![(0, 40), (40, 8)]),
        ("empty", vec![(0, 1), (4, 4), (8, 8)]),
        ("four_kib", vec![(0, 1), (4, 4400), (4408, 8), (4416, 4)]),
        ("fourteen_bits", vec![(0, 1), (4, 20000), (20008, 8), (20016, 4)]),
        ("longs", vec![(0, 8), (8, 4), (16, 8), (24, 8), (32, 8), (40, 8)]),
        ("many", many),
        ("nothing", vec![]),
        ("one", vec![(0, 8)]),
        ("structs", vec![(0, 4), (8, 40), (48, 3), (56, 8), (64, 8), (72, 12), (84, 4), (88, 8)]),
        ("textures", vec![(0, 8), (8, 8), (16, 4)]),
        ("wide", vec![(0, 4), (8, 8), (wide, 64), (wide + 64, 16), (wide + 80, 1), (wide + 88, 8)]),
        ("widest", vec![(0, 1), (widest, 128), (widest + 128, 1)]),
    ]
}

#[track_caller]
fn is_expected(kernels: &Kernels, sm: u32) {
    let found: Vec<_> = kernels.iter().map(|(name, parameters)| (name.as_str(), places(parameters))).collect();
    assert_eq!(found, expected(sm), "for {sm}");
}

#[test]
fn machine_code_tells_what_c_says() {
    for sm in [90, 100] {
        let (kernels, unread) = all(&image(&format!("sm_{sm}.cubin")), Some(sm));
        is_expected(&kernels, sm);
        assert_eq!(unread, []);
    }
}

#[test]
fn text_tells_the_same_for_any_device() {
    for text in ["compute_75.ptx", "compute_100.ptx"] {
        for sm in [50, 75, 90, 100] {
            let mut bytes = image(text);
            is_expected(&all(&bytes, Some(sm)).0, sm);
            // As it lies in memory: with its end, and whatever is behind it.
            bytes.extend(b"\0.entry another(.param .u64 p)");
            is_expected(&all(&bytes, Some(sm)).0, sm);
        }
    }
}

#[test]
fn compressed_fatbins() {
    let (kernels, unread) = all(&image("lz4.fatbin"), Some(90));
    is_expected(&kernels, 90);
    assert_eq!(unread, [Unread::Other], "the code for 8.0");
    // From the text for 7.5 and for 9.0: there is no machine code.
    is_expected(&all(&image("lz4.fatbin"), Some(75)).0, 75);
    is_expected(&all(&image("lz4.fatbin"), Some(100)).0, 100);
}

#[cfg(feature = "zstd")]
#[test]
fn fatbins_compressed_with_zstd() {
    let whole = image("zstd.fatbin");
    let (kernels, unread) = all(&whole, Some(90));
    is_expected(&kernels, 90);
    assert_eq!(unread, [Unread::Other], "the code for 8.0");
    is_expected(&all(&whole, Some(75)).0, 75);
    is_expected(&all(&whole, Some(100)).0, 100);

    // A length that is not the frame's, and more than a frame is believed to mean: nothing is set aside for
    // it.
    assert_eq!(all(&whole, None).1, []);
    let texts: Vec<usize> =
        (0..whole.len() - 64).filter(|at| whole[*at..*at + 8] == [1, 0, 1, 1, 80, 0, 0, 0]).collect();
    assert_eq!(texts.len(), 2);
    for at in texts.iter().map(|at| at + 56) {
        let plain = u64::from_le_bytes(whole[at..at + 8].try_into().expect("8 bytes"));
        for forged in [plain - 1, plain + 1, u64::MAX] {
            let mut bytes = whole.clone();
            bytes[at..at + 8].copy_from_slice(&forged.to_le_bytes());
            assert_eq!(all(&bytes, None).1, [Unread::Broken], "{forged} for {plain}");
        }
    }
}

/// As the recorder is built.
#[cfg(not(feature = "zstd"))]
#[test]
fn fatbins_compressed_with_zstd() {
    assert_eq!(all(&image("zstd.fatbin"), Some(90)), (Default::default(), vec![Unread::Zstd, Unread::Other]));
}

/// Pointers are declared by the compiler for 10.0 and not by the one before.
#[test]
fn what_is_a_pointer() {
    let of = |file: &str, kernel| -> Vec<_> {
        let parameters = of_kernel(&image(file), kernel, Some(100)).unwrap_or_else(|| panic!("{kernel} in {file}"));
        parameters.iter().map(|parameter| parameter.is_pointer).collect()
    };
    let (yes, no, unsaid) = (Some(true), Some(false), None);
    assert_eq!(of("compute_100.ptx", "longs"), [no, no, no, unsaid, no, yes]);
    assert_eq!(of("sm_100.cubin", "longs"), [unsaid, no, unsaid, unsaid, unsaid, yes]);
    assert_eq!(of("sm_100.cubin", "fourteen_bits"), [no, unsaid, yes, no]);
    assert_eq!(of("compute_100.ptx", "fourteen_bits"), [no, unsaid, yes, no]);
    assert_eq!(of("compute_75.ptx", "longs"), [unsaid, no, unsaid, unsaid, unsaid, unsaid]);
    assert_eq!(of("compute_100.ptx", "textures"), [unsaid, unsaid, no]);
}

#[test]
fn text_by_hand() {
    let text = b".version 8.5\n.target sm_75\n.address_size 64
        /* .entry not_this(.param .u64 a) */ // .entry nor_this(
        .file 1 \"a .entry of a name\"
        .visible .entry a(.param .u32 x, .param .align 4 .u64 y, .param .u8 z) { ret; }
        .weak .entry b(.param .b16 a[3], .param .u32 m[6], .param .align 16 .u32 big, .param .f16 h, .param .b64 p) { ret; }
        .entry c(.param .u64 .ptr .global .align 16 p, .param .u64 .ptr .const q, .param .u64 .ptr r, .param .u64 n, .param .s8 k)
            .maxntid 32,1,1 { ret; }
        .entry d { ret; }
        .entry e() { ret; }
        .entry f(.param .align 8 .b8 $s1[0x18], .param .align 2 .b8 t[5], .param .align 16 .f32 u, .param .texref v) { ret; }
        .entry broken(.param .q9 x) { ret; }
        .entry vast(.param .b8 x[4000000000]) { ret; }
        .func (.param .b32 r) g(.param .b32 x) { ret; }";
    let (kernels, unread) = all(text, Some(75));
    let found: Vec<_> = kernels.iter().map(|(name, parameters)| (name.as_str(), places(parameters))).collect();
    // As ptxas of 13.0 lays them out.
    let wanted = [
        ("a", vec![(0, 4), (8, 8), (16, 1)]),
        ("b", vec![(0, 6), (8, 24), (32, 4), (36, 2), (40, 8)]),
        ("c", vec![(0, 8), (8, 8), (16, 8), (24, 8), (32, 1)]),
        ("d", vec![]),
        ("e", vec![]),
        ("f", vec![(0, 24), (24, 5), (32, 4), (40, 8)]),
    ];
    assert_eq!(found, wanted);
    assert_eq!(unread, [Unread::Broken], "two of them make no sense");
    let pointers: Vec<_> = kernels["c"].iter().map(|parameter| parameter.is_pointer).collect();
    assert_eq!(pointers, [Some(true), Some(true), Some(true), Some(false), Some(false)]);
}

/// One entry of a fatbin: its kind, its device, the code.
struct Part<'a>(u16, u32, u64, &'a [u8]);
const PTX: u16 = 1;
const CUBIN: u16 = 2;

fn fatbin(parts: &[Part]) -> Vec<u8> {
    let mut body = Vec::new();
    for Part(kind, sm, flags, code) in parts {
        let padded = code.len().next_multiple_of(8);
        body.extend([&kind.to_le_bytes()[..], &[1, 1], &64u32.to_le_bytes()].concat());
        body.extend((padded as u64).to_le_bytes());
        body.extend([0; 12]);
        body.extend([&sm.to_le_bytes()[..], &[0; 8], &flags.to_le_bytes(), &[0; 16]].concat());
        body.extend(*code);
        body.resize(body.len() + padded - code.len(), 0);
    }
    [&0xba55_ed50u32.to_le_bytes()[..], &[1, 0, 16, 0], &(body.len() as u64).to_le_bytes(), &body].concat()
}

/// A text whose kernel `k` takes as many bytes as its number says.
fn numbered(number: usize) -> String {
    format!(".version 8.0\n.target sm_50\n.entry k(.param .b8 p[{number}]) {{ ret; }}")
}

fn chosen(image: &[u8], sm: u32) -> Option<u32> {
    of_kernel(image, "k", Some(sm)).map(|parameters| parameters[0].size)
}

#[test]
fn the_entry_that_the_driver_would_choose() {
    let texts: Vec<String> = (0..10).map(numbered).collect();
    let text = |n: usize| texts[n].as_bytes();
    let image = fatbin(&[
        Part(PTX, 50, 0, text(1)),
        Part(PTX, 80, 0, text(2)),
        Part(PTX, 90, 0, text(3)),
        Part(64, 90, 0, text(4)),
    ]);
    assert_eq!(chosen(&image, 75), Some(1));
    assert_eq!(chosen(&image, 86), Some(2));
    assert_eq!(chosen(&image, 100), Some(3));
    assert_eq!(chosen(&image, 35), None);

    // Machine code comes before text, if it is of the device's generation and not newer; then the newest.
    let cubin = image_of_kernel(5);
    let cubins: Vec<Vec<u8>> = (5..9).map(image_of_kernel).collect();
    let image = fatbin(&[
        Part(PTX, 90, 0, text(1)),
        Part(CUBIN, 80, 0, &cubin),
        Part(CUBIN, 86, 0, &cubins[1]),
        Part(CUBIN, 90, 0x10_0000, &cubins[2]),
        Part(CUBIN, 90, 0, &cubins[3]),
    ]);
    assert_eq!(chosen(&image, 80), Some(5));
    assert_eq!(chosen(&image, 89), Some(6));
    assert_eq!(chosen(&image, 75), None);
    assert_eq!(chosen(&image, 90), Some(7), "made for this very device");
    assert_eq!(chosen(&image, 100), Some(1));
    // A kernel that the best has not is in the next.
    let image = fatbin(&[Part(CUBIN, 90, 0, &self::image("sm_90.cubin")), Part(PTX, 90, 0, text(3))]);
    assert_eq!(chosen(&image, 90), Some(3));
}

/// The smallest cubin that has a kernel `k` with one parameter of this size.
fn image_of_kernel(size: u32) -> Vec<u8> {
    let info = [&[4, 0x17, 12, 0][..], &[0; 8], &(size << 18).to_le_bytes()].concat();
    let names = b"\0.nv.info.k\0";
    let mut file = vec![0; 64];
    file[..6].copy_from_slice(b"\x7fELF\x02\x01");
    file[18] = 190;
    let (names_at, info_at) = (64, 64 + names.len() as u64);
    file.extend(names);
    file.extend(&info);
    let sections = file.len() as u64;
    file[40..48].copy_from_slice(&sections.to_le_bytes());
    (file[58], file[60], file[62]) = (64, 3, 1);
    for (name, kind, at, len) in [(0, 0, 0, 0), (0, 3, names_at, names.len()), (1, 1, info_at, info.len())] {
        let words = [name, kind].map(u32::to_le_bytes).concat();
        let rest = [0, 0, at, len as u64, 0, 0, 0].map(u64::to_le_bytes).concat();
        file.extend([words, rest].concat());
    }
    file
}

#[test]
fn wrappers_lead_to_fatbins() {
    let texts = [numbered(1), numbered(2).replace(" k(", " other(")];
    let fatbins: Vec<_> = texts.iter().map(|text| fatbin(&[Part(PTX, 50, 0, text.as_bytes())])).collect();
    let words = |words: &[u64]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
    let wrapper = |version: u64| words(&[0x4662_43b1 | version << 32, 0x1000, 0x3000]);
    for version in [1, 2] {
        let memory = [
            (0x500, wrapper(version)),
            (0x1000, fatbins[0].clone()),
            (0x2000, fatbins[1].clone()),
            (0x3000, words(&[0x2000, 0])),
        ];
        let read =
            |at: u64, len: usize| memory.iter().find_map(|(start, bytes)| from(bytes)(at.checked_sub(*start)?, len));
        let mut code = Code::new(0x500, 24, Some(90), &read);
        assert_eq!(code.kernel("k", &read).map(places), Some(vec![(0, 1)]));
        assert_eq!(code.kernel("other", &read).map(places), (version == 2).then(|| vec![(0, 2)]));
        assert_eq!(code.unread().count(), 0);
    }
}

#[test]
fn what_is_no_image() {
    for bytes in [&b""[..], b"\x7fELF", b"!<arch>\n123", b"hello", &[0; 64], &0x4662_43b1u64.to_le_bytes()] {
        let (kernels, unread) = all(bytes, None);
        assert!(kernels.is_empty() && unread.len() == 1, "{bytes:?}: {kernels:?} {unread:?}");
    }
}

/// More sections than a header's field can count: then the first section counts them.
#[test]
fn a_cubin_of_very_many_sections() {
    let mut file = image_of_kernel(7);
    let first = u64::from_le_bytes(file[40..48].try_into().expect("8 bytes")) as usize;
    file[first + 32..first + 40].copy_from_slice(&3u64.to_le_bytes());
    file[first + 40..first + 44].copy_from_slice(&1u32.to_le_bytes());
    (file[60], file[62], file[63]) = (0, 0xff, 0xff);
    assert_eq!(chosen(&file, 90), Some(7));
}

#[test]
fn truncated_anywhere() {
    let whole = expected(90);
    let small = [numbered(3).into_bytes(), image_of_kernel(3), fatbin(&[Part(CUBIN, 90, 0, &image_of_kernel(3))])];
    for bytes in &small {
        assert_eq!(chosen(bytes, 90), Some(3));
        for len in 0..bytes.len() {
            assert!(matches!(chosen(&bytes[..len], 90), None | Some(3)), "{len} bytes");
        }
    }
    for (file, step) in [("sm_90.cubin", 97), ("lz4.fatbin", 13), ("compute_75.ptx", 1)] {
        let bytes = image(file);
        for len in (0..bytes.len()).step_by(step) {
            for (name, parameters) in all(&bytes[..len], Some(90)).0 {
                let right = whole.iter().any(|(known, places_)| *known == name && *places_ == places(&parameters));
                // A text may end in the midst of a name.
                assert!(right || file.ends_with("ptx"), "{file}, {len} bytes: {name} {parameters:?}");
            }
        }
    }
}

/// All that may come of broken bytes is other numbers, within what a kernel can have.
fn sane(bytes: &[u8]) {
    for sm in [None, Some(90)] {
        for parameters in all(bytes, sm).0.values() {
            assert!(parameters.iter().all(|parameter| parameter.offset + parameter.size <= 1 << 16));
        }
    }
}

#[test]
fn any_flipped_bit_of_small_images() {
    for bytes in [numbered(3).into_bytes(), image_of_kernel(3), fatbin(&[Part(CUBIN, 90, 0, &image_of_kernel(3))])] {
        for bit in 0..bytes.len() * 8 {
            let mut bytes = bytes.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            sane(&bytes);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn any_flipped_bytes(
        file in prop::sample::select(vec!["sm_90.cubin", "sm_100.cubin", "lz4.fatbin", "zstd.fatbin", "compute_100.ptx"]),
        flips in prop::collection::vec((any::<prop::sample::Index>(), 1u8..), 1..6),
    ) {
        let mut bytes = image(file);
        for (at, with) in flips {
            let at = at.index(bytes.len());
            bytes[at] ^= with;
        }
        sane(&bytes);
    }

    #[test]
    fn any_bytes_behind_a_magic(
        magic in prop::sample::select(vec![&b"\x7fELF\x02\x01"[..], b"\x50\xed\x55\xba\x01\0\x10\0", b".version .entry a(", b""]),
        bytes: Vec<u8>,
    ) {
        sane(&[magic, &bytes].concat());
    }
}
