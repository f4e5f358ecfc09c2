//! `cutrace repair`: what it may change, and that its verdict is the one on what it wrote.

use serde_json::Value;
use std::path::PathBuf;
use tests::forge::Forge;
use tests::*;
use trace::Trace;
use trace::segment::{HEADER, Kind};

fn recorded() -> (Place, PathBuf, Vec<u8>) {
    let place = Place::new();
    run(&mut place.recorded(client("vector_add.c"))).expect(0);
    let path = place.join("trace.bin");
    let bytes = std::fs::read(&path).expect("a trace");
    (place, path, bytes)
}

fn json(ran: &Outcome) -> Value {
    serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran:?}"))
}

#[test]
fn without_its_second_preamble_a_trace_keeps_its_first_chunk() {
    let (place, path, bytes) = recorded();
    let [(_, first), (second, _)] = Forge::open(&path).segments(Kind::Preamble)[..] else { panic!("two preambles") };
    let mut shorter = bytes.clone();
    shorter.drain(second..second + first.size as usize);
    std::fs::write(&path, shorter).expect("written");
    let calls = |file: &str| run(&mut place.cutrace(["dump", file])).stdout;
    let before = calls("trace.bin");
    assert!(before.contains("cuLaunchKernel"), "{before}");
    // The footer stands elsewhere now, and what it lists, too: all that is made anew.
    run(&mut place.cutrace(["repair", "trace.bin", "-o", "other.bin"])).expect(0);
    assert_eq!(calls("other.bin"), before);
    run(&mut place.cutrace(["repair", "trace.bin"])).expect(0);
    assert_eq!(calls("trace.bin"), before);
}

#[test]
fn a_verdict_is_that_on_the_repaired_trace() {
    let (place, path, bytes) = recorded();
    let forge = Forge::open(&path);
    let chunk = forge.segments(Kind::Chunk)[0].0;
    let blob = forge.segments(Kind::Blob)[0].0;
    let second = forge.segments(Kind::Preamble)[1].0;
    for (damaged, is_mended) in [(0, true), (second, true), (chunk, false), (blob, false)] {
        for within in [0, HEADER + 1] {
            let mut bytes = bytes.clone();
            bytes[damaged + within..][..4].copy_from_slice(b"XXXX");
            std::fs::write(&path, &bytes).expect("written");
            let ran = run(&mut place.cutrace(["repair", "--json", "trace.bin", "-o", "repaired.bin", "--force"]));
            let whole = std::fs::read(place.join("repaired.bin")).expect("a trace");
            let info = run(&mut place.cutrace(["info", "--json", "repaired.bin"]));
            let (said, known) = (json(&ran), json(&info));
            assert_eq!((&said["verdict"], &said["reasons"]), (&known["verdict"], &known["reasons"]), "{damaged}");
            let footer = Trace::open(place.join("repaired.bin")).expect("a trace").footer.expect("closed");
            assert_eq!(said["verdict"], footer.verdict, "{damaged}+{within}: {ran:?}");
            assert_eq!(said["verdict"] == "replayable", is_mended, "{damaged}+{within}: {ran:?}");
            // In place it is the same.
            run(&mut place.cutrace(["repair", "trace.bin"])).expect(ran.code());
            assert!(whole == std::fs::read(&path).expect("a trace"), "{damaged}+{within}");
        }
    }
}

#[test]
fn a_trace_is_replaced_and_never_changed() {
    let (place, path, mut bytes) = recorded();
    bytes[..4].copy_from_slice(b"XXXX");
    std::fs::write(&path, &bytes).expect("written");
    std::fs::hard_link(&path, place.join("before.bin")).expect("a link");
    std::os::unix::fs::symlink("trace.bin", place.join("link.bin")).expect("a link");
    let ran = run(&mut place.cutrace(["repair", "link.bin"])).expect(0);
    assert!(ran.stdout.contains("its copy was used; mended"), "{}", ran.stdout);
    assert!(std::fs::read(place.join("before.bin")).expect("there") == bytes);
    assert!(place.join("link.bin").is_symlink());
    run(&mut place.cutrace(["info"])).expect(0);
    assert_eq!(std::fs::read_dir(place.path()).expect("a directory").count(), 3);
}

#[test]
fn a_trace_that_lost_its_beginning_cannot_be_replayed() {
    let place = Place::new();
    run(place.recorded(client("copies_blocks.c")).arg("400")).expect(0);
    let path = place.join("trace.bin");
    let mut forge = Forge::open(&path);
    let chunks = forge.segments(Kind::Chunk);
    let (first, _) = chunks.iter().min_by_key(|(_, header)| (header.thread, header.ordinal())).expect("a chunk");
    assert!(chunks.iter().filter(|(_, header)| header.thread == 0).count() > 1);
    forge.flip(first + HEADER + 40);
    forge.write(&path);
    let info = json(&run(&mut place.cutrace(["info", "--json"])).expect(3));
    assert_eq!(info["verdict"], "no", "{}", info["reasons"]);
    assert!(info["reasons"].to_string().contains("calls are lost that initialised the driver"), "{}", info["reasons"]);
    run(&mut place.cutrace(["repair", "trace.bin"])).expect(3);
    let again = run(&mut place.cutrace(["repair", "trace.bin"])).expect(3).stdout;
    assert!(again.contains("closed, not whole") && again.contains("lost: at offset "), "{again}");
    let ran = run(&mut place.cutrace(["replay", "--driver", "sim"])).expect(1);
    assert!(ran.stdout.starts_with("verdict: no"), "{}", ran.stdout);
}
