//! What is kept of a long trace beside it: what `info` says, and the viewer's index.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::Command;
use tests::{Outcome, Place, Screen, artifact, client, run};
use trace::base::hash::checksum;
use viewer::synthetic::{Shape, write};

/// The least of which something is kept.
const LONG: u64 = 100_000;

fn info(place: &Place, options: &[&str]) -> Outcome {
    run(place.cutrace(["info", "trace.bin"]).args(options)).expect(0)
}

fn kept(place: &Place) -> PathBuf {
    place.join("trace.bin.info")
}

/// A closed trace of which nothing is kept yet.
fn written(calls: u64) -> Place {
    let place = Place::new();
    write(&place.join("trace.bin"), Shape { calls, ..Shape::default() }).expect("written");
    place
}

#[test]
fn a_recording_keeps_what_info_says() {
    let place = Place::new();
    let mut record = place.cutrace(["record", "--driver", "sim", "--"]);
    run(record.arg(client("differing_calls.c")).args(["queries", &LONG.to_string()])).expect(0);
    assert!(kept(&place).exists());
    for form in [&[][..], &["--json"], &["--limit", "1"]] {
        let (known, read) = (info(&place, form), info(&place, &[form, &["--no-index"]].concat()));
        assert_eq!((known.stdout, known.stderr), (read.stdout, read.stderr));
    }
    run(&mut place.cutrace(["pack", "trace.bin", "-o", "packed.bin"])).expect(0);
    let packed = || run(&mut place.cutrace(["info", "packed.bin"])).expect(0).stdout;
    let read = packed();
    assert!(place.join("packed.bin.info").exists());
    assert_eq!(packed(), read);
}

#[test]
fn what_is_kept_is_used_only_as_it_was_written() {
    let place = written(LONG);
    let read = info(&place, &["--no-index"]).stdout;
    assert!(!kept(&place).exists(), "--no-index keeps nothing");
    assert_eq!(info(&place, &["--grep", "cuInit", "--thread", "0"]).stderr, "");
    assert!(!kept(&place).exists(), "of a part of the calls nothing is kept");
    assert_eq!(info(&place, &[]).stdout, read);
    let whole = fs::read(kept(&place)).expect("kept");
    let again = info(&place, &[]);
    assert_eq!((again.stdout, again.stderr.as_str()), (read.clone(), ""));

    let mut flipped = whole.clone();
    flipped[whole.len() / 2] ^= 4;
    let resealed = |change: &dyn Fn(&mut [u8])| {
        let mut bytes = whole.clone();
        change(&mut bytes[16..]);
        let seal = checksum(&bytes[16..]).to_le_bytes();
        bytes[8..16].copy_from_slice(&seal);
        bytes
    };
    let other_build = resealed(&|rest| {
        let at = rest.windows(5).position(|bytes| bytes == env!("CARGO_PKG_VERSION").as_bytes()).expect("a version");
        rest[at] = b'9';
    });
    let claims_much = resealed(&|rest| rest[80..].fill(0xff));
    for (bytes, why) in [
        (whole[..10].to_vec(), "is damaged: the trace is read instead"),
        (whole[..whole.len() - 1].to_vec(), "is damaged"),
        (flipped, "is damaged"),
        (claims_much, "is damaged"),
        (other_build, ""),
    ] {
        fs::write(kept(&place), bytes).expect("written");
        let found = info(&place, &[]);
        assert!(found.stderr.contains(why) && found.stderr.is_empty() == why.is_empty(), "{why}: {}", found.stderr);
        assert_eq!(found.stdout, read);
        assert!(fs::read(kept(&place)).expect("kept anew") == whole, "{why}");
    }

    // Another trace by the same name.
    write(&place.join("trace.bin"), Shape { calls: LONG, seed: 7, ..Shape::default() }).expect("written");
    let found = info(&place, &[]);
    assert_eq!(found.stderr, "", "what is stale is no trouble");
    assert_eq!(found.stdout, info(&place, &["--no-index"]).stdout);
    assert_ne!(found.stdout, read);
}

#[test]
fn damage_is_seen_where_the_time_of_change_was_put_back() {
    let place = written(LONG);
    info(&place, &[]);
    let trace = File::options().write(true).open(place.join("trace.bin")).expect("a trace");
    let about = trace.metadata().expect("its metadata");
    trace.write_all_at(&[0xff; 64], about.len() / 2).expect("damaged");
    trace.set_modified(about.modified().expect("a time")).expect("put back");
    let ran = |options: &[&str]| run(place.cutrace(["info", "trace.bin"]).args(options));
    let (found, read) = (ran(&[]), ran(&["--no-index"]));
    assert_eq!(found.stderr, read.stderr);
    assert_eq!((found.code(), found.stdout), (read.code(), read.stdout));
}

/// A shell has made an empty file before the command that writes there starts.
#[test]
fn a_file_of_somebody_elses_is_left_alone() {
    let place = written(LONG);
    let in_cache = |mut command: Command| run(command.env("XDG_CACHE_HOME", place.join("cache"))).expect(0);
    for (command, suffix) in [("info", "info"), ("view --once", "idx")] {
        let there = place.join("trace.bin").with_extension(format!("bin.{suffix}"));
        for content in ["", "notes of mine\n"] {
            fs::write(&there, content).expect("written");
            let once = || in_cache(place.cutrace(command.split(' ').chain(["trace.bin"])));
            let (first, second) = (once(), once());
            let why = format!("trace.bin.{suffix} is not cutrace's and is left alone");
            assert!(first.stderr.contains(&why), "{}", first.stderr);
            assert_eq!((second.stderr.as_str(), second.stdout), ("", first.stdout));
            assert_eq!(fs::read_to_string(&there).expect("there"), content);
            let cached = fs::read_dir(place.join("cache/cutrace")).expect("a cache");
            cached.for_each(|file| fs::remove_file(file.expect("a file").path()).expect("removed"));
        }
    }

    let place = Place::new();
    fs::write(kept(&place), "notes of mine\n").expect("written");
    let mut record = place.cutrace(["record", "--driver", "sim", "--"]);
    record.env("XDG_CACHE_HOME", place.join("cache"));
    let recorded = run(record.arg(client("differing_calls.c")).args(["queries", &LONG.to_string()])).expect(0);
    assert!(recorded.stderr.contains("is not cutrace's and is left alone"), "{}", recorded.stderr);
    assert_eq!(fs::read_to_string(kept(&place)).expect("there"), "notes of mine\n");
}

#[test]
fn of_short_open_and_damaged_traces_nothing_is_kept() {
    let place = written(LONG / 2);
    info(&place, &[]);
    assert!(!kept(&place).exists());
    write(&place.join("trace.bin"), Shape { calls: LONG, footer: false, ..Shape::default() }).expect("written");
    info(&place, &[]);
    assert!(!kept(&place).exists());
    // What stands in its place is not waited for.
    let place = written(LONG);
    run(Command::new("mkfifo").arg(kept(&place))).expect(0);
    info(&place, &[]);
}

#[test]
fn a_long_trace_that_is_looked_at_once_has_an_index() {
    let place = written(LONG);
    let index = place.join("trace.bin.idx");
    let once = || run(&mut place.cutrace(["view", "--once", "--at", "50%"])).expect(0);
    let read = run(&mut place.cutrace(["view", "--once", "--at", "50%", "--no-index"])).expect(0).stdout;
    assert!(!index.exists());
    assert_eq!(once().stdout, read);
    let whole = fs::read(&index).expect("kept");
    let known = once();
    assert_eq!((known.stdout, known.stderr.as_str()), (read.clone(), ""));

    let mut older = whole.clone();
    older[8] -= 1;
    let seal = checksum(&older[..56]).to_le_bytes();
    older[56..64].copy_from_slice(&seal);
    for (bytes, why) in [(older, "an index of version "), (whole[..100].to_vec(), "a damaged index")] {
        fs::write(&index, bytes).expect("written");
        let found = once();
        assert!(found.stderr.contains(why) && found.stderr.contains("the trace was read instead"), "{}", found.stderr);
        assert_eq!(found.stdout, read);
        assert_eq!(once().stderr, "", "kept anew: {why}");
    }
    // Of a short one the same is read at once.
    let place = written(LONG / 2);
    run(&mut place.cutrace(["view", "--once"])).expect(0);
    assert!(!place.join("trace.bin.idx").exists());
}

#[test]
fn a_viewer_that_is_left_early_finishes_its_index() {
    let place = written(LONG);
    let screen = Screen::new(&place);
    screen.run(&format!("{} view; echo status=$?", artifact("cutrace").display()));
    screen.wait("1 Timeline");
    screen.keys(&["q"]);
    screen.restored("status=0");
    assert!(place.join("trace.bin.idx").exists());
    let entries = fs::read_dir(place.path()).expect("our own directory").map(|entry| entry.expect("an entry"));
    let begun =
        entries.map(|entry| entry.file_name()).find(|name| name.to_string_lossy().starts_with("trace.bin.idx."));
    assert_eq!(begun, None);
}
