//! Commands that read a trace: with good traces, and with everything else that a user may pass.

use serde_json::Value;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tests::forge::Forge;
use tests::*;
use trace::file::segment::{HEADER, Kind, MAGIC};

const READERS: &[&[&str]] = &[
    &["info"],
    &["dump"],
    &["report"],
    &["export", "--to", "jsonl", "-o", "-"],
    &["replay", "--driver", "sim"],
    &["repair"],
    &["redact", "-o", "other.bin"],
];

/// A closed trace of the sum of two vectors, and its place.
fn recorded(app: &str) -> (Place, PathBuf) {
    let place = Place::new();
    run(&mut place.recorded(client(app))).expect(0);
    let path = place.join("trace.bin");
    (place, path)
}

/// One line on stderr that names the file and says `why`; exit status 3.
fn refused(place: &Place, path: &Path, why: &str) {
    READERS.iter().for_each(|reader| refused_by(reader, place, path, why));
}

fn refused_by(reader: &[&str], place: &Place, path: &Path, why: &str) {
    let ran = run(place.cutrace(reader).arg(path)).expect(3);
    assert_eq!(ran.stdout, "", "{reader:?}");
    let [line] = ran.stderr.lines().collect::<Vec<_>>()[..] else { panic!("{reader:?}: {}", ran.stderr) };
    assert!(line.starts_with(&format!("cutrace: {}: ", path.display())), "{line}");
    assert!(line.contains(why), "{line}");
}

#[test]
fn no_trace_at_all() {
    let place = Place::new();
    refused(&place, &place.join("missing.bin"), "No such file");
    READERS.iter().for_each(|reader| refused_by(reader, &place, place.path(), "no trace in it"));
    let file = |name: &str, content: &[u8]| {
        let path = place.join(name);
        std::fs::write(&path, content).expect("written");
        path
    };
    refused(&place, &file("empty.bin", b""), "empty");
    refused(&place, &file("short.bin", b"CUT"), "offset 0, expected \"CUTRACE\\n\"");
    refused(&place, &file("foreign.bin", &b"some other file\n".repeat(1000)), "found \"some oth\" at offset 0");
    refused(&place, &file("zeros.bin", &[0; 100_000]), "offset 0, expected");
    refused(&place, &file("magic.bin", &MAGIC.repeat(1000)), "no readable preamble at offset 0");
}

#[test]
fn no_trace_where_one_is_read_by_default() {
    let place = Place::new();
    for reader in [&["info"][..], &["dump"], &["report"], &["view"], &["replay"], &["export", "--to", "jsonl", "-o-"]] {
        let ran = run(&mut place.cutrace(reader)).expect(3);
        let told = "cutrace: no trace given, and no trace.bin here; pass a trace, or record one: cutrace record";
        assert!(ran.stderr.starts_with(told) && ran.stdout.is_empty(), "{ran:?}");
    }
}

#[test]
fn a_trace_of_a_newer_version() {
    let (place, path) = recorded("vector_add.c");
    let mut forge = Forge::open(&path);
    forge.make_newer();
    forge.write(&path);
    refused(&place, &path, "format version 3 at offset 9; this cutrace reads up to 2");
}

#[test]
fn a_truncated_trace_gives_everything_before() {
    let (place, path) = recorded("vector_add.c");
    let whole = std::fs::read(&path).expect("a trace");
    let dump = run(&mut place.cutrace(["dump"])).expect(0).stdout;
    let (chunk, header) = Forge::open(&path).segments(Kind::Chunk)[0];
    // Within the preambles there is no trace yet; from the chunk on, whatever is whole.
    for cut in [10, 100, 5000] {
        std::fs::write(&path, &whole[..cut]).expect("written");
        for reader in READERS {
            let ran = run(place.cutrace(*reader).arg(&path)).expect(3);
            assert_eq!(ran.stderr.lines().count(), 1, "{reader:?}: {}", ran.stderr);
        }
    }
    let mut before = 0;
    let committed = header.length as usize;
    for committed in (0..committed).step_by(97).chain([committed - 8]) {
        std::fs::write(&path, &whole[..chunk + HEADER + committed]).expect("written");
        let ran = run(&mut place.cutrace(["dump"])).expect(3);
        assert_eq!(ran.stderr.lines().count(), 1, "{}", ran.stderr);
        let calls = ran.stdout.lines().count();
        assert!(calls >= before);
        before = calls;
        for (line, original) in ran.stdout.lines().zip(dump.lines()) {
            let call = |line: &str| line.split('(').next().map(str::to_string);
            assert_eq!(call(line), call(original));
        }
    }
    assert_eq!(before, dump.lines().count());
}

#[test]
fn a_cut_anywhere_is_told() {
    let (place, path) = recorded("linking.c");
    let whole = std::fs::read(&path).expect("a trace");
    let segments = sound(&path).segments;
    let [.., (footer, _)] = segments[..] else { panic!("segments") };
    let footer = footer as usize;
    // Within segments, and between them.
    let within = (1..footer).step_by(footer / 40);
    let between = segments.iter().map(|(at, _)| *at as usize).filter(|at| (1..footer).contains(at));
    for cut in within.chain(between) {
        std::fs::write(&path, &whole[..cut]).expect("written");
        for reader in [&["info"][..], &["replay", "--driver", "sim"], &["repair", "-o", "whole.bin", "--force"]] {
            let ran = run(place.cutrace(reader).arg("trace.bin")).expect(3);
            assert!(ran.stderr.lines().count() <= 1, "cut at {cut}: {}", ran.stderr);
        }
    }
    // Without its footer, or some of it, a trace says as much.
    for cut in [footer, footer + 8, footer + HEADER, footer + HEADER + 8, whole.len() - 1] {
        std::fs::write(&path, &whole[..cut]).expect("written");
        for command in [&["info"][..], &["replay", "--driver", "sim"], &["redact", "-o", "copy.bin", "--force"]] {
            run(place.cutrace(command).arg("trace.bin")).expect(0);
        }
        let repaired = run(&mut place.cutrace(["repair", "trace.bin"])).expect(0);
        assert!(repaired.stdout.contains("verdict: replayable"), "cut at {cut}: {}", repaired.stdout);
        assert!(std::fs::read(&path).expect("a trace") == whole, "cut at {cut}");
    }
}

#[test]
fn a_repaired_trace_is_whole() {
    let (place, path) = recorded("vector_add.c");
    let whole = std::fs::read(&path).expect("a trace");
    let (chunk, header) = Forge::open(&path).segments(Kind::Chunk)[0];
    std::fs::write(&path, &whole[..chunk + HEADER + header.length as usize - 50]).expect("written");
    let ran = run(&mut place.cutrace(["repair", "trace.bin", "-o", "repaired.bin"])).expect(3);
    assert!(ran.stdout.contains("index written"), "{}", ran.stdout);
    let repaired = sound(place.join("repaired.bin"));
    assert!(repaired.footer.is_some());
    assert_eq!(repaired.len(), run(&mut place.cutrace(["dump"])).expect(3).stdout.lines().count());
    run(&mut place.cutrace(["repair", "trace.bin", "-o", "repaired.bin"])).expect(1); // is there already
    run(&mut place.cutrace(["repair", "trace.bin", "-o", "repaired.bin", "--force"])).expect(3);
    assert_eq!(std::fs::metadata(place.join("repaired.bin")).expect("a trace").permissions().mode() & 0o777, 0o600);
    let ran = run(&mut place.cutrace(["repair", "trace.bin", "-o", "./trace.bin", "--force"])).expect(2);
    assert!(ran.stderr.contains("this is the trace itself"), "{}", ran.stderr);
    // What was lost stays lost.
    let told = run(&mut place.cutrace(["repair", "repaired.bin", "--json"])).expect(3).stdout;
    let told: Value = serde_json::from_str(&told).expect("JSON");
    assert!(told["losses"][0]["what"].as_str().is_some_and(|what| what.starts_with("at offset ")), "{told}");
    let ran = run(&mut place.cutrace(["repair", "repaired.bin"])).expect(3);
    assert!(ran.stdout.contains("closed, incomplete"), "{}", ran.stdout);
}

#[test]
fn any_bit_flipped_is_told_or_harmless() {
    let (place, path) = recorded("vector_add.c");
    let whole = std::fs::read(&path).expect("a trace");
    let dump = run(&mut place.cutrace(["dump"])).expect(0).stdout;
    let mut told = 0;
    for at in (0..whole.len()).step_by(whole.len() / 150) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x10;
        std::fs::write(&path, &bytes).expect("written");
        let info = run(&mut place.cutrace(["info"]));
        assert!(matches!(info.code(), 0 | 3), "offset {at}: {info:?}");
        assert_eq!(info.stderr.lines().count(), usize::from(info.code() == 3), "offset {at}: {}", info.stderr);
        told += usize::from(info.code() == 3);
        if info.code() == 0 {
            // Space that nothing stands in.
            assert_eq!(run(&mut place.cutrace(["dump"])).expect(0).stdout, dump, "offset {at}");
        }
    }
    assert!(told > 20, "{told}");
}

#[test]
fn info_in_json() {
    let (place, _) = recorded("vector_add.c");
    let ran = run(&mut place.cutrace(["info", "--json"])).expect(0);
    assert_eq!(ran.stderr, "");
    let info: Value = serde_json::from_str(&ran.stdout).expect("JSON");
    assert_eq!(info["schema"], 1);
    assert_eq!(info["calls"], place.trace().len());
    assert_eq!(info["functions"]["cuMemAlloc_v2"], 3);
    assert_eq!(info["functions"]["cuLaunchKernel"], 1);
    assert_eq!(info["verdict"], "replayable");
    assert_eq!(info["reasons"], Value::Array(vec![]));
}

#[test]
fn dump_selects() {
    let (place, _) = recorded("two_contexts.c");
    let lines = |arguments: &[&str]| {
        let ran = run(place.cutrace(["dump"]).args(arguments)).expect(0);
        ran.stdout.lines().map(str::to_string).collect::<Vec<_>>()
    };
    let all = lines(&[]);
    assert_eq!(lines(&["--calls", "3..7"]), all[3..7]);
    assert_eq!(lines(&["--calls", "5"]), all[5..6]);
    assert_eq!(lines(&["--limit", "2"]), all[..2]);
    let time = |line: &str| -> u64 {
        let seconds = line.split_whitespace().nth(1).expect("a time");
        seconds.replace('.', "").parse().expect("seconds with nine digits")
    };
    let (from, to) = (time(&all[3]), time(&all[7]));
    assert_eq!(lines(&["--window", &format!("{from}ns..{to}ns")]), all[3..7]);
    assert_eq!(lines(&["--window", &format!("{from}ns..")]), all[3..]);
    assert_eq!(lines(&["--window", &format!("..{to}ns"), "--calls", "5.."]), all[5..7]);
    assert!(lines(&["--window", &format!("{}ns..{to}ns", from + 1), "--calls", "..4"]).is_empty());
    let launches = all.iter().filter(|line| line.contains("cuLaunchKernel")).cloned().collect::<Vec<_>>();
    assert_eq!(lines(&["--grep", "cuLaunchKernel"]), launches);
    assert_eq!(launches.len(), 3);
    let threads = [lines(&["--thread", "t0"]), lines(&["--thread", "1"])];
    assert_eq!(threads[0].len() + threads[1].len(), all.len());
    // What is matched is what reports match: a function's name, and a kernel's behind it.
    assert_eq!(lines(&["--grep", "^cuLaunchKernel "]), launches);
    assert!(lines(&["--grep", "hStream|CUDA_SUCCESS|!!"]).is_empty());
    let failed = all.iter().filter(|line| line.contains("!!")).collect::<Vec<_>>();
    assert_eq!(failed.len(), 1);
    assert!(failed[0].contains("cuCtxSynchronize() -> !! CUDA_ERROR_INVALID_CONTEXT (201)"), "{}", failed[0]);
    for (wrong, why) in [
        (["--calls", "x"], "not a call number; expected 7, 10..20"),
        (["--calls", "5..2"], "the range is empty"),
        (["--window", "2ms"], "expected 1.5ms..2ms, 2s.. or ..20ms"),
        (["--window", "2ms..1ms"], "the window ends before it begins"),
        (["--limit", "-1"], "expected a count"),
        (["--thread", "t9"], "no thread \"t9\""),
    ] {
        let ran = run(place.cutrace(["dump"]).args(wrong)).expect(2);
        assert!(ran.stderr.contains(why), "{}", ran.stderr);
    }
}

#[test]
fn a_range_beyond_the_end_is_told() {
    let (place, _) = recorded("vector_add.c");
    let last = place.trace().len() - 1;
    let told = format!("cutrace: --calls: beyond the end of the trace, which has calls 0 to {last} only\n");
    let late = "cutrace: --window: beyond the end of the trace: its last call begins at 0.";
    for reader in [
        &["dump"][..],
        &["info"],
        &["report"],
        &["report", "-r", "cuda_api_trace"],
        &["export", "--to", "jsonl", "-o", "-"],
    ] {
        let ran = run(place.cutrace(reader).args(["--calls", "999.."])).expect(2);
        assert_eq!((ran.stdout, ran.stderr), (String::new(), told.clone()), "{reader:?}");
        let ran = run(place.cutrace(reader).args(["--window", "999s.."])).expect(2);
        assert!(ran.stdout.is_empty() && ran.stderr.starts_with(late), "{reader:?}: {}", ran.stderr);
    }
}

#[test]
fn dump_shows_what_no_call_told() {
    // What a callback wrote that is over before the next call that call tells: one of these takes longer.
    let (place, _) = recorded("slow_callbacks.c");
    let dump = run(&mut place.cutrace(["dump"])).expect(0).stdout;
    let lines: Vec<&str> = dump.lines().collect();
    let told = lines.windows(3).any(|lines| {
        lines[0].contains("cuLaunchHostFunc")
            && lines[1].contains("its callback ran until")
            && lines[2].trim_start().starts_with("wrote 0x")
    });
    assert!(told, "{dump}");
    assert!(lines.iter().any(|line| line.contains(" the CPU wrote 0x")), "{dump}");
    let dump = run(&mut place.cutrace(["dump", "--json"])).expect(0).stdout;
    let objects = objects(&dump);
    assert!(objects.iter().any(|call| call["callback_runs"][0]["wrote"][0]["bytes"].as_u64() > Some(0)));
    assert!(objects.iter().any(|call| call["cpu_wrote"][0]["content"].is_string()));
}

#[test]
fn what_the_cpu_wrote_at_once_is_one_line() {
    let (place, _) = recorded("staging_ring_of_workers.c");
    let dump = |options: &[&str]| -> Vec<String> {
        let ran = run(place.cutrace(["dump"]).args(options)).expect(0);
        ran.stdout.lines().map(str::to_owned).collect()
    };
    let (brief, all) = (dump(&[]), dump(&["--writes"]));
    let counted = |lines: &[String]| lines.iter().filter(|line| line.contains(" ranges, ")).count();
    assert!(counted(&brief) > 0 && counted(&all) == 0, "{brief:#?}");
    assert!(all.len() > brief.len() + counted(&brief), "{} and {}", all.len(), brief.len());
    // With a call that matches stands what was found before it; no pattern finds that by itself.
    let is_write = |line: &String| line.contains("the CPU wrote");
    let found = dump(&["--grep", "cuMemcpy"]);
    assert!(found.iter().all(|line| is_write(line) || line.contains("cuMemcpy")), "{found:#?}");
    let with_writes: Vec<&[String]> =
        brief.windows(2).filter(|two| is_write(&two[0]) && two[1].contains("cuMemcpy")).collect();
    assert!(
        !with_writes.is_empty() && with_writes.iter().all(|two| found.windows(2).any(|shown| shown == *two)),
        "{found:#?}"
    );
    assert!(dump(&["--grep", "wrote"]).is_empty());
}

/// The kernel's first launch is recorded another way than the others.
#[test]
fn dump_shows_what_describes_launches() {
    let (place, _) = recorded("described_launches.c");
    let dump = run(&mut place.cutrace(["dump", "--json", "--grep", "cuLaunchKernelEx"])).expect(0).stdout;
    let launches = objects(&dump);
    let described: Vec<_> =
        launches.iter().map(|call| (&call["args"]["config"], &call["args"]["kernelParams"])).collect();
    assert_eq!(described.len(), 8);
    assert_eq!(described[..3], described[3..6]);
    let counts = described[6..].iter().map(|(config, _)| config["attrs"].as_array().map(Vec::len));
    assert!(counts.eq([Some(27), Some(28)]), "{:?}", described[6]);
    let attributes: Vec<_> = described.iter().map(|(config, _)| config["attrs"].to_string()).collect();
    assert_eq!(attributes[0], "[]");
    assert!(attributes[1].contains("PRIORITY") && !attributes[1].contains("COOPERATIVE"), "{attributes:?}");
    assert!(attributes[2].contains("PRIORITY") && attributes[2].contains("COOPERATIVE"), "{attributes:?}");
    run(&mut place.cutrace(["replay", "--driver", "sim"])).expect(0);
}

#[test]
fn dump_in_json() {
    let (place, _) = recorded("vector_add.c");
    let ran = run(&mut place.cutrace(["dump", "--json", "--grep", "cuLaunchKernel"])).expect(0);
    let launch = &objects(&ran.stdout)[0];
    assert_eq!((&launch["kind"], &launch["function"]), (&"call".into(), &"cuLaunchKernel".into()));
    let arguments = &launch["args"]["kernelParams"]["arguments"];
    assert_eq!(arguments[3], 1000, "{arguments}");
    assert!(arguments[0].as_str().is_some_and(|address| address.starts_with("0x")), "{arguments}");
    assert_eq!((&launch["args"]["hStream"], &launch["args"]["extra"]), (&Value::Null, &Value::Null));
}

#[test]
fn data_that_is_not_in_the_file_is_told() {
    let (place, path) = recorded("vector_add.c");
    let whole = std::fs::read(&path).expect("a trace");
    // Between two segments: nothing but the missing data tells of the cut.
    let (blob, _) = Forge::open(&path).segments(Kind::Blob)[0];
    std::fs::write(&path, &whole[..blob]).expect("written");
    for (command, told) in [("dump", "=<missing blob "), ("info", "lost or truncated ")] {
        let ran = run(&mut place.cutrace([command])).expect(3);
        assert!(ran.stdout.contains(told), "{}", ran.stdout);
        assert_eq!(ran.said().len(), 1, "{}", ran.stderr);
    }
}

/// A trace from elsewhere does not get hold of the terminal.
#[test]
fn control_characters_are_escaped() {
    let (place, path) = recorded("vector_add.c");
    let mut forge = Forge::open(&path);
    let evil = "a\x1b[31m\n\u{9b}b";
    forge.introduce(|about| {
        about.command_line.push(evil.into());
        about.environment.push((evil.into(), evil.into()));
        for text in [&mut about.program, &mut about.directory, &mut about.host, &mut about.driver_path] {
            text.push_str(evil);
        }
    });
    forge.write(&path);
    let ran = run(&mut place.cutrace(["info"])).expect(0);
    assert!(!ran.stdout.replace('\n', "").contains(char::is_control), "{:?}", ran.stdout);
    assert!(ran.stdout.contains(r"$'a\u001b[31m\n\u009bb'"), "{}", ran.stdout);
    let lines = |text: &str| text.lines().filter(|line| line.starts_with("directory")).count();
    assert_eq!(lines(&ran.stdout), 1);
}

#[test]
fn many_threads_are_summed_up() {
    let place = Place::new();
    run(place.recorded(client("many_threads.c")).args(["20", "1", "3"])).expect(0);
    let ran = run(&mut place.cutrace(["info"])).expect(0);
    let listed = ran.stdout.lines().filter(|line| line.starts_with("thread ")).count();
    let threads = place.trace().threads.len();
    assert_eq!(listed, 16);
    assert!(ran.stdout.contains(&format!("and {} threads more, ", threads - 16)), "{}", ran.stdout);
    let info = run(&mut place.cutrace(["info", "--json"])).expect(0);
    let info: Value = serde_json::from_str(&info.stdout).expect("JSON");
    assert_eq!(info["threads"].as_array().map(Vec::len), Some(threads));
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let (place, _) = recorded("two_contexts.c");
    let mut shell = place.command("sh");
    shell.args(["-c", "\"$0\" dump | head -1"]).arg(artifact("cutrace"));
    let ran = run(&mut shell).expect(0);
    assert_eq!((ran.stdout.lines().count(), ran.stderr.as_str()), (1, ""));
}

/// Standard output is a pipe that nobody reads.
fn unread(mut command: Command) -> Option<i32> {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    command.stdout(writer).stderr(Stdio::null()).status().expect("started").code()
}

#[test]
fn what_is_lost_is_told_in_json_by_every_command() {
    let place = Place::new();
    run(&mut place.recorded(client("vector_add.c"))).expect(0);
    let whole = run(&mut place.cutrace(["export", "--json", "--to", "chrome", "-o", "whole.json", "trace.bin"]));
    assert!(whole.expect(0).stdout.contains("\"whole\":true"));
    std::fs::File::options().write(true).open(place.join("trace.bin")).and_then(|f| f.set_len(30_000)).expect("cut");
    let told = |arguments: &str| {
        let ran = run(&mut place.cutrace(arguments.split(' '))).expect(3).stdout;
        serde_json::from_str::<serde_json::Value>(&ran).expect("JSON")
    };
    let damage = &told("info --json trace.bin")["damage"];
    assert!(damage[0]["offset"].is_number(), "{damage}");
    let report = told("report --json trace.bin");
    assert_eq!(&report["trace"]["damage"], damage, "{report}");
    assert_eq!(&told("redact --json trace.bin -o redacted.bin")["damage"], damage);
    assert_eq!(told("export --json --to chrome -o cut.json trace.bin")["whole"], false);
}

#[test]
fn a_reader_that_goes_away_changes_no_exit_status() {
    let place = Place::new();
    let record = |name: &str, client: &Path, arguments: &[&str]| {
        run(place.cutrace(["record", "--driver", "sim", "-o", name, "--"]).arg(client).args(arguments));
    };
    record("fault.bin", &client("graph_fault.c"), &["captured"]);
    record("other.bin", &client("nondeterministic.c"), &["direct"]);
    record("alone.bin", &client("nothing_back.c"), &[]);
    record("no_data.bin", &client("vector_add.c"), &[]);
    run(&mut place.cutrace(["redact", "no_data.bin", "-o", "no.bin", "--drop-data"])).expect(0);
    record("cut.bin", &client("vector_add.c"), &[]);
    std::fs::File::options().write(true).open(place.join("cut.bin")).and_then(|f| f.set_len(30_000)).expect("cut");
    for (arguments, status) in [
        ("replay --driver sim --sync-launches fault.bin", 1),
        ("replay --driver sim --no-explain other.bin", 4),
        ("replay --driver sim --no-explain --json other.bin", 4),
        ("replay --driver sim alone.bin", 6),
        ("replay --driver sim no.bin", 1),
        ("replay --driver sim no.bin --json", 1),
        ("info cut.bin", 3),
        ("info --json cut.bin", 3),
        ("dump cut.bin", 3),
        ("report cut.bin", 3),
        ("report --json cut.bin fault.bin", 3),
        ("export --to jsonl -o - cut.bin", 3),
        ("view cut.bin", 3),
        ("redact cut.bin -o redacted.bin", 3),
        ("doctor --driver /nowhere", 5),
        ("info none.bin --json", 3),
    ] {
        let command = || place.cutrace(arguments.split(' '));
        assert_eq!(unread(command()), Some(status), "{arguments}");
    }
}

#[test]
fn a_trace_that_is_cut_while_it_is_read_is_told() {
    let place = Place::new();
    std::fs::copy(source("data/torch_nvtx.bin"), place.join("trace.bin")).expect("copied");
    // It writes what it reads before it reads on, as dump does not.
    let mut export = place.cutrace(["export", "--to", "jsonl", "-o", "-"]);
    let mut reading = export.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("started");
    // It has begun, and cannot be far: a pipe holds less than what there is to write.
    reading.stdout.as_mut().expect("piped").read_exact(&mut [0]).expect("a byte");
    std::fs::File::options()
        .write(true)
        .open(place.join("trace.bin"))
        .and_then(|file| file.set_len(8192))
        .expect("cut");
    let ended = reading.wait_with_output().expect("ended");
    let told = String::from_utf8_lossy(&ended.stderr);
    assert_eq!((ended.status.code(), told.lines().count()), (Some(3), 1), "{told}");
    assert!(told.contains("another process truncated the trace"), "{told}");
}

/// Whenever it is cut, no signal ends who reads it.
#[test]
fn a_trace_that_is_cut_while_it_is_planned_or_shown_is_told() {
    let place = Place::new();
    let path = place.join("trace.bin");
    for arguments in [&["view", "--once", "--no-index"][..], &["replay", "--dry-run"], &["replay", "--driver", "sim"]] {
        let mut told = 0;
        for delay in (0..400).step_by(20) {
            let _none_yet = std::fs::remove_file(&path);
            std::fs::copy(source("data/torch_nvtx.bin"), &path).expect("copied");
            let mut command = place.cutrace(arguments);
            let reading = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("started");
            std::thread::sleep(std::time::Duration::from_millis(delay));
            std::fs::File::options().write(true).open(&path).and_then(|file| file.set_len(8192)).expect("cut");
            let ended = reading.wait_with_output().expect("ended");
            let said = String::from_utf8_lossy(&ended.stderr);
            assert!(ended.status.code().is_some(), "{arguments:?} after {delay} ms: {:?}: {said}", ended.status);
            told += usize::from(ended.status.code() == Some(3) && said.contains("another process truncated the trace"));
            if told > 2 {
                break;
            }
        }
        assert!(told > 0, "{arguments:?}");
    }
}

#[test]
fn a_damaged_preamble_is_restored_from_its_copy() {
    for at in [5, 98, 20_000] {
        let place = Place::new();
        run(&mut place.recorded(client("vector_add.c"))).expect(0);
        let mut bytes = std::fs::read(place.join("trace.bin")).expect("a trace");
        bytes[at] ^= 0x5a;
        std::fs::write(place.join("trace.bin"), bytes).expect("written");
        run(&mut place.cutrace(["repair", "trace.bin", "-o", "whole.bin"])).expect(0);
        run(&mut place.cutrace(["info", "whole.bin"])).expect(0);
        let replayed = run(&mut place.cutrace(["replay", "--driver", "sim", "whole.bin"])).expect(0);
        assert!(is_verified(&replayed.stdout), "offset {at}: {}", replayed.stdout);
    }
}

/// What an earlier call ended is named as such, with that call.
#[test]
fn what_is_used_after_its_end_is_named() {
    let place = Place::new();
    run(&mut place.recorded(client("freed_twice.c"))).expect(0);
    let dump = run(&mut place.cutrace(["dump", "--color", "never"])).expect(0).stdout;
    let number = |line: &str| line.split_whitespace().next().expect("a number").to_owned();
    let first = |name: &str| number(dump.lines().find(|line| line.contains(name)).unwrap_or_else(|| panic!("{dump}")));
    let [freed, destroyed] = ["cuMemFree_v2(", "cuStreamDestroy_v2("].map(first);
    let (memory, stream) =
        (format!("(was mem#1, freed by call {freed})"), format!("(was stream#1, destroyed by call {destroyed})"));
    let with = |name: &str, what: &str| dump.lines().filter(|line| line.contains(name) && line.contains(what)).count();
    assert_eq!(with("cuMemFree_v2(", &memory), 1, "{dump}");
    assert_eq!(with("cuStreamDestroy_v2(", &stream), 1, "{dump}");
    assert_eq!(with("cuLaunchKernel(", &stream), 1, "{dump}");
    // Also where the driver took it.
    let launched: Vec<&str> =
        dump.lines().filter(|line| line.contains("cuLaunchKernel(") && line.contains(&memory)).collect();
    assert!(launched.iter().any(|line| line.contains("CUDA_SUCCESS")), "{dump}");
    assert_eq!(with("cuLaunchKernel(", ":add_two, destroyed"), 0, "{dump}");
    assert_eq!(with("cuMemsetD8_v2(", "was mem"), 0, "the address has another owner: {dump}");
    let errors = run(&mut place.cutrace(["report", "-r", "errors"])).expect(0).stdout;
    assert!(
        errors.contains(&memory) && errors.contains(&stream) && errors.contains("was function#2, destroyed"),
        "{errors}"
    );
}

/// A thread does by itself what others would help it with; where others are needed, one error says so.
#[test]
fn a_process_may_have_no_more_threads() {
    let place = Place::new();
    // Enough that calls are ordered, counted and written by several.
    run(place.recorded(client("many_calls.c")).arg("70000")).expect(0);
    let limited = |command: &[&str], threads: u32| {
        let mut command = place.cutrace(command);
        run(command.env("LD_PRELOAD", client("libfewthreads.c")).env("THREADS", threads.to_string()))
    };
    let commands: [(&[&str], bool); 5] = [
        (&["info", "--no-index"], false),
        (&["dump", "--grep", "DriverGetVersion|CtxSet"], true),
        (&["report", "-r", "summary,cuda_api_sum,errors,host,sync"], true),
        (&["report", "-r", "cuda_api_sum"], false),
        (&["view", "--once", "--no-index"], false),
    ];
    for (command, needs_threads) in commands {
        let usual = run(&mut place.cutrace(command)).expect(0);
        for threads in 0..3 {
            let ran = limited(command, threads);
            if needs_threads && (threads == 0 || ran.code() == 1) {
                assert_eq!((ran.code(), ran.said().len()), (1, 1), "{command:?}, {threads}: {}", ran.stderr);
                assert!(ran.stderr.starts_with("cutrace: cannot start a thread: "), "{}", ran.stderr);
                continue;
            }
            let ran = ran.expect(0);
            assert!(ran.stdout == usual.stdout && ran.stderr.is_empty(), "{command:?}, {threads}: {}", ran.stderr);
        }
    }
    for threads in 0..4 {
        let ran = limited(&["replay", "--driver", "sim"], threads);
        let is_told = ran.code() == 1 && ran.said().last().is_some_and(|said| said.contains("cannot start "));
        // Without one the limit itself would not be there.
        let is_well = threads > 0 && matches!(ran.code(), 0 | 6);
        assert!((is_told || is_well) && !ran.stderr.contains("panicked"), "{threads}: {ran:?}");
    }
}

/// What a person looks for in the environment; the rest is in the JSON and behind -v.
#[test]
fn of_the_environment_what_matters_is_shown() {
    let place = Place::new();
    let mut program = place.recorded(client("vector_add.c"));
    program.env("CUDA_DEVICE_ORDER", "PCI_BUS_ID").env("NVIDIA_REQUIRE_CUDA", "brand=tesla,".repeat(125));
    run(program.env("NVIDIA_VISIBLE_DEVICES", "all")).expect(0);
    let info = |options: &[&str]| run(place.cutrace(["info"]).args(options)).expect(0).stdout;
    let shown = info(&[]);
    for line in ["environment  CUDA_DEVICE_ORDER=PCI_BUS_ID\n", "environment  NVIDIA_VISIBLE_DEVICES=all\n"] {
        assert!(shown.contains(line), "{shown}");
    }
    assert!(shown.contains("environment  and 1 more variable (-v)\n"), "{shown}");
    let hidden = ["NVIDIA_REQUIRE_CUDA=brand", "environment  CUTRACE_", "environment  LD_PRELOAD="];
    let verbose = info(&["-v"]);
    for name in hidden {
        assert!(!shown.contains(name) && verbose.contains(name), "{name}: {shown}{verbose}");
    }
    assert!(!verbose.contains("(-v)") && info(&["--json"]).contains("NVIDIA_REQUIRE_CUDA"), "{verbose}");
}

/// Numbers that only a forger writes: sums of them are as large as a number gets.
#[test]
fn numbers_without_measure_are_no_panic() {
    let place = Place::new();
    run(&mut place.recorded(client("mapped_results.c"))).expect(0);
    let trace = place.trace();
    let device = &trace.devices[0];
    let mut forge = Forge::open(place.join("trace.bin"));
    let number = |memory: u64, (major, minor): (i32, i32)| {
        [&memory.to_le_bytes()[..], &major.to_le_bytes(), &minor.to_le_bytes()].concat()
    };
    forge.replace(Kind::Chunk, &number(device.memory, device.compute), &number(u64::MAX, (i32::MAX, 9)));
    // Lengths of copies: of each its last argument.
    for name in ["cuMemcpyHtoD_v2", "cuMemcpyDtoH_v2", "cuMemAlloc_v2"] {
        for call in calls_named(&trace, name) {
            let bytes = call.argument_bytes();
            let (kept, _) = bytes.split_at(bytes.len() - 8);
            forge.replace(Kind::Chunk, bytes, &[kept, &(u64::MAX - 7).to_le_bytes()].concat());
        }
    }
    forge.reseal();
    forge.write(place.join("trace.bin"));
    for command in ["info", "report -r transfers,memory,summary,errors", "replay --dry-run", "view --once --no-index"] {
        let ran = run(place.cutrace(command.split(' ')).arg("trace.bin"));
        assert!([0, 1, 3].contains(&ran.code()) && !ran.stderr.contains("panicked"), "{command}: {ran:?}");
    }
}
