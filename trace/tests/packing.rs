//! A packed trace is the same trace: it unpacks byte for byte, and missing parts are reported.
#![cfg(feature = "zstd")]

mod writer;

use proptest::prelude::*;
use std::fs::File;
use std::path::{Path, PathBuf};
use trace::Trace;
use trace::base::hash;
use trace::file::segment::{HEADER, Header, PAGE, SEAL_AT};
use trace::write::pack::{pack, unpack};
use writer::Writer;

const CALL: &str = "cuCtxGetCurrent";

fn closed(directory: &Path, bytes: &[u8]) -> PathBuf {
    let path = directory.join("plain");
    std::fs::write(&path, bytes).expect("written");
    trace::write::finish::finish(&Trace::open(&path).expect("a trace"), |_| ("no".into(), vec![])).expect("closed");
    path
}

fn packed(plain: &Path) -> PathBuf {
    let path = plain.with_file_name("packed");
    let file = File::create(&path).expect("a file");
    let size = pack(&Trace::open(plain).expect("a trace"), &file).expect("packed");
    assert_eq!(size, file.metadata().expect("a file").len());
    path
}

fn unpacked(packed: &Path) -> Vec<u8> {
    let path = packed.with_file_name("unpacked");
    unpack(&Trace::open(packed).expect("a trace"), &File::create(&path).expect("a file")).expect("unpacked");
    std::fs::read(path).expect("a trace")
}

/// All that a reader is told, but for the footer: what it lists can be found without it.
fn told(path: &Path) -> String {
    let mut trace = Trace::open(path).expect("a trace");
    trace.check_blobs();
    let calls: Vec<String> = trace
        .calls()
        .map(|call| {
            let images: Vec<String> =
                call.images().map(|image| format!("{image:?} {:?}", trace.bytes(&image))).collect();
            let words: Vec<u64> = call.words().collect();
            format!("{} {} {:?} {:?} {:?} {images:?}", call.name(), call.begin, call.end, call.repeats, words)
        })
        .collect();
    let mut blobs: Vec<_> = trace.blobs().map(|(hash, _)| (hash.to_string(), trace.blob(hash))).collect();
    blobs.sort();
    format!("{calls:?} {blobs:?} {:?} {:?} {:?}", trace.losses, trace.damage, trace.threads)
}

/// Some calls of three threads, a blob of each length, and a record as it may come.
fn trace(calls: &[(u32, u64, [u64; 3])], blobs: &[Vec<u8>], odd: &[u8]) -> Vec<u8> {
    let mut writer = Writer::new();
    let mut time = 100;
    for (thread, passed, words) in calls {
        time += passed % 5000;
        match passed % 3 {
            0 => writer.call(*thread, CALL, time, &words[..1], 0, &[]),
            _ => writer.call(*thread, "cuMemcpyHtoD_v2", time, words, (passed % 2) as u32, &[]),
        };
    }
    blobs.iter().for_each(|blob| {
        writer.blob(blob);
    });
    let size = (8 + odd.len().next_multiple_of(8)) as u32;
    let mut record = [&size.to_le_bytes()[..], &[odd.len() as u8 | 0x80, 0x80, 0, 0], odd].concat();
    record.resize(size as usize, 0);
    writer.record(0, &record);
    writer.bytes
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn what_was_packed_is_read_and_unpacked_as_it_was(
        calls in prop::collection::vec((0..3u32, any::<u64>(), any::<[u64; 3]>()), 0..120),
        blobs in prop::collection::vec((0..3usize, 0..9000usize, any::<u8>()), 0..5),
        odd in prop::collection::vec(any::<u8>(), 0..40),
        damaged in prop::option::of((any::<prop::sample::Index>(), any::<u8>())),
    ) {
        let directory = tempfile::tempdir().expect("a directory");
        let blobs: Vec<Vec<u8>> = blobs.iter().map(|(kind, length, byte)| match kind {
            0 => vec![*byte; *length],
            1 => (0..*length).map(|at| (at as u8).wrapping_mul(*byte)).collect(),
            _ => (0..*length).map(|at| hash::checksum(&[at as u8, (at >> 8) as u8, *byte]) as u8).collect(),
        }).collect();
        let plain = closed(directory.path(), &trace(&calls, &blobs, &odd));
        // What is damaged before it is packed stays so, no less and no more; but for the preambles and the
        // footer.
        if let Some((at, change)) = damaged {
            let mut bytes = std::fs::read(&plain).expect("a trace");
            let footer = Trace::open(&plain).expect("a trace").segments.last().expect("a footer").0 as usize;
            let start = Header::decode(&bytes).expect("a preamble").size as usize * 2;
            let at = start + at.index(footer - start);
            bytes[at] ^= change;
            std::fs::write(&plain, bytes).expect("written");
        }
        let packed = packed(&plain);
        let (read, as_it_was) = (Trace::open(&packed).expect("a trace"), Trace::open(&plain).expect("a trace"));
        prop_assert!(read.is_packed() && !as_it_was.is_packed());
        prop_assert_eq!(&read.footer, &as_it_was.footer);
        prop_assert_eq!(told(&packed), told(&plain));
        prop_assert!(unpacked(&packed) == std::fs::read(&plain).expect("a trace"));
    }
}

fn sample() -> (tempfile::TempDir, PathBuf, PathBuf) {
    let directory = tempfile::tempdir().expect("a directory");
    let calls: Vec<_> = (0..400).map(|n| ((n % 3) as u32, n * 7919, [n, n * n, 7])).collect();
    let blobs: Vec<Vec<u8>> = (0..4u64).map(|n| (0..n * 3000).map(|at| (at * n / 7) as u8).collect()).collect();
    let plain = closed(directory.path(), &trace(&calls, &blobs, &[1, 2, 3]));
    let packed = packed(&plain);
    (directory, plain, packed)
}

#[test]
fn whatever_is_cut_off_or_changed_is_told() {
    let (_directory, plain, packed) = sample();
    let (bytes, whole) = (std::fs::read(&packed).expect("a trace"), told(&plain));
    let check = |changed: &[u8], what: String| {
        std::fs::write(&packed, changed).expect("written");
        let Ok(mut trace) = Trace::open(&packed) else { return };
        trace.check_blobs();
        if trace.damage.is_empty() {
            assert_eq!(told(&packed), whole, "{what}");
        }
    };
    for cut in (1..bytes.len()).step_by(331).chain((PAGE as usize..bytes.len()).step_by(PAGE as usize)) {
        check(&bytes[..cut], format!("cut at {cut}"));
    }
    for at in (0..bytes.len()).step_by(97) {
        let mut bytes = bytes.clone();
        bytes[at] ^= 1 << (at % 8);
        check(&bytes, format!("changed at {at}"));
    }
}

/// Where packed segments are, with their headers.
fn segments(bytes: &[u8]) -> Vec<(usize, Header)> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(header) = bytes.get(at..).and_then(Header::decode) {
        found.push((at, header));
        at += header.size as usize;
    }
    found
}

#[test]
fn a_damaged_piece_costs_itself_alone() {
    let (_directory, plain, packed) = sample();
    let bytes = std::fs::read(&packed).expect("a trace");
    let count = |trace: &Trace| trace.calls().len();
    let before = count(&Trace::open(&plain).expect("a trace"));
    for (at, header) in segments(&bytes) {
        let mut bytes = bytes.clone();
        bytes[at + HEADER + header.length as usize - 1] ^= 1;
        std::fs::write(&packed, &bytes).expect("written");
        let mut trace = Trace::open(&packed).expect("a trace");
        let lost = before - count(&trace);
        trace.check_blobs();
        assert!(!trace.damage.is_empty(), "{header:?}");
        assert!(lost <= 200 && (lost == 0 || header.kind == trace::file::segment::Kind::Chunk), "{header:?}: {lost}");
        if header.kind == trace::file::segment::Kind::Chunk {
            let named = format!("the packed segment at offset {at} of the file does not match its checksum");
            assert!(trace.damage[0].what.starts_with(&named), "{:?}", trace.damage);
        }
    }
}

/// Bytes that a hostile file claims to be packed are not set aside.
#[test]
fn claims_are_checked() {
    let (_directory, _, packed) = sample();
    let bytes = std::fs::read(&packed).expect("a trace");
    for (at, header) in segments(&bytes) {
        let claims = [1 << 31, 1 << 40, 1 << 62, u64::MAX];
        let sizes =
            claims.map(|bytes| Header { id: header.id & u128::from(u64::MAX) | u128::from(bytes) << 64, ..header });
        let places = claims.map(|from| Header { id: header.id >> 64 << 64 | u128::from(from), ..header });
        let counts = [0, 1 << 20, u32::MAX].map(|thread| Header { thread, ..header });
        let lengths = claims.map(|length| Header { length, ..header });
        let all = [&sizes[..], &places, &counts, &lengths].concat();
        for forged in all.into_iter().filter(|forged| *forged != header) {
            let mut bytes = bytes.clone();
            bytes[at..at + HEADER].copy_from_slice(&forged.encode());
            std::fs::write(&packed, &bytes).expect("written");
            if let Ok(mut trace) = Trace::open(&packed) {
                trace.check_blobs();
                assert!(trace.length() <= bytes.len() as u64 * 256, "{forged:?}");
                assert!(!trace.damage.is_empty(), "{forged:?}");
            }
        }
        // What the frame means, and how it is packed.
        for (place, value) in [(0, 0u64), (0, 1), (0, 2), (0, 3), (8, 0), (8, 1 << 40), (8, u64::MAX)] {
            let mut bytes = bytes.clone();
            bytes[at + HEADER + place..][..8].copy_from_slice(&value.to_le_bytes());
            let seal = hash::checksum(&bytes[at + HEADER..][..header.length as usize]);
            bytes[at + SEAL_AT..][..8].copy_from_slice(&seal.to_le_bytes());
            std::fs::write(&packed, &bytes).expect("written");
            if let Ok(mut trace) = Trace::open(&packed) {
                trace.check_blobs();
                trace.calls().for_each(|call| assert!(call.images().count() < 100));
            }
        }
    }
}
