//! The ranks of a job on one time axis: a collective's parts are connected from lane to lane.
//!
//! tests/data/ring has three ranks of tests/apps/process/collectives.c on the simulated driver, without their
//! data (`cutrace redact --drop-data`); rank 1 never reaches turn 5.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock};
use viewer::data::job::{Spec, Specs, join};
use viewer::data::lane::Source;
use viewer::data::open::Opened;
use viewer::export::frame;
use viewer::state::parts::keymap::{Key, Keymap};
use viewer::state::{Input, State};
use viewer::view::draw;
use viewer::view::theme::{Depth, Theme};

const DARK: Theme = Theme { depth: Depth::Many, light: false, ascii: false };
const LIGHT: Theme = Theme { light: true, ..DARK };
const SIZES: [(u16, u16); 3] = [(80, 24), (120, 35), (200, 60)];

static JOB: LazyLock<Arc<Opened>> = LazyLock::new(|| Arc::new(opened()));

fn opened() -> Opened {
    let path = |rank: u32| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("../tests/data/ring/rank{rank}.bin"));
    let open = |rank| Opened::open(&path(rank), false, |_| Vec::new()).unwrap_or_else(|error| panic!("{error}"));
    let all: Vec<Opened> = [1, 0, 2].map(open).into();
    let began = |opened: &Opened| opened.trace.clocks[0].ns as i64;
    let first = began(&all[0]);
    let specs = all.iter().zip([1, 0, 2]).map(|(opened, rank)| Spec {
        path: path(rank),
        label: format!("rank {rank}"),
        shift: began(opened) - first,
    });
    let specs = Specs { directory: "ring".into(), all: specs.collect() };
    let mut rest = all.into_iter();
    let one = rest.next().expect("three");
    let mut job = join(specs, &one, rest.collect());
    job.find_lives();
    job.path = "trace.bin".into();
    job
}

/// At the operation of this number on the first communicator, at the process of this place.
fn at(process: u32, number: u64, size: (u16, u16)) -> State {
    place(State::new(JOB.clone(), Keymap::default(), size), process, number)
}

fn place(mut state: State, process: u32, number: u64) -> State {
    state.start();
    let job = JOB.job.as_ref().expect("a job");
    let is_first = |source: &Source| matches!(source, Source::Operations { process: of, .. } if *of == process);
    let lane = JOB.model.lanes.iter().position(|lane| is_first(&lane.source)).expect("a communicator");
    let count = JOB.model.lanes[lane].len();
    let index =
        (0..count).find(|at| job.operation(lane, *at).is_some_and(|of| of.is_collective && of.number == number));
    let row = state.rows.iter().position(|row| row.lanes.contains(&lane)).expect("a row");
    (0..state.rows.len()).for_each(|_| key(&mut state, "up"));
    (0..row).for_each(|_| key(&mut state, "down"));
    let begin = JOB.model.lanes[lane].begin[index.expect("the operation")];
    for one in format!("@{begin}ns").chars() {
        key(&mut state, &one.to_string());
    }
    key(&mut state, "enter");
    state
}

fn key(state: &mut State, key: &str) {
    state.update(Input::Key(Key(key.into())));
}

fn drawn(state: &State, theme: &Theme) -> Buffer {
    let mut buffer = Buffer::empty(Rect::new(0, 0, state.size.0, state.size.1));
    draw(state, theme, &mut buffer);
    buffer
}

/// The frame, and which colours its connecting lines have.
fn with_lines(buffer: &Buffer) -> String {
    const LINES: &str = "\u{2503}\u{2501}\u{250f}\u{2513}\u{2517}\u{251b}\u{25b4}";
    let lines = buffer.content().iter().filter(|cell| LINES.contains(cell.symbol()));
    let mut colours: Vec<String> = lines.map(|cell| format!("{} on {}", cell.fg, cell.bg)).collect();
    colours.sort();
    colours.dedup();
    format!("{}lines: {}\n", frame(buffer), colours.join(", "))
}

#[test]
fn the_parts_of_a_collective_are_connected() {
    for (name, number) in [("whole", 4), ("behind", 5)] {
        for (width, height) in SIZES {
            let state = at(1, number, (width, height));
            for (shade, theme) in [("dark", DARK), ("light", LIGHT)] {
                let buffer = drawn(&state, &theme);
                insta::assert_snapshot!(format!("job-{name}-{width}x{height}-{shade}"), with_lines(&buffer));
            }
        }
        let plain = frame(&drawn(&at(1, number, (80, 24)), &Theme::PLAIN));
        assert!(plain.is_ascii(), "{plain}");
        insta::assert_snapshot!(format!("job-{name}-ascii"), plain);
    }
}

/// Only cells that show nothing else without it.
#[test]
fn a_connection_covers_nothing() {
    for size in SIZES {
        let state = at(1, 4, size);
        let mut alone = opened();
        alone.job = None;
        let without = place(State::new(Arc::new(alone), Keymap::default(), size), 1, 4);
        let (with, without) = (drawn(&state, &DARK), drawn(&without, &DARK));
        let lanes = state.layout.lanes;
        for y in lanes.y..lanes.y + lanes.height {
            for x in lanes.x..lanes.x + lanes.width {
                let (before, after) = (without[(x, y)].symbol(), with[(x, y)].symbol());
                assert!(before == after || before == " " || before == "\u{2502}", "{size:?} {x} {y}: {before} {after}");
            }
        }
    }
}
