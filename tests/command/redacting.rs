//! `cutrace redact`: the copy contains nothing about machine and user, and everything else.

use std::path::Path;
use tests::forge::Forge;
use tests::*;
use trace::file::segment::{HEADER, Kind};
use trace::read::call::{Content, Image};
use trace::{Call, Trace};

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
    assert!(told.contains("8 names removed") && told.contains("verdict: replayable"), "{told}");
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
    assert!(told.contains("overwritten in records: ") && told.contains("verdict: not replayable"), "{told}");
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
    let why = "copied without its data: ";
    assert!(info.contains(why) && !info.contains("not recorded") && !info.contains("--data=none"), "{info}");
    let dump = run(&mut place.cutrace(["dump", "shared.bin"])).expect(0).stdout;
    assert!(dump.contains(" bytes, left out>") && !dump.contains("missing"), "{dump}");
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
    assert!(told.starts_with("cutrace: run/: 2 traces, expected one: pass run/"), "{told}");
    let rest = "; redact each with its own command, and do not copy run/processes along: ";
    assert!(told.contains(rest), "{told}");
}

/// Everything of it that a reader finds is free of these words, and so is the file.
fn found(path: &Path, words: &[&str]) -> Vec<String> {
    let bytes = std::fs::read(path).expect("a trace");
    words.iter().filter(|word| holds(&bytes, word)).map(|word| word.to_string()).collect()
}

const PLANTED: &str = "SECRET";
const TOKENS: [&str; 2] = ["token-of-variable", "token-of-argument"];

fn with_secrets(data: &str) -> Place {
    let place = Place::new();
    let program = client_with("planted_secrets.c", &["-I", nvtx_include().to_str().expect("a plain path")]);
    let mut record = place.cutrace(["record", "--driver", "sim", "--data", data, "--"]);
    record.arg(program).arg(format!("--token={}", TOKENS[1])).env("CUDA_TOKEN", TOKENS[0]);
    run(&mut record).expect(0);
    run(&mut place.cutrace(["pack", "trace.bin", "-o", "packed.bin"])).expect(0);
    let there = found(&place.join("trace.bin"), &[&[PLANTED, "/home/sally"], &TOKENS[..]].concat());
    assert_eq!(there.len(), 4, "{there:?}");
    place
}

#[test]
fn a_copy_without_data_and_texts_holds_no_planted_secret() {
    for data in ["inputs", "all", "none"] {
        let place = with_secrets(data);
        for from in ["trace.bin", "packed.bin"] {
            let redact = ["redact", from, "-o", "shared.bin", "--drop-data", "--drop-texts", "--force"];
            let told = run(&mut place.cutrace(redact)).expect(0);
            assert!(!told.stdout.contains("--drop-texts") && told.stdout.contains("names of 1 kernel"), "{told:?}");
            let copy = place.join("shared.bin");
            assert_eq!(found(&copy, &[&[PLANTED, "sally"], &TOKENS[..]].concat()), [""; 0], "{data} {from}");
            let (before, after) =
                (Trace::open(place.join(from)).expect("a trace"), Trace::open(copy).expect("a trace"));
            assert_eq!((before.len(), after.damage.as_slice(), after.blobs().count()), (after.len(), &[][..], 0));
            assert!(after.calls().all(|call| call.images().all(|image| tells_nothing(&call, &image))), "{data} {from}");
            let names = |trace: &Trace| trace.calls().map(|call| call.name().to_owned()).collect::<Vec<_>>();
            assert_eq!(names(&before), names(&after));
            let info = run(&mut place.cutrace(["info", "shared.bin"])).expect(0).stdout;
            assert!(info.contains("kernel arguments and hashes are not in the file"), "{info}");
            let dump = run(&mut place.cutrace(["dump", "shared.bin"])).expect(0).stdout;
            assert!(dump.contains("keyed(<2 arguments, not recorded: left out>)"), "{dump}");
            run(&mut place.cutrace(["redact", "shared.bin", "-o", "again.bin", "--drop-data", "--force"])).expect(0);
        }
    }
}

/// No payload, however short, no code, no hash, no argument: of a call that moves data no memory but its
/// description.
fn tells_nothing(call: &Call, image: &Image) -> bool {
    let moves = call.name().starts_with("cuMemcpyHtoD") || call.name().starts_with("cuMemcpyDtoH");
    match image.content {
        Content::Bytes(_) => !moves,
        Content::Lost => true,
        Content::Arguments { packed, .. } => packed.is_empty(),
        Content::Blob(_) | Content::Hash { .. } | Content::Pending => false,
    }
}

#[test]
fn what_stays_of_the_programs_own_words_is_named() {
    let place = with_secrets("inputs");
    let told = run(&mut place.cutrace(["redact", "-o", "shared.bin", "--drop-data"])).expect(0).stdout;
    for stays in ["texts of 1 annotation (--drop-texts)", " threads (--drop-texts)", "names of 1 kernel"] {
        assert!(told.contains(stays), "{told}");
    }
    let words = [&["SECRETnvtx", "SECRETthread", "SECRETfile", "SECRETname", "/home/sally"], &TOKENS[..]].concat();
    assert_eq!(found(&place.join("shared.bin"), &words), ["SECRETnvtx", "SECRETthread"]);
    let bytes = std::fs::read(place.join("shared.bin")).expect("a trace");
    let count = |text: &str| bytes.windows(text.len()).filter(|window| *window == text.as_bytes()).count();
    assert_eq!(count(PLANTED), count("SECRETnvtx") + count("SECRETthread"), "nothing else of what was planted");
    let told = run(&mut place.cutrace(["redact", "-o", "shared.bin", "--drop-data", "--json", "--force"])).expect(0);
    let told: serde_json::Value = serde_json::from_str(&told.stdout).expect("JSON");
    assert!(told["stays"].as_array().expect("a list").len() > 3, "{told}");
}

/// Data and code stay, and are named if a home directory stands in them; the rest goes, as promised.
#[test]
fn a_copy_with_data_has_no_words_of_the_command_line() {
    let place = with_secrets("inputs");
    for from in ["trace.bin", "packed.bin"] {
        let ran = run(&mut place.cutrace(["redact", from, "-o", "shared.bin", "--force"])).expect(1);
        assert!(ran.stderr.contains(" pieces of module images or data still contain"), "{ran:?}");
        assert_eq!(found(&place.join("shared.bin"), &[&["SECRETfile"], &TOKENS[..]].concat()), [""; 0], "{from}");
        let trace = Trace::open(place.join("shared.bin")).expect("a trace");
        let said: Vec<String> = trace.annotations().filter_map(|said| said.message.map(|m| m.into_owned())).collect();
        let hidden = format!(
            "SECRETnvtx of {}, {}",
            "x".repeat(TOKENS[1].len()),
            "x".repeat("/home/sally/code/kernel.cu".len())
        );
        assert_eq!(said, [hidden]);
        assert_eq!(trace.preamble.environment, []);
    }
    let replayed = run(&mut place.cutrace(["replay", "shared.bin", "--driver", "sim"])).expect(6).stdout;
    // The kernel does nothing that could be compared.
    assert!(replayed.starts_with("unverified") && replayed.contains("2 of 2 launches"), "{replayed}");
}

/// What NCCL told, and what was recorded of other processes' memory.
#[test]
fn what_collectives_delivered_is_left_out() {
    let place = Place::new();
    let library = client("libring.c");
    let program = client_with("collectives.c", &[library.to_str().expect("a plain path")]);
    let ring = std::fs::File::create(place.join("ring")).expect("our own directory");
    ring.set_len(36864).expect("room");
    let mut record = place.cutrace(["record", "--driver", "sim", "--collectives", "--"]);
    record.arg(program).args(["ring", "0", "1", "5"]).env("RING_VERSION", "7");
    run(&mut record).expect(0);
    let before = Trace::open(place.join("trace.bin")).expect("a trace");
    let names: Vec<&str> = before.communicators.iter().map(|communicator| communicator.name.as_str()).collect();
    assert!(
        before.delivered.iter().any(|delivered| !delivered.pieces.is_empty()) && names.iter().any(|n| !n.is_empty())
    );
    run(&mut place.cutrace(["redact", "-o", "shared.bin", "--drop-data", "--drop-texts"])).expect(0);
    let after = Trace::open(place.join("shared.bin")).expect("a trace");
    assert_eq!(before.delivered.len(), after.delivered.len());
    assert!(after.delivered.iter().all(|delivered| delivered.pieces.is_empty()));
    assert!(after.communicators.iter().all(|communicator| communicator.name.bytes().all(|byte| byte == b'x')));
    run(&mut place.cutrace(["info", "shared.bin"])).expect(0);
}
