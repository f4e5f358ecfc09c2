//! Properties of the format and its reader: written records can be read, whatever happened to the file since.

mod writer;

use proptest::prelude::*;
use std::collections::{HashMap, HashSet};
use trace::file::segment::{Header, Kind, PAGE};
use trace::model::decode::decode;
use trace::model::objects::Objects;
use trace::read::call::{Content, When};
use trace::show::text::Text;
use trace::write::finish::{Judgement, finish};
use trace::{Error, Trace};
use writer::Writer;

/// One thing that a thread does.
#[derive(Debug, Clone)]
enum Step {
    Enter {
        thread: u32,
        function: usize,
        words: [u64; 3],
        payload: Vec<u8>,
    },
    /// With how many more that were like it.
    Leave {
        thread: u32,
        result: u32,
        payload: Vec<u8>,
        repeats: Option<u64>,
    },
}

/// Functions with their argument words; the last argument is a pointer.
const FUNCTIONS: [(&str, usize); 4] =
    [("cuCtxGetCurrent", 1), ("cuMemAlloc_v2", 2), ("cuMemcpyHtoD_v2", 3), ("cuStreamQuery", 1)];

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let payload = || {
        let sizes = prop_oneof![4 => 0..64usize, 1 => 0..6000usize];
        sizes.prop_flat_map(|n| prop::collection::vec(any::<u8>(), n))
    };
    let enter = (0..4u32, 0..FUNCTIONS.len(), any::<[u64; 3]>(), payload());
    let leave = (0..4u32, 0..3u32, payload(), prop::option::of(1..1000u64));
    let step = prop_oneof![
        enter.prop_map(|(thread, function, words, payload)| Step::Enter { thread, function, words, payload }),
        leave.prop_map(|(thread, result, payload, repeats)| Step::Leave { thread, result, payload, repeats }),
    ];
    prop::collection::vec(step, 1..80)
}

/// A call as it was written, and where in the file its records end.
#[derive(Debug, Clone, PartialEq)]
struct Written {
    thread: u32,
    sequence: u32,
    name: &'static str,
    words: Vec<u64>,
    begin: u64,
    at_entry: Vec<u8>,
    entry_end: usize,
    ret: Option<(u64, u32, Vec<u8>)>,
    ret_end: usize,
    repeats: Option<u64>,
    repeats_end: usize,
}

fn write(steps: &[Step]) -> (Writer, Vec<Written>) {
    let mut writer = Writer::new();
    let mut written: Vec<Written> = Vec::new();
    let mut open: HashMap<u32, Vec<usize>> = HashMap::new();
    for (time, step) in steps.iter().enumerate() {
        let time = 1000 + time as u64;
        match step {
            Step::Enter { thread, function, words, payload } => {
                let (name, count) = FUNCTIONS[*function];
                let words = words[..count].to_vec();
                let sequence = writer.enter(*thread, name, time, &words, &[writer::nested(77, payload)]);
                open.entry(*thread).or_default().push(written.len());
                written.push(Written {
                    thread: *thread,
                    sequence,
                    name,
                    words,
                    begin: time,
                    at_entry: payload.clone(),
                    entry_end: writer.end,
                    ret: None,
                    ret_end: 0,
                    repeats: None,
                    repeats_end: 0,
                });
            }
            Step::Leave { thread, result, payload, repeats } => {
                let Some(call) = open.get_mut(thread).and_then(Vec::pop) else { continue };
                writer.leave(*thread, written[call].sequence, time, *result, &[writer::nested(78, payload)]);
                written[call].ret = Some((time, *result, payload.clone()));
                written[call].ret_end = writer.end;
                written[call].repeats = repeats.filter(|calls| writer.repeats(*thread, *calls, 0, time, time));
                written[call].repeats_end = writer.end;
            }
        }
    }
    (writer, written)
}

fn read(trace: &Trace) -> Vec<Written> {
    trace
        .calls()
        .map(|call| {
            let image = |when| {
                let found = call.images().find(|image| image.when == when);
                found.map_or(Vec::new(), |image| match image.content {
                    Content::Bytes(bytes) => bytes.to_vec(),
                    other => panic!("written inline, read as {other:?}"),
                })
            };
            let (name, _) = FUNCTIONS.iter().find(|(name, _)| *name == call.name()).expect("one of those written");
            Written {
                thread: call.thread,
                sequence: call.sequence,
                name,
                words: call.words().collect(),
                begin: call.begin,
                at_entry: image(When::Entry),
                entry_end: 0,
                ret: call.end.zip(call.result).map(|(end, result)| (end, result, image(When::Return))),
                ret_end: 0,
                repeats: call.repeats.map(|repeats| repeats.calls),
                repeats_end: 0,
            }
        })
        .collect()
}

fn without_places(written: &[Written]) -> Vec<Written> {
    written.iter().map(|call| Written { entry_end: 0, ret_end: 0, repeats_end: 0, ..call.clone() }).collect()
}

/// Reads everything there is, in every way.
fn exercise(trace: &mut Trace) {
    let mut objects = Objects::default();
    for call in trace.calls() {
        let _ticks = (trace.nanoseconds(call.begin), call.last_end().map(|end| trace.nanoseconds(end)));
        let _run = (call.count(), call.repeats_took(), call.inside_since());
        objects.concerned(&call);
        if let Some(decoded) = decode(&call) {
            objects.advance(&call, Some(&decoded));
            for (_, value) in decoded.arguments.iter().chain(&decoded.outputs) {
                let _text = Text(value, &objects).to_string();
            }
        }
        call.images().for_each(|image| {
            let _bytes = trace.bytes(&image);
        });
    }
    trace.check_blobs();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn any_interleaving_is_read_as_written(steps in steps(), sealed: bool, closed: bool) {
        let (mut writer, written) = write(&steps);
        if sealed {
            writer.seal_all();
        }
        let file = writer.file();
        if closed {
            let trace = Trace::open(file.path()).expect("readable");
            prop_assert!(finish(&trace, |_| ("no".into(), vec![])).expect("closed").written);
        }
        let trace = Trace::open(file.path()).expect("readable");
        prop_assert_eq!(&trace.damage, &[]);
        prop_assert_eq!(read(&trace), without_places(&written));
        prop_assert_eq!(trace.footer.is_some(), closed);
        if closed {
            let before = std::fs::read(file.path()).expect("readable");
            let again = finish(&trace, |_| -> Judgement { unreachable!("closed already") });
            prop_assert!(!again.expect("closed").written);
            prop_assert_eq!(before, std::fs::read(file.path()).expect("readable"));
        }
    }

    #[test]
    fn any_truncation_gives_the_committed_prefix(steps in steps(), at in any::<prop::sample::Index>()) {
        let (writer, written) = write(&steps);
        let len = at.index(writer.bytes.len());
        let file = writer::file(&writer.bytes[..len]);
        match Trace::open(file.path()) {
            Err(Error::Empty { .. }) => prop_assert_eq!(len, 0),
            Err(Error::Foreign { .. }) => prop_assert!(len < 8),
            Err(Error::NoPreamble { .. }) => prop_assert!(len < preamble_size(&writer.bytes)),
            Err(other) => panic!("{other}"),
            Ok(trace) => {
                let prefix: Vec<Written> = written
                    .iter()
                    .filter(|call| call.entry_end <= len)
                    .map(|call| Written {
                        ret: call.ret.clone().filter(|_| call.ret_end <= len),
                        repeats: call.repeats.filter(|_| call.repeats_end <= len),
                        ..call.clone()
                    })
                    .collect();
                prop_assert_eq!(read(&trace), without_places(&prefix));
                // Closing it keeps the prefix, and says what is gone.
                let lost = trace.damage.iter().any(|damage| damage.loses);
                let done = finish(&trace, |_| ("no".into(), vec![])).expect("closed");
                prop_assert_eq!(lost, !done.losses.is_empty());
                let trace = Trace::open(file.path()).expect("readable");
                prop_assert_eq!(&trace.damage, &[]);
                prop_assert_eq!(read(&trace), without_places(&prefix));
            }
        }
    }

    #[test]
    fn a_flipped_byte_costs_its_chunk_at_most(
        steps in steps(), closed: bool, at in any::<prop::sample::Index>(), bit in 0..8u32
    ) {
        let (mut writer, written) = write(&steps);
        writer.seal_all();
        let mut bytes = writer.bytes;
        if closed {
            let file = writer::file(&bytes);
            finish(&Trace::open(file.path()).expect("readable"), |_| ("no".into(), vec![])).expect("closed");
            bytes = std::fs::read(file.path()).expect("readable");
        }
        let at = at.index(bytes.len());
        let hit = segment_at(&bytes, at);
        bytes[at] ^= 1 << bit;
        let file = writer::file(&bytes);
        let trace = Trace::open(file.path()).expect("one of two preambles is whole");
        let (offset, header) = hit;
        let in_chunk = |end: usize| {
            header.kind == Kind::Chunk && end > offset && end <= offset + header.size as usize
        };
        let all: HashMap<_, _> = read(&trace).into_iter().map(|c| ((c.thread, c.sequence), c)).collect();
        for call in &written {
            let found = all.get(&(call.thread, call.sequence));
            let expected = &without_places(std::slice::from_ref(call))[0];
            if found == Some(expected) {
                continue;
            }
            prop_assert!(!trace.damage.is_empty(), "lost without a word");
            prop_assert!(in_chunk(call.entry_end) || in_chunk(call.ret_end), "another chunk's call was lost");
            if let Some(found) = found {
                prop_assert!(!in_chunk(call.entry_end), "half of a damaged chunk was used");
                prop_assert_eq!(&Written { ret: None, repeats: None, ..expected.clone() }, found);
            }
        }
        // Content and header are covered; what lies behind the content is not, nor a free page, whose mark
        // says where the footer begins: of a closed trace the footer is there.
        let is_spare = header.kind == Kind::Preamble && offset != 0 || header.kind == Kind::Free;
        if at < offset + 64 + header.length as usize && !is_spare {
            prop_assert!(!trace.damage.is_empty(), "a flipped byte at {} went unnoticed", at);
        }
        let known: HashSet<_> = written.iter().map(|c| (c.thread, c.sequence)).collect();
        prop_assert!(all.keys().all(|key| known.contains(key)), "a call that was never made");
    }

    #[test]
    fn nothing_makes_the_reader_panic(bytes in prop::collection::vec(any::<u8>(), 0..20_000), as_trace: bool) {
        let file = if as_trace {
            // A chunk whose content is anything at all: nothing vouches for an open one.
            let mut writer = Writer::new();
            let mut record = bytes;
            record.resize(record.len().div_ceil(8) * 8, 0);
            writer.record(0, &record);
            writer.file()
        } else {
            writer::file(&bytes)
        };
        if let Ok(mut trace) = Trace::open(file.path()) {
            exercise(&mut trace);
            if let Ok(done) = finish(&trace, |_| ("no".into(), vec![])) {
                prop_assert!(done.written);
            }
        }
    }

    #[test]
    fn any_call_of_the_table_can_be_shown(
        function in 0..trace::api::FUNCTIONS.len(),
        words in prop::collection::vec(prop_oneof![3 => 1..40u64, 1 => any::<u64>()], 32),
        images in prop::collection::vec((1..40u64, prop::collection::vec(0..48u8, 0..120)), 0..12),
        result in 0..2u32,
    ) {
        let function = &trace::api::FUNCTIONS[function];
        let words = &words[..function.words().min(words.len())];
        // Addresses are small numbers, so that words, and what lies in images, lead to other images.
        let images: Vec<Vec<u8>> = images.iter().map(|(at, bytes)| writer::nested(*at, &widen(bytes))).collect();
        let mut writer = Writer::new();
        let call = writer.enter(0, function.name, 100, words, &images);
        writer.leave(0, call, 200, result, &images);
        exercise(&mut Trace::open(writer.file().path()).expect("readable"));
    }

    #[test]
    fn damaged_open_chunks_do_not_make_it_panic(
        steps in steps(),
        wounds in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..20),
    ) {
        let (writer, _) = write(&steps);
        let mut bytes = writer.bytes;
        let start = 2 * preamble_size(&bytes);
        for (at, value) in wounds {
            if bytes.len() > start {
                let at = start + at.index(bytes.len() - start);
                bytes[at] = value;
            }
        }
        let file = writer::file(&bytes);
        exercise(&mut Trace::open(file.path()).expect("the preamble is whole"));
    }
}

/// Every eighth byte, as words: numbers below 48.
fn widen(bytes: &[u8]) -> Vec<u8> {
    bytes.chunks(8).flat_map(|chunk| u64::from(chunk[0]).to_le_bytes()).collect()
}

fn preamble_size(bytes: &[u8]) -> usize {
    Header::decode(bytes).expect("a preamble").size as usize
}

/// The segment that holds a byte, by the undamaged file.
fn segment_at(bytes: &[u8], at: usize) -> (usize, Header) {
    let mut offset = 0;
    loop {
        let header = Header::decode(&bytes[offset..]).expect("a row of segments");
        assert_eq!(header.size % PAGE, 0);
        if at < offset + header.size as usize {
            return (offset, header);
        }
        offset += header.size as usize;
    }
}

#[test]
fn a_newer_or_foreign_file_is_named() {
    let mut bytes = Writer::new().bytes;
    bytes[9] = 200;
    let check = trace::base::hash::checksum(&bytes[..40]).to_le_bytes();
    bytes[40..48].copy_from_slice(&check);
    let text = |bytes: &[u8]| {
        let file = writer::file(bytes);
        let error = Trace::open(file.path()).err().expect("refused").to_string();
        error.replace(&file.path().display().to_string(), "FILE")
    };
    assert!(text(&bytes).starts_with("FILE: format version 200 at offset 9"), "{}", text(&bytes));
    assert!(text(b"").starts_with("FILE: the file is empty"), "{}", text(b""));
    let elf = text(b"\x7fELF and more");
    assert!(elf.starts_with("FILE: not a cutrace trace: found \"\\x7fELF and\" at offset 0"), "{elf}");
}

#[test]
fn a_blob_that_changed_is_left_out() {
    let mut writer = Writer::new();
    let hash = writer.blob(&[5; 5000]);
    let start = writer.bytes.len() - 8192;
    writer.bytes[start + 100] ^= 1;
    let file = writer.file();
    let mut trace = Trace::open(file.path()).expect("readable");
    assert!(trace.blob(hash).is_some() && trace.damage.is_empty());
    trace.check_blobs();
    assert!(trace.blob(hash).is_none());
    assert_eq!(trace.damage[0].offset, start as u64);
}
