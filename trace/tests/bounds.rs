//! Reading costs memory and time in proportion to the file, whatever the file claims.

mod computed;
mod writer;

use computed::computed;
use proptest::prelude::*;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use trace::Trace;
use trace::file::preamble::{self, Footer, Preamble};
use trace::file::record::{self, NESTED, Thread};
use trace::file::segment::{HEADER, Header, Kind};
use trace::model::decode::decode;
use trace::read::call::{Call, Content, Image, When};
use writer::Writer;

/// The system's allocator; counts what each thread has.
struct Counting;

thread_local! {
    static NOW: Cell<usize> = const { Cell::new(0) };
    static MOST: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: every call goes to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        NOW.set(NOW.get().saturating_add(layout.size()));
        MOST.set(MOST.get().max(NOW.get()));
        // SAFETY: the caller keeps the contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        NOW.set(NOW.get().saturating_sub(layout.size()));
        // SAFETY: the caller keeps the contract.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Bytes that a piece of work had allocated at its worst.
fn most<T>(work: impl FnOnce() -> T) -> (usize, T) {
    let before = NOW.get();
    MOST.set(before);
    let result = work();
    (MOST.get() - before, result)
}

#[test]
fn a_length_is_not_believed() {
    let claim = |fields: usize| [vec![0; fields], (1u64 << 29).to_le_bytes().to_vec()].concat();
    let (bytes, thread) = most(|| preamble::decode::<Thread>(&claim(4)));
    assert!(thread.is_none() && bytes < 8192, "{bytes}");
    let (bytes, footer) = most(|| preamble::decode::<Footer>(&claim(0)));
    assert!(footer.is_none() && bytes < 8192, "{bytes}");
    // Of a footer of 17 MiB, a list of 8 GiB.
    let long = [claim(0), vec![0; 17 << 20]].concat();
    let (bytes, footer) = most(|| preamble::decode::<Footer>(&long));
    assert!(footer.is_none() && bytes < 8192, "{bytes}");
    let whole = writer::preamble();
    let encoded = preamble::encode(&whole);
    let (bytes, decoded) = most(|| preamble::decode::<Preamble>(&encoded));
    assert!(decoded == Some(whole) && bytes < 256 * encoded.len(), "{bytes}");
}

#[test]
fn segments_within_segments_cost_no_more_than_themselves() {
    // Chunks whose headers stand in the content of the chunks before, each as long as the rest of the file.
    const CHUNKS: usize = 400;
    let mut writer = Writer::new();
    let start = writer.bytes.len();
    let page = trace::file::segment::PAGE as usize;
    for chunk in 0..CHUNKS {
        let size = ((CHUNKS - chunk) * page) as u64;
        let length = size - HEADER as u64;
        let header = Header { thread: chunk as u32, length, ..Header::new(Kind::Chunk, size) };
        let head = |size: usize, kind| record::Head { size: size as u32, kind, flags: record::OPTIONAL, function: 0 };
        let encode = |head| bincode::encode_to_vec(head, record::CONFIG).expect("into memory");
        // A record over the next header, then returns that fill the page.
        let mut content = encode(head(32, 77));
        content.resize(32, 0);
        while content.len() < page - HEADER - 72 {
            content.extend(encode(head(24, record::RETURN)));
            content.resize(content.len() + 16, 0);
        }
        let rest = page - content.len();
        content.extend(encode(head(rest, 77)));
        content.resize(page - HEADER, 0);
        writer.bytes.extend(header.encode());
        writer.bytes.extend(content);
    }
    let segments = (0..CHUNKS).map(|n| preamble::Located { kind: 2, offset: (start + n * page) as u64 }).collect();
    let content = preamble::encode(&Footer { segments, ..Footer::default() });
    let at = writer.bytes.len() as u64;
    let mut footer = trace::file::segment::whole(Kind::Footer, 0, &content);
    let end = footer.len();
    footer[end - 16..end - 8].copy_from_slice(&at.to_le_bytes());
    footer[end - 8..].copy_from_slice(&trace::file::segment::MAGIC);
    writer.bytes.extend(footer);
    let file = writer.file();
    let (bytes, trace) = most(|| Trace::open(file.path()).expect("readable"));
    assert!(bytes < 2 * writer.bytes.len(), "{bytes} bytes for a file of {}", writer.bytes.len());
    assert_eq!(trace.segments.len(), 2, "one chunk and the footer");
    let within = trace.damage.iter().filter(|damage| damage.what.contains("within another one"));
    assert_eq!(within.count(), CHUNKS - 1);
}

#[test]
fn runs_of_callbacks_are_as_many_as_there_are() {
    const CALLS: u32 = 500;
    let mut writer = Writer::new();
    for call in 0..CALLS {
        writer.call(0, "cuCtxGetCurrent", 100 * u64::from(call), &[8], 0, &[]);
        // A run beyond all that could be in the file, and one that could.
        for run in [u32::MAX, CALLS] {
            let about = record::Written { begin: 1, end: 2, thread: 0, call, run, seen: 0 };
            writer.record(0, &record::with_body(record::WRITTEN, &about));
        }
    }
    let file = writer.file();
    let trace = Trace::open(file.path()).expect("readable");
    let (bytes, runs) = most(|| trace.calls().map(|call| call.callback_runs()).collect::<Vec<_>>());
    assert!(runs.iter().all(|runs| runs.keys().eq(&[CALLS - 1, u32::MAX - 1])));
    assert!(bytes < 16 * writer.bytes.len(), "{bytes} bytes for a file of {}", writer.bytes.len());
}

/// As [`Call::memory`] for one moment, by looking at every image: the first that has a byte is read to its
/// end.
fn memory(trace: &Trace, call: &Call, when: When, address: u64, len: u64) -> Option<Vec<u8>> {
    let mut whole = Vec::new();
    while (whole.len() as u64) < len {
        let at = address + whole.len() as u64;
        let rest = call.images().filter(|image| image.when == when && !image.rows).find_map(|image| {
            let skip = at.checked_sub(image.address)?;
            Some(trace.bytes(&image)?.get(skip as usize..)?.to_vec()).filter(|rest| !rest.is_empty())
        })?;
        whole.extend(rest);
    }
    whole.truncate(len as usize);
    Some(whole)
}

fn shape(image: &Image) -> (u64, u64, bool, bool, Option<Vec<u8>>) {
    let bytes = match image.content {
        Content::Bytes(bytes) => Some(bytes.to_vec()),
        _ => None,
    };
    (image.address, image.len, image.when == When::Entry, image.rows, bytes)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn images_are_found_as_by_looking_at_each(
        images in prop::collection::vec(
            (100..400u64, prop::collection::vec(any::<u8>(), 0..60), any::<bool>()),
            1..120,
        ),
        wanted in prop::collection::vec((90..420u64, 1..50u64), 20),
        kinds in prop::collection::vec(0..6u8, 120),
        filler in prop_oneof![Just(0usize), Just(5000)],
    ) {
        let mut writer = Writer::new();
        let (mut at_entry, mut at_return) = (vec![writer::nested(9000, &vec![1; filler])], Vec::new());
        for ((address, bytes, is_return), kind) in images.iter().zip(&kinds) {
            let mut attachment = writer::nested(*address, bytes);
            match kind {
                0 => attachment[0] |= record::ROWS,
                1 => {
                    attachment[0] = record::LOST;
                    attachment.truncate(16);
                }
                _ => {}
            }
            assert_eq!(attachment[1], NESTED);
            if *is_return { at_return.push(attachment) } else { at_entry.push(attachment) }
        }
        let call = writer.enter(0, "cuCtxGetCurrent", 100, &[8], &at_entry);
        writer.leave(0, call, 200, 0, &at_return);
        let file = writer.file();
        let trace = Trace::open(file.path()).expect("readable");
        let call = trace.call(0).expect("written");
        prop_assert_eq!(call.images().count(), images.len() + 1);
        for (address, len) in wanted {
            let found: Vec<_> = call.images_at(address).map(|image| shape(&image)).collect();
            let expected: Vec<_> =
                call.images().filter(|i| i.address == address).map(|image| shape(&image)).collect();
            prop_assert_eq!(found, expected);
            for (when, other) in [(When::Entry, When::Return), (When::Return, When::Entry)] {
                let expected = memory(&trace, &call, when, address, len)
                    .or_else(|| memory(&trace, &call, other, address, len));
                prop_assert_eq!(call.memory(when, address, len).map(|bytes| bytes.into_owned()), expected);
            }
        }
    }
}

#[test]
fn an_image_costs_what_it_can_mean() {
    use trace::code::parameters::Code;
    let header = |size: u64| [&0xba55_ed50u32.to_le_bytes()[..], &[1, 0, 16, 0], &size.to_le_bytes()].concat();
    let entry = |stored: u64, plain: u64| {
        let sizes = [
            &stored.to_le_bytes()[..],
            &(stored as u32).to_le_bytes(),
            &[0; 8],
            &[50, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        ];
        [&[1, 0, 1, 1, 64, 0, 0, 0][..], &sizes.concat(), &0x2000u64.to_le_bytes(), &[0; 8], &plain.to_le_bytes()]
            .concat()
    };
    // A block that claims all of memory; a thousand of them, one behind the other, that claim as much as they
    // could mean.
    let lie = [header(64 + 4096), entry(4096, 1 << 40), vec![0; 4096]].concat();
    let many = [header(1000 * 164), [entry(100, 25_000), vec![0xff; 100]].concat().repeat(1000)].concat();
    for image in [lie, many] {
        let (bytes, kernels) = most(|| {
            let read = trace::code::parameters::from(&image);
            let mut code = Code::new(0, image.len(), Some(90), &read);
            assert_eq!(code.unread().count(), 0, "the entries themselves are in order");
            code.all(&read).len()
        });
        assert_eq!(kernels, 0);
        assert!(bytes < image.len() * 3 + 65536, "{bytes} for {}", image.len());
    }
}

#[test]
fn a_call_with_many_images_is_shown_in_passing() {
    // Looking at each image for each address would take 10^9 looks.
    const COUNT: u64 = 40_000;
    let mut writer = Writer::new();
    let names: Vec<u8> = (0..COUNT).flat_map(|n| n.to_le_bytes()).collect();
    let mut images = vec![writer::nested(0x1000, &names)];
    images.extend((0..COUNT).map(|n| writer::nested(0x10_0000 + n * 16, &n.to_le_bytes())));
    let words = [0x1000, 0, COUNT, 0, 0, 0, 0, 0];
    let call = writer.enter(0, "cuMemPrefetchBatchAsync", 100, &words, &images);
    writer.leave(0, call, 200, 0, &[]);
    let file = writer.file();
    let trace = Trace::open(file.path()).expect("readable");
    let call = trace.call(0).expect("written");
    let before = computed();
    assert!(decode(&call).is_some());
    for n in 0..COUNT {
        let found = call.memory(When::Return, 0x10_0000 + n * 16, 8).expect("recorded");
        assert_eq!(found.as_ref(), n.to_le_bytes());
        assert_eq!(call.images_at(0x10_0000 + n * 16).count(), 1);
    }
    let took = computed() - before;
    assert!(took.as_secs() < 20, "{took:?}");
}
