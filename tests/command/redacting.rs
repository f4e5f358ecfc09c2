//! `cutrace redact`: what a trace says of its machine and user is gone from the copy, and all else is there.

use tests::forge::Forge;
use tests::*;
use trace::Trace;
use trace::segment::{HEADER, Kind};

/// Whether a file holds some text anywhere.
fn holds(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

#[test]
fn a_redacted_trace_names_no_machine_and_replays() {
    let place = Place::new();
    let mut program = place.recorded(client("vector_add.c"));
    program.env("CUDA_CACHE_PATH", "/home/somebody/cache").env("CUDA_DEVICE_ORDER", "PCI_BUS_ID");
    run(&mut program).expect(0);
    let before = Trace::open(place.join("trace.bin")).expect("a trace");
    let told = run(&mut place.cutrace(["redact", "-o", "shared.bin"])).expect(0).stdout;
    assert!(told.contains("taken out") && told.contains("verdict: replayable"), "{told}");
    let bytes = std::fs::read(place.join("shared.bin")).expect("a trace");
    let (directory, program) = (before.preamble.directory.as_str(), before.preamble.program.as_str());
    for gone in [directory, program, "/home/somebody", before.preamble.driver_path.as_str()] {
        assert!(gone.len() > 5 && !holds(&bytes, gone), "{gone}");
    }
    let after = Trace::open(place.join("shared.bin")).expect("a trace");
    assert_eq!((after.damage.as_slice(), after.preamble.host.as_str()), (&[][..], ""));
    assert_eq!(after.preamble.environment, [("CUDA_DEVICE_ORDER".to_owned(), "PCI_BUS_ID".to_owned())]);
    let dump = |file: &str| run(&mut place.cutrace(["dump", file])).expect(0).stdout;
    assert_eq!(dump("shared.bin"), dump("trace.bin"));
    let replayed = run(&mut place.cutrace(["replay", "shared.bin", "--driver", "sim"])).expect(0).stdout;
    assert!(replayed.starts_with("verified"), "{replayed}");
    run(&mut place.cutrace(["redact", "-o", "shared.bin"])).expect(1);
}

#[test]
fn names_in_records_are_overwritten_and_data_can_be_left_out() {
    let place = Place::new();
    // It loads a module and a library from a file.
    run(&mut place.recorded(client("kernel_libraries.c"))).expect(0);
    let decoded = run(&mut place.cutrace(["dump", "--grep", "cuModuleLoad"])).expect(0).stdout;
    let path = decoded.split('"').nth(1).expect("a path").to_owned();
    assert!(path.ends_with("/faults.ptx"), "{decoded}");
    assert!(holds(&std::fs::read(place.join("trace.bin")).expect("a trace"), &path));
    let told = run(&mut place.cutrace(["redact", "-o", "shared.bin", "--drop-data"])).expect(0).stdout;
    assert!(told.contains("overwritten in records: ") && told.contains("verdict: no"), "{told}");
    assert!(!holds(&std::fs::read(place.join("shared.bin")).expect("a trace"), &path));
    assert_eq!(Trace::open(place.join("shared.bin")).expect("a trace").blobs().count(), 0);
    let dump = run(&mut place.cutrace(["dump", "shared.bin", "--grep", "cuModuleLoad"])).expect(0).stdout;
    assert!(dump.contains("xxxxxx"), "{dump}");
    // What was left out on purpose is no damage.
    for reader in [&["info"][..], &["dump"], &["report"], &["view"], &["export", "--to", "jsonl", "-o", "-"]] {
        let ran = run(place.cutrace(reader).arg("shared.bin")).expect(0);
        assert_eq!(ran.stderr, "", "{reader:?}");
    }
    let info = run(&mut place.cutrace(["info", "shared.bin"])).expect(0).stdout;
    assert!(info.contains("\ndata left out by cutrace redact --drop-data\n") && !info.contains("lost"), "{info}");
    let why = "its data was left out when it was copied: ";
    assert!(info.contains(why) && !info.contains("not recorded") && !info.contains("--data=none"), "{info}");
    let dump = run(&mut place.cutrace(["dump", "shared.bin"])).expect(0).stdout;
    assert!(dump.contains(" bytes, left out>") && !dump.contains("missing"), "{dump}");
    let found = run(&mut place.cutrace(["dump", "shared.bin", "--grep", "left out"])).expect(0).stdout;
    assert_eq!(found.matches("left out").count(), dump.matches("left out").count(), "{found}");
    let report = run(&mut place.cutrace(["report", "shared.bin", "-r", "modules,transfers"])).expect(0).stdout;
    assert!(report.contains(why) && report.contains("left out ") && !report.contains("not in the file"), "{report}");
    run(&mut place.cutrace(["replay", "shared.bin", "--driver", "sim"])).expect(1);
}

#[test]
fn what_a_trace_has_lost_its_copy_lacks_too() {
    let place = Place::new();
    run(&mut place.recorded(client("vector_add.c"))).expect(0);
    let path = place.join("trace.bin");
    let whole = std::fs::read(&path).expect("a trace");
    let forge = Forge::open(&path);
    let inside = |kind| forge.segments(kind)[0].0 + HEADER + 40;
    let verdict = |copy: &Trace| copy.footer.as_ref().expect("closed").verdict.clone();
    for (what, at) in [("a chunk", inside(Kind::Chunk)), ("a blob", inside(Kind::Blob))] {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        std::fs::write(&path, bytes).expect("written");
        run(&mut place.cutrace(["redact", "trace.bin", "-o", "shared.bin", "--force"])).expect(3);
        let copy = Trace::open(place.join("shared.bin")).expect("a trace");
        assert_ne!(verdict(&copy), "replayable", "{what}");
        assert!(copy.losses.iter().any(|(lost, _)| lost.starts_with("at offset ")), "{what}: {:?}", copy.losses);
    }
}

#[test]
fn of_a_directory_it_is_said_how_to_redact_each() {
    let place = Place::new();
    let script = "for rank in 0 1; do RANK=$rank \"$0\" return; done; true";
    let record = ["record", "--driver", "sim", "-o", "run/", "--", "sh", "-c", script];
    run(place.cutrace(record).arg(client("ends.c"))).expect(0);
    let told = run(&mut place.cutrace(["redact", "run/", "-o", "rr/"])).expect(2).stderr;
    assert!(told.starts_with("cutrace: run/: 2 traces; name one: run/"), "{told}");
    let rest = "; each is redacted by a command of its own, and the list in run/processes names host, ";
    assert!(told.contains(rest), "{told}");
}
