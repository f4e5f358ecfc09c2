//! Waits and the order of work: the driver's state, reconstructed from the calls of a trace.

#[allow(dead_code)]
#[path = "../../replayer/src/base/sample.rs"]
mod sample;

use sample::Sample;
use trace::model::objects::Objects;
use trace::model::outstanding::{Outstanding, outstanding};

fn streams(sample: &mut Sample) {
    sample.call(0, "cuInit", 0..1, &[0], &[]);
    sample.call(0, "cuCtxSetCurrent", 2..3, &[0xc0], &[]);
    for (at, stream, flags) in [(4, 0x50u64, 1), (6, 0x60, 0)] {
        sample.call(0, "cuStreamCreate", at..at + 1, &[0x100, flags], &[(0x100, &stream.to_le_bytes())]);
    }
}

fn fill(sample: &mut Sample, at: u64, stream: u64) {
    sample.call(0, "cuMemsetD8Async", at..at + 1, &[0x7000, 0, 1, stream], &[]);
}

fn left(sample: &Sample) -> Vec<(String, usize)> {
    outstanding(&sample.trace()).into_iter().map(|work| (work.stream, work.calls.len())).collect()
}

#[test]
fn a_wait_covers_its_stream_and_what_that_waits_for() {
    let mut sample = Sample::new();
    streams(&mut sample);
    fill(&mut sample, 10, 0x50);
    sample.call(0, "cuEventRecord", 12..13, &[0xe0, 0x50], &[]);
    fill(&mut sample, 14, 0x50);
    sample.call(0, "cuStreamWaitEvent", 16..17, &[0x60, 0xe0, 0], &[]);
    fill(&mut sample, 18, 0x60);
    assert_eq!(left(&sample), [("stream#1".to_owned(), 2), ("stream#2".to_owned(), 1)]);
    sample.call(0, "cuStreamSynchronize", 20..21, &[0x60], &[]);
    assert_eq!(left(&sample), [("stream#1".to_owned(), 1)]);
}

fn unordered(sample: &Sample) -> Vec<u64> {
    let (trace, mut walk) = (sample.trace(), Outstanding::default());
    let last = trace.calls().last().expect("a call");
    trace.calls().take_while(|call| call.number < last.number).for_each(|call| {
        walk.advance(&call, call.function().unwrap(), &Objects::default());
    });
    let is_found = |call: &u64| {
        let found = walk.unordered(&last, last.function().unwrap(), |other| other == *call);
        found.is_some_and(|(found, _)| found == *call)
    };
    (0..last.number).filter(is_found).collect()
}

#[test]
fn what_neither_a_stream_nor_an_event_orders() {
    let mut sample = Sample::new();
    streams(&mut sample);
    for (at, flags, stream) in [(8, 0, 0x70u64), (9, 1, 0x80)] {
        sample.call(0, "cuStreamCreate", at..at + 1, &[0x100, flags], &[(0x100, &stream.to_le_bytes())]);
    }
    // Calls 6 to 8: on a non-blocking stream, and on two blocking ones.
    [(10, 0x50), (12, 0x60), (14, 0x70)].into_iter().for_each(|(at, stream)| fill(&mut sample, at, stream));
    // A blocking stream waits for nothing of the other, as nothing stands in the legacy stream, which waits
    // for both.
    fill(&mut sample, 16, 0x60);
    assert_eq!(unordered(&sample), [6, 8]);
    // Behind what stands in the legacy stream, it does. What came to the other since is not covered.
    fill(&mut sample, 20, 0);
    assert_eq!(unordered(&sample), [6]);
    fill(&mut sample, 22, 0x60);
    fill(&mut sample, 24, 0x70);
    assert_eq!(unordered(&sample), [6, 11]);
    // By events, also of a stream that had waited itself.
    sample.call(0, "cuEventRecord", 30..31, &[0xe0, 0x60], &[]);
    sample.call(0, "cuStreamWaitEvent", 32..33, &[0x50, 0xe0, 0], &[]);
    fill(&mut sample, 34, 0x50);
    assert_eq!(unordered(&sample), [12]);
    sample.call(0, "cuEventRecord", 36..37, &[0xe1, 0x50], &[]);
    sample.call(0, "cuStreamWaitEvent", 38..39, &[0x80, 0xe1, 0], &[]);
    fill(&mut sample, 40, 0x80);
    assert_eq!(unordered(&sample), [12]);
}

#[test]
fn work_waits_for_what_its_stream_did_when_it_was_put() {
    let mut sample = Sample::new();
    streams(&mut sample);
    let wait = |sample: &mut Sample, at: u64, [event, of, by]: [u64; 3]| {
        sample.call(0, "cuEventRecord", at..at + 1, &[event, of], &[]);
        sample.call(0, "cuStreamWaitEvent", at + 1..at + 2, &[by, event, 0], &[]);
    };
    // Calls 4, 5, 8, 11: 0x50 waits for 0x60, and for 0x70 only after 0x80 has waited for it.
    fill(&mut sample, 10, 0x60);
    fill(&mut sample, 11, 0x70);
    wait(&mut sample, 12, [0xe0, 0x60, 0x50]);
    fill(&mut sample, 14, 0x50);
    wait(&mut sample, 15, [0xe1, 0x50, 0x80]);
    wait(&mut sample, 17, [0xe2, 0x70, 0x50]);
    fill(&mut sample, 19, 0x80);
    assert_eq!(unordered(&sample), [5]);
}

#[test]
fn a_callback_that_began_covers_what_stood_before_it() {
    let mut sample = Sample::new();
    streams(&mut sample);
    fill(&mut sample, 10, 0x50);
    sample.call(0, "cuLaunchHostFunc", 12..13, &[0x50, 0x1000, 0], &[]);
    fill(&mut sample, 14, 0x60);
    // What its stream waits for later says nothing of the callback.
    sample.call(0, "cuEventRecord", 16..17, &[0xe0, 0x60], &[]);
    sample.call(0, "cuStreamWaitEvent", 18..19, &[0x50, 0xe0, 0], &[]);
    assert_eq!(left(&sample), [("stream#1".to_owned(), 2), ("stream#2".to_owned(), 1)]);
    let (trace, mut walk) = (sample.trace(), Outstanding::default());
    for call in trace.calls() {
        walk.advance(&call, call.function().unwrap(), &Objects::default());
    }
    walk.called_back(5, true);
    let left: Vec<Vec<u64>> =
        walk.left().into_iter().map(|work| work.calls).filter(|calls| !calls.is_empty()).collect();
    assert_eq!(left, [[6]]);
}

#[test]
fn the_legacy_stream_waits_for_blocking_ones() {
    let mut sample = Sample::new();
    streams(&mut sample);
    for (at, stream) in [(10, 0x50), (12, 0x60), (14, 0)] {
        fill(&mut sample, at, stream);
    }
    assert_eq!(left(&sample).len(), 3);
    sample.call(0, "cuStreamSynchronize", 20..21, &[0], &[]);
    assert_eq!(left(&sample), [("stream#1".to_owned(), 1)]);
    sample.call(0, "cuCtxSynchronize", 22..23, &[], &[]);
    assert_eq!(left(&sample), []);
}

#[test]
fn an_event_on_the_legacy_stream_covers_blocking_ones_and_what_they_wait_for() {
    for by_event in [true, false] {
        let mut sample = Sample::new();
        streams(&mut sample);
        fill(&mut sample, 10, 0x50);
        sample.call(0, "cuEventRecord", 12..13, &[0xe0, 0x50], &[]);
        sample.call(0, "cuStreamWaitEvent", 14..15, &[0x60, 0xe0, 0], &[]);
        fill(&mut sample, 16, 0x60);
        fill(&mut sample, 18, 0x50);
        if by_event {
            sample.call(0, "cuEventRecord", 20..21, &[0xe1, 0], &[]);
            fill(&mut sample, 22, 0x60);
            sample.call(0, "cuEventSynchronize", 24..25, &[0xe1], &[]);
        } else {
            sample.call(0, "cuStreamSynchronize", 20..21, &[0], &[]);
            fill(&mut sample, 22, 0x60);
        }
        assert_eq!(left(&sample), [("stream#1".to_owned(), 1), ("stream#2".to_owned(), 1)], "{by_event}");
    }
}

#[test]
fn work_is_gone_with_its_context() {
    let context = (0x100, &0xc0u64.to_le_bytes()[..]);
    let ends: [&[(&str, &[u64])]; 3] = [
        &[("cuDevicePrimaryCtxReset_v2", &[0])],
        &[("cuDevicePrimaryCtxRelease_v2", &[0])],
        &[("cuCtxDetach", &[0xc5]), ("cuDevicePrimaryCtxReset", &[0])],
    ];
    for end in ends {
        let mut sample = Sample::new();
        sample.call(0, "cuDevicePrimaryCtxRetain", 0..1, &[0x100, 0], &[context]);
        streams(&mut sample);
        [(10, 0x50), (11, 0x60), (12, 0)].into_iter().for_each(|(at, stream)| fill(&mut sample, at, stream));
        sample.call(0, "cuCtxCreate_v2", 20..21, &[0x100, 0, 0], &[(0x100, &0xc5u64.to_le_bytes())]);
        fill(&mut sample, 22, 0);
        assert_eq!(left(&sample).len(), 4);
        for (at, (name, words)) in (30..).zip(end) {
            sample.call(0, name, at..at + 1, words, &[]);
        }
        assert_eq!(left(&sample).len(), 2 - end.len(), "{end:?}");
    }
}

#[test]
fn what_is_captured_is_no_work() {
    let begins: [(&str, &[u64]); 4] = [
        ("cuStreamBeginCapture_v2", &[0x50, 0]),
        ("cuStreamBeginCaptureToGraph", &[0x50, 0xa0, 0, 0, 0, 0]),
        ("cuStreamBeginRecaptureToGraph", &[0x50, 0, 0xa0, 0x1000, 0]),
        ("cuStreamBeginCaptureToCig", &[0x50, 0]),
    ];
    for (name, words) in begins {
        let mut sample = Sample::new();
        streams(&mut sample);
        sample.call(0, name, 10..11, words, &[]);
        fill(&mut sample, 12, 0x50);
        let ends = if name.ends_with("Cig") { "cuStreamEndCaptureToCig" } else { "cuStreamEndCapture" };
        let words: &[u64] = if name.ends_with("Cig") { &[0x50] } else { &[0x50, 0] };
        sample.call(0, ends, 14..15, words, &[]);
        assert_eq!(left(&sample), [], "{name}");
        fill(&mut sample, 16, 0x50);
        assert_eq!(left(&sample).len(), 1, "{name}");
    }
}

#[test]
fn an_event_of_a_context_covers_and_holds_back_all_its_streams() {
    let mut sample = Sample::new();
    streams(&mut sample);
    [(10, 0x50), (11, 0x60)].into_iter().for_each(|(at, stream)| fill(&mut sample, at, stream));
    sample.call(0, "cuCtxRecordEvent", 12..13, &[0xc0, 0xe0], &[]);
    // In another context, whose streams wait for it.
    sample.call(0, "cuCtxSetCurrent", 14..15, &[0xc1], &[]);
    for (at, stream) in [(16, 0x70u64), (20, 0x80)] {
        sample.call(0, "cuStreamCreate", at..at + 1, &[0x100, 1], &[(0x100, &stream.to_le_bytes())]);
        fill(&mut sample, at + 1, stream);
        if stream == 0x70 {
            sample.call(0, "cuCtxWaitEvent", 18..19, &[0xc1, 0xe0], &[]);
        }
    }
    assert_eq!(left(&sample).len(), 4);
    // The stream was made behind the wait.
    sample.call(0, "cuStreamSynchronize", 30..31, &[0x80], &[]);
    assert_eq!(left(&sample), [("stream#3".to_owned(), 1)]);
}

#[test]
fn a_copy_without_a_stream_waits_if_it_touches_host_memory() {
    const DEVICE: u64 = 0x7000;
    const PINNED: u64 = 0x9000;
    const MANAGED: u64 = 0xb000;
    // CU_MEMORYTYPE_DEVICE, or _HOST, of both sides; one row of 8 bytes.
    let descriptor = |source: u32| {
        let mut words = [0u64; 16];
        (words[2], words[3], words[4], words[6]) = (u64::from(source), 0xd000, DEVICE, 8);
        (words[9], words[11], words[13]) = (2, DEVICE, 8);
        (words[14], words[15]) = (8, 1);
        words.map(u64::to_le_bytes).concat()
    };
    let (within, from_host) = (descriptor(2), descriptor(1));
    let copies: [(&str, &[u64], &[u8], bool); 10] = [
        ("cuMemcpy", &[DEVICE, DEVICE + 8, 8], &[], false),
        ("cuMemcpy", &[DEVICE, PINNED + 8, 8], &[], true),
        ("cuMemcpy", &[MANAGED, DEVICE, 8], &[], true),
        ("cuMemcpy2D_v2", &[0x200], &within, false),
        ("cuMemcpy2D_v2", &[0x200], &from_host, true),
        ("cuMemcpyHtoD_v2", &[DEVICE, 0xd000, 8], &[], true),
        ("cuMemcpyDtoD_v2", &[DEVICE, DEVICE + 8, 8], &[], false),
        ("cuMemcpyDtoD_v2", &[DEVICE, MANAGED, 8], &[], true),
        ("cuMemsetD8_v2", &[DEVICE, 0, 8], &[], false),
        ("cuMemsetD8_v2", &[PINNED, 0, 8], &[], true),
    ];
    for (name, words, descriptor, waits) in copies {
        let mut sample = Sample::new();
        streams(&mut sample);
        sample.call(0, "cuMemHostAlloc", 8..9, &[0x100, 0x100, 0], &[(0x100, &PINNED.to_le_bytes())]);
        sample.call(0, "cuMemAllocManaged", 9..10, &[0x100, 0x100, 1], &[(0x100, &MANAGED.to_le_bytes())]);
        fill(&mut sample, 10, 0x60);
        let pieces: &[(u64, &[u8])] = if descriptor.is_empty() { &[] } else { &[(0x200, descriptor)] };
        sample.call(0, name, 12..13, words, pieces);
        assert_eq!(left(&sample).is_empty(), waits, "{name} {words:x?}");
    }
}

#[test]
fn what_has_the_handle_of_an_event_that_ended_is_another() {
    for ends in [false, true] {
        let mut sample = Sample::new();
        streams(&mut sample);
        fill(&mut sample, 10, 0x50);
        sample.call(0, "cuEventRecord", 12..13, &[0xe0, 0x50], &[]);
        if ends {
            sample.call(0, "cuEventDestroy_v2", 14..15, &[0xe0], &[]);
            sample.call(0, "cuEventCreate", 16..17, &[0x100, 0], &[(0x100, &0xe0u64.to_le_bytes())]);
        }
        sample.call(0, "cuEventSynchronize", 18..19, &[0xe0], &[]);
        assert_eq!(left(&sample).len(), usize::from(ends));
    }
}

#[test]
fn a_capture_ends_with_its_stream() {
    let ends: [(&str, &[u64]); 2] = [("cuStreamDestroy_v2", &[0x50]), ("cuDevicePrimaryCtxReset_v2", &[0])];
    for (name, words) in ends {
        let mut sample = Sample::new();
        sample.call(0, "cuDevicePrimaryCtxRetain", 0..1, &[0x100, 0], &[(0x100, &0xc0u64.to_le_bytes())]);
        streams(&mut sample);
        sample.call(0, "cuStreamBeginCapture_v2", 10..11, &[0x50, 0], &[]);
        sample.call(0, name, 12..13, words, &[]);
        fill(&mut sample, 14, 0x50);
        assert_eq!(left(&sample).len(), 1, "{name}");
    }
}

#[test]
fn an_external_event_does_not_take_streams_into_a_capture() {
    for (recorded, awaited) in [(0, 0), (1, 0), (0, 1)] {
        let mut sample = Sample::new();
        streams(&mut sample);
        sample.call(0, "cuStreamBeginCapture_v2", 10..11, &[0x50, 0], &[]);
        sample.call(0, "cuEventRecordWithFlags", 12..13, &[0xe0, 0x50, recorded], &[]);
        sample.call(0, "cuStreamWaitEvent", 14..15, &[0x60, 0xe0, awaited], &[]);
        fill(&mut sample, 16, 0x60);
        assert_eq!(left(&sample).len(), (recorded + awaited) as usize, "{recorded} {awaited}");
    }
}

#[test]
fn a_wait_for_a_primary_context_covers_its_green_ones() {
    let mut sample = Sample::new();
    sample.call(0, "cuGreenCtxCreate", 0..1, &[0x100, 0x77, 0, 1], &[(0x100, &0xc5u64.to_le_bytes())]);
    sample.call(0, "cuDevicePrimaryCtxRetain", 2..3, &[0x100, 0], &[(0x100, &0xc0u64.to_le_bytes())]);
    sample.call(0, "cuCtxSetCurrent", 4..5, &[0xc0], &[]);
    sample.call(0, "cuGreenCtxStreamCreate", 6..7, &[0x100, 0xc5, 1, 0], &[(0x100, &0x50u64.to_le_bytes())]);
    fill(&mut sample, 8, 0x50);
    assert_eq!(left(&sample).len(), 1);
    sample.call(0, "cuCtxSynchronize", 10..11, &[], &[]);
    assert_eq!(left(&sample), []);
    // The green one retains it, and is the last to do so.
    fill(&mut sample, 12, 0);
    sample.call(0, "cuDevicePrimaryCtxRelease_v2", 14..15, &[0], &[]);
    assert_eq!(left(&sample).len(), 1);
    sample.call(0, "cuGreenCtxDestroy", 16..17, &[0xc5], &[]);
    assert_eq!(left(&sample), []);
}

#[test]
fn managed_memory_ends_with_its_context() {
    let mut sample = Sample::new();
    streams(&mut sample);
    let got = |sample: &mut Sample, name, at: u64, address: u64| {
        sample.call(
            0,
            name,
            at..at + 1,
            &[&[0x100, 0x100][..], &[1][..usize::from(name == MANAGED)]].concat(),
            &[(0x100, &address.to_le_bytes())],
        );
    };
    got(&mut sample, MANAGED, 10, 0x7000);
    sample.call(0, "cuCtxDestroy_v2", 12..13, &[0xc0], &[]);
    sample.call(0, "cuCtxSetCurrent", 14..15, &[0xc1], &[]);
    got(&mut sample, "cuMemAlloc_v2", 16, 0x7080);
    // Within the device, in memory that was managed before: nothing waits for it.
    sample.call(0, "cuMemcpyDtoD_v2", 20..21, &[0x7080, 0x70c0, 0x10], &[]);
    assert_eq!(left(&sample), [("the legacy stream of ctx@0xc1".to_owned(), 1)]);
}

const MANAGED: &str = "cuMemAllocManaged";

#[test]
fn an_address_has_no_name_once_its_context_has_ended() {
    let mut sample = Sample::new();
    streams(&mut sample);
    let got = |address: &u64| (0x100, address.to_le_bytes());
    for (at, name, address) in [(10, "cuMemAllocHost_v2", 0x7000u64), (12, "cuMemAllocAsync", 0x9000)] {
        let words: &[u64] = if at == 10 { &[0x100, 64] } else { &[0x100, 64, 0x50] };
        let (to, bytes) = got(&address);
        sample.call(0, name, at..at + 1, words, &[(to, &bytes)]);
    }
    sample.call(0, "cuCtxDestroy_v2", 14..15, &[0xc0], &[]);
    sample.call(0, "cuCtxSynchronize", 16..17, &[], &[]);
    let (trace, mut objects) = (sample.trace(), Objects::default());
    let named = trace.calls().map(|call| {
        objects.follow(&call);
        [0x7010, 0x9010].map(|at| objects.range(at).is_some())
    });
    // It is named as long as the call that ends it is inside; memory of a pool outlives the context.
    let named: Vec<[bool; 2]> = named.collect();
    assert_eq!(named[named.len() - 3..], [[true, true], [true, true], [false, true]]);
}
