//! `cutrace pack` and `record --pack`: packed traces, which are read like others.

use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;
use tests::forge::Forge;
use tests::*;
use trace::Trace;
use trace::base::hash::{Hash, Hasher, checksum};
use trace::file::segment::{HEADER, Header, Kind, PACKED_VERSION, PAGE, round_up};
use viewer::data::open::Opened;

const KEPT: &[&str] = &[
    "golden/vector_add.bin",
    "golden/linking.bin",
    "golden/failing_calls.bin",
    "golden/graphs_recorded.bin",
    "golden/graphs_timed.bin",
    "golden/polling.bin",
    "data/torch_nvtx.bin",
];

/// `plain.bin` and `packed.bin`, of a trace that is kept.
fn packed(kept: &str) -> Place {
    let place = Place::new();
    std::fs::copy(source(kept), place.join("plain.bin")).expect("copied");
    run(&mut place.cutrace(["pack", "plain.bin", "-o", "packed.bin"])).expect(0);
    place
}

fn without_names(text: &str) -> String {
    text.replace("packed.bin", "plain.bin")
}

#[test]
fn a_packed_trace_is_read_and_replayed_as_it_was() {
    for kept in KEPT {
        let place = packed(kept);
        let read = |arguments: &[&str], file: &str| run(place.cutrace(arguments).arg(file));
        for arguments in [
            &["dump"][..],
            &["dump", "--json", "--writes"],
            &["report", "-r", "cuda_api_sum,cuda_api_trace,sync,memory,transfers,launches,modules,errors,pending"],
            &["export", "--to", "jsonl", "-o", "-"],
            &["view", "--view", "events"],
            &["replay", "--dry-run"],
        ] {
            let (was, is) = (read(arguments, "plain.bin"), read(arguments, "packed.bin"));
            assert_eq!((is.code(), without_names(&is.stdout)), (was.code(), was.stdout), "{kept}: {arguments:?}");
        }
        let [mut was, mut is] = ["plain.bin", "packed.bin"].map(|file| {
            serde_json::from_str::<Value>(&read(&["info", "--json"], file).expect(0).stdout).expect("JSON")
        });
        assert!(is["file"]["bytes"].as_u64() < was["file"]["bytes"].as_u64().map(|bytes| bytes / 2), "{kept}");
        assert_eq!(is["file"]["unpacked_bytes"], was["file"]["bytes"], "{kept}");
        for info in [&mut was, &mut is] {
            let about = info["file"].as_object_mut().expect("an object");
            about.retain(|key, _| !["bytes", "path"].contains(&key.as_str()));
        }
        assert_eq!(is, was, "{kept}");
        if kept.starts_with("golden") {
            let replayed = read(&["replay", "--driver", "sim"], "packed.bin").expect(0).stdout;
            assert!(is_verified(&replayed), "{kept}: {replayed}");
        }
        run(&mut place.cutrace(["pack", "--unpack", "packed.bin", "-o", "again.bin"])).expect(0);
        let bytes = |name: &str| std::fs::read(place.join(name)).expect("a trace");
        assert!(bytes("again.bin") == bytes("plain.bin"), "{kept}");
        for file in ["plain", "packed"] {
            let (from, to) = (format!("{file}.bin"), format!("{file}.shared.bin"));
            run(&mut place.cutrace(["redact", &from, "-o", &to])).expect(0);
        }
        assert!(bytes("packed.shared.bin") == bytes("plain.shared.bin"), "{kept}");
    }
}

#[test]
fn an_index_of_a_packed_trace_is_used() {
    let place = packed("golden/graphs_recorded.bin");
    let view = |arguments: &[&str]| {
        run(place.cutrace(["view", "--once", "--at", "20", "packed.bin"]).args(arguments)).expect(0).stdout
    };
    let without = view(&["--no-index"]);
    let opened = Opened::open(&place.join("packed.bin"), false, |_| Vec::new()).expect("a trace");
    assert!(opened.save().expect("written").is_some_and(|index| index.exists()));
    assert_eq!(view(&[]), without);
}

/// Bytes of the file for each call.
fn bytes_a_call(what: &str, count: u32) -> (u64, f64) {
    let place = Place::new();
    let mut record = place.cutrace(["record", "--pack", "--driver", "sim", "--"]);
    run(record.arg(client("differing_calls.c")).arg(what).arg(count.to_string())).expect(0);
    let trace = sound(place.join("trace.bin"));
    assert!(trace.is_packed() && trace.len() >= count as usize);
    (trace.len() as u64, trace.bytes_on_disk() as f64 / trace.len() as f64)
}

#[test]
fn calls_take_few_bytes() {
    let (calls, bytes) = bytes_a_call("queries", 30_000);
    assert!(bytes <= 8.0, "{bytes} for each of {calls} queries");
    let (calls, bytes) = bytes_a_call("launches", 5_000);
    assert!(bytes <= 64.0, "{bytes} for each of {calls} launches");
}

#[test]
fn a_recording_is_packed_when_it_is_closed() {
    let place = Place::new();
    let ran = run(place.cutrace(["record", "--pack", "--driver", "sim", "--"]).arg(client("vector_add.c"))).expect(0);
    let trace = sound(place.join("trace.bin"));
    assert!(trace.is_packed() && ran.stderr.contains("trace.bin: 19 calls, "), "{}", ran.stderr);
    assert!(ran.stderr.contains(" kB, replayable") && trace.bytes_on_disk() < trace.length() / 2, "{}", ran.stderr);
    let mode = std::fs::metadata(place.join("trace.bin")).expect("there").permissions().mode();
    assert_eq!((mode & 0o777, std::fs::read_dir(place.path()).expect("a directory").count()), (0o600, 1));
    // It is closed, and stays as it is.
    let before = std::fs::read(place.join("trace.bin")).expect("a trace");
    run(&mut place.cutrace(["repair", "trace.bin"])).expect(0);
    assert!(std::fs::read(place.join("trace.bin")).expect("a trace") == before);
}

#[test]
fn what_cannot_be_packed_is_said_in_one_line() {
    let place = packed("golden/vector_add.bin");
    run(&mut place.preloaded(client("vector_add.c"))).expect(0);
    std::fs::write(place.join("none.bin"), "no trace").expect("written");
    for (arguments, status, said) in [
        (&["packed.bin", "-o", "new.bin"][..], 1, "packed.bin: packed already"),
        (&["--unpack", "plain.bin", "-o", "new.bin"], 1, "plain.bin: not packed"),
        (&["plain.bin", "-o", "packed.bin"], 1, "packed.bin exists already; --force replaces it"),
        (&["plain.bin", "-o", "plain.bin", "--force"], 2, "-o plain.bin: this is the trace itself"),
        (&["trace.bin", "-o", "new.bin"], 1, "trace.bin: not closed; run cutrace repair"),
        (&["none.bin", "-o", "new.bin"], 3, "none.bin: not a cutrace trace"),
    ] {
        let ran = run(place.cutrace(["pack"]).args(arguments)).expect(status);
        assert!(ran.stderr.starts_with(&format!("cutrace: {said}")) && ran.stderr.lines().count() == 1, "{ran:?}");
        assert!(!place.join("new.bin").exists() && ran.stdout.is_empty(), "{ran:?}");
    }
}

#[test]
fn what_is_left_of_a_damaged_one_is_repaired() {
    let place = packed("data/torch_nvtx.bin");
    let path = place.join("packed.bin");
    let mut forge = Forge::open(&path);
    let (at, header) = forge.segments(Kind::Chunk)[1];
    forge.flip(at + HEADER + header.length as usize / 2);
    forge.write(&path);
    let said = format!("the packed segment at offset {at} of the file does not match its checksum");
    let ran = run(&mut place.cutrace(["dump", "packed.bin"])).expect(3);
    assert!(ran.stderr.contains(&said), "{}", ran.stderr);
    let kept = Trace::open(&path).expect("a trace").len();
    assert!(kept > 0 && kept < 2155, "{kept}");
    run(&mut place.cutrace(["repair", "packed.bin"])).expect(3);
    let repaired = Trace::open(&path).expect("a trace");
    assert_eq!((repaired.is_packed(), repaired.len(), repaired.damage.len()), (false, kept, 0));
    assert!(repaired.losses.iter().any(|(what, _)| what.starts_with("at offset ")), "{:?}", repaired.losses);
}

/// What is packed of a job is one, too.
#[test]
fn the_traces_of_a_directory_are_packed_into_another() {
    let place = Place::new();
    let script = "for rank in 0 1; do RANK=$rank WORLD_SIZE=2 \"$0\" > out$rank; done; exit 4";
    let record = ["record", "--driver", "sim", "-o", "run/", "--", "sh", "-c", script];
    run(place.cutrace(record).arg(client("vector_add.c"))).expect(4);
    let ran = run(&mut place.cutrace(["pack", "run/", "-o", "small/"])).expect(0).stdout;
    let lines: Vec<&str> = ran.lines().collect();
    assert!(lines.len() == 2 && lines[0].starts_with("small/") && lines[0].contains("-rank0-vector_add-"), "{ran}");
    assert!(lines[1].contains("-rank1-vector_add-") && lines[1].contains(": 19 calls, "), "{ran}");
    let info = |name: &str| run(&mut place.cutrace(["info", name])).expect(0).stdout.replace(name, "run/");
    assert_eq!(info("small/"), info("run/"));
    assert!(info("small/").contains("exit 4"));
    run(&mut place.cutrace(["replay", "small/", "--driver", "sim"])).expect(0);
    run(&mut place.cutrace(["pack", "--unpack", "small/", "-o", "large"])).expect(0);
    for path in std::fs::read_dir(place.join("run")).expect("ours").flatten().map(|entry| entry.path()) {
        let name = path.file_name().expect("a name");
        let again = place.join("large").join(name);
        assert!(path.is_dir() || std::fs::read(&path).expect("a trace") == std::fs::read(&again).expect("one"));
    }
    let refused = |arguments: &[&str], status, why: &str| {
        let ran = run(place.cutrace(["pack"]).args(arguments)).expect(status);
        assert!(ran.stderr.contains(why) && ran.stdout.is_empty(), "{arguments:?}: {}", ran.stderr);
    };
    refused(&["run/", "-o", "small/"], 1, " exists already; --force replaces it");
    let one = run(&mut place.cutrace(["pack", "run/", "--rank", "1", "-o", "one.bin"])).expect(0).stdout;
    assert!(one.starts_with("one.bin: 19 calls, "), "{one}");
    let packed = lines[1].split_once(": ").expect("a name").0;
    assert!(std::fs::read(place.join("one.bin")).expect("ours") == std::fs::read(place.join(packed)).expect("ours"));
    refused(&["one.bin", "--rank", "1", "-o", "two.bin"], 2, "--rank: applies to a directory of traces");
    refused(&["run/", "--rank", "0-1", "-o", "two.bin"], 2, "run/: 2 traces, expected one: pass ");
    refused(&["run/", "-o", "run"], 2, "-o run: this is the source directory; choose another");
    let opened = place.join("opened");
    run(place.preloaded(client("ends.c")).arg("kill").env("CUTRACE_OUTPUT", place.join("opened/")));
    assert!(opened.is_dir());
    refused(&["opened/", "-o", "none/"], 1, "not closed; run cutrace repair");
    assert!(!place.join("none").exists());
}

/// A job that is in the directory already stays one.
#[test]
fn two_jobs_are_packed_into_one_directory() {
    let place = Place::new();
    for name in ["one/", "two/"] {
        let record = ["record", "--driver", "sim", "-o", name];
        run(place.cutrace(record).arg(client("ends.c")).arg("return")).expect(13);
        run(&mut place.cutrace(["pack", name, "-o", "both/", "--force"])).expect(0);
    }
    let told = |name: &str| {
        let entries = std::fs::read_dir(place.join(name).join("processes")).expect("a directory").flatten();
        entries.map(|entry| (entry.file_name(), std::fs::read(entry.path()).expect("lines"))).collect::<Vec<_>>()
    };
    let (one, two, mut both) = (told("one"), told("two"), told("both"));
    let mut each = [one, two].concat();
    each.sort();
    both.sort();
    assert!(!each.is_empty() && both == each, "{both:?}");
    // Without the traces, too, nothing is replaced unasked.
    for path in std::fs::read_dir(place.join("both")).expect("ours").flatten().map(|entry| entry.path()) {
        if path.is_file() {
            std::fs::remove_file(path).expect("our own file");
        }
    }
    let refused = run(&mut place.cutrace(["pack", "one/", "-o", "both/"])).expect(1).stderr;
    assert!(
        refused.contains("both/processes/") && refused.contains(" exists already; --force replaces it"),
        "{refused}"
    );
}

/// A zstd frame of so many times 128 KiB of zeros, in 4 bytes each.
fn zeros(blocks: usize) -> Vec<u8> {
    // Magic, no length, a window of 8 MiB; then blocks of one byte that is repeated.
    let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0, 0x68];
    for block in 1..=blocks {
        let head = 128 << 10 << 3 | 1 << 1 | u32::from(block == blocks);
        frame.extend_from_slice(&head.to_le_bytes()[..3]);
        frame.push(0);
    }
    frame
}

/// A packed segment for a piece at this place: these headers, and a frame.
fn piece(kind: Kind, from: u64, bytes: u64, headers: &[Header], frame: &[u8], meant: u64) -> Vec<u8> {
    let mut content = [1u64.to_le_bytes(), meant.to_le_bytes()].concat();
    headers.iter().for_each(|header| content.extend(header.encode()));
    content.extend(frame);
    let size = round_up((HEADER + content.len()) as u64).max(round_up(bytes / 256));
    let header = Header {
        version: PACKED_VERSION,
        thread: headers.len() as u32,
        id: u128::from(from) | u128::from(bytes) << 64,
        length: content.len() as u64,
        seal: checksum(&content),
        ..Header::new(kind, size)
    };
    let mut all = [&header.encode()[..], &content].concat();
    all.resize(size as usize, 0);
    all
}

/// A packed trace that nobody has closed, and how long what it stands for is.
fn open_ended(place: &Place) -> (Vec<u8>, u64) {
    run(&mut place.recorded(client("vector_add.c"))).expect(0);
    run(&mut place.cutrace(["pack", "trace.bin", "-o", "packed.bin"])).expect(0);
    let length = place.join("trace.bin").metadata().expect("a trace").len();
    (std::fs::read(place.join("packed.bin")).expect("a trace"), length)
}

/// What is packed as zeros is never anywhere as a whole.
#[test]
fn reading_takes_memory_for_the_file_and_not_for_what_it_claims() {
    const BYTES: u64 = 192 << 20;
    let place = Place::new();
    let (mut bytes, mut at) = open_ended(&place);
    let length = BYTES - PAGE;
    let mut hasher = Hasher::default();
    (0..length / PAGE).for_each(|_| hasher.update(&[0; PAGE as usize]));
    let right = hasher.finish();
    for id in [right, Hash(7)] {
        let header = Header { id: id.0, length, ..Header::new(Kind::Blob, BYTES) };
        bytes.extend(piece(Kind::Blob, at, BYTES, &[header], &zeros((BYTES >> 17) as usize), BYTES));
        at += BYTES;
    }
    std::fs::write(place.join("bomb.bin"), bytes).expect("room");
    // In KiB: less than one of them needs.
    let limited = |command: &str| {
        let cutrace = place.cutrace([""; 0]).get_program().display().to_string();
        run(place.command("sh").args(["-c", &format!("ulimit -d 131072 && exec {cutrace} {command}")]))
    };
    let info = limited("info --json bomb.bin").expect(3);
    let object: Value = serde_json::from_str(&info.stdout).expect("JSON");
    let damage = object["traces"][0]["damage"].as_array().or_else(|| object["damage"].as_array()).expect("a list");
    let wrong = format!("a blob that does not match its hash {}", Hash(7));
    assert!(damage.iter().any(|one| one.to_string().contains(&wrong)), "{object}");
    assert!(!damage.iter().any(|one| one.to_string().contains(&right.to_string())), "{object}");
    limited("replay --dry-run bomb.bin").expect(3);
    // No call needs it, and yet the trace is not what was recorded.
    let replayed = run(place.cutrace(["replay", "--driver", "sim"]).arg("bomb.bin")).expect(3);
    assert!(replayed.stdout.is_empty() && replayed.stderr.contains(&wrong), "{replayed:?}");
    limited("repair bomb.bin -o repaired.bin").expect(3);
    let repaired = Trace::open(place.join("repaired.bin")).expect("a trace");
    assert!(repaired.footer.is_some() && repaired.blobs().any(|(hash, _)| hash == right));
    // Of its zeros nothing is on the disk.
    let blocks = std::os::unix::fs::MetadataExt::blocks(&place.join("repaired.bin").metadata().expect("a trace"));
    assert!(blocks * 512 < 16 << 20, "{blocks}");
}

/// Runs a command, and adds to what it prints how much memory it had, in KiB.
const MEASURE: &str = "import resource, subprocess, sys; status = subprocess.run(sys.argv[1:]).returncode; \
                       print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss); sys.exit(status)";

/// Each costs as much as the one before, and its header no page.
#[test]
fn many_segments_in_one_piece_are_read() {
    const MANY: u64 = 120_000;
    let place = Place::new();
    let (bytes, at) = open_ended(&place);
    let measured = |command: &[&str]| {
        let mut measured = place.command("python3");
        measured.args(["-c", MEASURE]).arg(artifact("cutrace")).args(command);
        let ran = run_within(&mut measured, Duration::from_secs(60));
        assert!([0, 3].contains(&ran.code()), "{command:?}: {}", ran.stderr);
        ran.stdout.lines().last().and_then(|line| line.parse::<u64>().ok()).expect("a number")
    };
    for kind in [Kind::Blob, Kind::Chunk, Kind::Free] {
        let header = |id: u64| Header { id: u128::from(id) << 64 | 1, thread: 7, ..Header::new(kind, PAGE) };
        let headers: Vec<Header> = (0..MANY).map(header).collect();
        let all = [&bytes[..], &piece(kind, at, MANY * PAGE, &headers, &zeros(1), 128 << 10)].concat();
        std::fs::write(place.join("many.bin"), all).expect("room");
        let length = place.join("many.bin").metadata().expect("a file").len() >> 10;
        for command in ["info --json", "repair -o repaired.bin --force", "replay --dry-run"] {
            let command = |path| [&command.split(' ').collect::<Vec<_>>()[..], &[path]].concat();
            let (small, many) = (measured(&command("packed.bin")), measured(&command("many.bin")));
            assert!(many - small < 5 * length, "{kind:?}: {:?}: {many} KiB", command("many.bin"));
        }
    }
}

/// Refused by Linux (a mapping), by the allocator (what is read on a tmpfs), or where nobody looks: many small pieces.
#[test]
fn a_trace_for_which_there_is_no_memory_is_not_read() {
    let place = Place::new();
    let (bytes, at) = open_ended(&place);
    run(&mut place.cutrace(["pack", "trace.bin", "-o", "small.bin"])).expect(0);
    std::fs::copy(place.join("trace.bin"), place.join("long.bin")).expect("copied");
    let long = std::fs::File::options().write(true).open(place.join("long.bin")).expect("our own file");
    long.set_len(1 << 40).expect("a hole");
    let headers: Vec<Header> = (0..200_000).map(|id| Header { id, ..Header::new(Kind::Blob, PAGE) }).collect();
    let piece = piece(Kind::Blob, at, headers.len() as u64 * PAGE, &headers, &zeros(1), 128 << 10);
    std::fs::write(place.join("many.bin"), [bytes, piece].concat()).expect("room");
    let within = |megabytes: u64, command: &str, path: &str| {
        let script = format!("ulimit -v {}; exec \"$0\" {command} {path}", megabytes << 10);
        run(place.command("bash").args(["-c", &script]).arg(artifact("cutrace")))
    };
    let refused = |megabytes, command, path| {
        let told = within(megabytes, command, path).expect(3).stderr;
        assert!(told.lines().count() == 1 && told.contains("memory"), "{command} {path}: {told}");
    };
    let in_memory = tempfile::tempdir_in("/dev/shm").expect("a file system in memory");
    let with_hole = in_memory.path().join("long.bin").display().to_string();
    run(place.command("cp").args(["--sparse=always", "long.bin", &with_hole])).expect(0);
    for command in ["info", "dump", "report", "repair", "replay --dry-run"] {
        refused(64 << 10, command, "long.bin");
        refused(64 << 10, command, &with_hole);
    }
    // Whoever opens it without a limit reads a hole for hours.
    std::fs::remove_file(place.join("long.bin")).expect("our own file");
    let enough =
        (32..1 << 10).step_by(8).find(|limit| within(*limit, "info", "small.bin").code() == 0).expect("a limit");
    for command in ["info", "dump", "replay --dry-run"] {
        refused(enough, command, "many.bin");
    }
}

/// Of a process that was killed; one that still writes keeps its own locked.
#[test]
fn what_a_killed_process_has_left_is_removed() {
    let place = Place::new();
    std::fs::copy(source(KEPT[0]), place.join("plain.bin")).expect("copied");
    let left = |name: &str| {
        let file = std::fs::File::create(place.join(name)).expect("room");
        let hours = Duration::from_secs(7200);
        file.set_modified(std::time::SystemTime::now() - hours).expect("ours");
        file
    };
    let names = [".packed.bin.abcDE1.partial", ".packed.bin.abcDE2.partial", ".packed.bin.more.partial"];
    let [_killed, locked, _other] = names.map(left);
    locked.lock().expect("a lock");
    run(&mut place.cutrace(["pack", "plain.bin", "-o", "packed.bin"])).expect(0);
    assert_eq!(names.map(|name| place.join(name).exists()), [false, true, true]);
}
