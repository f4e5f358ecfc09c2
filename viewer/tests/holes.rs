//! Losses by a damaged piece of a trace: the viewer names the lost calls exactly, and draws their place.

use proptest::prelude::*;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};
use tempfile::TempDir;
use trace::Trace;
use trace::file::segment::{HEADER, Header, Kind};
use viewer::data::open::Opened;
use viewer::export::frame;
use viewer::state::State;
use viewer::state::parts::keymap::Keymap;
use viewer::synthetic::{Shape, write};
use viewer::view::theme::Theme;

/// A trace of several chunks a thread, closed and not; and which calls each thread has, by their numbers.
struct Whole {
    directory: TempDir,
    bytes: [Vec<u8>; 2],
    calls: BTreeSet<(u32, u32)>,
    chunks: Vec<(u64, Header)>,
}

static WHOLE: LazyLock<Whole> = LazyLock::new(|| {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("trace.bin");
    let shape = Shape { calls: 40_000, threads: 2, ..Shape::default() };
    let bytes = [false, true].map(|footer| {
        write(&path, Shape { footer, ..shape }).expect("written");
        fs::read(&path).expect("a trace")
    });
    let trace = Trace::open(&path).expect("a trace");
    let calls = trace.calls().map(|call| (call.thread, call.sequence)).collect();
    let chunks = trace.segments.iter().filter(|(_, header)| header.kind == Kind::Chunk).copied().collect();
    Whole { directory, bytes, calls, chunks }
});

fn damaged(name: &str, footer: bool, change: impl FnOnce(&mut Vec<u8>)) -> PathBuf {
    let path = WHOLE.directory.path().join(name);
    let mut bytes = WHOLE.bytes[usize::from(footer)].clone();
    change(&mut bytes);
    fs::write(&path, bytes).expect("written");
    path
}

/// The calls that are gone are those that the holes name, and the holes begin and end with their neighbours.
#[track_caller]
fn agrees(path: &Path) -> Opened {
    let trace = Trace::open(path).expect("a trace");
    let opened = Opened::open(path, false, |_| Vec::new()).expect("a trace");
    let there: BTreeSet<(u32, u32)> = trace.calls().map(|call| (call.thread, call.sequence)).collect();
    let holes = &opened.summary().holes;
    let gone: Vec<(u32, u32)> = WHOLE.calls.difference(&there).copied().collect();
    let named = |(thread, sequence): &(u32, u32)| {
        holes.iter().any(|h| h.thread == *thread && h.first <= *sequence && h.next.is_none_or(|next| *sequence < next))
    };
    assert!(gone.iter().all(named), "{} calls are gone, the holes are {holes:?}; {:?}", gone.len(), trace.damage);
    assert!(!there.iter().any(named), "{holes:?}");
    for hole in holes {
        let own = || trace.calls().filter(|call| call.thread == hole.thread);
        let before = own().filter(|call| call.sequence < hole.first).filter_map(|call| call.end).max();
        let behind = own().find(|call| Some(call.sequence) == hole.next);
        assert_eq!(hole.behind.map(u64::from), behind.as_ref().map(|call| call.number));
        let ns = |ticks: u64| trace.nanoseconds(ticks) as u64;
        assert_eq!(hole.end, behind.map_or(opened.summary().end, |call| ns(call.begin)));
        assert!(before.is_none_or(|before| hole.begin >= ns(before).min(hole.end)), "{hole:?}");
    }
    opened
}

#[test]
fn a_chunk_that_does_not_match_its_checksum_is_a_hole() {
    for footer in [false, true] {
        // The middle one of the three of a thread.
        let (offset, header) = *WHOLE.chunks.iter().filter(|(_, h)| h.thread == 1).nth(1).expect("three chunks");
        let path = damaged("content.bin", footer, |bytes| bytes[offset as usize + 5000] ^= 1);
        let opened = agrees(&path);
        let [hole] = opened.summary().holes.as_slice() else { panic!("{:?}", opened.summary().holes) };
        assert_eq!((hole.thread, hole.bytes.as_slice()), (1, &[(offset + HEADER as u64, header.length)][..]));
        assert!(hole.what.contains("checksum"), "{hole:?}");
        let label = opened.label().expect("a label");
        assert!(label.starts_with("damaged: t1: ") && label.contains(" calls lost at "), "{label}");
        let state = State::new(Arc::new(opened), Keymap::default(), (120, 24));
        let mut buffer = ratatui::buffer::Buffer::empty(ratatui::layout::Rect::new(0, 0, 120, 24));
        viewer::view::draw(&state, &Theme::PLAIN, &mut buffer);
        let text = frame(&buffer);
        let lane = text.lines().find(|line| line.contains("t1 worker")).expect("a lane");
        assert!(lane.contains("x t1: ") && lane.contains(" lost x"), "{text}");
    }
}

#[test]
fn a_chunk_whose_header_is_gone_is_a_hole() {
    for footer in [false, true] {
        let (offset, header) = *WHOLE.chunks.iter().filter(|(_, h)| h.thread == 0).nth(1).expect("three chunks");
        let path = damaged("header.bin", footer, |bytes| bytes[offset as usize + 20] ^= 1);
        let opened = agrees(&path);
        let [hole] = opened.summary().holes.as_slice() else { panic!("{:?}", opened.summary().holes) };
        assert_eq!((hole.thread, hole.bytes.as_slice()), (0, &[(offset, header.size)][..]));
    }
}

#[test]
fn what_was_cut_off_is_a_hole_up_to_the_end() {
    let (offset, _) = *WHOLE.chunks.last().expect("chunks");
    let path = damaged("cut.bin", false, |bytes| bytes.truncate(offset as usize + 20_000));
    let opened = agrees(&path);
    assert!(opened.summary().holes.iter().any(|hole| hole.next.is_none()), "{:?}", opened.summary().holes);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// But for the last chunk of a thread: if its header is gone, nothing tells that it ever was.
    #[test]
    fn whatever_is_lost_is_told(footer: bool, which in 0.0..1.0f64, at in 0.0..1.0f64, bit in 0..8u32) {
        let (offset, header) = WHOLE.chunks[(which * WHOLE.chunks.len() as f64) as usize];
        let at = offset + (at * header.length as f64) as u64;
        let is_last = !WHOLE.chunks.iter().any(|(_, h)| h.thread == header.thread && h.ordinal() > header.ordinal());
        prop_assume!(!is_last || at >= offset + HEADER as u64);
        agrees(&damaged("any.bin", footer, |bytes| bytes[at as usize] ^= 1 << bit));
    }
}
