//! A job: several processes recorded into one directory, and what is said of them together.

use serde_json::Value;
use std::path::Path;
use tests::*;
use trace::Trace;

fn info(place: &Place, status: i32) -> Value {
    let ran = run(&mut place.cutrace(["info", "run/", "--json"])).expect(status);
    serde_json::from_str(&ran.stdout).expect("JSON")
}

fn processes<'a>(info: &'a Value, program: &str) -> Vec<&'a Value> {
    let all = info["processes"].as_array().expect("processes").iter();
    all.filter(|process| process["program"].as_str().is_some_and(|path| path.ends_with(program))).collect()
}

fn record(place: &Place, script: &str, program: impl AsRef<Path>) -> std::process::Command {
    let mut record = place.cutrace(["record", "--driver", "sim", "-o", "run/", "--", "sh", "-c", script]);
    record.arg(program.as_ref());
    record
}

#[test]
fn every_process_is_listed_and_how_it_ended() {
    let place = Place::new();
    let script = "RANK=1 \"$0\" > out & while ! grep -q hanging out; do sleep 0.1; done; sleep 0.5; kill -9 $!; \
                  wait $!; (sleep 0.3; exit 4); exit 3";
    let ran = run(&mut record(&place, script, client("hangs.c"))).expect(3);
    let [line] = ran.said()[..] else { panic!("{}", ran.stderr) };
    assert!(
        line.starts_with("cutrace: run/: 1 process recorded, ") && line.contains(" made no driver call: "),
        "{line}"
    );
    assert!(line.contains("; the program ended: exit 3; process ") && line.ends_with(" (rank 1): SIGKILL"), "{line}");

    let all = info(&place, 0);
    let [hung] = processes(&all, "/hangs")[..] else { panic!("{all}") };
    assert_eq!((&hung["rank"], &hung["ended"]["signal"]), (&1.into(), &9.into()));
    assert_eq!(hung["devices"], serde_json::json!([0]));
    assert_eq!(hung["unfinished"]["inside"][0]["function"], "cuStreamSynchronize");
    let name = format!("-rank1-hangs-{}.bin", hung["pid"]);
    assert!(hung["trace"].as_str().is_some_and(|path| path.ends_with(&name)), "{hung}");
    // The trace itself says it, too.
    let trace = sound(place.join(hung["trace"].as_str().expect("a path")));
    assert_eq!(trace.ended.map(|ended| ended.signal), Some(9));
    assert!(trace.footer.is_some());
    let started = processes(&all, "sh");
    let shell = started.iter().find(|process| process["forked"] == false).expect("the shell");
    assert_eq!((&shell["ended"]["status"], &shell["trace"]), (&3.into(), &Value::Null));
    let forked = started.iter().find(|process| process["ended"]["status"] == 4).expect("a fork of it");
    assert_eq!((&forked["forked"], &forked["parent"]), (&true.into(), &shell["pid"]));
    assert!(!processes(&all, "sleep").is_empty());

    let text = run(&mut place.cutrace(["info", "run/", "--rank", "1"])).expect(0).stdout;
    assert!(text.contains("SIGKILL") && text.contains("cuStreamSynchronize (call "), "{text}");
    assert!(!text.contains("never called CUDA"), "{text}");
    let text = run(&mut place.cutrace(["info", "run/"])).expect(0).stdout;
    assert!(text.contains("never called CUDA"), "{text}");
}

/// As `mpirun` does it: a `record` for each rank.
#[test]
fn several_record_into_one_directory() {
    let place = Place::new();
    let launched = [0, 1, 3].map(|rank: u32| {
        let mut record = place.cutrace(["record", "--driver", "sim", "-o", "run/"]);
        record.arg(client("ends.c")).arg("return");
        record.env("OMPI_COMM_WORLD_RANK", rank.to_string()).env("OMPI_COMM_WORLD_SIZE", "4");
        record.stderr(std::process::Stdio::null()).stdout(std::process::Stdio::null()).spawn().expect("started")
    });
    for mut child in launched {
        assert_eq!(child.wait().expect("ours").code(), Some(13));
    }
    let all = info(&place, 3);
    let ranks: Vec<&Value> = processes(&all, "/ends").iter().map(|process| &process["rank"]).collect();
    assert_eq!(ranks, [0, 1, 3]);
    assert!(processes(&all, "/ends").iter().all(|process| process["ended"]["status"] == 13));
    assert_eq!(all["troubles"], serde_json::json!(["of 4 ranks no trace is here: 2"]));
    assert_eq!(all["verdict"], "replayable");

    let report = run(&mut place.cutrace(["report", "run/", "--rank", "1-3", "-r", "cuda_api_sum", "--json"])).expect(0);
    let report: Value = serde_json::from_str(&report.stdout).expect("JSON");
    assert_eq!(report.as_array().map(Vec::len), Some(2));
    let ranks = run(&mut place.cutrace(["report", "run/", "-r", "ranks", "--json"])).expect(0);
    let ranks: Value = serde_json::from_str(&ranks.stdout).expect("JSON");
    let rows = ranks["reports"][0]["rows"].as_array().expect("rows");
    let told: Vec<_> = rows.iter().map(|row| (row["rank"].clone(), row["calls"].clone())).collect();
    assert_eq!(told, [0, 1, 3].map(|rank| (rank.into(), 6.into())));
    assert!(rows.iter().all(|row| row["elapsed_ns"].as_i64() >= row["outside_ns"].as_i64()), "{rows:?}");
    let refused = run(&mut place.cutrace(["report", "run/", "--rank", "2"])).expect(2);
    assert!(refused.stderr.ends_with("run/: no trace of these ranks; there are 0-1,3\n"), "{}", refused.stderr);
    let refused = run(&mut place.cutrace(["dump", "run/"])).expect(2);
    assert!(refused.stderr.contains("cutrace: run/: 3 traces; name one: run/"), "{}", refused.stderr);
}

#[test]
fn what_is_wrong_with_a_rank_is_said_and_the_rest_works() {
    let place = Place::new();
    let script = "for rank in 0 1 2 2; do RANK=$rank WORLD_SIZE=3 \"$0\" return; done; true";
    run(&mut record(&place, script, client("ends.c"))).expect(0);
    let all = info(&place, 3);
    let [first, second, third, fourth] = processes(&all, "/ends")[..] else { panic!("{all}") };
    let (again, pids) = ("rank 2 is 2 processes with traces: ", [&third["pid"], &fourth["pid"]]);
    assert_eq!(all["troubles"], serde_json::json!([format!("{again}{}, {}", pids[0], pids[1])]));
    let path = |process: &Value| place.join(process["trace"].as_str().expect("a path"));
    std::fs::write(path(first), "no trace any more").expect("our own file");
    std::fs::remove_file(path(second)).expect("our own file");
    std::fs::remove_file(path(fourth)).expect("our own file");
    let all = info(&place, 3);
    let troubles: Vec<&str> = all["troubles"].as_array().expect("a list").iter().filter_map(Value::as_str).collect();
    let said = |what: &str| troubles.iter().any(|trouble| trouble.contains(what));
    assert!(said("not a cutrace trace"), "{troubles:?}");
    assert!(said(&format!("the trace of process {}, is not there", second["pid"])), "{troubles:?}");
    assert!(said("of 3 ranks no trace is here: 0-1"), "{troubles:?}");
    assert_eq!(processes(&all, "/ends")[2]["verdict"], "replayable");
    let report = run(&mut place.cutrace(["report", "run/", "-r", "cuda_api_sum"])).expect(0);
    assert!(report.stdout.contains("cuMemsetD8"), "{}", report.stdout);
}

/// Nothing but the traces is needed, and no launcher.
#[test]
fn traces_are_found_without_a_list_and_a_list_without_a_record() {
    let place = Place::new();
    let mut bare = place.preloaded(client("ends.c"));
    run(bare.arg("return").env("CUTRACE_OUTPUT", place.join("run/")).env("RANK", "7")).expect(13);
    let all = info(&place, 0);
    let [process] = processes(&all, "/ends")[..] else { panic!("{all}") };
    assert_eq!((&process["rank"], &process["ended"]["status"]), (&7.into(), &13.into()));
    std::fs::remove_dir_all(place.join("run/processes")).expect("our own directory");
    let all = info(&place, 0);
    let [process] = processes(&all, "/ends")[..] else { panic!("{all}") };
    assert_eq!((&process["rank"], &process["ended"]), (&7.into(), &Value::Null));

    // A file of traces has no such list.
    let place = Place::new();
    run(place.recorded("sh").args(["-c", "true"])).expect(0);
    assert_eq!(std::fs::read_dir(place.path()).expect("ours").count(), 0);
}

/// Nobody's program is changed by its being listed.
#[test]
fn a_listed_process_behaves_as_before() {
    for (program, arguments) in
        [("fork_storm.c", &[][..]), ("fork_in_call.c", &[]), ("no_calls.c", &[]), ("ends.c", &["quick_exit"])]
    {
        let place = Place::new();
        let bare = run(place.bare(client(program)).args(arguments));
        let recorded =
            run(place.cutrace(["record", "--driver", "sim", "-o", "run/"]).arg(client(program)).args(arguments));
        place.same(&bare, &recorded);
    }
    let place = Place::new();
    let read_only = place.join("run");
    std::fs::create_dir(&read_only).expect("our own directory");
    std::fs::write(read_only.join("processes"), "in the way").expect("our own directory");
    let mut silent = place.preloaded(client("no_calls.c"));
    let ran = run(silent.env("CUTRACE_OUTPUT", place.join("run/"))).expect(0);
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("nothing\n", ""));
}

/// By whose `record` they are, and when: ranks that come one after another are one recording.
#[test]
fn a_second_recording_is_told_apart() {
    let place = Place::new();
    let script = "for rank in 0 1; do RANK=$rank \"$0\" return; done; true";
    for _ in 0..2 {
        run(&mut record(&place, script, client("ends.c"))).expect(0);
    }
    let all = info(&place, 0);
    let told: Vec<_> =
        processes(&all, "/ends").iter().map(|process| (&process["rank"], &process["recording"])).collect();
    let of = [(0, 1), (0, 2), (1, 1), (1, 2)].map(|(rank, recording)| (Value::from(rank), Value::from(recording)));
    assert_eq!(told, of.each_ref().map(|(rank, recording)| (rank, recording)));
    let text = run(&mut place.cutrace(["info", "run/"])).expect(0).stdout;
    let line = text.lines().nth(1).expect("lines");
    assert!(line.starts_with("run/ holds 2 recordings (--recording N chooses one): 1: 3 processes, from 20"), "{text}");
    assert!(text.contains(" recording ") && line.matches(" UTC").count() == 2, "{text}");
    let second = run(&mut place.cutrace(["info", "run/", "--recording", "2", "--json"])).expect(0).stdout;
    let second: Value = serde_json::from_str(&second).expect("JSON");
    assert_eq!(processes(&second, "/ends").len(), 2);
    let report = ["report", "run/", "-r", "cuda_api_sum", "--json"];
    let tables = |ran: Outcome| serde_json::from_str::<Value>(&ran.stdout).expect("JSON").as_array().map(Vec::len);
    let both = run(&mut place.cutrace(report)).expect(0);
    assert!(both.said()[0].starts_with("cutrace: run/ holds 2 recordings"), "{}", both.stderr);
    let one = run(place.cutrace(report).args(["--recording", "1"])).expect(0);
    assert_eq!((tables(both), tables(one)), (Some(4), Some(2)));
    let none = run(place.cutrace(report).args(["--recording", "3"])).expect(2);
    assert!(none.stderr.ends_with("--recording 3: run/ holds 2 recordings\n"), "{}", none.stderr);
}

#[test]
fn an_empty_directory_is_no_job() {
    let place = Place::new();
    std::fs::create_dir(place.join("run")).expect("our own directory");
    let refused = run(&mut place.cutrace(["info", "run"])).expect(3);
    assert!(refused.stderr.contains("run: no trace in it, and no process is told of"), "{}", refused.stderr);
    let refused = run(&mut place.cutrace(["report", "run"])).expect(3);
    assert!(refused.stderr.contains("run: no trace in it"), "{}", refused.stderr);
    let refused = run(&mut place.cutrace(["replay", "run/"])).expect(3);
    assert!(refused.stderr.ends_with("; cutrace record -o run/ PROGRAM makes some\n"), "{}", refused.stderr);
    let refused = run(&mut place.cutrace(["info", "--rank", "1", "t.bin"])).expect(2);
    assert!(refused.stderr.contains("--rank: chooses among the traces of a directory"), "{}", refused.stderr);
}

#[test]
fn processes_without_a_rank_are_not_chosen_by_one() {
    let place = Place::new();
    run(&mut record(&place, "\"$0\" return; true", client("ends.c"))).expect(0);
    let asked = ["export", "run/", "--rank", "0", "--to", "chrome", "-o", "rank0.json"];
    let refused = run(&mut place.cutrace(asked)).expect(2);
    let why = "run/: no trace of these ranks; none of its processes has a rank: without --rank they are all read\n";
    assert!(refused.stderr.ends_with(why), "{}", refused.stderr);
}

/// A long trace is closed without a verdict.
#[test]
fn a_trace_that_was_not_judged_is_judged_when_it_is_asked_about() {
    let place = Place::new();
    let mut bare = place.preloaded(client("vector_add.c"));
    run(bare.env("CUTRACE_OUTPUT", place.join("run/"))).expect(0);
    let mut entries =
        std::fs::read_dir(place.join("run")).expect("the directory").map(|entry| entry.expect("one").path());
    let path = entries.find(|path| path.extension().is_some_and(|extension| extension == "bin")).expect("a trace");
    trace::finish::finish(&trace::Trace::open(&path).expect("a trace"), |_| Default::default()).expect("closed");
    assert_eq!(info(&place, 0)["verdict"], "replayable");
    let alone = run(place.cutrace(["info", "--json"]).arg(&path)).expect(0);
    assert_eq!(serde_json::from_str::<Value>(&alone.stdout).expect("JSON")["verdict"], "replayable");
}

/// One process had ended by then: it has nothing there, and the others are told.
#[test]
fn a_window_that_one_process_does_not_reach() {
    let place = Place::new();
    let script = "\"$0\" 2 & \"$0\" 100000 & wait";
    run(&mut record(&place, script, client("many_calls.c"))).expect(0);
    let all = info(&place, 0);
    let mut traces: Vec<Trace> = processes(&all, "/many_calls")
        .iter()
        .map(|process| sound(place.join(process["trace"].as_str().expect("a trace"))))
        .collect();
    traces.sort_by_key(Trace::len);
    let [short, long] = &traces[..] else { panic!("{all}") };
    let begun = |window: &str| {
        let export = ["export", "run/", "--to", "chrome", "-o", "-", "--window", window];
        let exported: Value = serde_json::from_str(&run(&mut place.cutrace(export)).expect(0).stdout).expect("JSON");
        let events = exported["traceEvents"].as_array().expect("a list").clone();
        let calls = events.into_iter().filter(|event| event["cat"] == "cuda_driver");
        let number = |value: &Value| value.as_f64().expect("a number");
        calls
            .map(|call| (number(&call["pid"]) as u32, (number(&call["ts"]) * 1000.0).round() as u64))
            .collect::<Vec<_>>()
    };
    let all_begun = begun("0..");
    let last = |trace: &Trace| {
        let own = all_begun.iter().filter(|(pid, _)| *pid == trace.preamble.pid);
        own.map(|(_, at)| *at).max().expect("a call")
    };
    let window = format!("{}ns..", last(short) + 1);
    let told = format!("cutrace: process {} has no call in --window: the last begins at ", short.preamble.pid);
    for (report, of_others) in [("cuda_api_sum", "process"), ("ranks", "many_calls")] {
        let ran = run(&mut place.cutrace(["report", "run/", "-r", report, "--window", &window])).expect(0);
        assert!(ran.said().iter().any(|line| line.starts_with(&told)), "{}", ran.stderr);
        assert!(
            ran.stdout.contains(of_others) && !ran.stdout.contains(&short.preamble.pid.to_string()),
            "{}",
            ran.stdout
        );
    }
    let exported =
        run(&mut place.cutrace(["export", "run/", "--to", "jsonl", "-o", "-", "--window", &window])).expect(0);
    assert!(exported.said().iter().any(|line| line.starts_with(&told)), "{}", exported.stderr);
    assert!(exported.stdout.contains(&format!("\"pid\":{}", long.preamble.pid)), "{:.2000}", exported.stdout);
    // Wherever it begins, the window is of the time that all have in common, as the export's is.
    let (from, to) = (last(short) + 1, (last(short) + last(long)) / 2);
    for (from, to) in [(0, last(short) + 1), (from, to), (to, last(long))] {
        let wanted: Vec<_> = all_begun.iter().filter(|(_, at)| (from..to).contains(at)).copied().collect();
        assert_eq!(begun(&format!("{from}ns..{to}ns")), wanted);
    }
    let beyond = format!("{}ns..", last(long) + 1);
    let ran = run(&mut place.cutrace(["report", "run/", "--window", &beyond])).expect(2);
    assert!(ran.stderr.contains("--window: no call of the trace begins so late: "), "{}", ran.stderr);
}
