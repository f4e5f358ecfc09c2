//! CPU writes without a call, while other threads write, run or scan.

use tests::forge::Forge;
use tests::*;
use trace::file::record::{WRITTEN, WRITTEN_SIZE};
use trace::file::segment::{HEADER, Kind};

/// It runs until the program ends: looks by other calls go on, and are theirs.
#[test]
fn a_callback_that_never_returns() {
    let place = Place::new();
    run(place.recorded(client("slow_callbacks.c")).arg("never")).expect(0);
    let replayed = run(&mut place.cutrace(["replay", "--driver", "sim"])).expect(0);
    assert!(is_verified(&replayed.stdout), "{}", replayed.stdout);
}

/// Nobody knows whose a change is while a callback runs, and the verdict says so.
#[test]
fn what_changed_while_a_callback_ran() {
    let place = Place::new();
    run(&mut place.recorded(client("slow_callbacks.c"))).expect(0);
    let info = run(&mut place.cutrace(["info"])).expect(0).stdout;
    assert!(info.contains("note: memory written during a callback, by it or by other threads"), "{info}");
    let place = Place::new();
    run(&mut place.recorded(client("mapped_input.c"))).expect(0);
    let info = run(&mut place.cutrace(["info"])).expect(0).stdout;
    assert!(!info.contains("note: "), "{info}");
}

/// What cannot be followed is told once for each piece of memory, not at every call.
#[test]
fn where_the_kernel_tells_nothing() {
    let place = Place::new();
    run(&mut place.recorded(client("untracked.c"))).expect(0);
    let trace = place.trace();
    let [(what, count)] = &trace.losses[..] else { panic!("{:?}", trace.losses) };
    assert!(what.contains("cannot follow"), "{what}");
    assert_eq!(*count, 1);
    let replayed = run(&mut place.cutrace(["replay", "--driver", "sim", "--no-explain"])).expect(4);
    assert!(replayed.stdout.contains("partly recorded"), "{}", replayed.stdout);
}

/// What others may write into it through a mapping of their own is in no page table of the program's.
#[test]
fn memory_that_a_child_has_too() {
    let place = Place::new();
    run(&mut place.recorded(client("shared_with_child.c"))).expect(0);
    let info = run(&mut place.cutrace(["info"])).expect(0).stdout;
    assert!(info.contains("partly") && info.contains("not recorded: writes of other processes to shared"), "{info}");
    let replayed = run(&mut place.cutrace(["replay", "--driver", "sim", "--no-explain"])).expect(4);
    assert!(replayed.stdout.contains("partly recorded"), "{}", replayed.stdout);
}

/// What copies take is recorded with them, whoever wrote it. What kernels read in place is named, and where the
/// replay differs its first line has that reason.
#[test]
fn a_shared_mapping_that_a_child_fills() {
    const WHY: &str = "not recorded: writes of other processes to shared memory";
    let record = |how| {
        let place = Place::new();
        run(place.recorded(client("shared_mapping.c")).arg(how)).expect(0);
        let info = run(&mut place.cutrace(["info"])).expect(0).stdout;
        assert!(info.contains("partly") && info.contains(WHY), "{info}");
        place
    };
    let replayed = run(&mut record("child").cutrace(["replay", "--driver", "sim"])).expect(0);
    assert!(is_verified(&replayed.stdout), "{}", replayed.stdout);
    let place = record("in place");
    for options in [&["replay", "--driver", "sim"][..], &["replay", "--driver", "sim", "--no-explain"]] {
        let text = run(&mut place.cutrace(options)).expect(4).stdout;
        let first = text.lines().next().unwrap_or_default();
        assert!(first.starts_with("diverged") && first.ends_with(&format!("; partly recorded: {WHY}")), "{text}");
    }
}

/// The kernel waits for a write to the stack that nothing tells from its own: the replay makes it when the wait
/// takes too long.
#[test]
fn a_kernel_that_waits_for_a_word_on_the_stack() {
    let place = Place::new();
    run(place.recorded(client("registered_stack_word.c")).arg("flag")).expect(0);
    let replayed = run(&mut place.cutrace(["replay", "--driver", "sim"])).expect(0);
    assert!(is_verified(&replayed.stdout), "{}", replayed.stdout);
}

/// Nobody can tell which bytes the driver had taken by then.
#[test]
fn pageable_memory_that_a_callback_fills_while_a_copy_reads_it() {
    const WHY: &str = "not recorded: copy sources in pageable memory that a callback wrote during the call";
    let place = Place::new();
    let recorded = run(&mut place.recorded(client("pageable_filled_late.c"))).expect(0);
    assert_eq!(recorded.stdout, "524288 from before\n");
    let info = run(&mut place.cutrace(["info"])).expect(0).stdout;
    assert!(info.contains("partly") && info.contains(WHY), "{info}");
    let text = run(&mut place.cutrace(["replay", "--driver", "sim"])).expect(4).stdout;
    assert!(text.lines().next().is_some_and(|first| first.ends_with(&format!("; partly recorded: {WHY}"))), "{text}");
}

/// Whatever a trace says that the CPU wrote, when, where and in which run of what: the replay ends in one of
/// its own ways.
#[test]
fn any_byte_of_what_was_written() {
    for app in ["mapped_input.c", "host_nodes.c", "shared_pages.c"] {
        let place = Place::new();
        run(&mut place.recorded(client(app))).expect(0);
        let path = place.join("trace.bin");
        let (whole, bytes) = (Forge::open(&path), std::fs::read(&path).expect("a trace"));
        let mut places = Vec::new();
        for (offset, header) in whole.segments(Kind::Chunk) {
            let (mut at, end) = (offset + HEADER, offset + HEADER + header.length as usize);
            while at < end {
                let size = u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes")) as usize;
                if bytes[at + 4] == WRITTEN {
                    // The body, and the first attachment up to its data.
                    places.extend(at + 4..at + size.min(WRITTEN_SIZE + 16));
                }
                at += size;
            }
        }
        assert!(!places.is_empty(), "{app}");
        for (index, at) in places.iter().step_by(37).enumerate() {
            for bit in [7, index as u32 % 7] {
                let mut forge = whole.clone();
                forge.flip_bit(*at, bit);
                forge.reseal();
                forge.write(&path);
                let ran = run(&mut place.cutrace(["replay", "--driver", "sim", "--no-explain"]));
                assert!(matches!(ran.code(), 0 | 1 | 3 | 4 | 5 | 6), "{app}, offset {at}, bit {bit}: {ran:?}");
                assert!(!ran.stderr.contains("panicked"), "{app}, offset {at}, bit {bit}: {ran:?}");
            }
        }
    }
}
