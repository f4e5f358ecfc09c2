//! A job: several processes recorded into one directory, and the reports on them together.

use serde_json::Value;
use std::path::Path;
use tests::*;
use trace::Trace;
use trace::write::finish::Judgement;

fn info_of(place: &Place, options: &[&str]) -> Value {
    let ran = run(place.cutrace(["info", "run/", "--json"]).args(options)).expect(0);
    serde_json::from_str(&ran.stdout).expect("JSON")
}

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
    // `record` watches a process from when it has its descriptor; what is inside a call later than it says that
    // it hangs is so in its last wait.
    let script = r#"
        RANK=1 "$0" > out & hangs=$!
        is_watched() { grep -qs "^Pid:[^0-9]*$1\$" /proc/$PPID/fdinfo/*; }
        until grep -q hanging out && "$1" info run/ --rank 1 2>said | grep -q 'cuStreamSynchronize (call ' && is_watched $hangs; do
            sleep 0.1
        done
        kill -9 $hangs; wait $hangs
        (own=$(exec sh -c 'echo $PPID'); until is_watched $own; do sleep 0.1; done; exit 4)
        exit 3"#;
    let ran = run(record(&place, script, client("hangs.c")).arg(artifact("cutrace"))).expect(3);
    let [line] = ran.said()[..] else { panic!("{}", ran.stderr) };
    assert!(
        line.starts_with("cutrace: run/: 1 process recorded, ") && line.contains(" recorded no driver call: "),
        "{line}"
    );
    assert!(line.contains("; the program ended: exit 3; process ") && line.ends_with(" (rank 1): SIGKILL"), "{line}");

    let all = info(&place, 0);
    let [hung] = processes(&all, "/hangs")[..] else { panic!("{all}") };
    assert_eq!((&hung["rank"], &hung["ended"]["signal"]), (&1.into(), &9.into()));
    assert_eq!(hung["devices"], serde_json::json!([0]));
    assert_eq!(hung["unfinished"]["inside"][0]["function"], "cuStreamSynchronize");
    assert!(hung["unfinished"]["inside"][0]["for_ns"].as_i64() > Some(0), "{hung}");
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
    assert!(!processes(&all, "/grep").is_empty());

    let text = run(&mut place.cutrace(["info", "run/", "--rank", "1"])).expect(0).stdout;
    assert!(text.contains("SIGKILL") && text.contains("cuStreamSynchronize (call "), "{text}");
    assert!(!text.contains("never called CUDA"), "{text}");
    let text = run(&mut place.cutrace(["info", "run/"])).expect(0).stdout;
    assert!(text.contains("never called CUDA"), "{text}");
}

/// Those that a script starts, beside one that failed.
#[test]
fn many_processes_without_calls_take_a_line() {
    let place = Place::new();
    let script = "for i in $(seq 12); do env true; done; env false; RANK=0 \"$0\"";
    let record = ["record", "--driver", "sim", "-o", "run/", "--", "sh", "-c", script];
    run(place.cutrace(record).arg(client("vector_add.c"))).expect(0);
    let text = run(&mut place.cutrace(["info", "run/"])).expect(0).stdout;
    assert!(text.contains(" more never called CUDA, without a known failure (--json "), "{text}");
    assert_eq!(text.matches("never called CUDA").count(), 2, "{text}");
    let all = run(&mut place.cutrace(["info", "run/", "--json"])).expect(0).stdout;
    assert!(all.matches("\"trace\": null").count() > 12, "{all}");
}

/// Whoever has made no call for longest, and the call that it is inside of.
#[test]
fn a_rank_that_hangs_stands_out_beside_the_others() {
    let place = Place::new();
    let script = r#"
        RANK=0 "$0" > out & hangs=$!
        until grep -q hanging out; do sleep 0.1; done
        sleep 0.2
        RANK=1 "$1" return
        kill -9 $hangs; wait $hangs; exit 0"#;
    run(record(&place, script, client("hangs.c")).arg(client("ends.c"))).expect(0);
    let ran = run(&mut place.cutrace(["report", "run/", "-r", "ranks", "--json"])).expect(0);
    let told: Value = serde_json::from_str(&ran.stdout).expect("JSON");
    let rows = told["reports"][0]["rows"].as_array().expect("rows").iter();
    let of = |row: &Value| (row["inside"].as_str().map(str::to_owned), row["last_to_end_ns"].as_i64());
    let rows: Vec<_> = rows.map(of).collect();
    assert_eq!((rows[0].0.as_deref(), &rows[1].0), (Some("cuStreamSynchronize"), &None), "{told}");
    assert!(rows[0].1 >= Some(200_000_000) && rows[1].1 < Some(200_000_000), "{told}");
    // It was killed, and `record` saw when.
    let ran = run(&mut place.cutrace(["report", "run/", "--rank", "0", "-r", "pending", "--json"])).expect(0);
    let pending: Value = serde_json::from_str(&ran.stdout).expect("JSON");
    let tables = pending["reports"].as_array().expect("tables");
    let inside = tables.iter().find(|table| table["table"] == "inside").expect("a table");
    assert!(inside["rows"][0]["for_ns"].as_i64() >= Some(200_000_000), "{pending}");
    // It tells of all calls, whichever are counted.
    for chosen in [["--grep", "Init"], ["--calls", "..4"]] {
        let ran = run(place.cutrace(["report", "run/", "-r", "ranks", "--json"]).args(chosen)).expect(0);
        let few: Value = serde_json::from_str(&ran.stdout).expect("JSON");
        let rows = few["reports"][0]["rows"].as_array().expect("rows").iter().map(of).collect::<Vec<_>>();
        assert_eq!(rows[0].0.as_deref(), Some("cuStreamSynchronize"), "{chosen:?}: {few}");
        assert!(rows[1].1 < Some(200_000_000), "{chosen:?}: {few}");
    }
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
    assert_eq!(all["warnings"], serde_json::json!(["no trace for rank 2 of 4 ranks"]));
    assert_eq!(all["verdict"], "replayable");

    let report = run(&mut place.cutrace(["report", "run/", "--rank", "1-3", "-r", "cuda_api_sum", "--json"])).expect(3);
    let report: Value = serde_json::from_str(&report.stdout).expect("JSON");
    assert_eq!(report.as_array().map(Vec::len), Some(2));
    let ranks = run(&mut place.cutrace(["report", "run/", "-r", "ranks", "--json"])).expect(3);
    let ranks: Value = serde_json::from_str(&ranks.stdout).expect("JSON");
    let rows = ranks["reports"][0]["rows"].as_array().expect("rows");
    let told: Vec<_> = rows.iter().map(|row| (row["rank"].clone(), row["calls"].clone())).collect();
    assert_eq!(told, [0, 1, 3].map(|rank| (rank.into(), 6.into())));
    assert!(rows.iter().all(|row| row["elapsed_ns"].as_i64() >= row["outside_ns"].as_i64()), "{rows:?}");
    let refused = run(&mut place.cutrace(["report", "run/", "--rank", "2"])).expect(3);
    let why = "run/: --rank selects no process: no trace for rank 2 of 4 ranks\n";
    assert!(refused.stderr.ends_with(why), "{}", refused.stderr);
    let refused = run(&mut place.cutrace(["dump", "run/"])).expect(2);
    assert!(refused.stderr.contains("cutrace: run/: 3 traces, expected one: pass run/"), "{}", refused.stderr);
    assert!(refused.stderr.ends_with("; or choose with --rank: 0-1,3\n"), "{}", refused.stderr);
}

#[test]
fn what_is_wrong_with_a_rank_is_said_and_the_rest_works() {
    let place = Place::new();
    let script = "for rank in 0 1 2 2; do RANK=$rank WORLD_SIZE=3 \"$0\" return; done; true";
    run(&mut record(&place, script, client("ends.c"))).expect(0);
    let all = info(&place, 0);
    let [first, second, third, fourth] = processes(&all, "/ends")[..] else { panic!("{all}") };
    let (again, pids) = ("rank 2 has 2 processes with traces: ", [&third["pid"], &fourth["pid"]]);
    assert_eq!(all["warnings"], serde_json::json!([format!("{again}{}, {}", pids[0], pids[1])]));
    let path = |process: &Value| place.join(process["trace"].as_str().expect("a path"));
    std::fs::write(path(first), "no trace any more").expect("our own file");
    std::fs::remove_file(path(second)).expect("our own file");
    std::fs::remove_file(path(fourth)).expect("our own file");
    let all = info(&place, 3);
    let warnings: Vec<&str> = all["warnings"].as_array().expect("a list").iter().filter_map(Value::as_str).collect();
    let said = |what: &str| warnings.iter().any(|warning| warning.contains(what));
    assert!(said("not a cutrace trace"), "{warnings:?}");
    assert!(said(&format!("the trace of process {}, is missing", second["pid"])), "{warnings:?}");
    assert!(said("no trace for ranks 0-1 of 3 ranks"), "{warnings:?}");
    assert_eq!(processes(&all, "/ends")[2]["verdict"], "replayable");
    let report = run(&mut place.cutrace(["report", "run/", "-r", "cuda_api_sum"])).expect(3);
    assert!(report.stdout.contains("cuMemsetD8"), "{}", report.stdout);
}

/// One rule for all: what can be read is, what is missing or damaged is said in a line on stderr, and the
/// status is 3, unless other ranks were asked for.
#[test]
fn every_command_says_what_a_job_lacks() {
    let place = Place::new();
    let script = "for rank in 0 1 2; do RANK=$rank WORLD_SIZE=3 \"$0\" return; done; true";
    run(&mut record(&place, script, client("ends.c"))).expect(0);
    let all = info(&place, 0);
    let paths = processes(&all, "/ends").into_iter().map(|of| place.join(of["trace"].as_str().expect("a path")));
    let paths: Vec<_> = paths.collect();
    let commands: [&[&str]; 6] = [
        &["info", "run/"],
        &["report", "run/"],
        &["report", "run/", "-r", "ranks"],
        &["export", "run/", "--to", "jsonl", "-o", "-"],
        &["view", "run/"],
        &["view", "run/", "--once"],
    ];
    let each = |ranks: &[&str], status: i32, line: &str| {
        for command in commands {
            let ran = run(place.cutrace(command).args(ranks)).expect(status);
            assert!(!ran.stdout.is_empty(), "{command:?}");
            let told = ran.said().iter().filter(|said| said.contains(line)).count();
            assert_eq!(told, usize::from(status != 0), "{command:?}: {}", ran.stderr);
        }
    };
    let whole = std::fs::read(&paths[1]).expect("a trace");
    std::fs::write(&paths[1], &whole[..whole.len() / 2]).expect("our own file");
    let name = paths[1].file_name().expect("a name").to_string_lossy().into_owned();
    each(&[], 3, &format!("{name}: at offset "));
    each(&["--rank", "0,2"], 0, &name);
    std::fs::remove_file(&paths[1]).expect("our own file");
    each(&[], 3, "no trace for rank 1 of 3 ranks");
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
fn recordings_of_one_directory_are_told_apart_and_the_newest_is_read() {
    let place = Place::new();
    let script = "for rank in 0 1; do RANK=$rank \"$0\" return; done; true";
    for _ in 0..2 {
        run(&mut record(&place, script, client("ends.c"))).expect(0);
    }
    let told = |options: &[&str]| {
        let all = info_of(&place, options);
        let of = |process: &&Value| (process["rank"].as_u64(), process["recording"].as_u64());
        processes(&all, "/ends").iter().map(of).collect::<Vec<_>>()
    };
    let of = |rank, recording| (Some(rank), Some(recording));
    assert_eq!(told(&[]), [of(0, 2), of(1, 2)]);
    assert_eq!(told(&["--recording", "1"]), [of(0, 1), of(1, 1)]);
    let both = [of(0, 1), of(0, 2), of(1, 1), of(1, 2)];
    assert_eq!((told(&["--recording", "all"]), told(&["--recording", "1-2"])), (both.to_vec(), both.to_vec()));
    let read: Vec<_> =
        info(&place, 0)["recordings"].as_array().expect("a list").iter().map(|of| of["read"].clone()).collect();
    assert_eq!(read, [false, true]);
    let text = run(&mut place.cutrace(["info", "run/"])).expect(0).stdout;
    let line = text.lines().nth(1).expect("lines");
    assert!(line.starts_with("run/ holds 2 recordings: 1: 3 processes, from 20"), "{text}");
    assert!(line.ends_with("; the newest, 2, is read; --recording chooses others (1, 1-2, all)"), "{text}");
    assert!(!text.contains(" recording ") && line.matches(" UTC").count() == 2, "{text}");
    let text = run(&mut place.cutrace(["info", "run/", "--recording", "all"])).expect(0).stdout;
    assert!(text.contains(" recording ") && text.contains("; all are read;"), "{text}");

    let report = ["report", "run/", "-r", "cuda_api_sum", "--json"];
    let tables = |ran: &Outcome| serde_json::from_str::<Value>(&ran.stdout).expect("JSON").as_array().map(Vec::len);
    let newest = run(&mut place.cutrace(report)).expect(0);
    assert!(newest.said()[0].starts_with("cutrace: run/ holds 2 recordings"), "{}", newest.stderr);
    let all = run(place.cutrace(report).args(["--recording", "all"])).expect(0);
    assert_eq!((tables(&newest), tables(&all), all.stderr.as_str()), (Some(2), Some(4), ""));
    assert!(all.stdout.contains("\"recording\": 1") || all.stdout.contains("\"recording\":1"), "{}", all.stdout);
    for command in
        [&["info"][..], &["report"], &["view", "--once"], &["replay"], &["export", "--to", "chrome", "-o", "x"]]
    {
        for wrong in ["3", "0", "2-5"] {
            let none = run(place.cutrace(command).args(["run/", "--recording", wrong])).expect(2);
            let number = wrong.trim_start_matches("2-");
            let why = format!("--recording {number}: run/ holds 2 recordings: 1: 3 processes, from 20");
            assert!(none.stderr.contains(&why), "{command:?}: {}", none.stderr);
        }
    }
    // A replay of all says of each which it is of.
    let replay = ["replay", "run/", "--driver", "sim", "--recording", "all"];
    let lines = run(&mut place.cutrace(replay)).expect(6).stdout;
    let named = [(1, 0), (2, 0), (1, 1), (2, 1)].map(|(of, rank)| format!("recording {of}, rank {rank} (process "));
    let whose: Vec<&str> = lines.lines().filter(|line| line.starts_with("rec")).collect();
    assert!(whose.len() == 4 && whose.iter().zip(&named).all(|(line, named)| line.starts_with(named)), "{lines}");
    let json: Value = serde_json::from_str(&run(place.cutrace(replay).arg("--json")).expect(6).stdout).expect("JSON");
    let of: Vec<_> = json["processes"].as_array().expect("a list").iter().map(|of| of["recording"].as_u64()).collect();
    assert_eq!(of, [1, 2, 1, 2].map(Some));
    // What is wrong with the other one is not said.
    let first = processes(&info_of(&place, &["--recording", "1"]), "/ends")[0]["trace"].clone();
    std::fs::remove_file(place.join(first.as_str().expect("a path"))).expect("our own file");
    assert_eq!(info(&place, 0)["warnings"], serde_json::json!([]));
    let replayed = run(&mut place.cutrace(["replay", "run/", "--driver", "sim"])).expect(6);
    assert!(replayed.stdout.contains("unverified: 2 processes in "), "{}{}", replayed.stdout, replayed.stderr);
    run(&mut place.cutrace(["info", "run/", "--recording", "1"])).expect(3);
}

/// Of one recording of `run/`, by rank.
fn traces_of(place: &Place, recording: u64) -> Vec<String> {
    let all = info_of(place, &["--recording", &recording.to_string()]);
    let traces = all["processes"].as_array().expect("processes").iter().filter_map(|of| of["trace"].as_str());
    traces.map(str::to_owned).collect()
}

/// What each process lacks alone they have together, be it said by `record` or by `info`.
#[test]
fn record_judges_a_job_as_info_does() {
    let place = Place::new();
    let ran = |ranks: &str| {
        let mut record = place.cutrace(["record", "--driver", "sim", "-o", "run/"]);
        record.arg(client("ipc_flag.c")).envs([("CUTRACE_SIM_DEVICES", "2"), ("WORLD_SIZE", ranks)]);
        run(&mut record).said().concat()
    };
    let told = ran("2");
    assert!(
        told.contains(": 2 processes recorded: 25 calls, ") && told.contains(" kB, all replayable together"),
        "{told}"
    );
    let all = info(&place, 0);
    assert_eq!(all["verdict"], "replayable");
    let alone: Vec<_> = processes(&all, "/ipc_flag").iter().map(|of| of["verdict_alone"].clone()).collect();
    assert!(alone.contains(&"partly".into()), "{all}");
}

/// Each process has a rank that is judged, or the line says that others are lacking.
#[test]
fn record_says_that_ranks_are_absent() {
    let place = Place::new();
    let told = |output: &str, with: &[(&str, &str)], words: &[&str]| {
        let mut record = place.cutrace(["record", "--driver", "sim", "-o", output, "--"]);
        record.args(words).arg(client("ipc_memory_of_parent.c")).envs(with.iter().copied());
        run(&mut record).said().concat()
    };
    assert!(told("run/", &[("WORLD_SIZE", "1"), ("RANK", "0")], &[]).contains(", all replayable together"));
    let partly = ", 1 replayable, 1 partly replayable without the other ranks; cutrace info ";
    // Two processes, and none of the three ranks.
    let without = told("none/", &[("WORLD_SIZE", "3")], &[]);
    assert!(without.contains(partly), "{without}");
    let of_info = run(&mut place.cutrace(["info", "none/"])).expect(3);
    assert!(of_info.stdout.contains("verdict: partly replayable\n"), "{}", of_info.stdout);
    // A process that makes no driver call is no other rank.
    for rank in ["0", "1"] {
        let with = [("OMPI_COMM_WORLD_RANK", rank), ("OMPI_COMM_WORLD_SIZE", "2")];
        let one = told("each/", &with, &["sh", "-c", "\"$0\"; exit 0"]);
        assert!(one.contains(", 1 recorded no driver call: ") && one.contains(partly), "{one}");
    }
    let of_info = run(&mut place.cutrace(["info", "each/"])).expect(0);
    assert!(of_info.stdout.contains("\nverdict: replayable\n"), "{}", of_info.stdout);
}

/// What the others of a job lack by it is what is lost, and a damaged preamble has a copy.
#[test]
fn harmless_damage_makes_no_job_partly() {
    let place = Place::new();
    run(place.cutrace(["record", "--driver", "sim", "-o", "run/"]).arg(client("ipc_memory_of_parent.c"))).expect(0);
    let traces = std::fs::read_dir(place.join("run")).expect("ours").flatten().map(|entry| entry.path());
    let importer = traces.filter(|path| path.is_file());
    let importer = importer.into_iter().find(|path| !calls_named(&sound(path), "cuIpcOpenMemHandle_v2").is_empty());
    let importer = importer.expect("the child's");
    let whole = std::fs::read(&importer).expect("a trace");
    let mut text = whole.clone();
    text[200] ^= 1;
    std::fs::write(&importer, &text).expect("ours");
    let [damage] = &Trace::open(&importer).expect("a trace").damage[..] else { panic!("one damage") };
    assert!(!damage.loses, "{damage:?}");
    let all = info(&place, 3);
    assert_eq!(all["verdict"], "replayable", "{all}");
    assert!(all["warnings"].to_string().contains("at offset 0: "), "{all}");

    // What is lost is lost, also of a trace that is closed without it.
    std::fs::write(&importer, &whole[..whole.len() / 2]).expect("ours");
    let lacks = |all: &Value| all.to_string().matches("exported memory may be written").count();
    assert_eq!(lacks(&info(&place, 3)), 1);
    let refused = run(&mut place.cutrace(["replay", "run/", "--driver", "sim", "--dry-run", "--json"]));
    assert!(
        refused.said().concat().contains("; not replayed before cutrace repair run/ has closed it"),
        "{}",
        refused.stderr
    );
    run(&mut place.cutrace(["repair", "run/"])).expect(3);
    assert_eq!(lacks(&info(&place, 3)), 1);
    let planned = run(&mut place.cutrace(["replay", "run/", "--driver", "sim", "--dry-run", "--json"]));
    assert_eq!(lacks(&planned.stdout.into()), 1);
}

/// Ranks are compared with those of their own recording.
#[test]
fn several_recordings_have_a_column_for_their_numbers() {
    let place = Place::new();
    let script = "for rank in 0 1; do RANK=$rank \"$0\" return; done; true";
    for _ in 0..2 {
        run(&mut record(&place, script, client("ends.c"))).expect(0);
    }
    let report = |options: &[&str]| -> Value {
        let ran = run(place.cutrace(["report", "run/", "-r", "ranks", "--json"]).args(options)).expect(0);
        serde_json::from_str::<Value>(&ran.stdout).expect("JSON")["reports"][0].clone()
    };
    let of = |report: &Value| -> Vec<_> {
        let rows = report["rows"].as_array().expect("rows").iter();
        rows.map(|row| (row["recording"].as_u64(), row["rank"].as_u64())).collect()
    };
    assert_eq!(of(&report(&[])), [(None, Some(0)), (None, Some(1))]);
    // With reports on each of them, that on all comes first.
    let mixed =
        |options: &[&str]| run(place.cutrace(["report", "run/", "-r", "errors,ranks"]).args(options)).expect(0).stdout;
    let (text, listed) = (mixed(&[]), mixed(&["--json"]));
    assert_eq!(text.matches("Processes by rank (ranks)").count(), 1, "{text}");
    assert_eq!(text.matches("\nrank ").count(), 2, "{text}");
    let listed: Value = serde_json::from_str(&listed).expect("JSON");
    assert_eq!(
        (listed[0]["reports"][0]["rows"].as_array().map(Vec::len), listed.as_array().map(Vec::len)),
        (Some(2), Some(3))
    );
    let all = report(&["--recording", "all"]);
    assert_eq!(of(&all), [1, 2].map(|of| [0, 1].map(|rank| (Some(of), Some(rank)))).concat());
    let notes = all["notes"].as_array().expect("notes");
    assert!(notes.iter().all(|note| note.as_str().is_some_and(|note| note.starts_with("recording "))), "{all}");
    // Also where their files are named, and wherever these lie.
    std::fs::create_dir(place.join("later")).expect("our own directory");
    let traces: Vec<Vec<String>> = [1, 2].map(|number| traces_of(&place, number)).into();
    let report = |files: &[String]| -> Value {
        let ran = run(place.cutrace(["report", "-r", "ranks", "--json"]).args(files)).expect(0);
        serde_json::from_str::<Value>(&ran.stdout).expect("JSON")["reports"][0].clone()
    };
    assert_eq!(report(&traces.concat())["rows"], all["rows"]);
    assert_eq!(of(&report(&traces[1])), [(None, Some(0)), (None, Some(1))]);
    let moved = |path: &String| {
        let moved = path.replace("run/", "later/");
        std::fs::rename(place.join(path), place.join(&moved)).expect("our own files");
        moved
    };
    let elsewhere: Vec<String> = traces[1].iter().map(moved).collect();
    assert_eq!(of(&report(&[traces[0].clone(), elsewhere].concat())), of(&all));
}

/// As a trace by its default name is.
#[test]
fn a_directory_that_was_recorded_last_is_what_is_read() {
    let place = Place::new();
    let ran = |command: &[&str], status| run(&mut place.cutrace(command)).expect(status);
    let plain = || run(place.cutrace(["record", "--driver", "sim"]).arg(client("vector_add.c"))).expect(0);
    plain();
    let script = "for rank in 0 1; do RANK=$rank \"$0\" return; done; true";
    run(&mut record(&place, script, client("ends.c"))).expect(0);
    std::fs::create_dir_all(place.join("other/processes")).expect("our own directory");
    let said = "cutrace: no trace given: reading run/, the latest recording here\n";
    let info = ran(&["info"], 0);
    assert_eq!((info.stderr.as_str(), info.stdout.lines().next()), (said, Some("run: 3 processes, 2 traces")));
    let first = ran(&["report", "--rank", "0", "-r", "ranks", "--json"], 0);
    let first: Value = serde_json::from_str(&first.stdout).expect("JSON");
    assert_eq!(first["reports"][0]["rows"][0]["rank"], 0);
    assert!(ran(&["view", "--once", "--no-index"], 0).stdout.contains("2 processes on one time axis"));
    assert!(ran(&["replay", "--driver", "sim"], 6).stdout.contains("unverified: 2 processes in "));
    assert!(ran(&["dump"], 2).stderr.contains("run: 2 traces, expected one: pass run/"));
    plain();
    assert!(ran(&["info"], 0).stderr.contains("reading trace.1.bin, the latest of 2 trace*.bin files here"));
    let refused = ran(&["info", "--rank", "0"], 2).stderr;
    assert!(refused.contains("--rank: applies to a directory of traces"), "{refused}");
}

#[test]
fn an_empty_directory_is_no_job() {
    let place = Place::new();
    std::fs::create_dir(place.join("run")).expect("our own directory");
    let refused = run(&mut place.cutrace(["info", "run"])).expect(3);
    assert!(
        refused.stderr.contains("run: no trace in it (the directory is empty); cutrace record"),
        "{}",
        refused.stderr
    );
    let refused = run(&mut place.cutrace(["report", "run"])).expect(3);
    assert!(refused.stderr.contains("run: no trace in it"), "{}", refused.stderr);
    let refused = run(&mut place.cutrace(["replay", "run/"])).expect(3);
    assert!(refused.stderr.ends_with("; cutrace record -o run/ PROGRAM records some\n"), "{}", refused.stderr);
    let refused = run(&mut place.cutrace(["info", "--rank", "1", "t.bin"])).expect(2);
    assert!(refused.stderr.contains("--rank: applies to a directory of traces"), "{}", refused.stderr);
}

#[test]
fn processes_without_a_rank_are_not_chosen_by_one() {
    let place = Place::new();
    run(&mut record(&place, "\"$0\" return; true", client("ends.c"))).expect(0);
    let asked = ["export", "run/", "--rank", "0", "--to", "chrome", "-o", "rank0.json"];
    let refused = run(&mut place.cutrace(asked)).expect(2);
    let why = "run/: no rank 0; its processes have no ranks; omit --rank to read them all\n";
    assert!(refused.stderr.ends_with(why), "{}", refused.stderr);

    run(&mut record(&place, "\"$0\" return; true", client("ends.c"))).expect(0);
    let alone = run(&mut place.cutrace(["replay", "run/", "--alone", "--recording", "all"])).expect(2);
    assert!(alone.stderr.contains(": 2 traces, expected one: pass run/"), "{}", alone.stderr);
    assert!(alone.stderr.ends_with("; its processes have no ranks\n"), "{}", alone.stderr);
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
    trace::write::finish::finish(&trace::Trace::open(&path).expect("a trace"), |_| Judgement::default())
        .expect("closed");
    assert_eq!(info(&place, 0)["verdict"], "replayable");
    let alone = run(place.cutrace(["info", "--json"]).arg(&path)).expect(0);
    assert_eq!(serde_json::from_str::<Value>(&alone.stdout).expect("JSON")["verdict"], "replayable");
    let repaired = run(place.cutrace(["repair"]).arg(&path)).expect(0).stdout;
    assert!(
        repaired.contains(": closed and complete: ") && repaired.ends_with("\nverdict: replayable\n"),
        "{repaired}"
    );
}

/// A copy that blocks behind a kernel is a wait; one that finds the device idle is none.
#[test]
fn copies_that_wait_are_waits_of_a_rank() {
    let place = Place::new();
    run(&mut record(&place, "\"$0\"; true", client("copy_waits.c"))).expect(0);
    let ran = run(&mut place.cutrace(["report", "run/", "-r", "ranks,cuda_api_trace", "--json"])).expect(0);
    let all: Value = serde_json::from_str(&ran.stdout).expect("JSON");
    let reports = all["reports"].as_array().expect("reports");
    let rows = |name: &str| {
        let found = reports.iter().find(|report| report["report"] == name);
        found.unwrap_or_else(|| panic!("no {name} in {all}"))["rows"].as_array().expect("rows")
    };
    let copy = rows("cuda_api_trace").iter().find(|row| row["Name"] == "cuMemcpyDtoH_v2").expect("the copy");
    assert_eq!(rows("ranks")[0]["waiting_ns"], copy["Duration (ns)"], "{all}");
    assert!(copy["Duration (ns)"].as_i64() > Some(0));
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
    let told = format!("cutrace: process {} has no call in --window: its last call begins at ", short.preamble.pid);
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
    assert!(ran.stderr.contains("--window: beyond the end of the trace: "), "{}", ran.stderr);
}
