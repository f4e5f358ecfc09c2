//! Long traces: the summary in their footer, which `info` shows, and the viewer's index beside them.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use tests::{Outcome, Place, Screen, artifact, client, run};
use trace::Trace;
use trace::base::hash::checksum;
use trace::write::finish::{Judgement, finish};
use viewer::synthetic::{Shape, write};

/// The least of which something is kept.
const LONG: u64 = 100_000;

fn info(place: &Place, options: &[&str]) -> Outcome {
    run(place.cutrace(["info", "trace.bin"]).args(options))
}

/// A trace that is closed, but without a summary.
fn written(calls: u64) -> Place {
    let place = Place::new();
    write(&place.join("trace.bin"), Shape { calls, ..Shape::default() }).expect("written");
    place
}

fn open(calls: u64) -> Place {
    let place = Place::new();
    write(&place.join("trace.bin"), Shape { calls, footer: false, ..Shape::default() }).expect("written");
    place
}

fn summary(place: &Place, name: &str) -> Option<Vec<u8>> {
    Trace::summary(place.join(name)).expect("a trace")
}

#[test]
fn a_long_recording_ends_with_its_summary() {
    let place = Place::new();
    let mut record = place.cutrace(["record", "--driver", "sim", "--"]);
    run(record.arg(client("differing_calls.c")).args(["queries", &LONG.to_string()])).expect(0);
    assert!(summary(&place, "trace.bin").is_some());
    for form in [&[][..], &["--json"], &["--limit", "1"]] {
        let (summarised, read) = (info(&place, form).expect(0), info(&place, &[form, &["--no-index"]].concat()));
        assert_eq!((summarised.stdout, summarised.stderr), (read.stdout, read.stderr));
    }
    run(&mut place.cutrace(["pack", "trace.bin", "-o", "packed.bin"])).expect(0);
    assert_eq!(summary(&place, "packed.bin"), summary(&place, "trace.bin"));
    let packed = |options: &[&str]| run(place.cutrace(["info", "packed.bin"]).args(options)).expect(0).stdout;
    assert_eq!(packed(&[]), packed(&["--no-index"]));
    let redacted = ["redact", "--drop-data", "trace.bin", "-o", "redacted.bin"];
    run(&mut place.cutrace(redacted)).expect(0);
    assert_eq!(summary(&place, "redacted.bin"), None, "the copy lacks what the summary counts");
}

#[test]
fn damage_is_seen_in_a_trace_with_a_summary() {
    let place = open(LONG);
    run(&mut place.cutrace(["repair", "trace.bin"])).expect(0);
    assert!(summary(&place, "trace.bin").is_some());
    let trace = File::options().write(true).open(place.join("trace.bin")).expect("a trace");
    trace.write_all_at(&[0xff; 64], trace.metadata().expect("its metadata").len() / 2).expect("damaged");
    let (found, read) = (info(&place, &[]), info(&place, &["--no-index"]));
    assert_eq!(read.code(), 3);
    assert_eq!((found.code(), found.stdout, found.stderr), (read.code(), read.stdout, read.stderr));
}

#[test]
fn a_summary_of_another_version_is_passed_over() {
    let place = open(LONG);
    let trace = Trace::open(place.join("trace.bin")).expect("a trace");
    let other = [0xff; 100].to_vec();
    finish(&trace, |_| Judgement { verdict: "no".into(), summary: other.clone(), ..Judgement::default() })
        .expect("closed");
    assert_eq!(summary(&place, "trace.bin"), Some(other));
    let (found, read) = (info(&place, &[]), info(&place, &["--no-index"]));
    assert_eq!((found.stdout, found.stderr), (read.stdout, read.stderr));
}

/// A shell has made an empty file before the command that writes there starts.
#[test]
fn a_file_of_somebody_elses_is_left_alone() {
    let place = written(LONG);
    let there = place.join("trace.bin.idx");
    for content in ["", "notes of mine\n"] {
        fs::write(&there, content).expect("written");
        let once = || {
            let mut view = place.cutrace(["view", "--once", "trace.bin"]);
            run(view.env("XDG_CACHE_HOME", place.join("cache"))).expect(0)
        };
        let (first, second) = (once(), once());
        let why = "trace.bin.idx is not a cutrace file";
        assert!(first.stderr.contains(why), "{}", first.stderr);
        assert_eq!((second.stderr.as_str(), second.stdout), ("", first.stdout));
        assert_eq!(fs::read_to_string(&there).expect("there"), content);
        let cached = fs::read_dir(place.join("cache/cutrace")).expect("a cache");
        cached.for_each(|file| fs::remove_file(file.expect("a file").path()).expect("removed"));
    }
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
