//! Unexpected and missing files in the directory of a job.

use serde_json::Value;
use std::path::{Path, PathBuf};
use tests::*;

/// Ranks of one job, and where the trace of each is.
fn ranks(place: &Place, count: usize) -> Vec<PathBuf> {
    let each: Vec<String> = (0..count).map(|rank| rank.to_string()).collect();
    let script = format!("for rank in {}; do RANK=$rank WORLD_SIZE={count} \"$0\" return; done; true", each.join(" "));
    let record = ["record", "--driver", "sim", "-o", "run/", "--", "sh", "-c", &script];
    run(place.cutrace(record).arg(client("ends.c"))).expect(0);
    let all = info(place, 0);
    let traces = all["processes"].as_array().expect("processes").iter().filter_map(|of| of["trace"].as_str());
    traces.map(|trace| place.join(trace)).collect()
}

fn info(place: &Place, status: i32) -> Value {
    let ran = run(&mut place.cutrace(["info", "run/", "--json"])).expect(status);
    serde_json::from_str(&ran.stdout).expect("JSON")
}

fn name(path: &Path) -> String {
    path.file_name().expect("a name").to_string_lossy().into_owned()
}

/// Whichever name comes first, and whether the processes are listed or not.
#[test]
fn a_copy_of_a_trace_is_no_process() {
    let place = Place::new();
    let traces = ranks(&place, 2);
    let told = info(&place, 0)["processes"].clone();
    std::fs::copy(&traces[0], place.join("run/a.bin")).expect("our own file");
    run(place.cutrace(["pack", "-o", "run/packed.bin"]).arg(&traces[1])).expect(0);
    let copies = [format!("a.bin ({})", name(&traces[0])), format!("packed.bin ({})", name(&traces[1]))];
    let line = format!("ignored, another file has the same process: {}", copies.join(", "));
    let all = info(&place, 0);
    assert_eq!((&all["processes"], &all["warnings"]), (&told, &serde_json::json!([line])));
    for command in [&["report", "run/", "-r", "ranks"][..], &["view", "run/", "--once"], &["replay", "run/"]] {
        let ran = run(&mut place.cutrace(command));
        assert_eq!(ran.said().iter().filter(|said| said.ends_with(&line)).count(), 1, "{command:?}: {}", ran.stderr);
    }
    let one = run(&mut place.cutrace(["info", "run/", "--rank", "1"])).expect(0);
    assert!(!one.stderr.contains("a.bin") && one.stderr.contains("packed.bin"), "{}", one.stderr);
    std::fs::remove_dir_all(place.join("run/processes")).expect("our own directory");
    let all = info(&place, 0);
    assert_eq!(all["warnings"], serde_json::json!([line]));
    assert_eq!(all["processes"].as_array().map(Vec::len), Some(2));
}

/// Whichever comes first by its name, the one is read of which less is lost.
#[test]
fn of_copies_the_whole_one_is_read() {
    for damaged in ["a.bin", "zz.bin"] {
        let place = Place::new();
        let traces = ranks(&place, 2);
        let bytes = std::fs::read(&traces[0]).expect("a trace");
        std::fs::remove_dir_all(place.join("run/processes")).expect("our own directory");
        std::fs::rename(&traces[0], place.join("run/middle.bin")).expect("our own file");
        std::fs::write(place.join("run").join(damaged), &bytes[..bytes.len() / 2]).expect("written");
        let told = info(&place, 0)["warnings"].to_string();
        assert!(told.contains(&format!("has the same process: {damaged} (middle.bin)")), "{told}");
    }
}

#[test]
fn a_trace_that_has_another_name_is_that_of_its_process() {
    let place = Place::new();
    let traces = ranks(&place, 2);
    std::fs::rename(&traces[1], place.join("run/other")).expect("our own file");
    let all = info(&place, 0);
    let with_traces = all["processes"].as_array().expect("processes").iter().filter(|of| !of["trace"].is_null());
    let told: Vec<_> =
        with_traces.map(|of| (of["rank"].as_u64(), of["trace"].as_str().map(Path::new).map(name))).collect();
    assert_eq!(told, [(Some(0), Some(name(&traces[0]))), (Some(1), Some("other".into()))]);
    assert_eq!(all["warnings"], serde_json::json!([]));
}

/// One that the job does not have is a mistake; one that it has and whose trace is gone is missing, and the
/// others are read.
#[test]
fn ranks_that_are_asked_for_and_not_there() {
    let place = Place::new();
    let traces = ranks(&place, 3);
    std::fs::remove_file(&traces[1]).expect("our own file");
    let gone = format!("{}, the trace of process ", name(&traces[1]));
    let commands: [&[&str]; 6] = [
        &["info", "run/"],
        &["report", "run/", "-r", "ranks"],
        &["view", "run/", "--once"],
        &["export", "run/", "--to", "jsonl", "-o", "-"],
        &["replay", "run/"],
        &["dump", "run/"],
    ];
    for command in commands {
        let ran = |ranks: &str| run(place.cutrace(command).args(["--rank", ranks]));
        let none = ran("0-2,9").expect(2);
        assert_eq!(none.stderr, "cutrace: run/: no rank 9; this job has the ranks 0-2\n", "{command:?}");
        let only = ran("1").expect(3);
        assert!(
            only.stderr.contains(&gone) && only.stderr.contains("no trace for rank 1 of 3 ranks"),
            "{}",
            only.stderr
        );
        if command[0] == "dump" {
            assert!(!ran("2").expect(0).stdout.is_empty());
        }
        let some = ran("0-1").expect(3);
        assert!(some.stderr.contains(&gone) && !some.stdout.is_empty(), "{command:?}: {}", some.stderr);
        // Nothing of the others.
        let well = ran("0,2");
        assert!(!well.stderr.contains(&gone), "{command:?}: {}", well.stderr);
    }
}

/// What --rank cannot tell apart is named by its file.
#[test]
fn a_rank_of_several_processes_is_not_one_trace() {
    let place = Place::new();
    let script = "for rank in 0 0 1; do RANK=$rank \"$0\" return; done; true";
    let record = ["record", "--driver", "sim", "-o", "run/", "--", "sh", "-c", script];
    run(place.cutrace(record).arg(client("ends.c"))).expect(0);
    let refused = |ranks: &[&str]| run(place.cutrace(["dump", "run/"]).args(ranks)).expect(2).stderr;
    let all = refused(&[]);
    assert!(all.contains("run/: 3 traces, expected one: pass ") && all.ends_with("; or choose with --rank: 0-1\n"));
    let same = refused(&["--rank", "0"]);
    assert!(same.contains("run/: 2 traces, expected one: pass "), "{same}");
    assert!(same.ends_with("; all have rank 0: pass the file\n"), "{same}");
    run(&mut place.cutrace(["dump", "run/", "--rank", "1"])).expect(0);
}

/// What was found, what was expected, and what to do.
#[test]
fn a_directory_without_a_trace_is_said_to_be_one() {
    let place = Place::new();
    ranks(&place, 1);
    let commands: [&[&str]; 6] =
        [&["info"], &["report"], &["dump"], &["view"], &["replay"], &["export", "--to", "chrome", "-o", "out.json"]];
    let empty = place.join("empty");
    std::fs::create_dir(&empty).expect("our own directory");
    for command in commands {
        let refused = |name: &str, why: &str| {
            let ran = run(place.cutrace(command).arg(name)).expect(3);
            assert_eq!(ran.said().last(), Some(&format!("cutrace: {name}: {why}").as_str()), "{command:?}");
        };
        refused(
            "none/",
            "No such file or directory (os error 2); expected a trace, or a directory of traces; record one with cutrace record -o NAME PROGRAM",
        );
        refused("empty/", "no trace in it (the directory is empty); cutrace record -o empty/ PROGRAM records some");
        refused(".", "no trace in it (2 directories); ./run/ has the traces of a job: pass that directory");
    }
}

#[test]
fn what_is_no_process_among_their_files_is_counted() {
    let place = Place::new();
    ranks(&place, 1);
    std::fs::write(place.join("run/processes/notes.txt"), "mine").expect("our own file");
    std::fs::create_dir(place.join("run/processes/more")).expect("our own directory");
    let line = "cutrace: run/processes: ignored, it describes no process: 2 files\n";
    for command in [&["info", "run/"][..], &["report", "run/"], &["info", "run/", "--rank", "0"]] {
        assert_eq!(run(&mut place.cutrace(command)).expect(0).stderr, line);
    }
    std::fs::write(place.join("run/processes/junk.jsonl"), "no line at all").expect("our own file");
    let ran = run(&mut place.cutrace(["info", "run/"])).expect(3);
    assert!(
        ran.stderr
            .starts_with("cutrace: 1 line about processes cannot be read; the traces' own process details are used"),
        "{}",
        ran.stderr
    );
}

/// As of a directory: the rest is shown. `run/*` has the folder with what is said of processes, too.
#[test]
fn of_several_that_are_named_each_that_can_be_read_is_shown() {
    let place = Place::new();
    let traces = ranks(&place, 2);
    std::fs::write(place.join("broken.bin"), "no trace at all").expect("our own file");
    for command in [&["info"][..], &["report"], &["report", "-r", "ranks"]] {
        let of = |names: &[&str], status| {
            let named = [&traces[..1], &names.iter().map(PathBuf::from).collect::<Vec<_>>(), &traces[1..]].concat();
            run(place.cutrace(command).args(named)).expect(status)
        };
        let both = of(&[], 0);
        let ran = of(&["broken.bin", "gone.bin"], 3);
        assert_eq!(ran.stdout, both.stdout, "{command:?}");
        let said = ran.said();
        let is_of_each =
            said.len() == 2 && said[0].contains("broken.bin: ") && said[1].contains("gone.bin: No such file");
        assert!(is_of_each, "{command:?}: {}", ran.stderr);
        let ran = of(&["run/processes"], 0);
        let line = "cutrace: run/processes: ignored: the list of a directory's processes, not a trace\n";
        assert_eq!((&*ran.stdout, &*ran.stderr), (&*both.stdout, line), "{command:?}");
        let none = run(place.cutrace(command).args(["gone.bin", "broken.bin"])).expect(3);
        assert!(none.stdout.is_empty() && none.said().len() == 2, "{command:?}: {}{}", none.stdout, none.stderr);
    }
    let ran = run(place.cutrace(["info", "--json", "broken.bin"]).arg(&traces[0])).expect(3);
    let told: Value = serde_json::from_str(&ran.stdout).expect("JSON");
    assert_eq!(told["traces"].as_array().map(Vec::len), Some(1), "{told}");
}

/// What makes one thing of all goes on without those that cannot be read, too.
#[test]
fn an_export_and_a_view_are_of_those_that_can_be_read() {
    let place = Place::new();
    let traces = ranks(&place, 2);
    std::fs::write(place.join("broken.bin"), "no trace at all").expect("our own file");
    let unread = ["broken.bin", "gone.bin", "none/"];
    let is_of_each = |ran: &Outcome| {
        let said = ran.said();
        said.len() == unread.len() && said.iter().zip(unread).all(|(said, name)| said.contains(name))
    };
    for (to, output) in
        [("jsonl", "-"), ("perfetto", "a.pftrace"), ("sqlite", "a.sqlite"), ("csv", "a"), ("parquet", "b")]
    {
        let command = ["export", "--to", to, "-o", output];
        let ran = run(place.cutrace(command).arg(&traces[0]).args(unread).arg(&traces[1])).expect(3);
        assert!(is_of_each(&ran), "{to}: {}", ran.stderr);
        let both = run(place.cutrace(command).arg("--force").args(&traces)).expect(0);
        assert_eq!((&ran.stdout, both.said().len()), (&both.stdout, 0), "{to}");
    }
    let view = |names: &[&str]| run(place.cutrace(["view", "--once", "--no-index"]).arg(&traces[0]).args(names));
    let alone = view(&[]).expect(0);
    for name in unread {
        let ran = view(&[name]).expect(3);
        assert!(ran.said().len() == 1 && ran.said()[0].contains(name) && ran.stdout == alone.stdout, "{}", ran.stderr);
    }
    let none = run(place.cutrace(["export", "--to", "sqlite", "-o", "c.sqlite"]).args(unread)).expect(3);
    assert!(is_of_each(&none) && !place.join("c.sqlite").exists(), "{}", none.stderr);
}
