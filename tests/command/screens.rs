//! `cutrace view` on a real trace, on damaged and growing ones, and in unusual terminals.

use tests::forge::Forge;
use tests::*;
use trace::file::segment::{HEADER, Kind};

/// PyTorch on an H200, with NVTX ranges, without its data: `cutrace redact --drop-data`.
fn real() -> Place {
    let place = Place::new();
    std::fs::copy(source("data/torch_nvtx.bin"), place.join("trace.bin")).expect("copied");
    place
}

fn view() -> String {
    format!("{} view", artifact("cutrace").display())
}

#[test]
fn a_real_program_is_looked_at() {
    let place = real();
    let screen = Screen::new(&place);
    screen.run(&format!("{}; echo status=$?", view()));
    let text = screen.wait("stream");
    for shown in ["python3.12", "t0 NVTX", "device 0 NVIDIA H200", "~ legacy stream", "of 102.9 MB", "1.19 s"] {
        assert!(text.contains(shown), "no {shown:?}:\n{text}");
    }
    // A range and what it holds.
    screen.keys(&["8", "Enter", "f"]);
    screen.wait("1,409 calls");
    // The launch of a kernel, by its name; its work; back.
    screen.keys(&["/"]);
    screen.run("sm80_xmma");
    screen.wait("sm80_xmma_gemm");
    screen.keys(&["]"]);
    screen.wait("submitted");
    screen.keys(&["]"]);
    screen.wait("when");
    // There is more to tell than fits.
    screen.keys(&["C-d"]);
    screen.wait("grid, block");
    // Failures, findings, objects, and from the table to a kernel's slowest launch.
    screen.keys(&["0", "Home", "e"]);
    screen.wait("CUDA_ERROR_");
    screen.keys(&["7"]);
    screen.wait("GPU idle for at least");
    screen.keys(&["9"]);
    screen.wait("Made by");
    screen.keys(&["3", "Enter"]);
    screen.wait("call ");
    screen.keys(&["q"]);
    screen.restored("status=0");
}

/// The terminal is asked for its background, unless somebody has said what it is.
#[test]
fn a_light_background_is_found_out() {
    let place = real();
    let screen = Screen::new(&place);
    // What stands on the chosen view: nearly white on a dark background, nearly black on a light one.
    let (on_dark, on_light) = ("38;5;255", "38;5;232");
    for (background, options, wanted, other) in [
        ("#ffffff", "", on_light, on_dark),
        ("#101010", "", on_dark, on_light),
        ("#ffffff", "--theme dark", on_dark, on_light),
    ] {
        screen.tmux(&["set-option", "-g", "window-style", &format!("bg={background}")]);
        screen.run(&format!("clear; {} {options}; echo status=$?", view()));
        screen.wait("? help");
        let drawn = screen.tmux(&["capture-pane", "-p", "-e"]);
        assert!(drawn.contains(wanted) && !drawn.contains(other), "{background} {options}: {drawn:?}");
        screen.keys(&["q"]);
        screen.wait("status=0");
    }
}

#[test]
fn marks_are_kept_beside_the_trace() {
    let place = real();
    let screen = Screen::new(&place);
    for (say, typed) in [("note: ", "slow here"), ("slow here", ", and why")] {
        screen.run(&format!("clear; {}; echo status=$?", view()));
        screen.wait("whole trace");
        match typed {
            "slow here" => {
                screen.keys(&["@"]);
                screen.run("500ms");
                screen.keys(&["m"]);
            }
            _ => {
                screen.keys(&["'"]);
                screen.wait("0.500000000 s");
                screen.keys(&["m"]);
            }
        }
        screen.wait(say);
        screen.run(typed);
        screen.wait("0.5");
        screen.keys(&["q"]);
        screen.wait("status=0");
    }
    let kept = std::fs::read_to_string(place.join("trace.bin.marks")).expect("marks");
    let kept: serde_json::Value = serde_json::from_str(&kept).expect("JSON");
    assert_eq!(kept["marks"], serde_json::json!([{ "time_ns": 500_000_000, "note": "slow here, and why" }]));
    screen.run(&format!("clear; {}; echo status=$?", view()));
    screen.wait("whole trace");
    screen.keys(&["'"]);
    screen.wait("slow here, and why");
    screen.keys(&["M"]);
    screen.wait("none in the trace");
    screen.keys(&["q"]);
    screen.wait("status=0");
    assert!(!place.join("trace.bin.marks").exists());
}

#[test]
fn a_damaged_chunk_is_a_hole() {
    let place = real();
    let mut trace = Forge::open(place.join("trace.bin"));
    let chunks = trace.segments(Kind::Chunk);
    let (offset, header) = chunks[chunks.len() / 2];
    trace.flip(offset + HEADER + header.length as usize / 2);
    trace.write(place.join("trace.bin"));
    let once = |options: &[&str]| {
        let ran = run(place.cutrace(["view", "--once", "--size", "150x40"]).args(options)).expect(3);
        assert!(ran.stderr.contains("does not match its checksum"), "{}", ran.stderr);
        ran.stdout
    };
    let frame = once(&[]);
    assert!(frame.contains("lost x failed !") && frame.contains("xxx"), "{frame}");
    assert!(frame.contains("damaged: t0: ") && frame.contains(" lost at "), "{frame}");
    let findings = once(&["--view", "findings"]);
    assert!(findings.contains("calls are missing: the trace is damaged"), "{findings}");
    let bytes = format!("bytes {}..{}", offset + HEADER, offset + HEADER + header.length as usize);
    assert!(findings.contains(&bytes) && findings.contains("no data for"), "{findings}");
    let report = run(&mut place.cutrace(["view"])).expect(3).stdout;
    assert!(report.contains("lost: t0: ") && report.contains(&bytes), "{report}");
}

/// A trace that is still being written, beside one that is not.
#[test]
fn a_pair_is_followed() {
    let place = Place::new();
    std::fs::write(place.join("go"), "").expect("written");
    run(place.recorded(client("two_halves.c")).arg("go")).expect(0);
    std::fs::rename(place.join("trace.bin"), place.join("first.bin")).expect("renamed");
    let mut program = place.preloaded(client("two_halves.c")).arg("later").spawn().expect("started");
    let has_copied = |trace: trace::Trace| calls_named(&trace, "cuMemcpyHtoD_v2").len() == 2;
    until("the program waits", || trace::Trace::open(place.join("trace.bin")).is_ok_and(has_copied));
    let screen = Screen::new(&place);
    screen.run(&format!("{} first.bin trace.bin --view kernels; echo status=$?", view()));
    let text = screen.wait("second trace: still being written");
    assert!(text.contains("Count 2"), "{text}");
    std::fs::write(place.join("later"), "").expect("written");
    assert!(program.wait().expect("it ends").success());
    screen.wait("second trace: partial");
    // Launched once in both: the second is read again a moment after it was closed.
    let counts = |text: &str| {
        let line = text.lines().find(|line| line.contains("vector_add")).unwrap_or_default().to_owned();
        line.split_whitespace().collect::<Vec<_>>().windows(2).any(|two| two == ["1", "1"])
    };
    until("both have one launch", || counts(&screen.text()));
    screen.keys(&["q"]);
    screen.restored("status=0");
}

#[test]
fn a_storm_of_sizes_and_other_keys() {
    let place = real();
    let config = place.join("config/cutrace");
    std::fs::create_dir_all(&config).expect("made");
    std::fs::write(config.join("view.toml"), "ascii = true\n[keys]\nquit = [\"ctrl-q\"]\napi = \"F\"\n")
        .expect("written");
    let screen = Screen::new(&place);
    screen.run(&format!("XDG_CONFIG_HOME=config NO_COLOR=1 {}; echo status=$?", view()));
    screen.wait("whole trace");
    for n in 0..60u32 {
        let (width, height) = (1 + n * 37 % 250, 1 + n * 17 % 70);
        screen.tmux(&["resize-window", "-x", &width.to_string(), "-y", &height.to_string()]);
    }
    screen.tmux(&["resize-window", "-x", "100", "-y", "30"]);
    let text = screen.wait("failed ! sync | load +");
    assert!(text.is_ascii(), "{text}");
    screen.keys(&["q"]);
    screen.wait("q is not bound");
    screen.keys(&["F"]);
    screen.wait("Function");
    // The title has the key that was set, once all is drawn.
    screen.wait(" F API ");
    let coloured = screen.tmux(&["capture-pane", "-p", "-e"]);
    let wild = ["\u{1b}[3", "\u{1b}[4"].iter().any(|start| {
        coloured.split(start).skip(1).any(|rest| rest.starts_with(|c: char| c.is_ascii_digit() && c != '9'))
    });
    assert!(!wild, "NO_COLOR: {coloured:?}");
    screen.keys(&["C-q"]);
    screen.restored("status=0");
}
