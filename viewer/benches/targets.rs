//! The viewer's speed targets: `cargo bench -p viewer -- [CALLS...]` (default 1,000,000). BENCHMARKS.md has
//! the results.
//!
//! Traces are made in $CUTRACE_BENCH_DIR, or the temporary directory, and reused by later runs.

use ratatui::backend::CrosstermBackend;
use ratatui::layout::Rect;
use ratatui::{Terminal, TerminalOptions, Viewport};
use std::cell::Cell;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};
use viewer::data::lane::{Lane, views as views_of};
use viewer::data::open::Opened;
use viewer::state::parts::keymap::Keymap;
use viewer::state::{Input, State};
use viewer::synthetic::{Shape, write};
use viewer::terminal::screen::Frames;
use viewer::view::draw;
use viewer::view::theme::{Depth, Theme};

const LANES: usize = 16;
const COLUMNS: u64 = 400;
const THEME: Theme = Theme { depth: Depth::Many, light: false, ascii: false };

fn main() {
    let calls: Vec<u64> = std::env::args().skip(1).filter_map(|text| text.replace('_', "").parse().ok()).collect();
    let calls = if calls.is_empty() { vec![1_000_000] } else { calls };
    for calls in calls {
        measure(calls);
    }
}

fn measure(calls: u64) {
    let directory = std::env::var_os("CUTRACE_BENCH_DIR").map_or_else(std::env::temp_dir, PathBuf::from);
    let path = directory.join(format!("cutrace-bench-{calls}.bin"));
    if !path.exists() {
        let made = timed(|| write(&path, Shape { calls, threads: LANES as u32, ..Shape::default() }).expect("written"));
        println!("made in {:?}", made.0);
    }
    let size = std::fs::metadata(&path).map_or(0, |about| about.len());
    let index = viewer::data::side_files::places(&path, &viewer::data::store::INDEX).remove(0);
    if std::env::var_os("CUTRACE_BENCH_INDEXED").is_none() {
        println!("{calls} calls, {} MB", size / 1_000_000);
        let _not_there = std::fs::remove_file(&index);
        let opened = first_frame(&path, false);
        let (took, _) = timed(|| opened.find_lives().all.len());
        println!("  names of objects     {took:>10.1?}");
        let (took, saved) = timed(|| opened.save().expect("saved"));
        let bytes = saved.and_then(|path| std::fs::metadata(path).ok()).map_or(0, |about| about.len());
        println!(
            "  index written        {took:>10.1?}   {} MB, {:.2} B per call",
            bytes / 1_000_000,
            bytes as f64 / calls as f64
        );
        let nodes: usize = opened.model.lanes.iter().map(|lane| lane.pyramid.nodes().len() * 32).sum();
        println!("  pyramid              {:>10.2} B per call", nodes as f64 / calls as f64);
        // What is resident with an index is told by a process that never did without.
        let own = std::env::current_exe().expect("this program");
        let again = Command::new(own).arg(calls.to_string()).env("CUTRACE_BENCH_INDEXED", "1").status();
        assert!(again.expect("started").success());
        return;
    }
    let opened = first_frame(&path, true);
    assert!(opened.index.is_some());
    views(&opened);
    println!("  resident             {:>7} MB", resident("VmRSS:"));
    let (took, _) = timed(|| opened.call(opened.summary().calls as u32 / 2).expect("a call").name().len());
    println!("  one call in the file {took:>10.1?}");
    bytes(opened);
}

/// From the file to what a terminal of 120 by 40 is sent.
fn first_frame(path: &Path, index: bool) -> Arc<Opened> {
    let (took, opened) = timed(|| {
        let opened = Arc::new(Opened::open(path, index, |_| Vec::new()).expect("a trace"));
        let mut state = State::new(opened.clone(), Keymap::default(), (120, 40));
        state.start();
        frames((120, 40), Written::default())
            .frame(Rect::new(0, 0, 120, 40), |buffer| draw(&state, &THEME, buffer))
            .expect("memory");
        opened
    });
    let how = if index { "with index" } else { "no index" };
    println!(
        "  first frame, {how:<10} {took:>9.1?}   resident {} MB, peak {} MB",
        resident("VmRSS:"),
        resident("VmHWM:")
    );
    opened
}

fn frames((width, height): (u16, u16), out: Written) -> Frames<Written> {
    let viewport = Viewport::Fixed(Rect::new(0, 0, width, height));
    let backend = CrosstermBackend::new(out);
    Frames::new(Terminal::with_options(backend, TerminalOptions { viewport }).expect("memory"))
}

fn views(opened: &Opened) {
    let lanes: Vec<&Lane> = opened.model.lanes.iter().take(LANES).collect();
    let end = opened.summary().end;
    let mut random = 1u64;
    for part in [1u64, 10, 1_000, 100_000, 10_000_000] {
        let width = (end / part).max(COLUMNS);
        let mut all: Vec<Duration> = Vec::new();
        for _ in 0..200 {
            random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let from = if part == 1 { 0 } else { (random >> 11) % (end - width + 1) };
            let edges: Vec<u64> = (0..=COLUMNS).map(|n| from + width * n / COLUMNS).collect();
            let start = Instant::now();
            views_of(&lanes, &edges, false);
            all.push(start.elapsed());
        }
        all.sort();
        println!("  {LANES} x {COLUMNS} cells, 1/{part:<9} mean {:>9.1?}  p99 {:>9.1?}", mean(&all), all[197]);
    }
}

/// Bytes that a terminal of 240 by 60 gets for a pan by one column, and for a frame in which nothing changed.
fn bytes(opened: Arc<Opened>) {
    const SIZE: (u16, u16) = (240, 60);
    // As when somebody presses a key.
    opened.wake();
    let mut state = State::new(opened, Keymap::default(), SIZE);
    for part in [1, 1_000, 100_000] {
        let end = state.window.end;
        let window = state.window.fitting(end / 2, end / 2 + end / part / 2);
        for (name, depth) in [("256 colours", Depth::Many), ("true colour", Depth::True)] {
            state.window = window;
            let theme = Theme { depth, light: false, ascii: false };
            let written = Written::default();
            let mut frames = frames(SIZE, written.clone());
            let mut frame = |state: &State| {
                let (before, start) = (written.0.get(), Instant::now());
                frames.frame(Rect::new(0, 0, SIZE.0, SIZE.1), |buffer| draw(state, &theme, buffer)).expect("memory");
                (written.0.get() - before, start.elapsed())
            };
            let first = frame(&state);
            let still = frame(&state);
            let mut all: Vec<(usize, Duration)> = Vec::new();
            for _ in 0..20 {
                let start = Instant::now();
                state.window = state.window.panned(1.0 / state.window.columns as f64);
                // As a key would: what depends on the window is found out anew.
                state.update(Input::Resize(SIZE.0, SIZE.1));
                let (bytes, _) = frame(&state);
                all.push((bytes, start.elapsed()));
            }
            all.sort();
            let (median, most) = (all[10].0, all[19].0);
            let took = all.iter().map(|(_, took)| *took).sum::<Duration>() / 20;
            println!(
                "  240x60, 1/{part:<6} {name}: first {} B in {:.1?}, unchanged {} B, pan {median} B (max {most} B) in {took:.1?}",
                first.0, first.1, still.0
            );
        }
    }
}

/// Counts what is written.
#[derive(Clone, Default)]
struct Written(Rc<Cell<usize>>);

impl Write for Written {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.set(self.0.get() + bytes.len());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn mean(all: &[Duration]) -> Duration {
    all.iter().sum::<Duration>() / all.len() as u32
}

fn timed<T>(work: impl FnOnce() -> T) -> (Duration, T) {
    let start = Instant::now();
    let done = work();
    (start.elapsed(), done)
}

/// Megabytes.
fn resident(what: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with(what)).unwrap_or("");
    line.split_whitespace().nth(1).and_then(|kb| kb.parse::<u64>().ok()).unwrap_or(0) / 1000
}
