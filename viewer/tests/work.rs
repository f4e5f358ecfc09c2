//! Completed work of streams, and live memory: the viewer agrees with the plan and the reports.

#[allow(dead_code)]
#[path = "../../replayer/src/base/sample.rs"]
mod sample;

use sample::Sample;
use std::collections::BTreeSet;
use trace::Trace;
use trace::model::outstanding::outstanding;
use viewer::data::build::build;
use viewer::data::lane::Source;

/// Calls whose work is not known to be done, and how many there were.
fn open(trace: &Trace) -> (BTreeSet<u64>, usize) {
    let model = build(trace).expect("few calls");
    let lanes = || model.lanes.iter().filter(|lane| matches!(lane.source, Source::Stream(_)));
    let done = lanes().flat_map(|lane| lane.call.iter().zip(lane.done.iter()));
    let open = done.filter(|(_, done)| **done == u64::MAX).map(|(call, _)| u64::from(*call)).collect();
    (open, lanes().map(|lane| lane.call.len()).sum())
}

/// As many pieces of work, of which these are open, in the viewer and among what is outstanding.
fn agree(trace: &Trace, count: usize, expected: &[u64]) {
    let left = outstanding(trace).into_iter().flat_map(|work| work.calls).collect::<BTreeSet<u64>>();
    assert_eq!((open(trace), left), ((expected.iter().copied().collect(), count), expected.iter().copied().collect()));
}

/// A context, and a stream that the legacy one does not wait for. The next call is number 3.
fn begun() -> Sample {
    let mut sample = Sample::new();
    sample.call(0, "cuDevicePrimaryCtxRetain", 0..1, &[0x100, 0], &[(0x100, &0xc0u64.to_le_bytes())]);
    sample.call(0, "cuCtxSetCurrent", 2..3, &[0xc0], &[]);
    sample.call(0, "cuStreamCreate", 4..5, &[0x100, 1], &[(0x100, &0x50u64.to_le_bytes())]);
    sample
}

fn fill(sample: &mut Sample, at: u64) {
    sample.call(0, "cuMemsetD8Async", at..at + 1, &[0x7000, 0, 1, 0x50], &[]);
}

#[test]
fn what_is_captured_anew_is_no_work() {
    let mut sample = begun();
    sample.call(0, "cuStreamBeginRecaptureToGraph", 10..11, &[0x50, 0, 0xa0, 0x1000, 0], &[]);
    fill(&mut sample, 12);
    sample.call(0, "cuStreamEndCapture", 14..15, &[0x50, 0], &[]);
    fill(&mut sample, 16);
    agree(&sample.trace(), 1, &[6]);
}

#[test]
fn a_time_between_events_says_that_both_have_happened() {
    let mut sample = begun();
    fill(&mut sample, 10);
    sample.call(0, "cuEventRecord", 12..13, &[0xe0, 0x50], &[]);
    fill(&mut sample, 14);
    sample.call(0, "cuCtxRecordEvent", 16..17, &[0xc0, 0xe1], &[]);
    fill(&mut sample, 18);
    agree(&sample.trace(), 3, &[3, 5, 7]);
    sample.call(0, "cuEventElapsedTime_v2", 20..21, &[0x200, 0xe0, 0xe1], &[]);
    agree(&sample.trace(), 3, &[7]);
}

#[test]
fn launches_that_wait_are_done() {
    let mut sample = begun();
    sample.launch(0, 10..20, 0);
    let mut trace = sample.trace();
    agree(&trace, 1, &[3]);
    trace.preamble.environment.push(("CUDA_LAUNCH_BLOCKING".into(), "1".into()));
    agree(&trace, 1, &[]);
}

#[test]
fn work_and_memory_go_with_the_last_release_of_a_primary_context() {
    let mut sample = begun();
    fill(&mut sample, 10);
    sample.call(0, "cuMemAlloc_v2", 12..13, &[0x100, 64], &[(0x100, &0x7000u64.to_le_bytes())]);
    let live = |sample: &Sample| build(&sample.trace()).expect("few calls").memory[0].bytes_at(1000);
    assert_eq!(live(&sample), 64);
    sample.call(0, "cuDevicePrimaryCtxRelease_v2", 20..21, &[0], &[]);
    assert_eq!(live(&sample), 0);
    agree(&sample.trace(), 1, &[]);
}

#[test]
fn physical_memory_is_there_as_long_as_it_is_mapped() {
    let mut sample = begun();
    let live = |sample: &Sample| build(&sample.trace()).expect("few calls").memory[0].bytes_at(1000);
    sample.call(0, "cuMemCreate", 10..11, &[0x100, 64, 0x200, 0], &[(0x100, &0x9u64.to_le_bytes())]);
    sample.call(0, "cuMemMap", 12..13, &[0x7000_0000, 64, 0, 0x9, 0], &[]);
    sample.call(0, "cuMemRelease", 14..15, &[0x9], &[]);
    assert_eq!(live(&sample), 64);
    sample.call(0, "cuMemUnmap", 16..17, &[0x7000_0000, 64], &[]);
    assert_eq!(live(&sample), 0);
}

#[test]
fn memory_of_a_stream_is_its_devices_and_under_capture_its_graphs() {
    let mut sample = begun();
    sample.call(0, "cuDevicePrimaryCtxRetain", 6..7, &[0x100, 1], &[(0x100, &0xc1u64.to_le_bytes())]);
    sample.call(0, "cuCtxSetCurrent", 8..9, &[0xc1], &[]);
    sample.call(0, "cuMemAllocAsync", 10..11, &[0x100, 64, 0x50], &[(0x100, &0x7000u64.to_le_bytes())]);
    sample.call(0, "cuStreamBeginCapture_v2", 12..13, &[0x50, 0], &[]);
    sample.call(0, "cuMemAllocAsync", 14..15, &[0x100, 32, 0x50], &[(0x100, &0x8000u64.to_le_bytes())]);
    sample.call(0, "cuStreamEndCapture", 16..17, &[0x50, 0x100], &[]);
    let model = build(&sample.trace()).expect("few calls");
    let whole = model.memory.iter().filter(|memory| memory.of.pool.is_none());
    assert_eq!(whole.map(|memory| (memory.of.device, memory.bytes_at(1000))).collect::<Vec<_>>(), [(0, 64)]);
}

#[test]
fn a_free_under_way_does_not_take_the_next_allocation() {
    let mut sample = begun();
    let got = (0x100, &0x7000u64.to_le_bytes()[..]);
    sample.call(0, "cuMemAlloc_v2", 10..11, &[0x100, 64], &[got]);
    sample.call(0, "cuMemFree_v2", 20..40, &[0x7000], &[]);
    sample.call(1, "cuMemAlloc_v2", 15..30, &[0x100, 64], &[got]);
    assert_eq!(build(&sample.trace()).expect("few calls").memory[0].bytes_at(1000), 64);
}

#[test]
fn arrays_are_memory_of_their_device() {
    let mut sample = begun();
    // 16 by 4 of one byte each.
    let description = [16u64, 4, 1 | 1 << 32].map(u64::to_le_bytes).concat();
    let pieces = [(0x200, &description[..]), (0x100, &0xa0u64.to_le_bytes()[..])];
    sample.call(0, "cuArrayCreate_v2", 10..11, &[0x100, 0x200], &pieces);
    let live = |sample: &Sample| build(&sample.trace()).expect("few calls").memory.first().map(|of| of.bytes_at(1000));
    assert_eq!(live(&sample), Some(64));
    sample.call(0, "cuArrayDestroy", 12..13, &[0xa0], &[]);
    assert_eq!(live(&sample), Some(0));
}
