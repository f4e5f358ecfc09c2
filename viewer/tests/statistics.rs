//! Tables and totals of a part of the trace: the selection, the window, a range, or the filtered events.

use std::path::PathBuf;
use std::sync::Arc;
use viewer::data::lane::Source;
use viewer::data::open::Opened;
use viewer::state::command::PrintedFrame;
use viewer::state::parts::keymap::{Key, Keymap};
use viewer::state::parts::scope::Scope;
use viewer::state::parts::tab::Tab;
use viewer::state::table::{Table, Value};
use viewer::state::{Input, State};
use viewer::synthetic::{Shape, write};

const SUMS: [Tab; 4] = [Tab::Kernels, Tab::Api, Tab::Copies, Tab::Ranges];

fn of_file(name: &str) -> State {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tests").join(name);
    let opened = Opened::open(&path, false, |_| Vec::new()).unwrap_or_else(|error| panic!("{name}: {error}"));
    opened.find_lives();
    State::new(Arc::new(opened), Keymap::default(), (120, 40))
}

fn synthetic() -> State {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("trace.bin");
    write(&path, Shape { calls: 6000, threads: 2, ..Shape::default() }).expect("written");
    State::new(Arc::new(Opened::open(&path, false, |_| Vec::new()).expect("a trace")), Keymap::default(), (120, 40))
}

fn keys(state: &mut State, keys: &str) {
    for key in keys.split_whitespace() {
        state.update(Input::Key(Key(key.into())));
    }
}

fn filter(state: &mut State, text: &str) {
    keys(state, "& ctrl-u");
    state.update(Input::Paste(text.into()));
    keys(state, "enter");
}

/// Names with how often each was met.
fn counts(table: &Table) -> Vec<(String, u64)> {
    let rows = table.rows.iter().map(|row| match (&row.cells[2], row.cells.last()) {
        (Value::Count(count), Some(Value::Text(name))) => (name.clone(), *count),
        other => panic!("{other:?}"),
    });
    let mut all: Vec<_> = rows.collect();
    all.sort();
    all
}

fn total(table: &Table) -> u64 {
    let times = table.rows.iter().map(|row| match row.cells[1] {
        Value::Time(ns) => ns,
        ref other => panic!("{other:?}"),
    });
    times.sum()
}

/// What is added up from lanes must come to what was added up from calls.
#[test]
fn a_selection_of_everything_has_the_sums_of_the_whole() {
    let golden = ["failing_calls", "vector_add", "graphs_timed", "graphs_recorded", "polling", "linking"];
    let states = golden.map(|name| of_file(&format!("golden/{name}.bin"))).into_iter();
    let states = states.chain([of_file("data/torch_nvtx.bin"), synthetic()]);
    let mut seen = 0;
    for mut state in states {
        for tab in SUMS {
            (state.anchor, state.fixed) = (None, None);
            let whole = state.table_of(tab);
            (state.anchor, state.fixed) = (Some(0), Some(u64::MAX / 2));
            assert!(matches!(state.scope(), Scope::Selection(..)));
            let all = state.table_of(tab);
            let cells = |table: &Table| {
                let mut rows: Vec<String> = table.rows.iter().map(|row| format!("{:?}", row.cells)).collect();
                rows.sort();
                rows
            };
            assert_eq!(cells(&all), cells(&whole), "{} {tab:?}", state.opened.path.display());
            seen += whole.rows.len();
        }
    }
    assert!(seen > 100, "{seen}");
}

#[test]
fn two_halves_make_a_whole() {
    let mut state = of_file("golden/graphs_timed.bin");
    let (end, half) = (state.window.end, state.window.end / 2);
    for tab in SUMS {
        let mut sum = |from: u64, to: u64| {
            (state.anchor, state.fixed) = (Some(from), Some(to));
            total(&state.table_of(tab))
        };
        assert_eq!(sum(0, half) + sum(half, end), sum(0, end), "{tab:?}");
    }
}

#[test]
fn tables_follow_filter_window_and_selection() {
    let mut state = of_file("data/torch_nvtx.bin");
    keys(&mut state, "4");
    let whole = state.table.rows.len();
    assert!(state.table_title(&state.table).contains("of the whole trace"), "{}", state.table_title(&state.table));
    filter(&mut state, "is:copy");
    let copies = counts(&state.table);
    assert!(!copies.is_empty() && copies.len() < whole);
    assert!(copies.iter().all(|(name, _)| name.contains("Memcpy") || name.contains("Memset")), "{copies:?}");
    assert_eq!(state.filter.as_ref().map(|filter| filter.count), Some(copies.iter().map(|(_, count)| count).sum()));
    assert!(state.table_title(&state.table).contains("filter is:copy"), "{}", state.table_title(&state.table));
    filter(&mut state, "");
    assert_eq!(state.table.rows.len(), whole);
    // The window, which is moved from the table as well.
    keys(&mut state, "t");
    assert_eq!(state.table.rows.len(), whole, "the window is the whole trace");
    keys(&mut state, "w w w w");
    assert!(state.table_title(&state.table).contains("in the window"), "{}", state.table_title(&state.table));
    assert!(state.table.rows.len() < whole);
    let windowed = counts(&state.table);
    // The command that prints this screen has the same table.
    let command = state.command();
    assert!(command.contains("--view api --window "), "{command}");
    let mut printed = of_file("data/torch_nvtx.bin");
    let window = Some((state.window.from, state.window.to));
    assert_eq!(printed.set(&PrintedFrame { view: Some(Tab::Api), window, ..PrintedFrame::default() }), None);
    assert_eq!(counts(&printed.table), windowed);
    keys(&mut state, "t");
    assert_eq!(state.table.rows.len(), whole);
    // A kernel passes by its own name, though its call has another.
    keys(&mut state, "3");
    filter(&mut state, "sm80_xmma");
    let kernels = counts(&state.table);
    assert!(!kernels.is_empty() && kernels.iter().all(|(name, _)| name.contains("sm80_xmma")), "{kernels:?}");
    filter(&mut state, "!sm80_xmma");
    assert!(counts(&state.table).iter().all(|(name, _)| !name.contains("sm80_xmma")));
}

/// Of every range: its calls by number, against a scan of all.
#[test]
fn a_range_holds_the_kernels_that_its_calls_launched() {
    let mut state = of_file("data/torch_nvtx.bin");
    let model = state.opened.model.clone();
    let mut launched = 0;
    for (at, lane) in model.lanes.iter().enumerate() {
        let Source::Range { thread, .. } = lane.source else { continue };
        for index in 0..lane.len() {
            let (begin, end) = (lane.begin[index], lane.end(index));
            if begin == end {
                continue;
            }
            (state.anchor, state.fixed, state.held) = (Some(begin), Some(end), Some((at, index)));
            assert!(matches!(state.scope(), Scope::Range(..)));
            let table = counts(&state.table_of(Tab::Api));
            let calls = state.opened.trace.calls().filter(|call| {
                let begun = state.opened.trace.nanoseconds(call.begin).max(0) as u64;
                thread.is_none_or(|thread| thread == call.thread) && (begin..end).contains(&begun)
            });
            let calls: Vec<_> = calls.collect();
            assert_eq!(table.iter().map(|(_, count)| count).sum::<u64>(), calls.len() as u64);
            let launches = calls.iter().filter(|call| call.named_kernel().is_some()).count() as u64;
            let kernels = counts(&state.table_of(Tab::Kernels));
            assert_eq!(kernels.iter().map(|(_, count)| count).sum::<u64>(), launches);
            launched += launches;
        }
    }
    assert!(launched > 10, "{launched}");
}

#[test]
fn groups_tell_what_all_their_lanes_hold() {
    let mut state = of_file("data/torch_nvtx.bin");
    state.row = 0;
    let text = |state: &State| {
        let all = viewer::details::details(state);
        all.iter().map(|line| format!("{} {}\n", line.label, line.text)).collect::<String>()
    };
    let shown = text(&state);
    assert!(shown.contains("2,155 events") && shown.contains(" x cuLaunchKernel"), "{shown}");
    // Folded, the same.
    keys(&mut state, "space");
    assert_eq!(text(&state), shown);
}
