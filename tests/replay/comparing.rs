//! Copies to the host, compared as bytes and as numbers; memory that the program never wrote.

use serde_json::{Value, json};
use tests::forge::Forge;
use tests::*;
use trace::file::segment::Kind;

fn recorded(app: &str, arguments: &[&str], data: &str) -> Place {
    let place = Place::new();
    let mut record = place.cutrace(["record", "--driver", "sim", "--data", data, "--"]);
    run(record.arg(client(app)).args(arguments)).expect(0);
    place
}

fn replayed(place: &Place, options: &[&str]) -> Outcome {
    run(place.cutrace(["replay", "--driver", "sim"]).args(options))
}

fn report(place: &Place, options: &[&str], code: i32) -> Value {
    let ran = replayed(place, &[&["--json"], options].concat()).expect(code);
    serde_json::from_str(&ran.stdout).expect("JSON")
}

#[test]
fn uninitialised_memory_is_told_from_divergence() {
    for reused in [&[][..], &["reused"]] {
        let place = recorded("uninitialised.c", reused, "all");
        let mut found = Vec::new();
        for fill in ["0xa5", "0x5a"] {
            for options in [&["--fill", fill][..], &["--fill", fill, "--no-placement"]] {
                let report = report(&place, options, 4);
                let first = &report["first_divergence"];
                assert_eq!((&first["offset"], &first["extent"]["bytes"]), (&2000.into(), &2000.into()), "{first}");
                assert_eq!(first["extent"]["fill"]["never_written"], true);
                found.push(first["found"].clone());
            }
        }
        assert_ne!(found[0], found[2]);
        let text = replayed(&place, &["--fill", "0xa5"]).expect(4).stdout;
        let expected = "all bytes that differ hold the fill 0xa5: never written, the program read uninitialised memory";
        assert!(text.contains(expected), "{text}");
    }
}

#[test]
fn memory_that_was_given_back_is_fresh() {
    let place = recorded("allocated_again.c", &[], "inputs");
    assert!(is_verified(&replayed(&place, &[]).expect(0).stdout));
}

#[test]
fn a_hash_does_not_tell_which_bytes_differ() {
    let place = recorded("uninitialised.c", &[], "inputs");
    replayed(&place, &[]).expect(0);
    let extent = &report(&place, &["--fill", "165"], 4)["first_divergence"]["extent"];
    // 165 and 421, which were written, hold that byte as well.
    let fill = json!({ "byte": 165, "bytes": 2002, "never_written": false });
    assert_eq!((&extent["bytes"], &extent["of"], &extent["fill"]), (&Value::Null, &4000.into(), &fill));
}

/// What a program writes before it reads does not depend on the fill.
#[test]
fn a_fill_changes_nothing_that_was_written() {
    for app in ["vector_add.c", "ordered_memory.c", "pools.c", "context_memory.c", "graphs.c", "two_contexts.c"] {
        let place = recorded(app, &[], "inputs");
        for options in [&["--fill", "0xff"][..], &["--fill", "0xff", "--no-placement"]] {
            replayed(&place, options).expect(0);
        }
    }
}

/// b[2] = 4.5f is one unit in the last place larger, and so is c[2] = 6.5f.
fn slightly_off(data: &str) -> Place {
    let place = recorded("vector_add.c", &[], data);
    let path = place.join("trace.bin");
    let mut forge = Forge::open(&path);
    let wanted: Vec<u8> = [0.5f32, 2.5, 4.5].iter().flat_map(|f| f.to_le_bytes()).collect();
    let at = forge.find(Kind::Blob, &wanted) + 8;
    forge.flip(at);
    forge.reseal();
    forge.write(&path);
    place
}

#[test]
fn numbers_that_are_close() {
    let place = slightly_off("all");
    let exact = report(&place, &[], 4);
    let extent = &exact["first_divergence"]["extent"];
    assert_eq!((&exact["first_divergence"]["offset"], &extent["bytes"]), (&8.into(), &1.into()));
    let elements = &extent["elements"];
    let counts = ["differing", "of", "first"].map(|what| elements[what].as_u64());
    assert_eq!((&elements["type"], counts), (&"f32".into(), [Some(1), Some(1000), Some(2)]));
    let absolute = elements["largest_absolute"].as_f64().expect("a number");
    assert_eq!(absolute, 2f64.powi(-21));
    assert_eq!(elements["largest_relative"].as_f64(), Some(absolute / 6.5));

    for close in ["1e-6,0", "0,1e-6,f32", "1e-7,1e-7"] {
        let report = report(&place, &["--verify", close], 0);
        let checked = &report["checked"];
        assert_eq!((&report["outcome"], &checked["within_tolerance"]), (&"verified".into(), &1.into()), "{close}");
    }
    for far in ["exact", "1e-9,0", "0,1e-9,f32", "0,1e-9,f16", "1e-20,0,f64"] {
        replayed(&place, &["--verify", far]).expect(4);
    }
    assert_eq!(report(&place, &["--no-verify"], 0)["outcome"], "replayed");
}

#[test]
fn numbers_need_bytes() {
    let place = slightly_off("inputs");
    let told = replayed(&place, &["--verify", "1e-6,0"]).expect(2).stderr;
    assert!(told.contains("--data=all"), "{told}");
    replayed(&place, &["--verify", "1e-6"]).expect(2);
    replayed(&place, &["--verify", "1e-6,0", "--no-verify"]).expect(2);
    replayed(&place, &["--verify", "exact"]).expect(4);
}

/// Whatever way a result comes to the host, --data=all has its bytes.
#[test]
fn all_results_are_kept() {
    for app in ["pending_copies.c", "pitched_copies.c", "unified_copies.c", "batch_copies.c", "streams_events.c"] {
        let place = recorded(app, &[], "all");
        let trace = place.trace();
        let hashes = trace.calls().flat_map(|call| call.images().collect::<Vec<_>>());
        let hashes = hashes.filter(|image| matches!(image.content, trace::read::call::Content::Hash { .. })).count();
        assert_eq!(hashes, 0, "{app}");
        replayed(&place, &["--verify", "0,0"]).expect(0);
    }
}

/// Of what is copied again only the pieces are stored that have changed, and what differs of a result is
/// found in its piece.
#[test]
fn long_copies_are_recorded_in_pieces() {
    const PIECE: usize = 256 << 10;
    const MANY: u64 = (4 << 20) + 100;
    // A piece that differs from others where it was changed, two that differed in turn, the rows; all results
    // but for one piece had been copied there.
    for (data, blobs) in [("inputs", 16 + 2 + 4 + 1 + 7), ("all", 31)] {
        let place = recorded("large_copies.c", &[], data);
        let path = place.join("trace.bin");
        let found = place.trace().blobs().filter(|(_, len)| *len == PIECE as u64).count();
        assert_eq!(found, blobs, "{data}");
        let dump = run(&mut place.cutrace(["dump"])).expect(0).stdout;
        let is_whole = |line: &&str| line.contains(" and 16 more, 4194404 bytes>");
        assert_eq!(dump.lines().filter(is_whole).count(), 7 + 3, "{data}: {dump}");
        let checked = &report(&place, &[], 0)["checked"];
        assert_eq!((&checked["copies"], &checked["bytes"]), (&3.into(), &(3 * MANY).into()), "{data}");

        // The rows that come then end before that.
        let mut forge = Forge::open(&path);
        let changed = |at: usize| if at == 5 { 7 } else { (7 + (7 * PIECE + at) % 251) as u8 };
        let at = forge.find(Kind::Blob, &(0..16).map(changed).collect::<Vec<u8>>());
        forge.flip(at + PIECE - 3);
        forge.reseal();
        forge.write(&path);
        let first = &report(&place, &[], 4)["first_divergence"];
        let what = first["what"].as_str().expect("text");
        assert!(what.ends_with(", bytes 1835008 to 2097152"), "{first}");
        if data == "all" {
            assert_eq!((&first["offset"], &first["extent"]["bytes"]), (&(8 * PIECE - 3).into(), &1.into()), "{first}");
        }
    }
}
