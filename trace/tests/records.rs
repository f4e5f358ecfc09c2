//! Records are read in parallel runs or one by one, with the same results.

mod writer;

use proptest::prelude::*;
use trace::Trace;
use trace::file::record::{ENTRY_SIZE, INNER, OPTIONAL};
use writer::Writer;

/// A record of a thread, or the end of a chunk.
#[derive(Debug, Clone)]
enum Step {
    Enter {
        is_inner: bool,
        is_early: bool,
    },
    /// Of the latest call, or of one as far before it, returned or not.
    Leave {
        before: u32,
    },
    Repeats {
        calls: u64,
        time: u64,
    },
    Passed,
    Seal,
    /// The numbers go on as many further back, or further on.
    Numbers {
        by: i32,
    },
}

fn steps() -> impl Strategy<Value = Vec<(u32, Step)>> {
    let enter = (prop::bool::weighted(0.1), prop::bool::weighted(0.03));
    let before = prop_oneof![20 => Just(0), 2 => 1..4u32, 1 => 4..200u32];
    let step = prop_oneof![
        30 => enter.prop_map(|(is_inner, is_early)| Step::Enter { is_inner, is_early }),
        30 => before.prop_map(|before| Step::Leave { before }),
        2 => (0..9u64, 0..3u64).prop_map(|(calls, time)| Step::Repeats { calls, time }),
        1 => Just(Step::Passed),
        6 => Just(Step::Seal),
        1 => (-9..3).prop_map(|by| Step::Numbers { by }),
    ];
    prop::collection::vec((0..2u32, step), 1..500)
}

/// A record that a reader may pass over.
fn passed(writer: &mut Writer, thread: u32) {
    let head = [8, 0, 0, 0, 200, OPTIONAL, 0, 0];
    writer.record(thread, &head);
}

/// `apart`: with a record between each two that are about calls, which leaves no stretches.
fn write(steps: &[(u32, Step)], apart: bool) -> Writer {
    let mut writer = Writer::new();
    writer.chunk = 1 << 14;
    let (mut calls, mut time, mut returned, mut counted) = ([0u32; 2], 1000, [false; 2], [false; 2]);
    for (thread, step) in steps {
        time += 3;
        let at = *thread as usize;
        let has_returned = std::mem::take(&mut returned[at]);
        // A count stands right behind a return, and what follows right behind the count.
        let is_count = matches!(step, Step::Repeats { .. });
        if !std::mem::replace(&mut counted[at], is_count) && !is_count && apart {
            passed(&mut writer, *thread);
        }
        match step {
            Step::Enter { is_inner, is_early } => {
                let time = if *is_early { time - 100 } else { time };
                calls[at] = 1 + writer.enter(*thread, "cuCtxGetCurrent", time, &[77], &[]);
                let flags = writer.end - ENTRY_SIZE - 8 + 5;
                writer.bytes[flags] |= if *is_inner { INNER } else { 0 };
            }
            Step::Leave { before } => {
                let call = calls[at].wrapping_sub(1).wrapping_sub(*before);
                writer.leave(*thread, call, time, 0, &[]);
                returned[at] = true;
            }
            Step::Repeats { calls, time: inside } if has_returned => {
                writer.repeats(*thread, *calls, *inside, 0, time);
            }
            Step::Passed => passed(&mut writer, *thread),
            Step::Seal if calls[at] > 0 => writer.seal(*thread),
            Step::Numbers { by } if calls[at] > 0 => {
                calls[at] = calls[at].saturating_add_signed(*by).max(1);
                writer.number_from(*thread, calls[at]);
            }
            Step::Repeats { .. } | Step::Seal | Step::Numbers { .. } => {}
        }
    }
    writer.seal_all();
    writer
}

/// What a trace says of its calls, and what is wrong with it; without places in the file.
fn told(writer: &Writer) -> (Vec<String>, Vec<String>, Vec<(u64, u64)>) {
    let file = writer.file();
    let trace = Trace::open(file.path()).expect("readable");
    let calls = trace.calls().map(|call| {
        // What follows a count tells what is under way: that is another record here.
        let repeats = call.repeats.map(|repeats| (repeats.calls, repeats.time));
        format!(
            "{} {} {} {:?} {:?} {} {:?}",
            call.thread, call.sequence, call.begin, call.end, call.result, call.inner, repeats
        )
    });
    let without_places = |what: &str| what.split_whitespace().filter(|word| word.parse::<u64>().is_err()).collect();
    let damage = trace.damage.iter().map(|damage| without_places(&damage.what));
    // One without calls may be there for the records that stand between them.
    let threads = trace.threads.iter().map(|thread| (thread.calls, thread.repeated)).filter(|of| *of != (0, 0));
    (calls.collect(), damage.collect(), threads.collect())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn records_say_the_same_in_stretches_and_one_by_one(steps in steps()) {
        prop_assert_eq!(told(&write(&steps, false)), told(&write(&steps, true)));
    }
}

/// A query that is counted, one of which has not returned, and what the thread's last call, in another chunk,
/// makes of it: when the one under way was entered.
fn under_way(between: impl FnOnce(&mut Writer)) -> Option<u64> {
    let mut writer = Writer::new();
    writer.chunk = 1 << 14;
    writer.call(0, "cuCtxGetCurrent", 100, &[77], 0, &[]);
    assert!(writer.repeats(0, 3, 5, 150, 140));
    between(&mut writer);
    writer.seal(0);
    let place = tempfile::tempdir().expect("a directory");
    let path = place.path().join("trace");
    std::fs::write(&path, &writer.bytes).expect("written");
    let trace = Trace::open(&path).expect("a trace");
    trace.call(0).expect("a call").inside_since()
}

#[test]
fn whether_a_run_goes_on_is_told_by_few_committed_records() {
    let query = |writer: &mut Writer| writer.call(0, "cuCtxGetCurrent", 200, &[78], 0, &[]);
    assert_eq!(under_way(query), Some(150));
    // As many returns, of no call that is known, as would take long to walk behind every counted call.
    let far = |writer: &mut Writer| {
        (0..300).for_each(|_| writer.leave(0, 7, 190, 0, &[]));
        query(writer);
    };
    assert_eq!(under_way(far), None);
    // What was written but not committed, and the call that is in the next chunk.
    let uncommitted = |writer: &mut Writer| {
        let end = writer.end;
        query(writer);
        let written = writer.bytes[end..writer.end].to_vec();
        writer.uncommit(0, written.len());
        writer.number_from(0, 1);
        query(writer);
    };
    assert_eq!(under_way(uncommitted), None);
}
