//! One changed byte in a trace: with corrected checksums the replay detects it, otherwise the reader does.

use tests::forge::Forge;
use tests::*;
use trace::Trace;
use trace::file::segment::Kind;
use trace::read::call::{Content, When};

/// Records a program and changes the byte that `find` points to; returns its place with the changed trace.
fn tampered(app: &str, find: impl Fn(&Trace, &Forge) -> usize) -> [Place; 2] {
    [true, false].map(|reseal| {
        let place = Place::new();
        run(&mut place.recorded(client(app))).expect(0);
        run(&mut place.cutrace(["replay", "--driver", "sim"])).expect(0);
        let path = place.join("trace.bin");
        let mut forge = Forge::open(&path);
        forge.flip(find(&place.trace(), &forge));
        if reseal {
            forge.reseal();
        }
        forge.write(&path);
        place
    })
}

fn found_out(app: &str, find: impl Fn(&Trace, &Forge) -> usize) {
    let [resealed, damaged] = tampered(app, find);
    resealed.trace(); // its checksums hold
    let ran = run(&mut resealed.cutrace(["replay", "--driver", "sim"]));
    // A call that is refused for it makes what depends on it incomparable.
    let is_refused =
        ran.code() == 6 && ran.stdout.contains("possibly because call ") && ran.stdout.contains(" was refused\n");
    assert!(matches!(ran.code(), 3 | 4) || is_refused, "{ran:?}");
    assert!(!ran.stdout.starts_with("verified"), "{}", ran.stdout);
    assert!(!(ran.stdout + &ran.stderr).is_empty());

    for command in [&["info"][..], &["replay", "--driver", "sim"]] {
        let ran = run(&mut damaged.cutrace(command)).expect(3);
        let [line] = ran.said()[..] else { panic!("one line was expected: {}", ran.stderr) };
        assert!(line.contains("trace.bin: at offset "), "{line}");
        assert!(!ran.stdout.contains("verified"), "{}", ran.stdout);
    }
}

/// Where the bytes of the packed arguments of the first launch stand.
fn launch_arguments(trace: &Trace, forge: &Forge) -> usize {
    let packed =
        trace.calls().flat_map(|call| call.images().collect::<Vec<_>>()).find_map(|image| match image.content {
            Content::Arguments { packed, .. } => Some(packed),
            _ => None,
        });
    forge.find(Kind::Chunk, packed.expect("a launch"))
}

#[test]
fn a_byte_of_a_kernel_argument() {
    // The number of bytes to count is the second argument: 5000 becomes 5001.
    found_out("histogram.c", |trace, forge| launch_arguments(trace, forge) + 8);
}

#[test]
fn a_byte_of_a_pointer_among_kernel_arguments() {
    found_out("vector_add.c", |trace, forge| launch_arguments(trace, forge) + 16);
}

#[test]
fn a_byte_of_an_argument_word() {
    // 2 ^ 30 - n bytes are too many; 5000 bytes to copy become 5001.
    found_out("histogram.c", |trace, forge| {
        let call = calls_named(trace, "cuMemcpyHtoD_v2")[0];
        let words = call.argument_bytes();
        forge.find(Kind::Chunk, words) + 16
    });
}

#[test]
fn a_byte_of_a_name() {
    found_out("vector_add.c", |trace, forge| {
        let call = calls_named(trace, "cuModuleGetFunction")[0];
        let name = call.memory(When::Return, call.argument("name").expect("a parameter"), 11).expect("recorded");
        forge.find(Kind::Chunk, &[&call.argument("name").expect("a parameter").to_le_bytes()[..], &name].concat()) + 8
    });
}

#[test]
fn a_byte_of_a_payload() {
    // b[2] = 4.5f stands in a blob of 4000 bytes.
    found_out("vector_add.c", |_, forge| {
        let wanted: Vec<u8> = [0.5f32, 2.5, 4.5].iter().flat_map(|f| f.to_le_bytes()).collect();
        forge.find(Kind::Blob, &wanted) + 10
    });
}

#[test]
fn a_byte_of_a_small_payload() {
    // Ten integers stand in the record itself.
    found_out("linking.c", |_, forge| {
        let wanted: Vec<u8> = (0..10i32).flat_map(i32::to_le_bytes).collect();
        forge.find(Kind::Chunk, &wanted) + 4
    });
}

#[test]
fn a_byte_of_a_module_that_still_compiles() {
    // Another register is added.
    let addition = b"%f3, %f2, %f1";
    found_out("vector_add.c", |_, forge| forge.find(Kind::Blob, addition) + addition.len() - 1);
}

#[test]
fn a_byte_of_a_module_that_no_longer_compiles() {
    found_out("vector_add.c", |_, forge| forge.find(Kind::Blob, b".visible .entry vector_add") + 4);
}

#[test]
fn a_byte_of_what_the_program_saw() {
    found_out("vector_add.c", |trace, forge| {
        let call = calls_named(trace, "cuMemcpyDtoH_v2")[0];
        let hash = call.images().find_map(|image| match image.content {
            Content::Hash { hash, .. } => Some(hash),
            _ => None,
        });
        forge.find(Kind::Chunk, &hash.expect("the hash of what was copied").to_bytes())
    });
}

#[test]
fn a_byte_of_a_result() {
    // The last word of a return record is the result.
    found_out("linking.c", |_, forge| {
        let invalid_ptx = 218u32.to_le_bytes();
        let sequence = 4u32.to_le_bytes();
        forge.find(Kind::Chunk, &[sequence, invalid_ptx].concat()) + 4
    });
}

/// A replay goes up to the first call whose data is not there, whatever struct or option it was in.
#[test]
fn lost_payloads_and_modules() {
    for (app, first) in [
        ("vector_add.c", "cuModuleLoadData"),
        ("pitched_copies.c", "cuMemcpy2D_v2"),
        ("texture.c", "cuMemcpy2D_v2"),
        ("graphs.c", "cuModuleLoadData"),
    ] {
        let place = Place::new();
        run(&mut place.recorded(client(app))).expect(0);
        let path = place.join("trace.bin");
        let mut forge = Forge::open(&path);
        assert_ne!(forge.lose_blobs(), 0, "{app}");
        forge.write(&path);
        let ran = run(&mut place.cutrace(["replay", "--driver", "sim", "--no-explain"]));
        assert_eq!(ran.code(), 3, "{app}: {ran:?}");
        let first = place.trace().calls().find(|call| call.name() == first).expect("such a call").number;
        let told = format!("stopped: data of call {first} is damaged or not in the file; no difference before it\n");
        assert!(ran.stdout.starts_with(&told), "{app}: {ran:?}");
        let [said] = ran.said()[..] else { panic!("{app}: {ran:?}") };
        assert!(said.contains(&format!("stopped: call {first} ")), "{app}: {ran:?}");
        assert!(said.ends_with(", which is damaged or not in the file"), "{app}: {ran:?}");
    }
}

/// The verdict names what is not there: what a call loads, and what the program had loaded unseen. A list of
/// segments that has it does not help.
#[test]
fn the_verdict_names_a_module_image_that_is_gone() {
    for (app, first) in [("vector_add.c", "cuModuleLoadData"), ("hidden_tables.c", "")] {
        let place = Place::new();
        std::fs::create_dir(place.join("run")).expect("our own directory");
        run(&mut place.recorded(client(app))).expect(0);
        let (path, whole) = (place.join("trace.bin"), place.trace());
        assert_eq!(verdict(&place, 0).0, "replayable", "{app}");
        let loads = whole.calls().find(|call| call.name() == first);
        let (needs, image) = match &loads {
            Some(call) => {
                let image = call.images().find_map(|image| match image.content {
                    Content::Blob(hash) => Some((hash, image.len)),
                    _ => None,
                });
                let (hash, len) = image.expect("an image");
                let what =
                    format!("{first}: needs data that is damaged or not in the file: blob {hash} of {len} bytes");
                (format!("{what}, the first (1 call: {})", call.number), hash)
            }
            None => {
                let (adopted, hash) =
                    (&whole.adopted[0], trace::base::hash::Hash::from_bytes(whole.adopted[0].images[0]));
                let what = "was loaded by an unrecorded call and its image is damaged or not in the file: blob";
                (format!("module {:#x} {what} {hash}", adopted.module), hash)
            }
        };
        let mut forge = Forge::open(&path);
        let blobs = forge.segments(Kind::Blob).into_iter();
        let (at, header) = blobs.clone().find(|(_, header)| header.id == image.0).expect("the blob");
        forge.put(at, &trace::file::segment::Header::new(Kind::Free, header.size).encode());
        forge.write(&path);
        std::fs::copy(&path, place.join("run/a.bin")).expect("our own file");
        let (listed, reasons) = verdict(&place, 3);
        assert!(listed == "partly" && reasons.contains(&needs), "{app}: {reasons:?}");
        let job = run(&mut place.cutrace(["info", "run/"])).expect(3);
        assert!(job.stdout.contains("\nverdict: partly replayable"), "{}", job.stdout);
        // Without a list nothing tells that it was there, but what names it.
        let (footer, _) = forge.segments(Kind::Footer).pop().expect("a footer");
        forge.truncate(footer);
        forge.write(&path);
        let (unlisted, reasons) = verdict(&place, 3);
        assert!(unlisted == "partly" && reasons.contains(&needs), "{app}: {reasons:?}");
    }
}

/// As `info` gives it, with its reasons.
fn verdict(place: &Place, status: i32) -> (String, Vec<String>) {
    let ran = run(&mut place.cutrace(["info", "--json"])).expect(status);
    let told: serde_json::Value = serde_json::from_str(&ran.stdout).expect("JSON");
    let reasons = told["reasons"].as_array().expect("a list").iter().filter_map(|reason| reason.as_str());
    (told["verdict"].as_str().expect("a verdict").to_owned(), reasons.map(str::to_owned).collect())
}

/// Whatever a trace says, the replay ends in one of its own ways: it does not crash, and does not wait for
/// ever.
#[test]
fn any_byte_of_any_record() {
    for app in ["vector_add.c", "two_contexts.c", "pitched_copies.c", "pools.c"] {
        let place = Place::new();
        run(&mut place.recorded(client(app))).expect(0);
        let path = place.join("trace.bin");
        let whole = Forge::open(&path);
        let records = whole.segments(Kind::Chunk).into_iter().flat_map(|(offset, header)| {
            let start = offset + trace::file::segment::HEADER;
            start..start + header.length as usize
        });
        let (mut verified, mut other) = (0, 0);
        for (index, at) in records.step_by(61).enumerate() {
            let mut forge = whole.clone();
            forge.flip_bit(at, index as u32 % 8);
            forge.reseal();
            forge.write(&path);
            let ran = run(&mut place.cutrace(["replay", "--driver", "sim", "--no-explain"]));
            assert!(matches!(ran.code(), 0 | 1 | 3 | 4 | 5 | 6), "{app}, offset {at}: {ran:?}");
            assert!(!ran.stderr.contains("panicked"), "{app}, offset {at}: {ran:?}");
            *(if ran.code() == 0 { &mut verified } else { &mut other }) += 1;
        }
        // Time stamps, thread names, handles that only have to be the same everywhere: not every byte
        // matters.
        assert!(other > verified / 2, "{app}: {verified} verified, {other} not");
    }
}
