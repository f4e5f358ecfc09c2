//! `cutrace record`: starting programs, refusals, names of traces, messages.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use tests::*;
use trace::file::preamble::{Preamble, encode};
use trace::file::segment::{Kind, whole};

/// `record` refuses: one line, nothing recorded.
fn refused(place: &Place, program: impl AsRef<OsStr>, status: i32, why: &str) {
    let ran = run(&mut place.recorded(program)).expect(status);
    let [line] = ran.stderr.lines().collect::<Vec<_>>()[..] else { panic!("{}", ran.stderr) };
    assert!(line.starts_with("cutrace: ") && line.contains(why), "{line}");
    place.no_traces();
}

#[test]
fn programs_that_cannot_be_recorded() {
    let place = Place::new();
    refused(&place, "/nowhere/program", 127, "no such program");
    refused(&place, "no-such-program-anywhere", 127, "no such program in PATH");
    refused(&place, place.path(), 126, "is a directory");
    let with_mode = |name: &str, from: &Path, mode: u32| {
        let path = place.join(name);
        std::fs::copy(from, &path).expect("copied");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).expect("our own file");
        path
    };
    let program = client("many_calls.c");
    refused(&place, with_mode("plain", &program, 0o644), 126, "not executable");
    refused(&place, with_mode("setuid", &program, 0o4755), 126, "setuid");
    refused(&place, with_mode("text", &kernels().join("vector_add.ptx"), 0o755), 126, "neither an ELF program");
    refused(&place, client_with("no_driver.c", &["-static"]), 126, "statically linked");
    let musl = with_mode("musl", &program, 0o755);
    let (glibcs, its) = (b"/lib64/ld-linux-x86-64.so.2", b"/lib/ld-musl-x86_64.so.1\0\0\0");
    let mut bytes = std::fs::read(&program).expect("read");
    let at = bytes.windows(glibcs.len()).position(|window| window == glibcs).expect("its loader");
    bytes[at..at + its.len()].copy_from_slice(its);
    std::fs::write(&musl, bytes).expect("our own file");
    refused(&place, musl, 126, "linked with musl (/lib/ld-musl-x86_64.so.1); the recorder needs glibc");
}

/// Of the process that was started, as the one who started it was told.
#[test]
fn how_the_program_ended_is_kept() {
    let about = |way: &str, status| {
        let place = Place::new();
        let ran = run(place.recorded(client("ends.c")).arg(way)).expect(status);
        let object = run(&mut place.cutrace(["info", "--json"])).expect(0).stdout;
        let object: serde_json::Value = serde_json::from_str(&object).expect("JSON");
        let info = run(&mut place.cutrace(["info"])).expect(0).stdout;
        let report = run(&mut place.cutrace(["report"])).expect(0).stdout;
        (ran.stderr, object["program"]["ended"].clone(), info, report, place)
    };
    let (line, object, info, report, place) = about("fault", 139);
    assert!(line.trim_end().ends_with("; the program ended: SIGSEGV"), "{line}");
    assert_eq!(object, serde_json::json!({ "status": null, "signal": 11, "text": "SIGSEGV" }));
    assert!(info.contains("\nended        SIGSEGV\n") && report.contains("ended         SIGSEGV"), "{info}{report}");
    // Also in a copy with times.
    let _unverified = run(&mut place.cutrace(["replay", "--driver", "sim", "--profile", "-o", "timed.bin"]));
    let timed = run(&mut place.cutrace(["info", "timed.bin"])).expect(0).stdout;
    assert!(timed.contains("\nended        SIGSEGV\n"), "{timed}");
    let (line, object, info, report, _) = about("", 13);
    assert!(line.contains("; the program ended: exit 13"), "{line}");
    assert_eq!(object["status"], 13);
    assert!(info.contains("\nended        exit 13\n") && report.contains("ended         exit 13"), "{info}{report}");

    let place = Place::new();
    let ran = run(&mut place.recorded(client("vector_add.c"))).expect(0);
    assert!(!ran.stderr.contains("ended"), "{}", ran.stderr);
    assert!(run(&mut place.cutrace(["info"])).expect(0).stdout.contains("\nended        exit 0\n"));
    // Of what the program has started nothing is known.
    let place = Place::new();
    let (app, twice) = (client("ends.c"), "\"$0\" abort; exit 3");
    let ran = run(place.recorded("sh").args(["-c", twice]).arg(app)).expect(3);
    assert!(ran.stderr.contains("; the program ended: exit 3"), "{}", ran.stderr);
    let info = run(&mut place.cutrace(["info"])).expect(0).stdout;
    assert!(!info.contains("\nended "), "{info}");
}

#[test]
fn the_exit_status_is_the_programs_own() {
    let place = Place::new();
    let ends = client("ends.c");
    for (way, code) in [("return", 13), ("_exit", 11), ("abort", 128 + libc::SIGABRT), ("kill", 128 + libc::SIGKILL)] {
        let ran = run(place.recorded(&ends).arg(way)).expect(code);
        assert_eq!(ran.stdout, format!("{way}\n"));
        assert_eq!(ran.said().len(), 1, "{}", ran.stderr);
        assert!(ran.said()[0].contains(": 6 calls, "), "{}", ran.stderr);
    }
    assert_eq!(place.traces().len(), 4);
}

/// The runtime of AddressSanitizer wants to be the first library.
#[test]
fn a_program_built_with_a_sanitizer() {
    let program = client_with("many_calls.c", &["-fsanitize=address"]);
    let place = Place::new();
    let ran = run(place.recorded(&program).arg("3").env("ASAN_OPTIONS", "detect_leaks=1")).expect(0);
    assert_eq!((ran.stdout.as_str(), place.trace().len()), ("done\n", 7));
    let doctor = run(place.cutrace(["doctor", "--driver", "sim"]).arg(&program)).expect(0);
    assert!(doctor.stdout.contains("ASAN_OPTIONS=verify_asan_link_order=0"), "{}", doctor.stdout);
    let ran = run(place.preloaded(&program).arg("3").env("ASAN_OPTIONS", "verify_asan_link_order=0")).expect(0);
    assert_eq!(ran.stdout, "done\n");
}

#[test]
fn a_program_that_calls_nothing_is_told() {
    let place = Place::new();
    let ran = run(&mut place.recorded("true")).expect(0);
    assert_eq!(ran.stderr, "cutrace: true made no CUDA driver call; nothing was recorded\n");
    place.no_traces();
}

#[test]
fn one_line_for_all_processes() {
    let place = Place::new();
    let program = client("fork_before.c");
    let ran = run(&mut place.recorded(&program)).expect(0);
    let [line] = ran.said()[..] else { panic!("{}", ran.stderr) };
    assert!(line.starts_with("cutrace: 2 processes: trace"), "{line}");
    assert!(line.contains("trace.bin") && line.contains("trace.1.bin") && line.contains(": 4 calls, "), "{line}");
    assert!(place.traces().iter().all(|trace| trace.footer.is_some()));
}

/// Where one file was named for what turns out to be a job.
#[test]
fn several_processes_are_better_put_into_a_directory() {
    let place = Place::new();
    let record = |output: &str, program: &str| {
        run(place.cutrace(["record", "--driver", "sim", "-o", output]).arg(client(program))).expect(0).stderr
    };
    for (name, instead) in [("run1", "run1.d/"), ("run3.bin", "run3/")] {
        let said = record(name, "fork_before.c");
        let hint = format!("; record with -o {instead} to put all into one directory\n");
        assert!(said.starts_with("cutrace: 2 processes: run") && said.ends_with(&hint), "{said}");
        assert!(record(instead, "fork_before.c").contains(&format!("{instead}: 2 processes recorded: ")), "{instead}");
    }
    assert!(!record("one.bin", "vector_add.c").contains("; with -o"));
    assert!(!record("%n-%p.bin", "fork_before.c").contains("; with -o"));
    // One that is there takes all of them, whatever its name ends with.
    std::fs::create_dir(place.join("run2")).expect("our own directory");
    let said = record("run2", "fork_before.c");
    assert!(said.contains("run2/: 2 processes recorded: ") && !said.contains("; with -o"), "{said}");
}

#[test]
fn a_trace_that_is_still_written_is_left_open() {
    let place = Place::new();
    let ran = run(place.recorded(client("outlives.c")).arg("go")).expect(0);
    assert!(ran.said()[0].contains("still running (close later with cutrace repair): trace"), "{}", ran.stderr);
    let open =
        || place.trace_paths().into_iter().find(|path| trace::Trace::open(path).is_ok_and(|t| t.footer.is_none()));
    let path = open().expect("an open trace");
    let ran = run(place.cutrace(["repair"]).arg(&path)).expect(1);
    assert!(ran.stderr.contains("is still writing this trace"), "{}", ran.stderr);
    run(place.cutrace(["info"]).arg(&path)).expect(0); // may be read meanwhile
    // As another PID namespace would see it, where the process has another number.
    let preamble = Preamble { pid: u32::MAX, ..trace::Trace::open(&path).expect("a trace").preamble };
    let segment = whole(Kind::Preamble, 0, &encode(&preamble));
    let file = std::fs::File::options().write(true).open(&path).expect("our own file");
    file.write_all_at(&[segment.clone(), segment].concat(), 0).expect("written");
    let ran = run(place.cutrace(["repair"]).arg(&path)).expect(1);
    assert!(ran.stderr.contains("is still writing this trace"), "{}", ran.stderr);
    std::fs::write(place.join("go"), "").expect("our own directory");
    let done = place.join("done");
    let is_written = || trace::write::finish::writer(&trace::Trace::open(&path).expect("a trace")).is_some();
    until("the child ends", || done.exists() && !is_written());
    run(place.cutrace(["repair"]).arg(&path)).expect(0);
    assert_eq!(names(&sound(&path)), ["cuInit", "cuDeviceGetCount"]);
}

/// It has the descriptor, but never writes there.
#[test]
fn a_child_does_not_keep_its_parents_trace_open() {
    let place = Place::new();
    let program = client("outlives.c");
    let ran = run(place.recorded(program).arg("go").env("OUTLIVES_INHERITS", "1")).expect(0);
    let closed: Vec<bool> = place.traces().iter().map(|trace| trace.footer.is_some()).collect();
    std::fs::write(place.join("go"), "").expect("our own directory");
    assert_eq!(closed, [true, false], "{}", ran.stderr);
}

#[test]
fn no_file_is_ever_overwritten() {
    let place = Place::new();
    std::fs::write(place.join("trace.bin"), "precious").expect("written");
    let program = client("needed_driver.c");
    let ran = run(&mut place.recorded(&program)).expect(0);
    assert!(ran.stderr.starts_with("cutrace: trace.1.bin: "), "{}", ran.stderr);
    run(&mut place.preloaded(&program)).expect(0);
    assert_eq!(std::fs::read_to_string(place.join("trace.bin")).expect("there"), "precious");
    for number in [1, 2] {
        assert_eq!(sound(place.join(&format!("trace.{number}.bin"))).len(), 2);
    }
    let mode = std::fs::metadata(place.join("trace.1.bin")).expect("there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn output_patterns() {
    let place = Place::new();
    let program = client("needed_driver.c");
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").expect("Linux");
    let pattern = "%n-%p-%h-%q{FLAVOUR}-%%.bin";
    let mut record = place.cutrace(["record", "--driver", "sim", "-o", pattern]);
    run(record.arg(&program).env("FLAVOUR", "salt")).expect(0);
    run(place.preloaded(&program).env("CUTRACE_OUTPUT", pattern).env("FLAVOUR", "pepper")).expect(0);
    let mut made: Vec<String> = Vec::new();
    for trace in place.traces() {
        let flavour = if made.is_empty() { "" } else { "-" };
        let name = trace.path.file_name().expect("a name").to_string_lossy().into_owned();
        let start = format!("needed_driver-{}-{}-", trace.preamble.pid, host.trim());
        assert!(name.starts_with(&start) && name.ends_with("-%.bin"), "{name} {flavour}");
        made.push(name[start.len()..].to_string());
    }
    made.sort();
    assert_eq!(made, ["pepper-%.bin", "salt-%.bin"]);
}

#[test]
fn bad_variables_are_told_and_ignored() {
    let program = client("needed_driver.c");
    for (name, value, told) in [
        ("CUTRACE_DATA", "everything", "CUTRACE_DATA=\"everything\": expected none, inputs or all"),
        ("CUTRACE_DISABLE", "maybe", "CUTRACE_DISABLE=\"maybe\": expected 0 or 1"),
        ("CUTRACE_OUTPUT", "trace-%z.bin", "%z is unknown"),
        ("CUTRACE_LIBCUDA", "/nowhere/libcuda.so.1", "/nowhere/libcuda.so.1: no such file; looking elsewhere"),
    ] {
        let place = Place::new();
        let bare = run(&mut place.bare(&program));
        let ran = run(place.preloaded(&program).env(name, value)).expect(0);
        place.same(&bare, &ran);
        let [line] = ran.said()[..] else { panic!("{}", ran.stderr) };
        assert!(line.contains(told), "{line}");
        assert_eq!(place.trace().len(), 2);
    }
}

#[test]
fn recording_can_be_switched_off() {
    let place = Place::new();
    let program = client("needed_driver.c");
    let ran = run(place.preloaded(&program).env("CUTRACE_DISABLE", "1")).expect(0);
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("0 0 1\n", ""));
    place.no_traces();
}

#[test]
fn a_driver_that_is_not_there() {
    let place = Place::new();
    let mut record = place.cutrace(["record", "--driver", "/nowhere/libcuda.so.1", "--", "true"]);
    let ran = run(&mut record).expect(5);
    assert!(ran.stderr.contains("/nowhere/libcuda.so.1"), "{}", ran.stderr);
    // The recorder is no driver for itself.
    let shim = artifact("libcutrace.so");
    let ran = run(place.cutrace(["record", "--driver"]).arg(&shim).args(["--", "true"])).expect(5);
    assert!(ran.stderr.contains("cutrace's own recorder"), "{}", ran.stderr);
}

/// Said before the program starts, which runs on; an answer for programs that can do without.
#[test]
fn no_driver_at_all() {
    let place = Place::new();
    let mut record = place.cutrace(["record", "--", "echo", "ran"]);
    let ran = run(record.env("CUTRACE_LIBCUDA", "/nowhere/libcuda.so.1")).expect(0);
    let [first, last] = ran.said()[..] else { panic!("{}", ran.stderr) };
    assert!(first.starts_with("cutrace: no CUDA driver found") && first.contains("/nowhere/libcuda.so.1"), "{first}");
    assert!(last.contains("made no CUDA driver call"), "{last}");
    assert_eq!(ran.stdout, "ran\n");
}

#[test]
fn outputs_that_cannot_be() {
    let place = Place::new();
    std::os::unix::fs::symlink("nowhere", place.join("link.bin")).expect("our own directory");
    for (output, why, status) in [
        ("/proc", "cannot create a file in /proc", 1),
        ("/dev/null", "is not a regular file", 1),
        ("link.bin", "link.bin is a link to a missing file", 1),
        ("no/new/", "directory no does not exist", 1),
        ("run-%p/", "one directory is used for all processes", 2),
        ("no/such.bin", "directory no does not exist", 1),
        ("/proc/trace.bin", "cannot create a file in /proc", 1),
        ("", "an empty name", 2),
        ("%z.bin", "%z is unknown", 2),
        ("%q{HOME", "%q is unknown", 2),
        ("%q{NOT_SET}.bin", "%q{NOT_SET}: no such environment variable", 2),
        ("x%q{PATH}/trace.bin", "directory x", 1),
    ] {
        let ran = run(&mut place.cutrace(["record", "--driver", "sim", "-o", output, "--", "true"])).expect(status);
        let [line] = ran.stderr.lines().collect::<Vec<_>>()[..] else { panic!("{}", ran.stderr) };
        assert!(line.starts_with("cutrace: --output: ") && line.contains(why), "{line}");
    }
    let mut record = place.cutrace(["record", "--driver", "sim", "--", "true"]);
    let ran = run(record.env("CUTRACE_OUTPUT", "/dev/null")).expect(1);
    assert_eq!(ran.stderr, "cutrace: CUTRACE_OUTPUT: /dev/null is not a regular file\n");
}

#[test]
fn a_program_without_a_trace_is_no_success() {
    let place = Place::new();
    std::fs::create_dir(place.join("there")).expect("our own directory");
    // The directory is gone when the recorder comes to it.
    let program = client("needed_driver.c");
    let script = format!("rmdir there; {}; exit $STATUS", program.display());
    for (status, code) in [("0", 1), ("7", 7)] {
        let _there_still = std::fs::create_dir(place.join("there"));
        let mut record = place.cutrace(["record", "--driver", "sim", "-o", "there/t.bin", "--", "sh", "-c", &script]);
        let ran = run(record.env("STATUS", status)).expect(code);
        let [line] = ran.said()[..] else { panic!("{}", ran.stderr) };
        let (_, why) = line.split_once("sh called the CUDA driver, but nothing was recorded: ").expect(line);
        assert!(why.contains("there/t.bin"), "{line}");
    }
}

#[test]
fn a_misspelled_flag_is_no_program() {
    let place = Place::new();
    for (wrong, right) in [("--drivr", "'--driver'"), ("--dely", "'--delay'"), ("--gpu-tims", "'--gpu-times'")] {
        let ran = run(&mut place.cutrace(["record", wrong, "--", "true"])).expect(2);
        assert!(ran.stderr.contains("unexpected argument") && ran.stderr.contains(right), "{}", ran.stderr);
    }
    // The program's own flags are its own.
    let ran = run(&mut place.cutrace(["record", "--driver", "sim", "echo", "--drivr", "-n", "--", "-x"])).expect(0);
    assert_eq!(ran.stdout, "--drivr -n -- -x\n");
}

#[test]
fn a_driver_that_is_no_library_starts_nothing() {
    let place = Place::new();
    std::fs::write(place.join("driver.so"), "no library").expect("written");
    let ran = run(&mut place.cutrace(["record", "--driver", "driver.so", "--", "touch", "ran"])).expect(5);
    assert!(ran.stderr.contains("cannot load the driver: ") && !place.join("ran").exists(), "{}", ran.stderr);
}

#[test]
fn a_taken_name_is_told() {
    let place = Place::new();
    let program = client("needed_driver.c");
    let told = |_| run(&mut place.recorded(&program)).expect(0).stderr;
    let [first, second] = [(), ()].map(told);
    assert!(!first.contains("existed already"), "{first}");
    assert!(
        second.contains("trace.1.bin: ") && second.contains("; trace.bin existed already and was kept"),
        "{second}"
    );
    let named = |_| run(place.cutrace(["record", "--driver", "sim", "-o", "mine.bin", "--"]).arg(&program)).expect(0);
    let [first, second] = [(), ()].map(named);
    assert!(!first.stderr.contains("existed already"), "{}", first.stderr);
    assert!(second.stderr.contains("; mine.bin existed already and was kept"), "{}", second.stderr);
}

#[test]
fn paths_are_bytes() {
    let place = Place::new();
    let directory = place.path().join(OsStr::from_bytes(b"100%\xff"));
    std::fs::create_dir(&directory).expect("our own directory");
    let mut record = place.cutrace(["record", "--driver", "sim", "-o"]);
    record.arg(OsStr::from_bytes(b"\xfe.bin")).arg("--").arg(client("needed_driver.c"));
    run(record.current_dir(&directory)).expect(0);
    assert!(sound(directory.join(OsStr::from_bytes(b"\xfe.bin"))).footer.is_some());
}

/// A signal that somebody sends to the launcher is meant for the program.
#[test]
fn an_interruption_by_another_process_is_passed_on() {
    for (name, signal) in [("INT", libc::SIGINT), ("HUP", libc::SIGHUP), ("QUIT", libc::SIGQUIT)] {
        let place = Place::new();
        let script = format!("trap 'kill $!; exit 7' {name}; sleep 50 & >waits; wait");
        let running = begin(place.recorded("sh").args(["-c", &script]));
        until("the shell waits", || place.join("waits").exists());
        running.send(signal);
        running.end().expect(7);
    }
}

#[test]
fn what_still_runs_is_told() {
    let place = Place::new();
    // In the middle of an exec nothing can be told of it.
    let script = "setsid sleep 300 >/dev/null 2>&1 & echo $! >daemon; \
                  until grep -qsx sleep /proc/$!/comm && grep -qsz ^CUTRACE_SESSION= /proc/$!/environ; do sleep 0.05; done";
    let ran = run(place.recorded("sh").args(["-c", script]));
    let daemon = std::fs::read_to_string(place.join("daemon")).expect("written");
    run(place.command("kill").args(["-KILL", daemon.trim()])).expect(0);
    assert_eq!(
        ran.stderr,
        "cutrace: sh made no CUDA driver call that the recorder saw so far; 1 of its processes still runs\n"
    );
    ran.expect(0);
}

#[test]
fn a_terminated_launcher_ends_the_program_and_closes_the_trace() {
    let place = Place::new();
    // Its parent ends at once; the launcher's own child is what this is about.
    let mut record = place.recorded(client("outlives.c"));
    let running = begin(record.arg("never").env("OUTLIVES_WAITS", "1"));
    let has_calls = |path: &std::path::PathBuf| trace::Trace::open(path).is_ok_and(|trace| !trace.is_empty());
    until("parent and child have made calls", || {
        place.trace_paths().iter().filter(|path| has_calls(path)).count() == 2
    });
    running.send_to_all(libc::SIGTERM);
    let ran = running.end().expect(128 + libc::SIGTERM);
    assert!(ran.said()[0].contains("trace"), "{}", ran.stderr);
    assert!(place.traces().iter().any(|trace| trace.footer.is_some()));
}

/// Every variable that the recorder reads, or `record` for it, is in the help of `record`.
#[test]
fn help_lists_every_variable() {
    let help = run(&mut Place::new().cutrace(["record", "--help"])).expect(0).stdout;
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut sources =
        ["shim/src", "src/commands/record.rs", "src/driver.rs", "src/driver/libraries.rs"].map(PathBuf::from).to_vec();
    let mut found = 0;
    while let Some(source) = sources.pop() {
        let source = root.join(source);
        if source.is_dir() {
            sources.extend(std::fs::read_dir(source).expect("sources").map(|file| file.expect("a file").path()));
            continue;
        }
        let text = std::fs::read_to_string(source).expect("a source");
        for (at, _) in text.match_indices("\"CUTRACE_") {
            let rest = text[at + 1..].chars();
            let name: String = rest.take_while(|c| c.is_ascii_uppercase() || *c == '_').collect();
            assert!(name == "CUTRACE_" || help.contains(&name), "{name} is not in `cutrace record --help`");
            found += 1;
        }
    }
    assert!(found > 10, "{found} variables");
}

/// SIGXFSZ is the program's own affair: `record` outlives its own, and the program has it as ever.
#[test]
fn a_file_size_limit_is_no_end_of_the_recording() {
    let place = Place::new();
    let under = |limit: &str, program: &str| {
        let script = format!("{limit} exec \"$0\" record --driver sim -- {program}");
        let mut bash = place.command("bash");
        run(bash.args(["-c", &script]).arg(artifact("cutrace")).arg(client("vector_add.c")))
    };
    // Some of these leave no room for the footer.
    let told = (16..64).step_by(4).map(|limit| under(&format!("ulimit -f {limit};"), "\"$1\"")).filter(|ran| {
        assert!([0, 1].contains(&ran.code()), "{ran:?}");
        ran.stderr.contains(": not closed: File too large")
    });
    assert!(told.count() > 0);
    under("", "sh -c 'kill -XFSZ $$'").expect(128 + libc::SIGXFSZ);
    under("trap '' XFSZ;", "sh -c 'kill -XFSZ $$'").expect(0);
}

#[test]
fn standard_output_is_no_trace() {
    let place = Place::new();
    let ran = run(&mut place.cutrace(["record", "--driver", "sim", "-o", "-", "--", "true"])).expect(2);
    assert!(ran.stderr.contains("--output: a trace cannot be written to standard output"), "{}", ran.stderr);
    assert!(!place.join("-").exists());
}

#[test]
fn without_a_driver_the_simulated_one_is_named() {
    let place = Place::new();
    for command in [&["record", "true"][..], &["doctor"]] {
        let ran = run(&mut place.cutrace(command));
        let told = ran.stdout + &ran.stderr;
        // On a machine that has one there is nothing to say.
        assert!(!told.contains("tried") || told.contains("without a GPU, --driver sim"), "{told}");
    }
}

#[test]
fn a_trace_that_goes_while_it_is_recorded_is_told() {
    for (does, status, said) in [("rm trace.bin", 1, 1), ("mv trace.bin other.bin", 0, 2), ("mv trace.bin ..", 1, 1)] {
        let place = Place::new();
        std::fs::create_dir(place.join("in")).expect("made");
        let script = format!("\"$0\" & child=$!; while ! [ -s trace.bin ]; do :; done; {does}; wait $child");
        let mut record = place.cutrace(["record", "--driver", "sim", "--", "sh", "-c", &script]);
        let ran = run(record.arg(client("host_bound.c")).current_dir(place.join("in"))).expect(status);
        assert_eq!(ran.said()[0], "cutrace: trace.bin: was removed or renamed while recording");
        assert_eq!(ran.said().len(), said, "{does}: {}", ran.stderr);
        // What was recorded is all in the file.
        place.trace_paths().iter().for_each(|path| assert_eq!(sound(path).len(), 49));
    }
}

#[test]
fn what_a_killed_record_has_left_is_removed() {
    let place = Place::new();
    let record = |program: &[&str]| {
        let mut record = place.cutrace(["record", "--driver", "sim", "--"]);
        record.args(program).env("TMPDIR", place.path());
        record
    };
    let sessions = || {
        let all = std::fs::read_dir(place.path()).expect("our own directory").flatten();
        all.map(|entry| entry.file_name())
            .filter(|name| name.to_string_lossy().starts_with("cutrace-"))
            .collect::<Vec<_>>()
    };
    // The file of a recording is locked before its program starts.
    let begun = |starts: &str| {
        let runs = begin(&mut record(&["sh", "-c", &format!(">{starts}; exec sleep 300")]));
        until("the program runs", || place.join(starts).exists());
        runs
    };
    let killed = begun("first");
    killed.send_to_all(libc::SIGKILL);
    killed.end();
    let left = sessions();
    assert_eq!(left.len(), 1, "{left:?}");
    let runs = begun("second");
    for name in sessions() {
        let file = std::fs::File::options().write(true).open(place.path().join(name)).expect("there");
        file.set_modified(std::time::SystemTime::now() - std::time::Duration::from_secs(3600)).expect("our own file");
    }
    run(&mut record(&["true"]));
    // That of one which runs stays.
    assert!(sessions().len() == 1 && sessions() != left, "{left:?}, {:?}", sessions());
    runs.send(libc::SIGTERM);
    runs.end();
}

/// Nine loads from three mappings, two of which hold the same: it is hashed where it lies.
#[test]
fn an_image_in_a_mapping_is_stored_once_and_not_copied() {
    const LEAST: u64 = 4 << 20;
    let place = Place::new();
    let ran = place.unchanged(client("images_mapped.c"), &[""; 0]).expect(0);
    assert_eq!(ran.stdout, "66, 0 bytes\n");
    let trace = place.trace();
    assert_eq!(calls_named(&trace, "cuModuleLoadData").len(), 9);
    let images: Vec<u64> = trace.blobs().map(|(_, len)| len).filter(|len| *len > LEAST).collect();
    assert_eq!(images.len(), 2, "{images:?}");
    let size = place.join("trace.bin").metadata().expect("a file").len();
    assert!(size < 2 * LEAST + (4 << 20), "{size}");
    run(&mut place.cutrace(["replay", "--driver", "sim"])).expect(0);
}

#[test]
fn a_directory_for_temporary_files_that_is_not_there_is_named() {
    let place = Place::new();
    for arguments in [&["record", "true"][..], &["demo"]] {
        let ran = run(place.cutrace(arguments.iter().copied()).env("TMPDIR", "/nowhere")).expect(1);
        assert!(
            ran.stderr.contains(" in /nowhere (set TMPDIR to use another directory): No such file"),
            "{}",
            ran.stderr
        );
    }
}
