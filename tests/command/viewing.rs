//! `cutrace view`: in a terminal (tmux), with real keys and the real screen; and without one.

use std::path::Path;
use std::process::Command;
use tests::*;

fn recorded(app: &str) -> Place {
    let place = Place::new();
    run(&mut place.recorded(client(app))).expect(0);
    place
}

fn view() -> String {
    format!("{} view", artifact("cutrace").display())
}

#[test]
fn keys_move_through_a_recorded_program() {
    let place = recorded("streams_events.c");
    let screen = Screen::new(&place);
    screen.run(&format!("{}; echo status=$?", view()));
    for shown in ["1 Timeline", "process", "device 0", "stream#1", " ms "] {
        screen.wait(shown);
    }
    // To the first launch, and to its work.
    screen.keys(&["/"]);
    screen.run("cuLaunchKernel");
    screen.wait("grid, block");
    screen.keys(&["]"]);
    screen.wait("submitted");
    screen.keys(&["2"]);
    screen.wait("begin");
    screen.keys(&["4"]);
    screen.wait("Function");
    // No Escape before it: a program that is late reads both at once, as alt and the key.
    screen.keys(&["?"]);
    screen.wait("Zoom in at the cursor");
    screen.keys(&["x"]);
    screen.wait("whole trace");
    // Smaller and larger.
    screen.tmux(&["resize-window", "-x", "60", "-y", "15"]);
    screen.wait("? help");
    screen.tmux(&["resize-window", "-x", "100", "-y", "30"]);
    screen.wait("whole trace");
    screen.keys(&["q"]);
    screen.restored("status=0");
    assert!(place.join("trace.bin.idx").exists(), "the index is kept");
}

fn once(place: &Place, options: &[&str]) -> String {
    run(place.cutrace(["view", "--once", "--size", "120x40"]).args(options)).expect(0).stdout
}

/// What the program said by NVTX, and what the device did for it.
#[test]
fn ranges_and_device_times() {
    let place = Place::new();
    let include = nvtx_include();
    run(&mut place.recorded(client_with("ranges.c", &["-I", include.to_str().expect("a path"), "-ldl"]))).expect(0);
    let frame = once(&place, &[]);
    assert!(frame.contains("t0 NVTX") && frame.contains("~ submission to known end"), "{frame}");
    assert!(frame.contains("~ legacy stream"), "{frame}");
    run(&mut place.cutrace(["replay", "--driver", "sim", "--profile", "-o", "timed.bin"])).expect(0);
    let frame = once(&place, &["timed.bin"]);
    assert!(frame.contains("t0 NVTX") && frame.contains("device times of a replay"), "{frame}");
    assert!(!frame.contains("~ legacy stream") && frame.contains("   legacy stream"), "{frame}");
    // Why the device idled is as `report` has it.
    let report = run(&mut place.cutrace(["report", "timed.bin", "-r", "gaps", "--json"])).expect(0).stdout;
    let report: serde_json::Value = serde_json::from_str(&report).expect("JSON");
    let rows = report["reports"][0]["rows"].as_array().expect("rows");
    let host =
        rows.iter().find(|row| (&row["where"], &row["cause"]) == (&"device 0".into(), &"host".into())).expect("gaps");
    let found = once(&place, &["timed.bin", "--view", "findings"]);
    let line = found.lines().find(|line| line.contains("device 0 waited for the host"));
    assert_eq!(line.is_some(), host["percent"].as_f64() > Some(20.0), "{found}");
    let times = line.and_then(|line| line.split_whitespace().nth(3)?.parse().ok());
    assert_eq!(times, line.and(host["gaps"].as_u64()), "{found}");
    assert!(!found.contains("GPU idle for at least"), "{found}");
    let screen = Screen::new(&place);
    screen.run(&format!("{} timed.bin; echo status=$?", view()));
    screen.wait("t0 NVTX");
    // The longest instance of a range, with what it holds; a kernel of it, with the way it went.
    screen.keys(&["8"]);
    screen.wait("step");
    screen.keys(&["Enter"]);
    let text = screen.wait(" in total, span ");
    assert!(text.contains("in the driver") && text.contains(" in total, span "), "{text}");
    screen.keys(&["3", "Enter"]);
    screen.wait("API queue exec");
    screen.keys(&["]"]);
    screen.wait("ran as");
    screen.keys(&["q"]);
    screen.restored("status=0");
}

/// A launch may name its stream in its configuration.
#[test]
fn launches_are_on_their_streams() {
    let place = recorded("results_ring.c");
    let frame = once(&place, &[]);
    assert!(frame.contains("~ stream#1") && !frame.contains("legacy stream"), "{frame}");
}

/// Two recordings of a program, one of which does more.
#[test]
fn two_traces_are_shown_beside_each_other() {
    let place = recorded("vector_add.c");
    std::fs::rename(place.join("trace.bin"), place.join("first.bin")).expect("renamed");
    run(&mut place.recorded(client("streams_events.c"))).expect(0);
    let frame = once(&place, &["first.bin", "trace.bin"]);
    assert!(frame.contains("t0, 2nd trace") && frame.contains("second: trace.bin"), "{frame}");
    let table = once(&place, &["first.bin", "trace.bin", "--view", "api", "--filter", "EventQuery"]);
    assert!(table.contains("Total 1") && table.contains("Total 2") && table.contains("cuEventQuery"), "{table}");
    let same = once(&place, &["first.bin", "first.bin", "--filter", "is:slower"]);
    assert!(same.contains("filter: 0 calls"), "{same}");
    let missing = run(&mut place.cutrace(["view", "first.bin", "none.bin", "--once"])).expect(3).stderr;
    assert!(missing.contains("none.bin"), "{missing}");
}

/// Presses only what the screen says: which kernels ran in an NVTX range, how long, and how busy the device
/// was.
#[test]
fn the_screen_says_how_to_find_the_kernels_of_a_range() {
    let place = Place::new();
    let include = nvtx_include();
    run(&mut place.recorded(client_with("ranges.c", &["-I", include.to_str().expect("a path"), "-ldl"]))).expect(0);
    run(&mut place.cutrace(["replay", "--driver", "sim", "--profile", "-o", "timed.bin"])).expect(0);
    let screen = Screen::new(&place);
    for (width, ranges) in [("120", "8 Ranges"), ("80", "8 NVTX")] {
        screen.tmux(&["resize-window", "-x", width, "-y", "24"]);
        screen.run(&format!("clear; {} timed.bin; echo status=$?", view()));
        let press = |shown: &str, key: &str| {
            screen.wait(shown);
            screen.keys(&[key]);
        };
        press(ranges, "8");
        let rows = screen.wait("Ranges of the whole trace");
        let names: Vec<&str> = rows.lines().skip_while(|line| !line.contains("Total")).skip(1).collect();
        let step = names.iter().position(|line| line.ends_with(" step")).expect("the range's row");
        (0..step).for_each(|_| press("up down row", "Down"));
        press("enter slowest", "Enter");
        screen.wait("NVTX           step");
        press("V select it", "V");
        press("3 its kernels", "3");
        let text = screen.wait("Kernels of range step");
        let kernel = text.lines().find(|line| line.contains("vector_add")).expect("the kernel");
        assert_eq!(kernel.split_whitespace().nth(3), Some("1"), "launched once in each: {text}");
        // As the report has it.
        let trace = trace::Trace::open(place.join("timed.bin")).expect("a trace");
        let times: Vec<String> = trace
            .timed()
            .filter(|work| work.is_kernel())
            .map(|work| viewer::text::duration(work.duration() as u64))
            .collect();
        assert!(times.iter().any(|took| kernel.contains(took.as_str())), "{times:?}: {text}");
        let busy = text.lines().find(|line| line.starts_with("device 0: busy ")).expect("how busy the device was");
        assert!(busy.contains(" of the range's ") && busy.contains("%)"), "{text}");
        press("? help", "q");
        screen.wait("status=0");
    }
}

/// What `Y` copies prints the same screen.
#[test]
fn every_screen_has_its_command() {
    let place = recorded("streams_events.c");
    let size = ["--size", "200x50"];
    let screen = Screen::new(&place);
    screen.tmux(&["set-option", "-s", "set-clipboard", "on"]);
    screen.tmux(&["resize-window", "-x", "200", "-y", "50"]);
    for options in [
        &["--view", "kernels"][..],
        &["--view", "api", "--row", "3"],
        &["--view", "findings"],
        &["--view", "objects", "--filter", "is:launch !failed"],
        &["--at", "20"],
        &["--at", "20", "--view", "events"],
        &["--at", "50%", "--row", "4", "--window", "1ms..3ms"],
        &["--filter", "Launch", "--at", "30", "--window", "0ns..9ms"],
        &["--arrange", "fold:0,up:2,pin:3,hide:4"],
        &["--filter", "uses:stream#1"],
        &["--view", "api", "--window", "0ns..9ms"],
        &["--view", "kernels", "--select", "0ns..9ms"],
    ] {
        let frame = run(place.cutrace(["view", "--once"]).args([options, &size].concat())).expect(0).stdout;
        let quoted: Vec<String> = options.iter().map(|option| format!("'{option}'")).collect();
        screen.run(&format!("clear; {} {}; echo status=$?", view(), quoted.join(" ")));
        screen.wait("? help");
        screen.keys(&["Y"]);
        screen.wait("copied: cutrace view");
        let command = screen.tmux(&["show-buffer"]);
        screen.keys(&["q"]);
        screen.wait("status=0");
        let command = command.replacen("cutrace", &artifact("cutrace").display().to_string(), 1);
        let mut shell = place.bare("sh");
        let again = run(shell.args(["-c", &command])).expect(0).stdout;
        // What was said about the filter is not said again.
        assert_eq!(again, frame, "{command}");
    }
}

#[test]
fn what_lies_beyond_the_trace_is_told() {
    let place = recorded("vector_add.c");
    for (options, told) in [
        (&["--window", "5s..6s"][..], "cutrace: --window 5s..6s: the trace ends at 0."),
        (&["--row", "99"], "cutrace: --row 99: there are rows 0 to "),
        (&["--row", "9", "--view", "kernels"], "cutrace: --row 9: there is only row 0\n"),
        (&["--arrange", "pin:99"], "cutrace: --arrange pin:99: there are rows 0 to "),
        (&["--at", "999"], "cutrace: --at 999: the trace has calls 0 to 18 only\n"),
        (&["--at", "5s"], "cutrace: --at 5s: the trace ends at 0."),
        (&["--select", "5s..6s"], "cutrace: --select 5s..6s: the trace ends at 0."),
    ] {
        let ran = run(place.cutrace(["view", "--once"]).args(options)).expect(2);
        let said = &ran.stderr;
        assert!(said.starts_with(told) && said.lines().count() == 1 && ran.stdout.is_empty(), "{options:?}: {ran:?}");
    }
    for options in [&["--row", "0", "--view", "kernels"][..], &["--at", "18"], &["--window", "0s..5s"]] {
        assert_eq!(run(place.cutrace(["view", "--once"]).args(options)).expect(0).stderr, "", "{options:?}");
    }
    let screen = Screen::new(&place);
    screen.run(&format!("{} --row 99; echo status=$?", view()));
    screen.wait("--row 99: there are rows");
    screen.keys(&["q"]);
    screen.restored("cutrace: --row 99: there are rows");
}

#[test]
fn a_selection_goes_to_perfetto() {
    let place = recorded("streams_events.c");
    let screen = Screen::new(&place);
    screen.run(&view());
    screen.wait("? help");
    screen.keys(&["x"]);
    screen.wait("write to");
    screen.run("all.pftrace");
    screen.wait("all.pftrace: perfetto");
    screen.keys(&["q"]);
    let written = std::fs::read(place.join("all.pftrace")).expect("a file");
    run(&mut place.cutrace(["export", "--to", "perfetto", "-o", "other.pftrace"])).expect(0);
    assert_eq!(written, std::fs::read(place.join("other.pftrace")).expect("a file"));
}

/// A trace that a program is still writing.
#[test]
fn a_recording_is_followed() {
    let place = Place::new();
    let mut program = place.preloaded(client("two_halves.c")).arg("go").spawn().expect("started");
    let has_copied = |trace: trace::Trace| calls_named(&trace, "cuMemcpyHtoD_v2").len() == 2;
    until("the program waits", || trace::Trace::open(place.join("trace.bin")).is_ok_and(has_copied));
    let screen = Screen::new(&place);
    screen.run(&format!("{}; echo status=$?", view()));
    let text = screen.wait("still being written");
    assert!(!text.contains("vector_add"), "{text}");
    screen.keys(&["7"]);
    screen.wait("computed when the trace is closed");
    std::fs::write(place.join("go"), "").expect("written");
    assert!(program.wait().expect("it ends").success());
    screen.wait("partial");
    screen.wait("enter goes to call ");
    screen.keys(&["3"]);
    screen.wait("vector_add");
    screen.keys(&["q"]);
    screen.restored("status=0");
}

#[test]
fn the_terminal_is_given_back() {
    let place = recorded("vector_add.c");
    let screen = Screen::new(&place);
    // Stopped by the user, and back again.
    screen.run(&view());
    screen.wait("? help");
    screen.keys(&["C-z"]);
    screen.wait("topped");
    screen.run("clear; fg");
    screen.wait("? help");
    screen.keys(&["q"]);
    screen.wait("cutrace view\n$");
    screen.run("echo status=$?");
    screen.restored("status=0");
    // Asked to end.
    screen.run(&format!("clear; {}; echo status=$?", view()));
    screen.wait("? help");
    let shell = screen.tmux(&["display-message", "-p", "#{pane_pid}"]).trim().to_owned();
    let children = std::fs::read_to_string(format!("/proc/{shell}/task/{shell}/children")).expect("the shell runs");
    run(Command::new("kill").args(["-TERM", children.trim()])).expect(0);
    screen.restored("status=143");
}

#[test]
fn without_a_terminal_the_tables_are_printed() {
    let place = recorded("streams_events.c");
    let report = run(&mut place.cutrace(["view"])).expect(0).stdout;
    for shown in ["calls", "API", "cuModuleLoadData", "Kernels", "add_two"] {
        assert!(report.contains(shown), "no {shown:?}:\n{report}");
    }
    assert!(!report.contains('\x1b'));
    let frame = run(&mut place.cutrace(["view", "--once", "--size", "80x24", "--at", "30"])).expect(0).stdout;
    assert_eq!(frame.lines().count(), 24);
    assert!(frame.lines().all(|line| line.chars().count() <= 80), "{frame}");
    assert!(frame.contains("call 30"), "{frame}");
    assert!(frame.is_ascii(), "the locale is C");
    run(&mut place.cutrace(["view", "--once", "--size", "0x24"])).expect(2);
    let mut painted = place.cutrace(["view", "--once", "--size", "80x24", "--at", "30", "--color", "always"]);
    let painted = run(painted.env("TERM", "xterm-256color").env("NO_COLOR", "1")).expect(0).stdout;
    assert!(painted.contains("\x1b[38;5;") && painted.contains("call 30"), "{painted}");
}

#[test]
fn what_is_used_after_its_end_is_told() {
    let place = Place::new();
    // It dies of it.
    let _aborted = run(&mut place.recorded(client("use_after_free.c")));
    let calls = run(&mut place.cutrace(["dump", "--grep", "cuLaunchKernel"])).expect(0).stdout;
    let last = calls.lines().last().and_then(|line| line.split_whitespace().next()).expect("a launch").to_owned();
    let frame = once(&place, &["--at", &last]);
    assert!(frame.contains("before this call"), "{frame}");
}

#[test]
fn damaged_data_is_told() {
    let place = recorded("vector_add.c");
    let path = place.join("trace.bin");
    let mut bytes = std::fs::read(&path).expect("a trace");
    let trace = trace::Trace::open(&path).expect("a trace");
    let is_data = |kind| matches!(kind, trace::file::segment::Kind::Blob);
    let (offset, _) = trace.segments.iter().rfind(|(_, header)| is_data(header.kind)).expect("data");
    bytes[*offset as usize + 200] ^= 1;
    std::fs::write(&path, bytes).expect("written");
    let frame = once(&place, &[]);
    assert!(frame.contains("damaged: 1 blob altered"), "{frame}");
}

#[test]
fn damaged_and_partial_traces_open_labelled() {
    let place = recorded("vector_add.c");
    let path = place.join("trace.bin");
    let whole = std::fs::read(&path).expect("a trace");
    std::fs::write(&path, &whole[..whole.len() * 3 / 4]).expect("written");
    let cut = run(&mut place.cutrace(["view", "--once"]));
    assert!(cut.stdout.contains("damaged at offset") || cut.stdout.contains("partial"), "{}", cut.stdout);
    std::fs::write(&path, b"nothing of ours").expect("written");
    let foreign = run(&mut place.cutrace(["view"])).expect(3);
    assert!(foreign.stderr.contains("not a cutrace trace"), "{}", foreign.stderr);
    assert!(!Path::new("trace.bin.idx").exists());
}
