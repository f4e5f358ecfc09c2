//! Device times: they are appended to a copy of a trace and read back, and errors in them do no harm.

mod writer;

use std::io::Read;
use trace::Trace;
use trace::file::record::{self, Name, Profile, Timed, timed, with_body};
use trace::write::extend::Extension;
use writer::Writer;

fn work(thread: u32, call: u32, start: i64, end: i64) -> Timed {
    const NOT_KNOWN: u32 = timed::UNKNOWN;
    Timed {
        start,
        end,
        submitted: start - 5,
        returned: start - 1,
        bytes: 0,
        node: 0,
        thread,
        call,
        name: 1,
        device: 0,
        context: 1,
        stream: 7,
        grid: [2, 1, 1],
        block: [32, 1, 1],
        registers: 16,
        static_shared: NOT_KNOWN,
        dynamic_shared: 0,
        local: 0,
        occupancy: 500,
        copy: 0,
        zero: 0,
        what: timed::KERNEL,
        source: timed::CUPTI,
        from: 0,
        to: 0,
    }
}

fn profile(works: u64) -> Profile {
    Profile {
        created: 1,
        source: timed::CUPTI,
        version: 130_000,
        why: String::new(),
        driver: "/usr/lib/libcuda.so.1".into(),
        driver_version: 13_000,
        devices: vec![(0, "a device".into())],
        offset: 0,
        uncertainty: 10,
        works,
        untimed: Vec::new(),
        more: Vec::new(),
    }
}

/// A trace of two threads, and the same with these works behind it.
fn extended(works: &[Timed]) -> (Trace, Trace, tempfile::NamedTempFile) {
    let mut writer = Writer::new();
    for (thread, begin) in [(0, 100), (1, 150), (0, 200), (1, 250)] {
        writer.call(thread, "cuCtxSynchronize", begin, &[], 0, &[]);
    }
    let trace = Trace::open(writer.file().path()).expect("readable");
    let new = tempfile::NamedTempFile::new().expect("a temporary file");
    let file = new.as_file().try_clone().expect("a second descriptor");
    let mut extension = Extension::begin(&trace, file).expect("copied");
    extension.push(&with_body(record::NAMED, &Name { number: 1, name: "kernel".into() })).expect("written");
    works.iter().for_each(|work| extension.push(&with_body(record::TIMED, work)).expect("written"));
    extension.push(&with_body(record::PROFILE, &profile(works.len() as u64))).expect("written");
    let size = extension.finish(&trace, |_| ("replayable".into(), Vec::new())).expect("finished");
    assert_eq!(size, new.as_file().metadata().expect("a file").len());
    let extended = Trace::open(new.path()).expect("readable");
    assert_eq!(extended.damage, []);
    (trace, extended, new)
}

#[test]
fn a_copy_holds_everything_and_the_times() {
    // Not in order, and more than one chunk holds.
    let works: Vec<Timed> = (0..20_000).rev().map(|n| work(n as u32 % 2, n as u32 % 3, n * 10, n * 10 + 4)).collect();
    let (trace, extended, _file) = extended(&works);
    let calls = |trace: &Trace| -> Vec<(u64, u32, u64, Option<u64>)> {
        trace.calls().map(|call| (call.number, call.thread, call.begin, call.end)).collect()
    };
    assert_eq!(calls(&extended), calls(&trace));
    assert_eq!(extended.threads.len(), 2);
    assert_eq!(extended.profile, Some(profile(20_000)));
    assert_eq!(extended.timed_works(), 20_000);
    assert!(extended.timed().is_sorted_by_key(|work| work.about.start));
    let first: Vec<_> = extended.timed().take(6).map(|work| (work.call, work.name, work.duration())).collect();
    // Numbers on a thread as the trace numbers them; a call that is not there is none.
    let kernel = |call| (call, Some("kernel"), 4);
    assert_eq!(first, [Some(0), Some(3), None, Some(1), Some(2), None].map(kernel));
}

#[test]
fn what_was_measured_before_stays_behind() {
    let (_, first, _file) = extended(&[work(0, 0, 10, 20)]);
    let new = tempfile::NamedTempFile::new().expect("a temporary file");
    let file = new.as_file().try_clone().expect("a second descriptor");
    let extension = Extension::begin(&first, file).expect("copied");
    extension.finish(&first, |_| unreachable!("the footer is there")).expect("finished");
    let second = Trace::open(new.path()).expect("readable");
    assert_eq!((second.timed_works(), second.has_device_times(), second.len()), (0, false, 4));
}

#[test]
fn times_that_cannot_be_are_survived() {
    let mut forged = work(9, 9, 0, 0);
    (forged.start, forged.end, forged.submitted, forged.returned) = (i64::MIN, i64::MAX, i64::MAX, i64::MIN);
    let backwards = work(0, 0, 100, 50);
    let (_, trace, mut file) = extended(&[forged, backwards, forged]);
    let works: Vec<_> = trace.timed().collect();
    assert_eq!(works.iter().map(|work| work.call).collect::<Vec<_>>(), [None, None, Some(0)]);
    let sum: i64 = works.iter().map(|work| work.duration() + work.delay().abs()).sum();
    assert!(sum > 0 && works[2].duration() == 0);
    // A chunk of times that is torn costs that chunk.
    let mut bytes = Vec::new();
    file.as_file_mut().read_to_end(&mut bytes).expect("read");
    let (offset, _) =
        *trace.segments.iter().find(|(_, header)| header.thread == timed::THREAD).expect("a chunk of times");
    bytes[offset as usize + 200] ^= 1;
    let torn = writer::file(&bytes);
    let torn = Trace::open(torn.path()).expect("readable");
    assert_eq!((torn.len(), torn.timed_works(), torn.damage.len()), (4, 0, 1));
    assert_eq!(torn.damage[0].offset, offset);
}
