//! Frames: every view at several sizes, with and without colours; no state makes drawing fail.

use analysis::findings::finding::{Cost, Finding, LOST};
use proptest::prelude::*;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Color;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock};
use trace::Trace;
use viewer::data::open::Opened;
use viewer::export::frame;
use viewer::state::parts::action::{Action, actions};
use viewer::state::parts::keymap::{Key, Keymap};
use viewer::state::{Input, State};
use viewer::synthetic::{Shape, write};
use viewer::view::draw;
use viewer::view::theme::{Depth, Theme};

const UNICODE: Theme = Theme { depth: Depth::Many, light: false, ascii: false };

/// One finding of each kind of cost, with calls of the trace.
fn found(trace: &Trace) -> Vec<Finding> {
    let calls: Vec<u64> = (0..trace.len() as u64).step_by(7).collect();
    let finding = |kind: &str, what: &str, evidence: &str, cost: Cost, times: usize| Finding {
        kind: kind.into(),
        what: what.into(),
        evidence: evidence.into(),
        next: "cutrace report -r errors".into(),
        cost,
        times: times as u64,
        calls: calls.iter().copied().take(times).collect(),
    };
    let lost = "in 1 place; the first: t1: 812 calls lost";
    vec![
        finding(LOST, "calls are missing: the trace is damaged", lost, Cost::Wrong, 0),
        finding("failed_calls", "2 calls failed", "the first is call 0: CUDA_ERROR_OUT_OF_MEMORY", Cost::Wrong, 2),
        finding("polling", "40 queries found the work unfinished", "1.2 ms in all", Cost::Time(1_200_000), 40),
        finding(
            "not_freed",
            "15.4 MB in 10 pieces of memory not freed",
            "the first is call 7",
            Cost::Memory(15_400_000),
            10,
        ),
        finding("not_destroyed", "9 events leaked", "event by call 7", Cost::Objects(9), 9),
    ]
}

fn opened(path: PathBuf) -> Arc<Opened> {
    let mut opened = Opened::open(&path, false, found).unwrap_or_else(|error| panic!("{error}"));
    opened.find_lives();
    opened.find_findings();
    // Where it lies is nobody's business in a snapshot.
    opened.path = "trace.bin".into();
    Arc::new(opened)
}

static SYNTHETIC: LazyLock<Arc<Opened>> = LazyLock::new(|| {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("trace.bin");
    write(&path, Shape { calls: 4000, threads: 2, ..Shape::default() }).expect("written");
    opened(path)
});

static GOLDEN: LazyLock<Arc<Opened>> =
    LazyLock::new(|| opened(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tests/golden/failing_calls.bin")));

static MEASURED: LazyLock<Arc<Opened>> =
    LazyLock::new(|| opened(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tests/golden/graphs_timed.bin")));

static REAL: LazyLock<Arc<Opened>> =
    LazyLock::new(|| opened(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tests/data/torch_nvtx.bin")));

static PAIR: LazyLock<Arc<Opened>> = LazyLock::new(|| {
    let golden = |name: &str| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tests/golden").join(name);
    let open = |name: &str| Opened::open(&golden(name), false, found).unwrap_or_else(|error| panic!("{error}"));
    let mut both = viewer::data::compare::merge_second(&open("vector_add.bin"), open("failing_calls.bin"), None);
    both.find_lives();
    both.second.as_deref().expect("a second").opened.find_lives();
    both.path = "trace.bin".into();
    Arc::new(both)
});

/// Several chunks a thread, one of them with a byte changed.
static DAMAGED: LazyLock<Arc<Opened>> = LazyLock::new(|| {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("trace.bin");
    write(&path, Shape { calls: 40_000, threads: 2, ..Shape::default() }).expect("written");
    let trace = trace::Trace::open(&path).expect("a trace");
    let chunks = trace.segments.iter().filter(|(_, header)| header.kind == trace::file::segment::Kind::Chunk);
    let (offset, _) = *chunks.clone().nth(chunks.count() / 2).expect("chunks");
    let mut bytes = std::fs::read(&path).expect("a trace");
    bytes[offset as usize + 5000] ^= 1;
    std::fs::write(&path, bytes).expect("written");
    opened(path)
});

fn state(opened: &Arc<Opened>, size: (u16, u16)) -> State {
    let mut state = State::new(opened.clone(), Keymap::default(), size);
    state.start();
    state
}

fn drawn(state: &State, theme: &Theme) -> Buffer {
    let mut buffer = Buffer::empty(Rect::new(0, 0, state.size.0, state.size.1));
    draw(state, theme, &mut buffer);
    buffer
}

fn keys(state: &mut State, keys: &str) {
    for key in keys.split_whitespace() {
        state.update(Input::Key(Key(key.into())));
    }
}

/// The screens that a trace of any kind has, by the keys that lead there.
const SCREENS: [(&str, &str); 20] = [
    ("start", ""),
    ("call", "@ 7 0 0 enter w w w w w w w"),
    ("column", "@ 5 5 m s enter"),
    ("group", "up up up up space"),
    ("events", "@ 7 0 0 enter 2"),
    ("kernels", "3"),
    ("api", "4 o o"),
    ("window-api", "w w w 4 t"),
    ("copies", "5"),
    ("modules", "6"),
    ("findings", "7 down"),
    ("marks", "@ 1 0 m s enter m h e r e enter @ 2 0 m s enter m enter '"),
    ("selection", "e w w w w w w w w v l l l l l l l l v"),
    ("filter", "& i s : c o p y enter"),
    ("search", "/ g e m m enter"),
    ("prompt", "& i s : c o p y left left"),
    ("help", "?"),
    ("help-found", "? / z o o m"),
    ("legend", "i"),
    ("palette", ": p a n"),
];
const SIZES: [(u16, u16); 3] = [(80, 24), (120, 35), (200, 60)];

/// A frame, and below it which style each of its cells has on a dark and on a light background.
fn with_styles(state: &State) -> String {
    let (dark, light) = (drawn(state, &UNICODE), drawn(state, &Theme { light: true, ..UNICODE }));
    let named = |cell: &ratatui::buffer::Cell| {
        let modifiers = if cell.modifier.is_empty() { String::new() } else { format!(" {:?}", cell.modifier) };
        let colour = |colour: Color| match colour {
            Color::Reset => "-".to_owned(),
            Color::Indexed(n) => n.to_string(),
            other => format!("{other:?}"),
        };
        format!("{}/{}{}", colour(cell.fg), colour(cell.bg), modifiers.replace("Modifier", ""))
    };
    let mut known: Vec<(String, String)> = vec![("-/-".into(), "-/-".into())];
    let letters: Vec<char> = (' '..='~').collect();
    let mut out = frame(&dark);
    assert_eq!(out, frame(&light), "the background changes colours alone");
    out.push_str("styles:\n");
    for y in 0..state.size.1 {
        let line = (0..state.size.0).map(|x| {
            let pair = (named(&dark[(x, y)]), named(&light[(x, y)]));
            let at = known.iter().position(|other| *other == pair).unwrap_or_else(|| {
                known.push(pair);
                known.len() - 1
            });
            if at == 0 { ' ' } else { letters[33 + at] }
        });
        out.push_str(line.collect::<String>().trim_end());
        out.push('\n');
    }
    for (at, (dark, light)) in known.iter().enumerate().skip(1) {
        out.push_str(&format!("{}: {dark}, on light {light}\n", letters[33 + at]));
    }
    out
}

#[test]
fn views() {
    for (name, typed) in SCREENS {
        for (width, height) in SIZES {
            let mut state = state(&SYNTHETIC, (width, height));
            keys(&mut state, typed);
            insta::assert_snapshot!(format!("{name}-{width}x{height}"), with_styles(&state));
        }
        let mut state = state(&SYNTHETIC, (80, 24));
        keys(&mut state, typed);
        let plain = drawn(&state, &Theme::PLAIN);
        insta::assert_snapshot!(format!("{name}-ascii"), frame(&plain));
        assert!(frame(&plain).is_ascii(), "{name}");
        let colours = |cell: &ratatui::buffer::Cell| (cell.fg, cell.bg) != (Color::Reset, Color::Reset);
        assert!(!plain.content().iter().any(colours), "{name}: no colour means none");
    }
}

/// Somebody whose terminal has another background than was thought can still read it.
#[test]
fn what_has_a_background_has_a_foreground() {
    let themes = [Depth::Eight, Depth::Sixteen, Depth::Many, Depth::True];
    let themes = themes.into_iter().flat_map(|depth| [false, true].map(|light| Theme { depth, light, ascii: false }));
    for theme in themes {
        for (name, typed) in SCREENS {
            let mut state = state(&SYNTHETIC, (120, 45));
            keys(&mut state, typed);
            let buffer = drawn(&state, &theme);
            let bare = buffer.content().iter().find(|cell| cell.bg != Color::Reset && cell.fg == Color::Reset);
            assert!(bare.is_none(), "{name} {theme:?}: {bare:?}");
        }
    }
}

#[test]
fn a_recorded_program() {
    let mut state = state(&GOLDEN, (120, 30));
    insta::assert_snapshot!("recorded", frame(&drawn(&state, &UNICODE)));
    keys(&mut state, "e");
    insta::assert_snapshot!("recorded-failure", frame(&drawn(&state, &UNICODE)));
}

/// With device times of a replay.
#[test]
fn a_measured_program() {
    let views = [
        ("timeline", "@ 2 5 enter f s s"),
        ("launch", "/ a d d _ t w o enter f"),
        ("kernel", "/ a d d _ t w o enter ] f"),
        ("copy", "/ H t o D enter ] f"),
        ("graph", "/ G r a p h L a u n c h enter f s s"),
        ("kernels", "3"),
        ("copies", "5"),
        ("objects", "9"),
        ("lens", "9 down down down down enter f s s s s"),
        ("memory", "@ 5 0 % enter down down down down down down"),
        ("replay", "@ 1 7 enter down . f s s"),
    ];
    for (name, typed) in views {
        for (width, height) in [(80, 24), (120, 35)] {
            let mut state = state(&MEASURED, (width, height));
            keys(&mut state, typed);
            insta::assert_snapshot!(format!("measured-{name}-{width}x{height}"), frame(&drawn(&state, &UNICODE)));
        }
    }
}

/// PyTorch on an H200, without its data: `cutrace redact --drop-data`.
#[test]
fn a_real_program() {
    let views = [
        ("timeline", ""),
        ("ranges", "8"),
        ("range", "8 enter f"),
        ("launch", "/ s p l i t K enter f s s s"),
        ("kernels", "3"),
        ("api", "4"),
        ("modules", "6"),
        ("findings", "7"),
        ("objects", "9"),
    ];
    for (name, typed) in views {
        for (width, height) in SIZES {
            let mut state = state(&REAL, (width, height));
            keys(&mut state, typed);
            insta::assert_snapshot!(format!("real-{name}-{width}x{height}"), frame(&drawn(&state, &UNICODE)));
        }
        let mut state = state(&REAL, (80, 24));
        keys(&mut state, typed);
        let plain = frame(&drawn(&state, &Theme::PLAIN));
        assert!(plain.is_ascii(), "{name}: {plain}");
        insta::assert_snapshot!(format!("real-{name}-ascii"), plain);
    }
}

/// A chunk of it lost.
#[test]
fn a_damaged_program() {
    for (name, typed) in [("timeline", ""), ("hole", "@ 5 5 % enter"), ("findings", "7")] {
        for (width, height) in [(80, 24), (120, 35)] {
            let mut state = state(&DAMAGED, (width, height));
            keys(&mut state, typed);
            insta::assert_snapshot!(format!("damaged-{name}-{width}x{height}"), frame(&drawn(&state, &UNICODE)));
        }
    }
}

/// Two traces on one timeline.
#[test]
fn a_program_beside_another() {
    for (name, typed) in [
        ("timeline", ""),
        ("partner", "down . . . . f s s s"),
        ("api", "4"),
        ("objects", "9"),
        ("aligned", "@ 8 enter c f s s s"),
    ] {
        for (width, height) in [(80, 24), (120, 35)] {
            let mut state = state(&PAIR, (width, height));
            keys(&mut state, typed);
            insta::assert_snapshot!(format!("beside-{name}-{width}x{height}"), frame(&drawn(&state, &UNICODE)));
        }
    }
}

#[test]
fn what_is_chosen_can_be_seen_without_colours() {
    let mut state = state(&SYNTHETIC, (100, 30));
    keys(&mut state, "4");
    let rows = |buffer: &Buffer, y: u16| (0..100).map(|x| buffer[(x, y)].modifier).collect::<Vec<_>>();
    let buffer = drawn(&state, &Theme::PLAIN);
    let (first, second) = (state.layout.main.y + 1, state.layout.main.y + 2);
    assert_ne!(rows(&buffer, first), rows(&buffer, second));
}

#[test]
fn failures_win_their_cell_in_every_depth() {
    for depth in [Depth::Eight, Depth::Sixteen, Depth::Many, Depth::True] {
        let theme = Theme { depth, ..UNICODE };
        let buffer = drawn(&state(&SYNTHETIC, (120, 40)), &theme);
        assert!(buffer.content().iter().any(|cell| cell.fg == theme.bad()), "{depth:?}");
    }
}

/// What BENCHMARKS.md promises of a line that is slow: with high lanes and a table below them, too.
#[test]
fn a_move_by_one_column_takes_few_bytes() {
    const SIZE: (u16, u16) = (240, 60);
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("trace.bin");
    write(&path, Shape { calls: 20_000, threads: 8, ..Shape::default() }).expect("written");
    let mut state = state(&opened(path), SIZE);
    let area = Rect::new(0, 0, SIZE.0, SIZE.1);
    for part in [1, 10, 1_000] {
        state.window = state.window.fitting(state.window.end / 2, state.window.end / 2 + state.window.end / part / 2);
        let out = Written::default();
        let viewport = ratatui::Viewport::Fixed(area);
        let backend = ratatui::backend::CrosstermBackend::new(out.clone());
        let terminal = ratatui::Terminal::with_options(backend, ratatui::TerminalOptions { viewport });
        let mut frames = viewer::terminal::screen::Frames::new(terminal.expect("memory"));
        let mut sent = |state: &State| {
            let before = out.0.get();
            frames.frame(area, |buffer| draw(state, &UNICODE, buffer)).expect("memory");
            out.0.get() - before
        };
        sent(&state);
        assert_eq!(sent(&state), 0, "nothing has changed");
        for _ in 0..10 {
            state.window = state.window.panned(1.0 / state.window.columns as f64);
            state.update(Input::Resize(SIZE.0, SIZE.1));
            let bytes = sent(&state);
            assert!(bytes < 40_000, "1/{part}: {bytes} bytes");
        }
    }
}

/// Counts what is written.
#[derive(Clone, Default)]
struct Written(std::rc::Rc<std::cell::Cell<usize>>);

impl std::io::Write for Written {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.set(self.0.get() + bytes.len());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn something_is_done_for_every_action() {
    let mut state = state(&SYNTHETIC, (120, 40));
    for line in actions() {
        (state.help, state.prompt, state.legend) = (None, None, false);
        state.act(line.action);
    }
}

fn any_key() -> impl Strategy<Value = String> {
    let bound: Vec<String> = actions()
        .filter(|line| line.action != Action::Suspend)
        .flat_map(|line| line.keys.iter().map(|key| (*key).to_owned()))
        .collect();
    prop_oneof![6 => prop::sample::select(bound), 2 => "[ -~]".prop_map(|c| if c == " " { "space".into() } else { c }), 1 => Just("backspace".to_owned())]
}

fn any_input() -> impl Strategy<Value = Input> {
    let place = || (0..320u16, 0..110u16);
    prop_oneof![
        12 => any_key().prop_map(|key| Input::Key(Key(key))),
        1 => (0..320u16, 0..110u16).prop_map(|(width, height)| Input::Resize(width, height)),
        1 => place().prop_map(|(x, y)| Input::Press(x, y)),
        1 => place().prop_map(|(x, y)| Input::Drag(x, y)),
        1 => Just(Input::Release),
        1 => (place(), any::<bool>(), any::<bool>()).prop_map(|((x, y), up, pan)| Input::Wheel { x, y, up, pan }),
        1 => any::<String>().prop_map(Input::Paste),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn any_size_and_any_input_can_be_drawn(
        size in (0..320u16, 0..110u16), inputs in prop::collection::vec(any_input(), 0..60),
        theme in prop::sample::select(vec![UNICODE, Theme::PLAIN]), one in 0..6usize,
    ) {
        let mut state = state([&*GOLDEN, &*SYNTHETIC, &*MEASURED, &*REAL, &*PAIR, &*DAMAGED][one], size);
        for input in inputs {
            state.update(input);
            let buffer = drawn(&state, &theme);
            let wild = buffer.content().iter().find(|cell| cell.symbol().contains(char::is_control));
            prop_assert!(wild.is_none(), "{:?}", wild);
        }
    }
}
