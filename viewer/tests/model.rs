//! A trace's model against the trace itself, and the index file with every kind of damage.

use analysis::findings::finding::{Cost, Finding};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use trace::Trace;
use trace::base::hash::checksum;
use trace::model::decode::decode;
use trace::model::objects::Objects;
use trace::show::text::Text;
use viewer::data::compare::{aligned, merge_second};
use viewer::data::event::Category;
use viewer::data::lane::{Lane, Source};
use viewer::data::open::Opened;
use viewer::data::uses::uses;
use viewer::synthetic::{Shape, write};

fn synthetic(shape: Shape) -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("trace.bin");
    write(&path, shape).expect("written");
    (directory, path)
}

fn opened(path: &Path) -> Opened {
    let opened = Opened::open(path, true, |_| Vec::new()).unwrap_or_else(|error| panic!("{error}"));
    opened.find_lives();
    opened
}

/// Everything that a model says, to compare two.
fn told(opened: &Opened) -> impl PartialEq + std::fmt::Debug + use<> {
    let model = &opened.model;
    let more = |lane: &Lane| (lane.done.to_vec(), lane.record.to_vec());
    let lanes: Vec<_> =
        model.lanes.iter().map(|lane| (lane.source.clone(), lane.events().collect::<Vec<_>>(), more(lane))).collect();
    let memory: Vec<_> = model.memory.iter().map(|m| (m.of, m.time.to_vec(), m.live.to_vec())).collect();
    let lives = opened.lives().map(|lives| (lives.all.to_vec(), lives.names.clone()));
    (model.summary.clone(), lanes, memory, lives)
}

#[test]
fn every_call_is_in_a_lane_once() {
    let (_directory, path) = synthetic(Shape::default());
    let trace = Trace::open(&path).expect("a trace");
    assert_eq!(trace.damage, []);
    let opened = opened(&path);
    let mut seen = BTreeMap::new();
    for lane in &opened.model.lanes {
        let Source::Thread { thread, .. } = lane.source else { continue };
        for event in lane.events() {
            seen.insert(event.call, (thread, event));
        }
        let orderly = lane.events().zip(lane.events().skip(1)).all(|(a, b)| a.end <= b.begin && a.call < b.call);
        assert!(orderly, "{:?}", lane.source);
    }
    assert_eq!(seen.len(), trace.len());
    for call in trace.calls() {
        let (thread, event) = seen[&(call.number as u32)];
        assert_eq!((thread, opened.model.name(event.name)), (call.thread, call.name()));
        assert_eq!(event.begin, trace.nanoseconds(call.begin) as u64);
        assert_eq!(event.flags.failed(), !matches!(call.result, Some(0 | 600)));
    }
    let depths = opened.model.lanes.iter().filter(|l| matches!(l.source, Source::Thread { depth: 1, .. })).count();
    assert_eq!(depths, 4, "each thread makes calls within calls");
}

#[test]
fn work_ends_with_the_wait_that_covers_it() {
    let (_directory, path) = synthetic(Shape { threads: 1, calls: 3000, ..Shape::default() });
    let trace = Trace::open(&path).expect("a trace");
    let opened = opened(&path);
    // Its own stream, and the legacy one, for cuMemcpyDtoH.
    let streams: Vec<_> = opened.model.lanes.iter().filter(|l| matches!(l.source, Source::Stream(_))).collect();
    assert_eq!(streams.len(), 2);
    let lane = streams.iter().max_by_key(|lane| lane.len()).expect("two");
    let waits: Vec<_> = trace
        .calls()
        .filter(|c| c.name() == "cuStreamSynchronize" || c.name() == "cuEventQuery" && c.result == Some(0))
        .collect();
    for (index, event) in lane.events().enumerate() {
        // A query may cover less than what was submitted: the first wait after is the earliest that can.
        let first = waits.iter().find(|wait| wait.number > event.call.into());
        let earliest = first.map_or(u64::MAX, |wait| trace.nanoseconds(wait.end.expect("returned")) as u64);
        assert!(lane.done[index] >= earliest, "event {index}");
        assert!(lane.done[index] == u64::MAX || lane.done[index] >= event.end);
        assert_eq!(event.flags.open(), lane.done[index] == u64::MAX);
    }
    assert!(lane.events().filter(|event| event.flags.category() == Category::Launch).count() > 1000);
}

/// A trace with the times of a replay, and each piece of work in it with its call.
#[test]
fn what_was_measured_is_in_a_lane_once() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/golden/graphs_timed.bin");
    let trace = Trace::open(&path).expect("a trace");
    let opened = Opened::open(&path, false, |_| Vec::new()).expect("a trace");
    let model = &opened.model;
    let mut left: BTreeMap<u64, _> = trace.timed().map(|work| (work.at, work)).collect();
    assert!(left.len() > 10);
    for lane in model.lanes.iter().filter(|lane| matches!(lane.source, Source::Device { .. })) {
        let mut free = 0;
        for (index, event) in lane.events().enumerate() {
            let work = left.remove(&lane.record[index]).expect("once");
            assert_eq!(work.call, Some(event.call.into()));
            let call = trace.call(event.call.into()).expect("its call");
            let wanted = (trace.nanoseconds(call.begin) + work.delay()) as u64;
            assert_eq!((event.begin, event.length()), (wanted.max(free), work.duration() as u64));
            assert_eq!(model.name(event.name), work.name.map_or(work.about.operation(), str::to_owned));
            assert_eq!(trace.timed_at(lane.record[index]).expect("a record").start, work.about.start);
            free = event.end;
        }
    }
    assert!(left.is_empty(), "{left:?}");
    let timing = model.summary.timing.as_ref().expect("device times");
    for row in &timing.kernels {
        let of_name = trace.timed().filter(|work| work.name == Some(model.name(row.name)));
        let lengths: Vec<u64> = of_name.map(|work| work.duration() as u64).collect();
        assert_eq!((row.count, row.total), (lengths.len() as u64, lengths.iter().sum()));
        assert_eq!(Some(&row.most), lengths.iter().max());
    }
    assert!(!model.lanes.iter().any(|lane| matches!(lane.source, Source::Stream(_))), "all work was timed");
}

/// Who used an object, against what each call names.
#[test]
fn uses_are_found() {
    let golden = |name: &str| Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/golden").join(name);
    let (_directory, path) = synthetic(Shape { calls: 1500, threads: 2, ..Shape::default() });
    for path in [path, golden("graphs_timed.bin"), golden("linking.bin")] {
        let opened = Opened::open(&path, false, |_| Vec::new()).expect("a trace");
        let lives = opened.find_lives();
        assert!(lives.all.len() > 3);
        let mut late = 0;
        for life in lives.all.iter() {
            let named = opened.trace.calls().filter(|call| {
                let number = call.number as u32;
                let met = decode(call).map_or_else(Vec::new, |decoded| lives.named_lives(&decoded, number));
                [life.made, life.ended].contains(&number) || met.contains(life)
            });
            let named: Vec<u32> = named.map(|call| call.number as u32).collect();
            let found = uses(&opened, lives, life).expect("few calls");
            // Ranges within ranges are met once.
            let within = named.iter().all(|call| found.calls.contains(call));
            assert!(within, "{}: {named:?} {found:?}", lives.title(life));
            assert!(life.is_range() || found.calls == named, "{}: {named:?} {found:?}", lives.title(life));
            assert!(found.after.iter().all(|call| *call > life.ended));
            late += found.after.len();
        }
        assert_eq!(late, 0, "nothing is used after its end in {}", path.display());
    }
}

/// A trace beside itself, and beside another.
#[test]
fn two_traces_are_paired_by_their_calls() {
    let shape = Shape { calls: 3000, threads: 2, ..Shape::default() };
    let ((_one, first), (_other, second)) = (synthetic(shape), synthetic(Shape { seed: 7, ..shape }));
    let open = |path: &Path| Opened::open(path, false, |_| Vec::new()).expect("a trace");
    let same = merge_second(&open(&first), open(&first), None);
    let found = same.second.as_ref().expect("a second");
    let outer = same.model.lanes.iter().filter(|l| matches!(l.source, Source::Thread { depth: 0, .. }));
    assert_eq!(found.pairs.len(), outer.map(Lane::len).sum::<usize>());
    assert!(found.pairs.iter().all(|(one, other)| one == other));
    assert_eq!((found.shift, found.slower, found.faster, found.only_first, found.only_second), (0, 0, 0, 0, 0));
    let other = merge_second(&open(&first), open(&second), None);
    let found = other.second.as_ref().expect("a second");
    let (one, two) = (Trace::open(&first).expect("a trace"), Trace::open(&second).expect("a trace"));
    let name = |trace: &Trace, call: u32| trace.call(call.into()).expect("a call").name().to_owned();
    assert!(found.pairs.iter().all(|(a, b)| name(&one, *a) == name(&two, *b)));
    assert!(found.pairs.len() > 500 && found.only_first > 0 && found.slower > 0, "{}", found.pairs.len());
    // What was aligned begins together.
    let (a, b) = found.pairs[found.pairs.len() / 2];
    let moved = aligned(&other, a, b).expect("both are there");
    let begin = |opened: &Opened, second: bool, call: u32| {
        let lanes = opened.model.lanes.iter();
        let mut lanes = lanes.filter(|l| {
            if second { matches!(&l.source, Source::Second(inner) if inner.is_thread()) } else { l.source.is_thread() }
        });
        lanes.find_map(|lane| Some(lane.begin[lane.of_call(call)?])).expect("the call is in a lane")
    };
    assert_eq!(begin(&moved, false, a), begin(&moved, true, b));
    assert_eq!(moved.model.lanes.len(), other.model.lanes.len());
}

#[test]
fn a_model_comes_back_from_its_index() {
    let (_directory, path) = synthetic(Shape::default());
    let first = opened(&path);
    let index = first.save().expect("saved").expect("a closed trace is kept");
    assert_eq!(index, path.with_extension("bin.idx"));
    let second = opened(&path);
    assert_eq!(second.index, Some(index));
    assert_eq!(told(&second), told(&first));
    // Single calls are found in the file without reading the others.
    for number in [0, 1, 999, 5_000, first.summary().calls as u32 - 1] {
        let (a, b) = (first.call(number).expect("a call"), second.call(number).expect("a call"));
        assert_eq!((a.name(), a.thread, a.result, a.end, a.begin), (b.name(), b.thread, b.result, b.end, b.begin));
        assert_eq!((a.inner, a.argument_bytes()), (b.inner, b.argument_bytes()));
        assert_eq!(format!("{:?}", decode(&a)), format!("{:?}", decode(&b)));
    }
    assert!(second.call(u32::MAX).is_none());
}

/// A walk over all calls is not waited for before the index is kept.
#[test]
fn an_index_is_kept_before_anything_is_looked_for() {
    fn find(trace: &Trace) -> Vec<Finding> {
        let [kind, what, evidence, next] = ["polling"; 4].map(str::to_owned);
        vec![Finding { kind, what, evidence, next, cost: Cost::Wrong, times: trace.len() as u64, calls: Vec::new() }]
    }
    let (_directory, path) = synthetic(Shape::default());
    let first = Opened::open(&path, true, |_| panic!("not to be looked for")).expect("a trace");
    first.save().expect("saved").expect("kept");
    let second = Opened::open(&path, true, find).expect("a trace");
    assert!(second.index.is_some() && second.findings().is_none());
    // All calls are looked at, which by the index are not known.
    assert_eq!(second.find_findings()[0].times, second.summary().calls);
    second.save_findings().expect("saved");
    let third = opened(&path);
    assert_eq!((third.index.as_ref(), third.findings()), (second.index.as_ref(), second.findings()));
    assert!(third.findings().is_some() && told(&third) == told(&second));
}

#[test]
fn objects_have_the_names_that_dump_gives_them() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/golden");
    let (_directory, synthetic) = synthetic(Shape { calls: 3000, ..Shape::default() });
    let mut handles = 0;
    for path in [golden.join("vector_add.bin"), golden.join("linking.bin"), golden.join("failing_calls.bin"), synthetic]
    {
        let trace = Trace::open(&path).expect("a trace");
        let opened = opened(&path);
        let lives = opened.lives().expect("found");
        let mut objects = Objects::default();
        for call in trace.calls() {
            let Some(decoded) = decode(&call) else { continue };
            objects.advance(&call, Some(&decoded));
            let met = lives.objects(&lives.named_lives(&decoded, call.number as u32));
            for (name, value) in decoded.arguments.iter().chain(&decoded.outputs) {
                let (ours, dumps) = (Text(value, &met).to_string(), Text(value, &objects).to_string());
                assert_eq!(ours, dumps, "{}: call {} {name}", path.display(), call.number);
                handles += usize::from(dumps.contains('#'));
            }
        }
    }
    assert!(handles > 1000, "{handles}");
}

#[test]
fn an_index_that_does_not_agree_is_not_used() {
    let (_directory, path) = synthetic(Shape::default());
    let first = opened(&path);
    let index = first.save().expect("saved").expect("kept");
    let unfit = || {
        let opened = Opened::open(&path, true, |_| Vec::new()).expect("opened");
        assert_eq!(opened.index, None);
        opened.unfit.expect("why it is not used")
    };
    // Another trace in its place.
    write(&path, Shape { seed: 2, ..Shape::default() }).expect("written");
    assert!(unfit().contains("as it was before it changed: the trace was read instead"), "{}", unfit());
    write(&path, Shape::default()).expect("written");
    let again = opened(&path);
    assert_eq!(again.index, None, "the time of change differs");
    again.save().expect("saved").expect("kept");
    assert!(Opened::open(&path, true, |_| Vec::new()).expect("opened").index.is_some());
    let good = fs::read(&index).expect("an index");
    // What does not begin as one is somebody else's file.
    for cut in [0, 1] {
        fs::write(&index, &good[..cut]).expect("written");
        assert_eq!(opened(&path).index, None, "cut at {cut}");
    }
    for cut in [63, 64, good.len() / 2, good.len() - 1] {
        fs::write(&index, &good[..cut]).expect("written");
        assert!(unfit().contains("damaged"), "cut at {cut}: {}", unfit());
    }
    let mut newer = good;
    newer[8] += 1;
    let seal = checksum(&newer[..56]).to_le_bytes();
    newer[56..64].copy_from_slice(&seal);
    fs::write(&index, &newer).expect("written");
    assert!(unfit().contains("an index of version "), "{}", unfit());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn no_changed_byte_of_an_index_is_believed(at in 0.0..1.0f64, bit in 0..8u32) {
        let (_directory, path) = synthetic(Shape { calls: 2000, ..Shape::default() });
        let first = opened(&path);
        let index = first.save().expect("saved").expect("kept");
        let mut bytes = fs::read(&index).expect("an index");
        let at = (at * bytes.len() as f64) as usize;
        bytes[at] ^= 1 << bit;
        fs::write(&index, &bytes).expect("written");
        let again = opened(&path);
        // Padding between the columns may be anything.
        prop_assert_eq!(told(&again), told(&first));
    }
}

#[test]
fn a_trace_that_was_cut_off_opens_and_says_so() {
    let (_directory, path) = synthetic(Shape { footer: false, ..Shape::default() });
    let bytes = fs::read(&path).expect("a trace");
    assert!(opened(&path).label().expect("a label").contains("not closed"));
    fs::write(&path, &bytes[..bytes.len() * 2 / 3]).expect("written");
    let cut = opened(&path);
    assert!(cut.label().expect("a label").contains("damaged"), "{:?}", cut.label());
    assert!(cut.summary().calls > 1000);
    let mut corrupt = bytes;
    let middle = corrupt.len() / 2;
    corrupt[middle] ^= 1;
    fs::write(&path, &corrupt).expect("written");
    let corrupt = opened(&path);
    assert!(corrupt.label().expect("a label").contains("checksum"), "{:?}", corrupt.label());
    assert!(corrupt.model.events() > 100);
}
