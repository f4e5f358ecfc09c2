//! `record --weights reference`: bytes of a file that the program has mapped stay in that file; `replay
//! --weights` and `pack --weights` read it.

use serde_json::Value;
use std::path::PathBuf;
use tests::*;
use trace::Trace;
use trace::file::record::PIECE;

const PIECES: usize = 6;
/// Behind a header, as weights lie in a file; the last piece is a short one.
const SIZE: usize = 1000 + (PIECES - 1) * PIECE + 5000;

struct Recorded {
    place: Place,
    weights: PathBuf,
    printed: String,
}

fn content(size: usize) -> Vec<u8> {
    (0..size as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 21) as u8).collect()
}

fn recorded_with(how: &str, options: &[&str]) -> Recorded {
    recorded_of(SIZE, how, options)
}

fn recorded_of(size: usize, how: &str, options: &[&str]) -> Recorded {
    let place = Place::new();
    std::fs::create_dir(place.join("my models")).expect("our own directory");
    let weights = place.join("my models").join("a model.safetensors");
    std::fs::write(&weights, content(size)).expect("our own file");
    let bare = run(place.bare(client("weights_of_file.c")).arg(&weights).arg(how)).expect(0);
    let mut record = place.cutrace(["record", "--driver", "sim"]);
    let ran = run(record.args(options).arg(client("weights_of_file.c")).arg(&weights).arg(how)).expect(0);
    assert_eq!(ran.stdout, bare.stdout);
    assert!(ran.stderr.contains(", replayable"), "{}", ran.stderr);
    Recorded { place, weights, printed: ran.stdout }
}

fn recorded(how: &str) -> Recorded {
    recorded_with(how, &["--weights", "reference"])
}

impl Recorded {
    /// Of all files: pieces, and their bytes.
    fn by_reference(&self, trace: &str) -> (u64, u64) {
        let info = run(&mut self.place.cutrace(["info", "--json", trace])).expect(0).stdout;
        let info: Value = serde_json::from_str(&info).expect("JSON");
        assert_eq!(info["verdict"], "replayable", "{info}");
        let number = |value: &Value| value.as_u64().expect("a number");
        let files = info["by_reference"].as_array().expect("a list");
        assert!(files.iter().all(|file| file["path"] == self.weights.to_str().expect("UTF-8")), "{info}");
        files
            .iter()
            .fold((0, 0), |(pieces, bytes), file| (pieces + number(&file["pieces"]), bytes + number(&file["bytes"])))
    }

    fn replay(&self, more: &[&str]) -> Outcome {
        run(self.place.cutrace(["replay", "--driver", "sim"]).args(more))
    }

    #[track_caller]
    fn verifies(&self, more: &[&str]) {
        let replayed = self.replay(more).expect(0).stdout;
        assert!(is_verified(&replayed), "{replayed}");
    }

    #[track_caller]
    fn is_refused(&self, more: &[&str], status: i32, why: &[&str]) {
        let refused = self.replay(more).expect(status);
        assert!(refused.stdout.is_empty(), "{}", refused.stdout);
        let [line] = refused.said()[..] else { panic!("{}", refused.stderr) };
        assert!(why.iter().all(|why| line.contains(why)), "{line}");
    }
}

#[test]
fn what_is_mapped_from_a_file_stays_there() {
    let all = (PIECES as u64, (SIZE - 1000) as u64);
    for how in ["private", "shared", "registered"] {
        let recorded = recorded(how);
        let place = &recorded.place;
        assert_eq!(recorded.by_reference("trace.bin"), all, "{how}");
        let trace = place.trace();
        assert!(trace.blobs().all(|(_, len)| len < 5000), "{how}");
        let info = run(&mut place.cutrace(["info"])).expect(0).stdout;
        let line = "by reference         1.3 MB in 6 pieces of ";
        assert!(info.contains(line) && info.contains("/my models/a model.safetensors (1.3 MB)\n"), "{info}");
        recorded.is_refused(&[], 1, &["1.3 MB in 6 pieces", "by reference", "a model.safetensors", "--weights"]);
        run(&mut place.cutrace(["replay", "--dry-run"])).expect(0);
        recorded.verifies(&["--weights", "my models/a model.safetensors"]);
        recorded.verifies(&["--weights", "elsewhere", "--weights", "my models"]);
    }
}

/// Of a trace alone no more is read than 256 times its length.
#[test]
fn a_file_may_be_much_longer_than_its_trace() {
    let recorded = recorded_of(40 << 20, "private", &["--weights", "reference"]);
    assert!(recorded.place.trace().length() < (40 << 20) / 256);
    recorded.verifies(&["--weights", "my models"]);
}

#[test]
fn what_the_file_does_not_hold_is_stored() {
    let (whole, rest) = (SIZE - 1000, SIZE - 1000 - PIECE);
    for (how, referred) in [("written", (PIECES - 1, rest)), ("read", (0, 0)), ("writable", (0, 0))] {
        let recorded = recorded(how);
        assert_eq!(recorded.by_reference("trace.bin"), (referred.0 as u64, referred.1 as u64), "{how}");
        let stored: u64 = recorded.place.trace().blobs().filter(|(_, len)| *len >= 5000).map(|(_, len)| len).sum();
        assert_eq!(stored, (whole - referred.1) as u64, "{how}");
        recorded.verifies(if referred.0 == 0 { &[] } else { &["--weights", "my models"] });
    }
    // Without being asked for, all is stored.
    let recorded = recorded_with("private", &[]);
    assert_eq!(recorded.by_reference("trace.bin"), (0, 0));
    recorded.verifies(&[]);
}

#[test]
fn a_file_that_is_another_by_now_is_refused() {
    let recorded = recorded("private");
    let among = ["--weights", "my models"];
    let mut changed = content(SIZE);
    changed[1000 + 2 * PIECE + 9] ^= 1;
    std::fs::write(&recorded.weights, &changed).expect("our own file");
    let at = format!("the first, {PIECE} bytes at offset {}", 1000 + 2 * PIECE);
    let why = ["a model.safetensors: 1 of the 6 pieces in the trace have changed", &at, "it was modified since"];
    recorded.is_refused(&among, 3, &why);
    std::fs::write(&recorded.weights, &content(SIZE)[..SIZE - 1]).expect("our own file");
    recorded.is_refused(&among, 3, &["1 of the 6 pieces", "lies beyond its end"]);
    std::fs::remove_file(&recorded.weights).expect("our own file");
    recorded.is_refused(&among, 3, &["a model.safetensors: there is no such file, and no given file has its name"]);
    // One that has only been moved is found by its name, or by its size.
    std::fs::create_dir(recorded.place.join("moved")).expect("our own directory");
    for (moved, named) in [("moved/a model.safetensors", "moved"), ("moved/other", "moved/other")] {
        std::fs::write(recorded.place.join(moved), content(SIZE)).expect("our own file");
        recorded.verifies(&["--weights", named]);
        std::fs::remove_file(recorded.place.join(moved)).expect("our own file");
    }
}

/// A stranger's trace may name any file.
#[test]
fn no_file_is_read_but_those_that_are_named() {
    let recorded = recorded("private");
    std::fs::create_dir(recorded.place.join("other")).expect("our own directory");
    std::fs::write(recorded.place.join("other/notes"), "nothing").expect("our own file");
    recorded.is_refused(&["--weights", "other"], 3, &["the file is not among the given files"]);
}

#[test]
fn pack_makes_the_trace_whole() {
    let recorded = recorded("private");
    let place = &recorded.place;
    let refused = run(&mut place.cutrace(["pack", "trace.bin", "--weights", "trace.bin", "-o", "no.bin"])).expect(3);
    assert!(refused.said()[0].contains("a model.safetensors: the file is not among"), "{}", refused.stderr);
    run(&mut place.cutrace(["pack", "trace.bin", "-o", "packed.bin"])).expect(0);
    assert_eq!(recorded.by_reference("packed.bin").0, PIECES as u64);
    for from in ["trace.bin", "packed.bin"] {
        run(&mut place.cutrace(["pack", from, "--weights", "my models", "-o", "whole.bin", "--force"])).expect(0);
        assert_eq!(recorded.by_reference("whole.bin"), (0, 0));
    }
    std::fs::remove_file(&recorded.weights).expect("our own file");
    recorded.verifies(&["whole.bin"]);
    run(&mut place.cutrace(["pack", "--unpack", "whole.bin", "-o", "plain.bin"])).expect(0);
    recorded.verifies(&["plain.bin"]);
    let mut left: Vec<_> = std::fs::read_dir(place.path()).expect("our own").flatten().map(|e| e.file_name()).collect();
    left.sort();
    assert_eq!(left, ["my models", "packed.bin", "plain.bin", "trace.bin", "whole.bin"]);
    assert!(!recorded.printed.is_empty());
}

#[test]
fn copies_of_a_trace_name_what_it_names() {
    let recorded = recorded("private");
    let place = &recorded.place;
    let timed =
        ["replay", "--driver", "sim", "--weights", "my models", "--profile", "--times", "events", "-o", "timed.bin"];
    run(&mut place.cutrace(timed)).expect(0);
    assert_eq!(recorded.by_reference("timed.bin").0, PIECES as u64);
    recorded.verifies(&["timed.bin", "--weights", "my models"]);
    // A redacted one says what they hold, and not where they are.
    run(&mut place.cutrace(["redact", "trace.bin", "-o", "shared.bin"])).expect(0);
    let bytes = std::fs::read(place.join("shared.bin")).expect("our own file");
    assert!(!bytes.windows(11).any(|part| part == b"safetensors"));
    recorded.verifies(&["shared.bin", "--weights", "my models/a model.safetensors"]);
    run(&mut place.cutrace(["redact", "trace.bin", "-o", "dropped.bin", "--drop-data"])).expect(0);
    assert!(Trace::open(place.join("dropped.bin")).expect("a trace").sources().is_empty());
}
