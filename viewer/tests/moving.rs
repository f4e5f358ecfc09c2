//! The effect of keys, without a terminal.

use analysis::findings::finding::{Cost, Finding};
use proptest::prelude::*;
use std::sync::{Arc, LazyLock};
use trace::Trace;
use viewer::data::lane::Source;
use viewer::data::open::Opened;
use viewer::state::command::PrintedFrame;
use viewer::state::parts::keymap::{Key, Keymap};
use viewer::state::parts::tab::Tab;
use viewer::state::table::Lead;
use viewer::state::{Effect, Input, State};
use viewer::synthetic::{Shape, write};

static OPENED: LazyLock<(Arc<Opened>, Trace)> = LazyLock::new(|| {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("trace.bin");
    write(&path, Shape { calls: 6000, threads: 2, ..Shape::default() }).expect("written");
    let trace = Trace::open(&path).expect("a trace");
    (Arc::new(Opened::open(&path, false, |_| Vec::new()).expect("a trace")), trace)
});

fn state() -> State {
    State::new(OPENED.0.clone(), Keymap::default(), (120, 40))
}

/// On a screen that is too low for calls within calls to be unfolded.
fn low() -> State {
    State::new(OPENED.0.clone(), Keymap::default(), (120, 16))
}

/// Types keys by their names, divided by blanks; what is to be done outside.
fn keys(state: &mut State, keys: &str) -> Vec<Effect> {
    keys.split_whitespace().flat_map(|key| state.update(Input::Key(Key(key.into())))).collect()
}

/// Types text into a prompt.
fn text(state: &mut State, text: &str) {
    state.update(Input::Paste(text.into()));
}

fn call(state: &State) -> u32 {
    state.current().expect("an event").1.call
}

#[test]
fn every_failure_is_met_once_in_order() {
    let failed: Vec<u64> =
        OPENED.1.calls().filter(|c| c.result.is_some_and(|r| r != 0 && r != 600)).map(|c| c.number).collect();
    assert!(failed.len() >= 2);
    let mut state = state();
    let mut met = Vec::new();
    loop {
        keys(&mut state, "e");
        if state.message.contains("no later") {
            break;
        }
        met.push(u64::from(call(&state)));
        assert!((state.window.from..state.window.to).contains(&state.current().expect("one").1.begin));
    }
    assert_eq!(met, failed);
    keys(&mut state, "E");
    assert_eq!(u64::from(call(&state)), failed[failed.len() - 2]);
    // Each jump can be gone back from.
    keys(&mut state, "[");
    assert_eq!(u64::from(call(&state)), failed[failed.len() - 1]);
}

#[test]
fn a_launch_leads_to_its_work_and_back() {
    let mut state = state();
    let launch = OPENED.1.calls().filter(|c| c.name() == "cuLaunchKernel").nth(100).expect("launches").number;
    keys(&mut state, "@");
    text(&mut state, &launch.to_string());
    keys(&mut state, "enter ]");
    let lane = state.current().expect("work").0;
    assert!(matches!(state.opened.model.lanes[lane].source, Source::Stream(_)));
    assert_eq!(u64::from(call(&state)), launch);
    keys(&mut state, "]");
    assert!(matches!(state.opened.model.lanes[state.current().expect("a call").0].source, Source::Thread { .. }));
    keys(&mut state, "[");
    assert_eq!(state.current().expect("work").0, lane);
    keys(&mut state, "@");
    text(&mut state, "0");
    keys(&mut state, "enter ]");
    assert_eq!(state.message, "this call submitted no work");
}

#[test]
fn events_are_stepped_through_one_by_one() {
    let mut state = state();
    keys(&mut state, ". .");
    let second = call(&state);
    keys(&mut state, ".");
    assert!(call(&state) > second);
    keys(&mut state, ",");
    assert_eq!(call(&state), second);
    keys(&mut state, ", , ,");
    assert_eq!(state.message, "no earlier event on this row");
}

#[test]
fn places_are_calls_times_or_shares() {
    let mut state = state();
    for (place, cursor) in [("20ms", 20_000_000), ("0.03s", 30_000_000), ("50%", state.window.end / 2)] {
        keys(&mut state, "@");
        text(&mut state, place);
        keys(&mut state, "enter");
        assert_eq!(state.window.cursor, cursor, "{place}");
    }
    for (wrong, told) in [("9999999", "no call 9999999"), ("101%", "not a share"), ("soon", "expected a call")] {
        keys(&mut state, "@");
        text(&mut state, wrong);
        keys(&mut state, "enter");
        assert!(state.message.contains(told), "{wrong}: {}", state.message);
    }
}

#[test]
fn a_search_counts_while_it_is_typed_and_finds_kernels_by_their_launches() {
    let mut state = state();
    keys(&mut state, "/");
    text(&mut state, "GELU");
    assert_eq!(state.message, "0 matches");
    keys(&mut state, "ctrl-u");
    text(&mut state, "^gelu$");
    let count = state.search.as_ref().expect("a search").count;
    assert!(count > 10);
    keys(&mut state, "enter");
    let mut met = 1;
    loop {
        keys(&mut state, "n");
        if state.message.contains("no later match") {
            break;
        }
        met += 1;
    }
    assert_eq!(met, count);
    keys(&mut state, "/");
    text(&mut state, "(");
    keys(&mut state, "enter");
    assert!(state.message.contains("unclosed group"), "{}", state.message);
}

#[test]
fn a_filter_lets_pass_what_it_says() {
    let mut state = state();
    for (filter, expected) in [
        ("is:copy", OPENED.1.calls().filter(|c| c.name().starts_with("cuMemcpy")).count()),
        ("failed", OPENED.1.calls().filter(|c| c.result.is_some_and(|r| r != 0 && r != 600)).count()),
        ("Launch t1", OPENED.1.calls().filter(|c| c.name().contains("Launch") && c.thread == 1).count()),
        (
            "!is:launch call:100..200",
            OPENED.1.calls().skip(100).take(100).filter(|c| c.name() != "cuLaunchKernel").count(),
        ),
        (">1ms", OPENED.1.calls().filter(|c| c.end.is_some_and(|end| end - c.begin > 1_000_000)).count()),
    ] {
        keys(&mut state, "& ctrl-u");
        text(&mut state, filter);
        keys(&mut state, "enter");
        assert_eq!(state.filter.as_ref().map(|f| f.count), Some(expected as u64), "{filter}");
    }
    // Stepping passes over what the filter leaves out.
    keys(&mut state, "& ctrl-u");
    text(&mut state, "cuEventQuery t0");
    keys(&mut state, "enter home . .");
    assert_eq!(state.opened.model.name(state.current().expect("an event").1.name), "cuEventQuery");
    keys(&mut state, "esc");
    assert!(state.filter.is_none());
    keys(&mut state, "&");
    text(&mut state, "is:nothing");
    keys(&mut state, "enter");
    assert!(state.message.contains("expected one of query, poll"), "{}", state.message);
}

#[test]
fn a_selection_snaps_to_events_and_is_counted() {
    let mut state = state();
    keys(&mut state, "@");
    text(&mut state, "300");
    keys(&mut state, "enter f f v . . . . v");
    let (from, to) = state.selection().expect("a selection");
    let lane = &state.opened.model.lanes[state.lane().expect("a lane")];
    let first = lane.event_at(from).expect("an event");
    assert_eq!(lane.begin[first], from);
    assert!(to > lane.end(first + 2));
    let all = state.statistics(from, to).expect("statistics");
    assert!((4..=5).contains(&all.count), "{all:?}");
    assert_eq!(
        all.lengths.expect("few events")[3],
        (first..first + all.count as usize).map(|n| lane.length(n)).max().expect("some")
    );
    keys(&mut state, "f");
    assert!(state.window.from <= from && state.window.to >= to);
    keys(&mut state, "esc");
    assert!(state.selection().is_none());
}

#[test]
fn tables_lead_to_the_slowest_instance() {
    let mut state = state();
    keys(&mut state, "4");
    assert_eq!(state.tab, Tab::Api);
    let Lead::Call(expected) = state.table.rows[2].lead else { panic!("{:?}", state.table.rows[2]) };
    keys(&mut state, "down down enter");
    assert_eq!((state.tab, call(&state)), (Tab::Timeline, expected));
}

#[test]
fn lanes_are_folded_pinned_and_hidden() {
    let mut state = low();
    let before = state.rows.len();
    state.row = 0;
    keys(&mut state, "space");
    assert_eq!(state.rows.len(), before - 2);
    assert_eq!(state.rows[0].lanes.len(), 4, "what is folded into the process");
    // What is gone to is unfolded.
    keys(&mut state, "e");
    assert_eq!(state.rows.len(), before);
    keys(&mut state, "down p");
    assert!(state.rows[0].pinned);
    assert_eq!(state.row, 0);
    keys(&mut state, "p z");
    assert_eq!(state.rows.len(), before - 1);
    keys(&mut state, "Z");
    assert_eq!(state.rows.len(), before);
}

#[test]
fn rows_are_moved_past_their_neighbours() {
    let mut state = low();
    let ids = |state: &State| state.rows.iter().map(|row| row.id).collect::<Vec<_>>();
    let before = ids(&state);
    keys(&mut state, "J");
    assert_eq!((state.row, ids(&state)[1], ids(&state)[2]), (2, before[2], before[1]));
    keys(&mut state, "K");
    assert_eq!(ids(&state), before);
    // A group goes with what is in it, and nothing leaves its group.
    keys(&mut state, "K");
    assert_eq!(ids(&state), before);
    state.row = 0;
    keys(&mut state, "J");
    let after = ids(&state);
    assert_eq!(after.iter().position(|id| *id == before[0]).map(|at| &after[at..at + 3]), Some(&before[..3]));
    assert_ne!(after, before);
}

/// They are found out beside the drawing, and may be asked for before.
#[test]
fn findings_come_when_they_are_known() {
    fn find(_: &Trace) -> Vec<Finding> {
        let (kind, what, text) = ("polling".into(), "4 queries found the work unfinished".into(), String::new());
        let (evidence, next) = (text, "cutrace report -r sync".into());
        vec![Finding { kind, what, evidence, next, cost: Cost::Time(5), times: 4, calls: vec![9, 3] }]
    }
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("trace.bin");
    write(&path, Shape { calls: 100, threads: 1, ..Shape::default() }).expect("written");
    let mut state =
        State::new(Arc::new(Opened::open(&path, false, find).expect("a trace")), Keymap::default(), (120, 40));
    keys(&mut state, "7");
    assert_eq!((state.table.rows.len(), state.table.note), (0, "still being computed"));
    state.opened.find_findings();
    state.learned();
    assert_eq!((state.table.rows.len(), state.table.note), (1, ""));
    assert_eq!(state.table.rows[0].lead, Lead::Call(9));
}

#[test]
fn objects_are_looked_through() {
    let mut state = state();
    state.opened.find_lives();
    state.learned();
    let launch = OPENED.1.calls().filter(|c| c.name() == "cuLaunchKernel").nth(5).expect("launches").number;
    keys(&mut state, "@");
    text(&mut state, &launch.to_string());
    keys(&mut state, "enter u");
    let filter = state.filter.as_ref().expect("a filter");
    assert!(filter.text.starts_with("uses:") && filter.count > 1, "{}", filter.text);
    assert!(state.message.contains(" calls"), "{}", state.message);
    let mut seen = vec![filter.text.clone()];
    loop {
        keys(&mut state, "u");
        match &state.filter {
            Some(filter) => seen.push(filter.text.clone()),
            None => break,
        }
    }
    assert!(seen.len() > 1 && state.message == "filter cleared", "{seen:?}");
    keys(&mut state, "9 enter");
    assert!(state.filter.as_ref().is_some_and(|filter| filter.text.starts_with("uses:")));
    assert_eq!(state.tab, Tab::Timeline);
    keys(&mut state, "&");
    text(&mut state, " uses:stream#77");
    keys(&mut state, "enter");
    assert!(state.message.contains("no object stream#77"), "{}", state.message);
}

#[test]
fn marks_are_kept_and_gone_to() {
    let mut state = state();
    keys(&mut state, "@");
    text(&mut state, "10ms");
    keys(&mut state, "enter m");
    text(&mut state, "here \x1b[31m");
    assert_eq!(keys(&mut state, "enter"), [Effect::SaveMarks]);
    assert_eq!((state.marks[0].time, state.marks[0].note.as_str()), (10_000_000, "here [31m"));
    keys(&mut state, "home >");
    assert_eq!((state.window.cursor, state.message.as_str()), (10_000_000, "here [31m"));
    assert_eq!(State::marks_from_json(&state.marks_as_json()), state.marks);
    assert_eq!(keys(&mut state, "M"), [Effect::SaveMarks]);
    assert_eq!(state.marks, []);
}

#[test]
fn marks_are_changed_and_removed_in_their_list() {
    let mut state = state();
    for (place, note) in [("10ms", "first"), ("20ms", "second"), ("30ms", "third")] {
        keys(&mut state, "@");
        text(&mut state, place);
        keys(&mut state, "enter m");
        text(&mut state, note);
        keys(&mut state, "enter");
    }
    let notes = |state: &State| state.marks.iter().map(|mark| mark.note.clone()).collect::<Vec<_>>();
    keys(&mut state, "' down m");
    text(&mut state, " thought");
    assert_eq!(keys(&mut state, "enter"), [Effect::SaveMarks]);
    assert_eq!(notes(&state), ["first", "second thought", "third"]);
    assert_eq!((state.tab, state.marks[1].time), (Tab::Marks, 20_000_000));
    // In the order that the user has chosen: the latest stands first.
    keys(&mut state, "O home");
    assert_eq!(keys(&mut state, "M"), [Effect::SaveMarks]);
    assert_eq!(notes(&state), ["first", "second thought"]);
    keys(&mut state, "enter");
    assert_eq!((state.tab, state.window.cursor), (Tab::Timeline, 20_000_000));
}

#[test]
fn a_prompt_has_a_cursor_and_remembers() {
    let mut state = state();
    let typed = |state: &State| state.prompt.as_ref().expect("a prompt").text().to_owned();
    keys(&mut state, "/");
    text(&mut state, "one two\u{1b}\u{200b} three");
    assert_eq!(typed(&state), "one two three", "what cannot be seen is not taken");
    keys(&mut state, "ctrl-w");
    assert_eq!(typed(&state), "one two ");
    // In the middle, and back.
    keys(&mut state, "home right right X delete ctrl-e backspace");
    assert_eq!(typed(&state), "onX two");
    keys(&mut state, "ctrl-a ctrl-k ctrl-y enter");
    assert_eq!(state.search.as_ref().map(|search| search.text.as_str()), Some("onX two"));
    for pattern in ["second", "third"] {
        keys(&mut state, "/");
        text(&mut state, pattern);
        keys(&mut state, "enter");
    }
    // Of each kind by itself; what was begun waits below.
    keys(&mut state, "& up");
    assert_eq!(typed(&state), "");
    keys(&mut state, "esc /");
    text(&mut state, "be");
    let mut seen = Vec::new();
    for key in ["up", "up", "up", "up", "down", "down", "down", "down"] {
        keys(&mut state, key);
        seen.push(typed(&state));
    }
    assert_eq!(seen, ["third", "second", "onX two", "onX two", "second", "third", "be", "be"]);
    keys(&mut state, "esc");
    assert!(state.prompt.is_none());
}

#[test]
fn the_help_is_searched() {
    let mut state = state();
    let shown = |state: &State| viewer::state::help::lines(state).into_iter().map(|line| line.text).collect::<String>();
    keys(&mut state, "?");
    let all = shown(&state);
    keys(&mut state, "/");
    keys(&mut state, "z o o m q");
    assert_eq!(state.help.as_ref().map(|help| help.filter.as_str()), Some("zoomq"));
    assert!(shown(&state).contains("no action"));
    keys(&mut state, "backspace");
    let found = shown(&state);
    assert!(found.contains("Zoom in at the cursor") && !found.contains("failed") && found.len() < all.len() / 4);
    keys(&mut state, "enter x");
    assert!(state.help.is_none() && state.prompt.is_none());
    // What colours mean is left by any key.
    keys(&mut state, "i");
    assert!(state.legend);
    keys(&mut state, "q");
    assert!(!state.legend);
}

#[test]
fn a_trace_is_entered_on_its_busiest_lane() {
    let mut state = state();
    state.start();
    let (lane, event) = state.current().expect("the longest event");
    let lengths = |lane: usize| state.opened.model.lanes[lane].events().map(|event| event.length());
    assert_eq!(lengths(lane).max(), Some(event.length()));
    let threads = (0..state.opened.model.lanes.len())
        .filter(|at| matches!(state.opened.model.lanes[*at].source, Source::Thread { depth: 0, .. }));
    let busiest = threads.map(|at| lengths(at).sum::<u64>()).max();
    assert_eq!(Some(lengths(lane).sum()), busiest);
    // The page stays while nothing is chosen, and enter goes to the event.
    keys(&mut state, "4 esc ? x");
    assert!(state.welcome);
    keys(&mut state, "enter");
    assert!(!state.welcome && state.details && state.window.width() < state.window.end / 2);
    assert_eq!(state.current().expect("it").1, event);
    keys(&mut state, "0 esc esc");
    assert!(state.welcome);
    // What is looked for from there is looked for from the start.
    keys(&mut state, "e");
    let first = OPENED.1.calls().find(|c| c.result.is_some_and(|r| r != 0 && r != 600)).expect("one failed").number;
    assert_eq!((state.welcome, u64::from(call(&state))), (false, first));
}

#[test]
fn a_column_of_several_is_told_and_zoomed_to() {
    let mut state = state();
    let (at, from, to, cell) = loop {
        match state.crowd() {
            Some(crowd) => break crowd,
            None => drop(keys(&mut state, "l")),
        }
    };
    let lane = &state.opened.model.lanes[at];
    let inside = lane.events().filter(|event| event.begin < to && (event.end > from || event.begin >= from));
    assert_eq!(inside.count() as u64, cell.count);
    let told: Vec<String> = viewer::details::details(&state).into_iter().map(|line| line.text).collect();
    assert!(told[0].starts_with(&viewer::text::counted(cell.count, "event")), "{told:?}");
    keys(&mut state, "enter");
    assert!(state.window.from <= from && to <= state.window.to && state.window.width() <= (to - from).max(120));
}

#[test]
fn keys_in_the_footer_can_be_clicked() {
    let mut state = state();
    let column = |state: &State, about: &str| {
        let found = state.footer().into_iter().find(|(_, hint)| hint.about == about);
        found.unwrap_or_else(|| panic!("no {about}: {:?}", state.footer())).0
    };
    let width = state.window.width();
    let (x, y) = (column(&state, "zoom"), state.layout.keys.y);
    state.update(Input::Press(x, y));
    assert_eq!(state.window.width(), width / 2);
    let x = column(&state, "help");
    state.update(Input::Press(x, y));
    assert!(state.help.is_some());
    // Every hint names keys that do it.
    keys(&mut state, "x 3");
    for (_, hint) in state.footer() {
        let first = hint.keys.split(' ').next().expect("a key");
        assert_eq!(state.keymap.action(&Key(first.into())), hint.action, "{hint:?}");
    }
}

#[test]
fn tables_are_copied_and_long_names_scrolled() {
    let mut state = State::new(OPENED.0.clone(), Keymap::default(), (80, 24));
    keys(&mut state, "3");
    let copied = keys(&mut state, "y");
    let [Effect::Copy(csv)] = copied.as_slice() else { panic!("{copied:?}") };
    assert!(csv.starts_with("Time (%),Total (ns),Launches,"), "{csv}");
    assert_eq!(csv.lines().count(), state.table.rows.len() + 1);
    let name = |state: &State| state.table_cells()[0].last().cloned().expect("a name");
    let longest = state.table.rows.iter().map(|row| row.cells.last().map_or(0, |cell| cell.text().len())).max();
    let before = name(&state);
    keys(&mut state, ">");
    assert!(longest > Some(40) && state.table.skipped > 0 && name(&state).len() < before.len().max(1) + 1);
    keys(&mut state, "< < <");
    assert_eq!((state.table.skipped, name(&state)), (0, before));
    keys(&mut state, "x");
    text(&mut state, "table.csv");
    assert_eq!(keys(&mut state, "enter"), [Effect::ExportTable("table.csv".into())]);
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("table.csv");
    assert_eq!(viewer::export::table(&state, &path).expect("written"), state.table.rows.len() as u64);
    assert_eq!(&std::fs::read_to_string(&path).expect("a file"), csv);
    assert!(viewer::export::table(&state, &path).is_err(), "it is there already");
}

#[test]
fn the_palette_finds_actions_by_letters() {
    let mut state = state();
    keys(&mut state, ":");
    text(&mut state, "kern");
    keys(&mut state, "enter");
    assert_eq!(state.tab, Tab::Kernels);
    keys(&mut state, ":");
    text(&mut state, "quit");
    assert_eq!(keys(&mut state, "enter"), [Effect::Quit]);
    // What is no action is a place, as in pagers.
    keys(&mut state, ":");
    text(&mut state, "42");
    keys(&mut state, "enter");
    assert_eq!(call(&state), 42);
}

#[test]
fn the_mouse_points_drags_and_zooms() {
    let mut state = state();
    let lanes = state.layout.lanes;
    let width = state.window.width();
    state.update(Input::Wheel { x: lanes.x + 40, y: lanes.y + 1, up: true, pan: false });
    assert!(state.window.width() < width);
    let under = state.window.column_begin(40);
    state.update(Input::Press(lanes.x + 40, lanes.y + 1));
    assert_eq!((state.window.cursor, state.row), (under, 1));
    state.update(Input::Drag(lanes.x + 60, lanes.y + 1));
    state.update(Input::Release);
    let (from, to) = state.selection().expect("dragged over");
    assert!(to - from > 15 * state.window.step());
}

#[test]
fn a_click_on_a_view_shows_it() {
    for width in [80, 200] {
        let mut state = State::new(OPENED.0.clone(), Keymap::default(), (width, 24));
        for wanted in [Tab::Api, Tab::Marks, Tab::Timeline] {
            let before = state.tabs().into_iter().take_while(|(tab, _)| *tab != wanted);
            let column = before.map(|(_, label)| label.len() as u16).sum::<u16>() + 1;
            state.update(Input::Press(column, 0));
            assert_eq!(state.tab, wanted, "{width} {column}");
        }
        state.update(Input::Press(width - 1, 0));
        assert_eq!(state.tab, Tab::Timeline);
    }
}

#[test]
fn a_click_on_a_head_sorts() {
    let mut state = state();
    keys(&mut state, "4");
    let columns = state.table_columns(&state.table_cells());
    let before = columns.iter().take_while(|(n, _)| state.table.columns[*n] != "Calls");
    let column = before.map(|(_, width)| width + 2).sum::<usize>() as u16 + 1;
    for reversed in [false, true] {
        state.update(Input::Press(column, state.layout.main.y));
        assert_eq!((state.table.columns[state.table.sorted], state.table.reversed), ("Calls", reversed));
    }
    assert!(state.command().contains("--sort=-Calls"), "{}", state.command());
}

proptest! {
    #[test]
    fn an_arrangement_can_be_made_again(typed in prop::collection::vec(0..7usize, 0..40)) {
        let mut first = state();
        for key in typed {
            keys(&mut first, ["j", "k", "space", "p", "J", "K", "z"][key]);
        }
        let written: Vec<String> = first.steps().iter().map(|step| step.to_string()).collect();
        let arrange = written.iter().map(|step| step.parse().expect("a step")).collect();
        let mut again = state();
        prop_assert_eq!(again.set(&PrintedFrame { arrange, ..PrintedFrame::default() }), None);
        prop_assert_eq!(again.rows, first.rows, "{:?}", written);
    }
}

#[test]
fn an_export_needs_a_name_that_says_its_form() {
    let mut state = state();
    keys(&mut state, "x");
    text(&mut state, "events.txt");
    assert_eq!(keys(&mut state, "enter"), []);
    assert!(state.message.contains("expected a name that ends in .json, .csv or .pftrace"));
    keys(&mut state, "x");
    text(&mut state, "events.csv");
    let (from, to) = (state.window.from, state.window.to);
    assert_eq!(keys(&mut state, "enter"), [Effect::Export { path: "events.csv".into(), from, to }]);
    let directory = tempfile::tempdir().expect("a temporary directory");
    for name in ["events.json", "events.csv"] {
        let path = directory.path().join(name);
        let count = viewer::export::events(&state, &path, from, to).expect("written");
        let text = std::fs::read_to_string(&path).expect("a file");
        match name {
            "events.json" => {
                let value: serde_json::Value = serde_json::from_str(&text).expect("JSON");
                assert_eq!(value["events"].as_array().map(|all| all.len() as u64), Some(count));
            }
            _ => assert_eq!(text.lines().count() as u64, count + 1),
        }
        let again = viewer::export::events(&state, &path, from, to).expect_err("it is there already");
        assert_eq!(again.kind(), std::io::ErrorKind::AlreadyExists);
    }
}

/// Somebody who may write beside the trace has foreseen the names that the index and the marks have until
/// they are whole.
#[test]
fn nothing_is_written_through_a_link() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let (path, victim) = (directory.path().join("trace.bin"), directory.path().join("victim"));
    write(&path, Shape::default()).expect("written");
    std::fs::write(&victim, "somebody else's").expect("written");
    for name in ["idx", "marks"].map(|kind| format!("trace.bin.{kind}.{}", std::process::id())) {
        for link in [directory.path().join(&name), directory.path().join(format!("{name}.0"))] {
            std::os::unix::fs::symlink(&victim, link).expect("linked");
        }
    }
    let opened = Opened::open(&path, true, |_| Vec::new()).expect("a trace");
    let index = opened.save().expect("saved").expect("kept");
    assert_eq!(index, directory.path().join("trace.bin.idx"));
    let mut state = State::new(Arc::new(opened), Keymap::default(), (80, 24));
    state.marks = vec![viewer::state::Mark { time: 7, note: "here".into() }];
    viewer::export::save_marks(&state).expect("kept");
    assert_eq!(viewer::export::load_marks(&path), state.marks);
    assert_eq!(std::fs::read(&victim).expect("there"), b"somebody else's");
}
