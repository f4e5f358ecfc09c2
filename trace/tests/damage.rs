//! What the reader may report of a damaged, forged or repaired file, and which damage it must report.

mod writer;

use std::os::unix::fs::FileExt;
use trace::Trace;
use trace::file::preamble::{Footer, Located, encode};
use trace::file::record::{self, Head};
use trace::file::segment::{HEADER, Header, Kind, LENGTH_AT, MAGIC, PAGE, round_up, whole};
use trace::write::finish::finish;
use writer::Writer;

const CALL: &str = "cuCtxGetCurrent";

fn damage(trace: &Trace) -> Vec<&str> {
    trace.damage.iter().map(|damage| damage.what.as_str()).collect()
}

fn close(trace: &Trace) -> trace::write::finish::Finished {
    finish(trace, |_| ("no".into(), vec![])).expect("closed")
}

/// Two threads with two calls each; the offset of the second thread's chunk.
fn two_threads() -> (Writer, usize) {
    let mut writer = Writer::new();
    writer.call(0, CALL, 100, &[8], 0, &[]);
    writer.call(0, CALL, 200, &[8], 0, &[]);
    let chunk = writer.bytes.len();
    writer.call(1, CALL, 110, &[8], 0, &[]);
    writer.call(1, CALL, 210, &[8], 0, &[]);
    (writer, chunk)
}

/// `bytes`, and a footer that lists these segments.
fn with_footer(mut bytes: Vec<u8>, offsets: &[u64], calls: u64, losses: Vec<(String, u64)>) -> Vec<u8> {
    let segments = offsets.iter().map(|offset| Located { kind: 0, offset: *offset }).collect();
    let content = encode(&Footer { segments, calls, losses, ..Footer::default() });
    let mut footer = whole(Kind::Footer, 0, &content);
    let size = round_up((HEADER + content.len() + 16) as u64) as usize;
    assert_eq!(footer.len(), size, "the last 16 bytes of the page are free");
    footer[size - 16..size - 8].copy_from_slice(&(bytes.len() as u64).to_le_bytes());
    footer[size - 8..].copy_from_slice(&MAGIC);
    bytes.extend(footer);
    bytes
}

fn offsets(bytes: &[u8]) -> Vec<u64> {
    let mut offsets = vec![0];
    while let Some(header) = bytes.get(offsets[offsets.len() - 1] as usize..).and_then(Header::decode) {
        offsets.push(offsets[offsets.len() - 1] + header.size);
    }
    offsets.pop();
    offsets
}

#[test]
fn a_repaired_trace_remembers_what_it_lost() {
    let (mut writer, chunk) = two_threads();
    writer.record(0, &record::with_body(record::LOSS, &record::Loss { what: "a payload".into(), count: 2 }));
    writer.record(0, &record::with_body(record::LOSS, &record::Loss { what: "a payload".into(), count: 3 }));
    writer.seal_all();
    writer.bytes[chunk + HEADER + 20] ^= 1;
    let file = writer.file();
    close(&Trace::open(file.path()).expect("readable"));

    let trace = Trace::open(file.path()).expect("readable");
    assert_eq!((trace.len(), trace.damage.as_slice()), (2, [].as_slice()));
    assert_eq!(trace.losses[0], ("a payload".into(), 3));
    assert!(trace.losses[1].0.contains("does not match its checksum"), "{:?}", trace.losses);
    assert_eq!(trace.losses.len(), 2);
    assert_eq!(trace.losses, trace.footer.as_ref().expect("closed").losses);
}

#[test]
fn a_footer_that_hides_a_chunk_is_damage() {
    let mut writer = Writer::new();
    for call in 0..200 {
        writer.call(0, CALL, 100 * call, &[8], 0, &[]);
    }
    writer.seal_all();
    let all = offsets(&writer.bytes);
    let without = |hidden: usize| all.iter().copied().filter(|at| *at != all[hidden]).collect::<Vec<_>>();
    let open = |listed: &[u64], losses| {
        Trace::open(writer::file(&with_footer(writer.bytes.clone(), listed, 200, losses)).path()).expect("readable")
    };
    assert_eq!(damage(&open(&all, vec![])), [""; 0]);
    let trace = open(&without(3), vec![]);
    assert_eq!(damage(&trace)[0], "thread 0: chunk 0 is missing before this one");
    let trace = open(&without(all.len() - 1), vec![]);
    assert!(damage(&trace)[0].starts_with("the footer counts 200 calls; "), "{:?}", trace.damage);
    // Losses explain a gap.
    let explained = with_footer(writer.bytes.clone(), &without(3), 0, vec![("a chunk".into(), 1)]);
    let trace = Trace::open(writer::file(&explained).path()).expect("readable");
    assert!(trace.damage.iter().all(|damage| damage.what.starts_with("the footer counts")), "{:?}", trace.damage);
}

#[test]
fn segments_within_segments_are_damage() {
    let mut writer = Writer::new();
    // A call whose payload is a whole chunk of another thread, on a page of its own.
    let header = Header { thread: 1, length: 24, ..Header::new(Kind::Chunk, PAGE) };
    let entry = Head { size: 24, kind: record::ENTRY, flags: 0, function: writer::id(CALL) };
    let mut inner = header.encode().to_vec();
    inner.extend(bincode::encode_to_vec(record::Entry { head: entry, begin: 5 }, record::CONFIG).expect("into memory"));
    inner.extend([0; 8]);
    let before = PAGE as usize - HEADER - record::ENTRY_SIZE - 8 - 16;
    let payload = [vec![1; before], inner, vec![1; 3 * PAGE as usize]].concat();
    writer.call(0, CALL, 100, &[8], 0, &[]);
    writer.seal_all();
    let outer = writer.bytes.len() as u64;
    writer.enter(0, CALL, 200, &[8], &[writer::nested(77, &payload)]);
    writer.seal_all();
    let all = offsets(&writer.bytes);
    assert!(Header::decode(&writer.bytes[(outer + PAGE) as usize..]).is_some(), "the inner one is where it should be");
    let listed = [all.clone(), vec![outer + PAGE, outer + 8, all[2], all[2]]].concat();
    let file = writer::file(&with_footer(writer.bytes, &listed, 2, vec![]));
    let trace = Trace::open(file.path()).expect("readable");
    assert_eq!(
        damage(&trace),
        ["a segment header that does not match its checksum", "the footer lists a segment within another one"]
    );
    assert_eq!((trace.len(), trace.threads.len()), (2, 1));
}

#[test]
fn a_blob_larger_than_its_segment_is_damage() {
    let mut writer = Writer::new();
    let hash = writer.blob(&[7; 100]);
    let at = writer.bytes.len() - PAGE as usize;
    writer.bytes[at + LENGTH_AT..at + LENGTH_AT + 8].copy_from_slice(&5000u64.to_le_bytes());
    writer.blob(&[8; 5000]);
    let trace = Trace::open(writer.file().path()).expect("readable");
    assert_eq!(damage(&trace), ["a blob of 5000 bytes in a segment of 4032"]);
    assert!(trace.blob(hash).is_none());
}

#[test]
fn a_page_that_is_zero_only_at_its_start_is_damage() {
    let (mut writer, chunk) = two_threads();
    writer.bytes[chunk..chunk + HEADER].fill(0);
    writer.bytes.extend([0; 2 * PAGE as usize]);
    let file = writer.file();
    let trace = Trace::open(file.path()).expect("readable");
    assert_eq!(trace.damage.iter().map(|damage| damage.offset).collect::<Vec<_>>(), [chunk as u64]);
    assert_eq!(trace.len(), 2);
    // Closing it loses nothing of it, and still gives back what was never used.
    let done = close(&trace);
    let bytes = std::fs::read(file.path()).expect("readable");
    assert_eq!(bytes[chunk..chunk + PAGE as usize], writer.bytes[chunk..chunk + PAGE as usize]);
    assert_eq!(done.bytes, bytes.len() as u64);
    // With a page that says what is lost, and one for the footer.
    assert_eq!(bytes.len(), chunk + 3 * PAGE as usize);
    assert_eq!(damage(&Trace::open(file.path()).expect("readable")), [""; 0]);
}

#[test]
fn a_return_without_its_entry_is_damage() {
    let mut writer = Writer::new();
    writer.call(0, CALL, 100, &[8], 0, &[]);
    writer.leave(0, 7, 300, 0, &[]);
    writer.leave(0, 8, 300, 0, &[]);
    let trace = Trace::open(writer.file().path()).expect("readable");
    assert_eq!(damage(&trace), ["2 returns of calls whose entries are missing"]);
    assert_eq!(trace.len(), 1);
}

#[test]
fn returns_behind_a_lost_chunk_are_no_second_damage() {
    let mut writer = Writer::new();
    let first = writer.enter(0, CALL, 100, &[8], &[writer::nested(77, &[1; 3900])]);
    let chunk = writer.bytes.len() - PAGE as usize;
    writer.leave(0, first, 200, 0, &[writer::nested(77, &[1; 3900])]);
    writer.seal_all();
    writer.bytes[chunk + HEADER + 20] ^= 1;
    let file = writer.file();
    let trace = Trace::open(file.path()).expect("readable");
    assert_eq!(trace.damage.len(), 1, "{:?}", trace.damage);
    close(&trace);
    assert_eq!(damage(&Trace::open(file.path()).expect("readable")), [""; 0]);
}

#[test]
fn closing_overwrites_no_damaged_segment() {
    let (mut writer, chunk) = two_threads();
    writer.seal_all();
    writer.bytes[chunk + HEADER + 20] ^= 1;
    let file = writer.file();
    for _ in 0..2 {
        close(&Trace::open(file.path()).expect("readable"));
        let bytes = std::fs::read(file.path()).expect("readable");
        assert_eq!(bytes[chunk..chunk + PAGE as usize], writer.bytes[chunk..chunk + PAGE as usize]);
        assert_eq!(bytes.len(), chunk + 3 * PAGE as usize);
    }
}

#[test]
fn sizes_beyond_any_file_do_not_overflow() {
    for size in [u64::MAX / PAGE * PAGE, 1 << 63] {
        let (mut writer, _) = two_threads();
        let forged = writer.bytes.len();
        writer.bytes.extend(Header { thread: 2, length: 24, ..Header::new(Kind::Chunk, size) }.encode());
        writer.bytes.resize(forged + PAGE as usize, 1);
        let file = writer.file();
        let trace = Trace::open(file.path()).expect("readable");
        assert_eq!(damage(&trace), ["expected the header of a segment, found none that matches its checksum"]);
        close(&trace);
        let bytes = std::fs::read(file.path()).expect("readable");
        assert_eq!(bytes[forged..forged + PAGE as usize], writer.bytes[forged..]);
    }
}

#[test]
fn times_of_a_forged_clock_follow_each_other() {
    let mut writer = Writer::new();
    writer.call(0, CALL, 100, &[8], 0, &[]);
    writer.record(0, &record::with_body(record::CLOCK, &record::Clock { tsc: 1 << 32, ns: u64::MAX }));
    let trace = Trace::open(writer.file().path()).expect("a trace");
    let times = [0, 100, 1 << 31, 1 << 40, u64::MAX].map(|ticks| trace.nanoseconds(ticks));
    assert!(times.is_sorted(), "{times:?}");
    assert!(times[4].checked_sub(times[0]).is_some(), "{times:?}");
}

/// The recorder copies a full chunk to the end of the file and writes others' records in its place, while a
/// reader has the trace open.
#[test]
fn what_was_found_in_an_open_chunk_stays_when_it_is_used_again() {
    let (mut writer, chunk) = two_threads();
    let about = record::Annotation {
        time: 220,
        payload: 0,
        subject: 0,
        message: 0,
        domain: 0,
        category: 0,
        color: 0,
        what: record::annotated::MARK,
        payload_type: 0,
        has_color: false,
        registered: false,
        zero: 0,
    };
    writer.record(1, &record::with_body(record::ANNOTATION, &about));
    let file = writer.file();
    let trace = Trace::open(file.path()).expect("readable");
    let known = Trace::open_summarized(file.path(), trace.summarize()).expect("readable");

    let head = Head { size: 8, kind: 77, flags: record::OPTIONAL, function: 0 };
    let record = bincode::encode_to_vec(head, record::CONFIG).expect("into memory");
    let room = PAGE as usize - HEADER;
    let header = Header { thread: 0, id: 7 << 64, length: room as u64, ..Header::new(Kind::Chunk, PAGE) };
    let written = [header.encode().as_slice(), &record.repeat(room / 8)].concat();
    file.as_file().write_all_at(&written, chunk as u64).expect("written");

    let calls: Vec<(u32, u64, Option<u64>)> = trace.calls().map(|call| (call.thread, call.begin, call.end)).collect();
    let end = |begin: u64| Some(begin + 10);
    assert_eq!(calls, [(0, 100, end(100)), (1, 110, end(110)), (0, 200, end(200)), (1, 210, end(210))]);
    assert!(trace.calls().all(|call| call.name() == CALL && call.words().eq([8])));
    let told: Vec<(u32, u64)> = trace.annotations().map(|note| (note.thread, note.about.time)).collect();
    assert_eq!(told, [(1, 220)]);
    let call = known.call_at(1, 1, 3, false).expect("the call");
    assert_eq!((call.name(), call.begin, call.end), (CALL, 210, Some(220)));
}

#[test]
fn a_trace_that_was_replaced_meanwhile_is_not_closed() {
    let (file, directory) = (two_threads().0.file(), tempfile::tempdir().expect("a temporary directory"));
    let (path, victim) = (directory.path().join("trace.bin"), directory.path().join("victim"));
    std::fs::copy(file.path(), &path).expect("copied");
    let trace = Trace::open(&path).expect("a trace");
    std::fs::write(&victim, "somebody else's").expect("written");
    std::fs::remove_file(&path).expect("removed");
    std::os::unix::fs::symlink(&victim, &path).expect("linked");
    let error = finish(&trace, |_| ("no".into(), vec![])).expect_err("another file");
    assert!(error.to_string().contains("another file has been put in its place"), "{error}");
    assert_eq!(std::fs::read(&victim).expect("there"), b"somebody else's");
}

#[test]
fn queries_that_are_counted_behind_a_launch_are_told_as_such() {
    let read = |begin: u64, behind: Option<&str>| {
        let mut writer = Writer::new();
        writer.call(0, "cuCtxGetCurrent", 100, &[8], 0, &[]);
        assert!(writer.repeats(0, 3, 30, begin, 160));
        writer.call(0, "cuLaunchKernel", 120, &[0; 11], 0, &[]);
        behind.iter().for_each(|name| writer.call(0, name, 180, &[8], 0, &[]));
        let file = writer.file();
        let trace = Trace::open(file.path()).expect("readable");
        let call = trace.call(0).expect("there");
        let known = Trace::open_summarized(file.path(), trace.summarize()).expect("readable");
        assert_eq!(known.call_at(0, 0, 0, false).expect("the call").repeats, call.repeats);
        (call.count(), call.last_end(), call.last_return(), call.inside_since())
    };
    assert_eq!(read(150, None), (4, Some(120), Some(160), None));
    assert_eq!(read(170, None), (4, Some(120), Some(160), Some(170)), "the thread is in one more");
    assert_eq!(read(170, Some("cuCtxGetDevice")), (4, Some(120), Some(160), Some(170)));
    assert_eq!(read(170, Some("cuStreamSynchronize")), (4, Some(120), Some(160), None), "that ends the run");
}

#[test]
fn counts_of_polls_that_cannot_be_are_damage() {
    let counted = |records: &[[u64; 4]]| {
        let mut writer = Writer::new();
        writer.call(0, "cuEventQuery", 100, &[8], 600, &[]);
        records.iter().for_each(|[calls, time, begin, end]| {
            assert!(writer.repeats(0, *calls, *time, *begin, *end));
        });
        let trace = Trace::open(writer.file().path()).expect("readable");
        let call = trace.call(0).expect("there");
        let told = (trace.calls_made(), trace.threads[0].repeated, call.count(), call.last_end(), call.inside_since());
        (told, damage(&trace).len())
    };
    assert_eq!(counted(&[]), ((1, 0, 1, Some(110), None), 0));
    assert_eq!(counted(&[[3, 30, 150, 160]]), ((4, 3, 4, Some(160), None), 0));
    assert_eq!(counted(&[[3, 30, 170, 160]]), ((4, 3, 4, Some(160), Some(170)), 0));
    assert_eq!(counted(&[[3, 30, 50, 60]]), ((4, 3, 4, Some(110), None), 1));
    assert_eq!(counted(&[[u64::MAX; 4]]), ((u64::MAX, u64::MAX, u64::MAX, Some(u64::MAX), None), 1));
    let mut writer = Writer::new();
    writer.call(0, "cuEventQuery", 100, &[8], 600, &[]);
    writer.repeats(0, 3, 30, 150, 160);
    let file = writer.file();
    let trace = Trace::open(file.path()).expect("readable");
    let (known, before) =
        (Trace::open_summarized(file.path(), trace.summarize()).expect("readable"), Trace::fingerprint(file.path()));
    assert_eq!(known.call_at(0, 0, 0, false).expect("the call").repeats, trace.call(0).expect("there").repeats);
    assert_eq!((known.calls_repeated(), known.threads[0].repeated), (3, 3));
    // It grows where it stands.
    writer.bytes[writer.end - 32] += 1;
    let grown = writer.file();
    assert_ne!(Trace::fingerprint(grown.path()).expect("readable"), before.expect("readable"));
    // Of two the second stands behind no return.
    assert_eq!(counted(&[[3, 30, 150, 160], [9, 0, 170, 180]]), ((4, 3, 4, Some(160), None), 1));
}
