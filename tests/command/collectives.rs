//! NCCL's operations, recorded by our library as its profiler plugin. Another library of ours plays NCCL.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use tests::*;
use trace::Trace;
use trace::file::record::nccl::began::COLLECTIVE;
use trace::read::collective::Operation;

/// The program, linked with the library that plays NCCL.
fn program() -> PathBuf {
    let library = client("libring.c");
    client_with("collectives.c", &[library.to_str().expect("a plain path")])
}

/// A shell that starts the ranks, which share a file: `$0` is the program, `$ranks` how many, `$turns` their
/// turns.
fn ranks(command: &mut Command, ranks: u32, turns: u32) {
    let script = "truncate -s 36864 ring; for rank in $(seq 0 $((ranks - 1))); do \
                  RANK=$rank WORLD_SIZE=$ranks \"$0\" ring $rank $ranks $turns $late & done; wait";
    command.args(["sh", "-c", script]).arg(program());
    command.env("ranks", ranks.to_string()).env("turns", turns.to_string());
}

/// Into `run/`.
fn record(place: &Place, number: u32, turns: u32) -> Command {
    let mut record = place.cutrace(["record", "--driver", "sim", "-o", "run/", "--"]);
    ranks(&mut record, number, turns);
    record
}

fn traces(place: &Place) -> Vec<Trace> {
    let entries = std::fs::read_dir(place.join("run")).expect("our own directory").flatten();
    let mut all: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(|path| path.is_file()).collect();
    all.sort();
    all.iter().map(sound).collect()
}

fn told(operation: &Operation) -> (u32, u64, String, u64, Option<i32>) {
    let Operation { communicator, number, .. } = *operation;
    (communicator, number, operation.function(), operation.bytes().expect("a type that is known"), operation.peer())
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

#[test]
fn operations_are_what_nccl_tells_by_any_version() {
    let bare = {
        let place = Place::new();
        let mut bare = place.bare("env");
        ranks(&mut bare, 2, 4);
        let mut sums: Vec<String> = run(&mut bare).expect(0).stdout.lines().map(str::to_owned).collect();
        sums.sort();
        sums
    };
    for version in [1, 2, 3, 4, 5, 6, 7, 99] {
        let place = Place::new();
        let ran = run(record(&place, 2, 4).env("RING_VERSION", version.to_string())).expect(0);
        let mut sums: Vec<&str> = ran.stdout.lines().collect();
        sums.sort();
        assert_eq!(sums, bare, "version {version}: {}", ran.stderr);
        let (version, all) = (version.min(7), traces(&place));
        assert_eq!(all.len(), 2);
        for (rank, trace) in all.iter().enumerate() {
            let communicators: Vec<_> = trace.communicators.iter().map(|c| (c.number, c.id, c.rank, c.ranks)).collect();
            let of = if version < 4 { 0 } else { 2 };
            let rank = rank as i32;
            let expected = [(1, 0x1234567890abcdef, rank, of), (2, 0xfeed, rank, of)];
            assert_eq!(communicators, expected, "version {version}");
            let names: Vec<_> = trace.communicators.iter().map(|c| (c.name.as_str(), c.version)).collect();
            assert_eq!(names, [("world", version), ("", version)]);
            let reduce = |communicator, number, bytes| (communicator, number, "AllReduce".to_string(), bytes, None);
            let other = 1 - rank;
            let sent = (1, 1, if rank == 0 { "Send" } else { "Recv" }.to_string(), 12, Some(other));
            let expected: Vec<_> = (1..=4).map(|n| reduce(1, n, 16)).chain([reduce(2, 1, 8)]).chain([sent]).collect();
            let operations = trace.operations();
            assert_eq!(operations.iter().map(told).collect::<Vec<_>>(), expected, "version {version}");
            for operation in &operations {
                assert_eq!(operation.call.is_some(), version >= 5);
                assert!(operation.begin() < operation.end().expect("returned"));
                let given = operation.given.expect("given to the device");
                let launched = calls_named(trace, "cuLaunchKernel");
                assert!(launched.iter().any(|call| call.end.is_some_and(|end| end < given.about.time)));
                let way = if operation.is_collective() { Some("RING LL".to_string()) } else { None };
                assert_eq!(operation.way(), way);
                if operation.is_collective() {
                    assert_eq!((given.about.channels, given.about.warps), (2, 16));
                    assert_eq!(given.about.sequence, operation.number - 1);
                    assert!(given.about.source == given.about.destination && given.about.source != 0);
                }
            }
        }
    }
}

#[test]
fn operations_are_shown_between_the_calls() {
    let place = Place::new();
    run(record(&place, 2, 1).env("RING_VERSION", "7")).expect(0);
    let trace = traces(&place).remove(0).path;
    let dump = run(place.cutrace(["dump"]).arg(&trace)).expect(0).stdout;
    let line = |part: &str| {
        let found = dump.lines().position(|line| line.contains(part));
        found.unwrap_or_else(|| panic!("no {part:?} in\n{dump}"))
    };
    line("nccl communicator \"world\"  id=0x1234567890abcdef  rank=0  ranks=2  interface=7");
    line("nccl communicator 0x000000000000feed  id=");
    let called = line("nccl call AllReduce \"world\"  count=4  type=ncclUint32  root=0  stream=stream#1");
    let given = line("nccl give AllReduce \"world\"  count=4  type=ncclUint32  root=0  algorithm=RING  protocol=LL");
    assert!(called + 1 == line("nccl return AllReduce \"world\"") && called + 1 < line("cuLaunchKernel("), "{dump}");
    assert!(line("cuLaunchKernel(") == given - 1, "{dump}");
    line("nccl give Send \"world\"  count=3  type=ncclUint32  peer=1");
    let json = run(place.cutrace(["dump", "--json", "--grep", "nccl give"]).arg(&trace)).expect(0).stdout;
    let objects = objects(&json);
    let [reduce, send] = &objects[..] else { panic!("{json}") };
    assert_eq!(
        (&reduce["nccl"], &reduce["function"], &reduce["count"]),
        (&"give".into(), &"AllReduce".into(), &4.into())
    );
    assert_eq!((&send["communicator"], &send["peer"]), (&"\"world\"".into(), &1.into()));
    // As whoever reads it packed finds it.
    run(place.cutrace(["pack", "-o", "packed.bin"]).arg(&trace)).expect(0);
    assert_eq!(run(&mut place.cutrace(["dump", "packed.bin"])).expect(0).stdout, dump);
}

fn json(command: &mut Command) -> Value {
    serde_json::from_str(&run(command).expect(0).stdout).expect("JSON")
}

/// The rows of a table of the report on all ranks.
fn table<'a>(report: &'a Value, part: &str) -> &'a Value {
    let all = report["reports"].as_array().expect("tables");
    all.iter().find(|table| table["table"] == part).unwrap_or_else(|| panic!("no {part} in {report}"))
}

#[test]
fn the_rank_that_is_behind_is_named_and_the_operation_that_the_others_wait_in() {
    let place = Place::new();
    run(hanging_ranks(&place, &program(), 3, 1, 6).env("RING_VERSION", "7")).expect(0);
    let report = json(&mut place.cutrace(["report", "run/", "-r", "collectives", "--json"]));
    let members = table(&report, "communicators");
    let told = "communicator \"world\" (0x1234567890abcdef): rank 1 is behind: the last one begun is #5 AllReduce of 16 B, \
                finished; ranks 0, 2 wait in #6 AllReduce of 16 B";
    assert_eq!(members["notes"], serde_json::json!([told]));
    let counts: Vec<_> = members["rows"]
        .as_array()
        .expect("rows")
        .iter()
        .map(|row| {
            let number = |key: &str| row[key].as_u64();
            (number("job_rank"), number("ranks"), number("begun"), number("finished"), row["last_begun"].as_str())
        })
        .collect();
    let of = |rank: u64, begun: u64, finished: u64, last: &'static str| {
        (Some(rank), Some(3), Some(begun), Some(finished), Some(last))
    };
    let (fifth, sixth, first) = ("#5 AllReduce of 16 B", "#6 AllReduce of 16 B", "#1 AllReduce of 8 B");
    let world = [of(0, 6, 5, sixth), of(1, 5, 5, fifth), of(2, 6, 5, sixth)];
    let second = [of(0, 1, 1, first), of(1, 1, 1, first), of(2, 1, 1, first)];
    assert_eq!(counts, [world, second].concat());
    let operations = table(&report, "operations")["rows"].as_array().expect("rows");
    assert_eq!(operations.len(), 6 + 5 + 6 + 3);
    let latest: Vec<_> = operations[..3]
        .iter()
        .map(|row| (row["job_rank"].clone(), row["number"].clone(), row["state"].clone()))
        .collect();
    assert_eq!(
        latest,
        [(0, 6, "in flight"), (2, 6, "in flight"), (0, 5, "finished")].map(|(r, n, s)| (r.into(), n.into(), s.into()))
    );
    // All ranks of a host are on one clock: none is done before all have begun.
    for number in 1..=5 {
        let of = |key: &str| {
            operations
                .iter()
                .filter(|row| row["number"] == number && row["bytes"] == 16)
                .map(|row| row[key].as_i64().expect("a time"))
                .collect::<Vec<_>>()
        };
        assert!(of("begin_ns").iter().max() < of("done_by_ns").iter().min(), "{number}: {operations:?}");
    }

    let info = run(&mut place.cutrace(["info", "run/"])).expect(0).stdout;
    let told = "communicator \"world\" (0x1234567890abcdef): rank 1 is behind: the last one begun is #5 AllReduce of 16 B; \
                ranks 0, 2 have begun #6 AllReduce of 16 B\n  details: cutrace report run/ -r collectives\n";
    assert!(info.contains(told), "{info}");
    let both =
        run(&mut place.cutrace(["report", "run/", "-r", "ranks,collectives", "--format", "csv"])).expect(0).stdout;
    assert!(both.contains("last_begun") && both.contains("waiting_percent"), "{both}");
    // Of some of the ranks: who is not there is said.
    let some = run(&mut place.cutrace(["report", "run/", "--rank", "0-1", "-r", "collectives"])).expect(0).stdout;
    assert!(
        some.contains("rank 0 waits in #6") && some.contains("no trace was read for rank 2 of its 3 ranks"),
        "{some}"
    );
    // One by itself disagrees with nobody.
    let one = traces(&place).remove(0).path;
    let alone = run(place.cutrace(["report", "-r", "collectives"]).arg(&one)).expect(0).stdout;
    assert!(alone.contains("#6 AllReduce of 16 B") && alone.contains("may be unfinished"), "{alone}");
    assert!(run(place.cutrace(["info"]).arg(&one)).expect(0).stdout.contains("2 communicators of NCCL, 7 operations"));
}

/// By its launch, when that was made, or the operation's own name.
#[test]
fn operations_are_selected_as_their_launches_are() {
    let place = Place::new();
    run(hanging_ranks(&place, &program(), 2, 1, 6).env("RING_VERSION", "7")).expect(0);
    let report = |options: &[&str]| {
        let mut report = place.cutrace(["report", "run/", "-r", "collectives", "--json"]);
        json(report.args(options))
    };
    let operations = |report: &Value| table(report, "operations")["rows"].as_array().expect("rows").clone();
    let counts = |report: &Value| -> Vec<_> {
        let rows = table(report, "communicators")["rows"].as_array().expect("rows").iter();
        rows.map(|row| (row["begun"].as_u64(), row["finished"].as_u64(), row["last_begun"].clone())).collect()
    };
    let all = operations(&report(&[]));
    let third = all.iter().find(|row| row["bytes"] == 16 && row["number"] == 3).expect("the third reduction");
    let call = third["call"].as_u64().expect("a launch");
    let one = report(&["--rank", "0", "--calls", &call.to_string()]);
    let [row] = &operations(&one)[..] else { panic!("{one}") };
    assert_eq!((&row["number"], &row["call"]), (&3.into(), &call.into()));
    let (once, never) = ((Some(1), Some(1), "#3 AllReduce of 16 B".into()), (Some(0), Some(0), Value::Null));
    assert_eq!(counts(&one), [once, never]);
    // Ranks are not compared by what one has looked at.
    let notes = &table(&report(&["--calls", &format!("..{call}")]), "communicators")["notes"].to_string();
    assert!(
        notes.contains("which rank is behind is found from all operations") && !notes.contains("rank 1 is"),
        "{notes}"
    );

    let from = third["begin_ns"].as_i64().expect("a time");
    let rows = operations(&report(&["--window", &format!("{from}ns..")]));
    assert!(rows.len() < all.len() && !rows.is_empty(), "{rows:?}");
    // Its part on the device may end when NCCL's call has long returned.
    let end = |row: &Value| ["returned_ns", "done_by_ns"].iter().filter_map(|key| row[*key].as_i64()).max();
    assert!(rows.iter().all(|row| end(row).is_none_or(|end| end > from)), "{rows:?}");
    let named = |pattern: &str| operations(&report(&["--grep", pattern])).len();
    assert_eq!((named("^AllReduce$"), named("cuLaunchKernel ncclDevKernel_"), named("cuMem")), (13, 13, 0));
    assert!(operations(&report(&["--rank", "0", "--thread", "t0"])).len() == 7);
}

/// The number of a row of the timeline, as `--row` takes it: of the first of this name below another.
fn row(frame: &str, above: &str, name: &str) -> String {
    const TOP: usize = 4;
    const NAMES: usize = 24;
    let rows = frame.lines().skip(TOP).take_while(|line| !line.starts_with(['\u{2500}', '-']));
    let names: Vec<String> = rows.map(|line| line.chars().take(NAMES).collect::<String>().trim().to_owned()).collect();
    let names: Vec<&String> = names.iter().filter(|name| !name.is_empty()).collect();
    let group = names.iter().position(|title| title.contains(above)).unwrap_or_else(|| panic!("no {above} in {frame}"));
    let found = names[group..].iter().position(|title| title.contains(name));
    (group + found.unwrap_or_else(|| panic!("no {name} in {frame}"))).to_string()
}

#[test]
fn the_viewer_has_all_ranks_on_one_time_axis() {
    let place = Place::new();
    run(hanging_ranks(&place, &program(), 3, 1, 6).env("RING_VERSION", "7")).expect(0);
    let once = |options: &[&str]| {
        let mut view = place.cutrace(["view", "run/", "--no-index", "--once", "--size", "140x60", "--ascii"]);
        run(view.args(options)).expect(0).stdout
    };
    let frame = once(&[]);
    assert!(["rank 0 ", "rank 1 ", "rank 2 "].iter().all(|rank| frame.contains(rank)), "{frame}");
    assert!(frame.matches("NCCL world").count() == 3 && frame.matches("NCCL 0xfeed").count() == 3, "{frame}");
    assert!(frame.contains("3 processes on one time axis; sums and tables show rank "), "{frame}");
    let some = run(&mut place.cutrace(["view", "run/", "--no-index", "--once", "--rank", "1-2"])).expect(0).stdout;
    assert!(some.contains("2 processes on one time axis") && !some.contains("rank 0 "), "{some}");

    // The last that rank 0 has begun was not known to end; who has not come to it is told.
    let screen = Screen::new(&place);
    let (cutrace, world) = (artifact("cutrace").display().to_string(), row(&frame, "rank 0 ", "NCCL world"));
    screen.tmux(&["resize-window", "-x", "140", "-y", "60"]);
    screen.run(&format!("{cutrace} view run/ --no-index --row {world}"));
    screen.wait("NCCL world");
    screen.keys(&["End", ","]);
    let text = screen.wait("has not begun");
    let line = |text: &str, label: &str| {
        let found = text.lines().rfind(|line| line.starts_with(label)).map(|line| line.trim_end().to_owned());
        found.unwrap_or_else(|| panic!("no {label} in {text}"))
    };
    assert!(line(&text, "#6 ").ends_with("AllReduce(16 B)"), "{text}");
    assert!(line(&text, "when ").ends_with(", end unknown"), "{text}");
    assert!(line(&text, "rank 1         ").ends_with("has not begun"), "{text}");
    assert!(line(&text, "rank 2         ").ends_with(", end unknown"), "{text}");
    assert!(text.contains("] next rank"), "{text}");
    // From rank to rank, by the key that the screen names: the lane is another, the number the same.
    screen.keys(&["]"]);
    let text = screen.wait("rank 0         began ");
    assert!(text.contains("#6 "), "{text}");
    screen.keys(&["]"]);
    screen.wait("rank 2         began ");
    screen.keys(&["q"]);
}

#[test]
fn ranks_that_agree_are_not_named() {
    let place = Place::new();
    run(record(&place, 2, 4).env("RING_VERSION", "4")).expect(0);
    let report = json(&mut place.cutrace(["report", "run/", "-r", "collectives", "--json"]));
    assert_eq!(table(&report, "communicators")["notes"], serde_json::json!([]));
    let operations = table(&report, "operations")["rows"].as_array().expect("rows");
    assert!(operations.iter().all(|row| row["state"] == "finished"), "{operations:?}");
    let sent: Vec<_> =
        operations.iter().filter_map(|row| Some((row["function"].as_str()?, row["peer"].as_u64()?))).collect();
    assert_eq!(sent, [("Send", 1), ("Recv", 0)]);
    let info = json(&mut place.cutrace(["info", "run/", "--json"]));
    assert_eq!(info["collectives"], serde_json::json!([]));
}

/// NCCL may tell some ranks no name of a communicator, or another one than the others.
#[test]
fn a_communicator_has_one_name_in_the_viewer() {
    let place = Place::new();
    let script = "truncate -s 36864 ring; for rank in 0 1 2; do [ $rank = 2 ] && RING_NAME=two || RING_NAME=; export RING_NAME; \
                  RANK=$rank WORLD_SIZE=3 \"$0\" ring $rank 3 4 & done; wait";
    let mut record = place.cutrace(["record", "--driver", "sim", "-o", "run/", "--", "sh", "-c", script]);
    run(record.arg(program()).env("RING_VERSION", "7")).expect(0);
    let view = ["view", "run/", "--no-index", "--once", "--size", "140x60", "--ascii"];
    let frame = run(&mut place.cutrace(view)).expect(0).stdout;
    assert_eq!((frame.matches("NCCL two").count(), frame.matches("NCCL 0xfeed").count()), (3, 3), "{frame}");

    // What its parts are connected by is told, of a job.
    let screen = Screen::new(&place);
    screen.tmux(&["resize-window", "-x", "140", "-y", "60"]);
    screen.run(&format!("{} view run/ --no-index", artifact("cutrace").display()));
    screen.wait("NCCL two");
    screen.keys(&["i"]);
    screen.wait("connects the beginnings of the collective at the cursor, rank by rank");
    screen.keys(&["i", "?"]);
    screen.wait("Keys");
    screen.keys(&["PageDown", "PageDown", "PageDown"]);
    screen.wait("On a collective, a line connects its beginnings from rank to rank");
    screen.keys(&["q", "q"]);
}

/// A rank whose graph calls NCCL back with each run is not ahead of one that was told of the capture alone.
#[test]
fn what_a_graph_runs_again_is_not_counted_again() {
    for version in [4, 7] {
        let place = Place::new();
        let mut record = record(&place, 2, 2);
        record.env("RING_VERSION", version.to_string()).env("GRAPH", "3").env("RING_PROXIES", "1");
        run(&mut record).expect(0);
        let all = traces(&place);
        for trace in &all {
            let on = |communicator| {
                let operations = trace.operations();
                operations.iter().filter(|of| of.is_collective() && of.communicator == communicator).count()
            };
            assert_eq!((on(1), on(2)), (3, 3), "version {version}");
        }
        let told = |trace: &Trace| trace.nccl_events().filter(|event| event.about.what == COLLECTIVE).count();
        // That it was told three times shows that there was something to be left out.
        assert_eq!((told(&all[0]), told(&all[1])), (6, 8), "version {version}");
        let info = json(&mut place.cutrace(["info", "run/", "--json"]));
        assert_eq!(info["collectives"], serde_json::json!([]), "version {version}");
    }
}

#[test]
fn sixty_four_ranks() {
    let place = Place::new();
    run(record(&place, 64, 3).env("RING_VERSION", "7")).expect(0);
    let report = json(&mut place.cutrace(["report", "run/", "-r", "collectives", "--json"]));
    let rows = table(&report, "communicators")["rows"].as_array().expect("rows");
    let world: Vec<_> = rows.iter().filter(|row| row["communicator"] == "world").collect();
    let told: Vec<_> = world.iter().map(|row| (row["rank"].as_u64(), row["finished"].as_u64())).collect();
    assert_eq!(told, (0..64).map(|rank| (Some(rank), Some(3))).collect::<Vec<_>>());
    assert_eq!(table(&report, "communicators")["notes"], serde_json::json!([]));
    assert_eq!(json(&mut place.cutrace(["info", "run/", "--json"]))["collectives"], serde_json::json!([]));
}

#[test]
fn without_the_plugin_the_names_of_kernels_tell() {
    let place = Place::new();
    run(hanging_ranks(&place, &program(), 2, 1, 3).env("NCCL_PROFILER_PLUGIN", "none")).expect(0);
    let report = json(&mut place.cutrace(["report", "run/", "-r", "collectives", "--json"]));
    let members = table(&report, "communicators");
    let told =
        "NCCL's kernels: rank 1 is behind: the last one begun is #2 AllReduce, finished; rank 0 waits in #3 AllReduce";
    assert_eq!(members["notes"][0], told);
    assert_eq!((&members["rows"][0]["communicator"], &members["rows"][0]["begun"]), (&"unknown".into(), &3.into()));
    let operation = &table(&report, "operations")["rows"][0];
    assert_eq!((&operation["function"], &operation["datatype"]), (&"AllReduce".into(), &"u32".into()));
    assert_eq!((&operation["bytes"], &operation["state"]), (&Value::Null, &"in flight".into()));
}

#[test]
fn another_plugin_keeps_its_place() {
    for (plugin, version) in [("none", "7"), ("/no/such/plugin.so", "7"), ("", "0")] {
        let place = Place::new();
        let mut record = record(&place, 1, 2);
        record.env("RING_VERSION", version);
        if !plugin.is_empty() {
            record.env("NCCL_PROFILER_PLUGIN", plugin);
        }
        let ran = run(&mut record).expect(0);
        let told = format!("cutrace: NCCL_PROFILER_PLUGIN is {plugin}: ");
        assert_eq!(ran.said()[0].starts_with(&told), !plugin.is_empty(), "{}", ran.stderr);
        let trace = traces(&place).remove(0);
        assert!(trace.communicators.is_empty() && trace.operations().is_empty(), "{}", name_of(&trace.path));
    }
}

/// Loaded for itself, it records nothing, and harms nobody.
#[test]
fn a_plugin_without_a_recording() {
    let place = Place::new();
    let mut bare = place.bare("env");
    ranks(&mut bare, 2, 4);
    let ran = run(bare.env("NCCL_PROFILER_PLUGIN", artifact("libcutrace.so"))).expect(0);
    assert_eq!(ran.stdout.lines().count(), 2);
}
