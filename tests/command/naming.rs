//! The default traces of a command, and the default driver of a replay.

use serde_json::Value;
use tests::*;

fn json(ran: &Outcome) -> Value {
    serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran:?}"))
}

#[test]
fn the_latest_trace_is_read() {
    let place = Place::new();
    for app in ["vector_add.c", "streams_events.c", "no_arguments.c"] {
        run(&mut place.recorded(client(app))).expect(0);
    }
    // Neither a later change of another one nor its number makes it the latest, nor does what has another
    // name.
    std::fs::copy(place.join("trace.bin"), place.join("trace.x.bin")).expect("a copy");
    std::fs::rename(place.join("trace.1.bin"), place.join("trace.12.bin")).expect("our own directory");
    let file = std::fs::File::options().write(true).open(place.join("trace.bin")).expect("a trace");
    file.set_modified(std::time::SystemTime::now()).expect("our own file");
    std::os::unix::fs::symlink("/dev/null", place.join("trace.20.bin")).expect("a link");
    std::os::unix::fs::symlink("/proc/self/stat", place.join("trace.21.bin")).expect("a link");
    std::fs::create_dir(place.join("trace.22.bin")).expect("a directory");
    let told = "cutrace: no trace given: reading trace.2.bin, the latest of 3 trace*.bin files here\n";
    for reader in [&["info"][..], &["dump"], &["report"], &["view"], &["export", "--to", "jsonl", "-o", "-"]] {
        let ran = run(&mut place.cutrace(reader)).expect(0);
        assert_eq!(ran.stderr, told, "{reader:?}");
        let named = run(place.cutrace(reader).arg("trace.2.bin")).expect(0);
        assert_eq!((ran.stdout, ""), (named.stdout, &*named.stderr), "{reader:?}");
    }
    let ran = run(&mut place.cutrace(["replay", "--driver", "sim"])).expect(0);
    assert_eq!(ran.stderr, told);
    // A broken one is the latest all the same.
    std::fs::write(place.join("trace.3.bin"), "no trace").expect("written");
    let ran = run(&mut place.cutrace(["info"])).expect(3);
    assert!(ran.stderr.contains("cutrace: trace.3.bin: not a cutrace trace"), "{}", ran.stderr);
}

#[test]
fn of_several_processes_the_first_is_read_and_all_can_be() {
    let place = Place::new();
    run(&mut place.recorded(client("vector_add.c"))).expect(0);
    run(&mut place.recorded(client("fork_before.c"))).expect(0);
    let ran = run(&mut place.cutrace(["info"])).expect(0);
    assert!(ran.stdout.contains("\ntrace        trace.1.bin "), "{ran:?}");
    let all = ["trace.1.bin", "trace.2.bin"];
    let info = run(place.cutrace(["info"]).args(all)).expect(0).stdout;
    assert_eq!(info.matches("\ntrace        ").count(), 2, "{info}");
    let told = json(&run(place.cutrace(["info", "--json"]).args(all)).expect(0));
    let pids: Vec<u64> = [0, 1].map(|n| told["traces"][n]["program"]["pid"].as_u64().expect("a number")).into();
    let report = run(place.cutrace(["report"]).args(all)).expect(0).stdout;
    for (pid, name) in pids.iter().zip(all) {
        assert!(report.contains(&format!("process {pid} ")) && report.contains(&format!("({name})\n")), "{report}");
    }
    assert_eq!(report.matches("\nWhat ran\n").count(), 2, "{report}");
    let told = json(&run(place.cutrace(["report", "-r", "sync", "--json"]).args(all)).expect(0));
    assert_eq!([0, 1].map(|n| told[n]["trace"]["pid"].as_u64()), [Some(pids[0]), Some(pids[1])]);
    let csv = run(place.cutrace(["report", "-r", "cuda_api_sum", "--format", "csv"]).args(all)).expect(0).stdout;
    assert_eq!(csv.lines().filter(|line| line.starts_with("# process ")).count(), 2, "{csv}");
    // What is wrong with one of them is wrong.
    std::fs::write(place.join("trace.2.bin"), "no trace").expect("written");
    run(place.cutrace(["info"]).args(all)).expect(3);
    let ran = run(place.cutrace(["view", "--once"]).args(all).arg("trace.bin")).expect(2);
    assert!(
        ran.stderr.contains("one trace, two to compare") && ran.stderr.contains("cutrace report FILE..."),
        "{}",
        ran.stderr
    );
}

#[test]
fn a_script_reads_why_there_is_no_result() {
    let place = Place::new();
    run(&mut place.recorded(client("vector_add.c"))).expect(0);
    for (arguments, status) in [
        (&["info", "missing.bin", "--json"][..], 3),
        (&["dump", "--json", "--calls", "999.."], 2),
        (&["report", "--format", "json", "--thread", "t9"], 2),
        (&["replay", "--json", "--driver", "missing.so"], 5),
        (&["redact", "--json", "-o", "trace.bin", "--force"], 2),
    ] {
        let ran = run(&mut place.cutrace(arguments)).expect(status);
        let told = json(&ran);
        let message = told["error"]["message"].as_str().expect("text");
        assert_eq!(told["error"]["status"], status, "{arguments:?}");
        assert!(ran.stderr.ends_with(&format!("cutrace: {message}\n")), "{ran:?}");
    }
    // And what is wrong with what was asked.
    for (arguments, why) in [
        (&["report", "-r", "nosuch", "--json"][..], "nosuch"),
        (&["export", "--json", "--to", "bad", "-o", "out"], "bad"),
        (&["redact", "--json"], "--output"),
    ] {
        let told = json(&run(&mut place.cutrace(arguments)).expect(2));
        assert!(told["error"]["message"].as_str().is_some_and(|message| message.contains(why)), "{told}");
    }
    assert_eq!(run(&mut place.cutrace(["report", "-r", "nosuch"])).expect(2).stdout, "");
}

#[test]
fn one_of_several_that_is_missing_leaves_no_half_a_document() {
    let place = Place::new();
    run(&mut place.recorded(client("vector_add.c"))).expect(0);
    for reader in ["info", "report"] {
        let ran = run(&mut place.cutrace([reader, "--json", "trace.bin", "missing.bin"])).expect(3);
        let document: Value = serde_json::from_str(&ran.stdout).expect("one document");
        assert!(document.to_string().contains("trace.bin"), "{reader}: {document}");
        assert!(ran.stderr.starts_with("cutrace: missing.bin: No such file"), "{reader}: {}", ran.stderr);
        let none = run(&mut place.cutrace([reader, "--json", "missing.bin", "gone.bin"])).expect(3);
        let document: Value = serde_json::from_str(&none.stdout).expect("one document");
        assert!(document["error"].to_string().contains("gone.bin"), "{reader}: {document}");
    }
}

#[test]
fn what_concerns_the_replay_alone_is_said_if_asked_for() {
    let place = Place::new();
    run(&mut place.recorded(client("vector_add.c"))).expect(0);
    let calls = place.trace().len();
    let plain = run(&mut place.cutrace(["replay"])).expect(0).stdout;
    assert!(plain.contains(&format!("\n  replayed     {calls} calls in ")), "{plain}");
    assert!(plain.contains("\n  memory       3 allocations at their recorded addresses\n"), "{plain}");
    let more = "6 calls of them emulated: allocations and frees that keep the recorded addresses\n";
    assert!(!plain.contains(more), "{plain}");
    let said = run(&mut place.cutrace(["replay", "-v"])).expect(0).stdout;
    assert!(said.contains(more), "{said}");
}

#[test]
fn a_limit_leaves_what_is_no_list_whole() {
    let place = Place::new();
    run(&mut place.recorded(client("wasteful.c"))).expect(0);
    let ran = |report: &str| report.split("\n\n").next().map(str::to_owned);
    let [whole, limited] =
        [&["report"][..], &["report", "--limit", "2"]].map(|report| run(&mut place.cutrace(report)).expect(0).stdout);
    assert_eq!(ran(&whole), ran(&limited));
    assert!(limited.len() < whole.len() && limited.contains(" rows more)"), "{limited}");
}

#[test]
fn a_trace_of_the_simulated_driver_is_replayed_on_it() {
    let place = Place::new();
    run(&mut place.recorded(client("vector_add.c"))).expect(0);
    run(&mut place.cutrace(["redact", "-o", "redacted.bin"])).expect(0);
    for file in ["trace.bin", "redacted.bin"] {
        let ran = run(&mut place.cutrace(["replay", file])).expect(0);
        assert!(is_verified(&ran.stdout), "{ran:?}");
        assert_eq!(ran.stderr, "cutrace: replaying on the simulated driver, as recorded (--driver chooses another)\n");
        // Another one that is named is taken.
        let ran = run(&mut place.cutrace(["replay", file, "--driver", "missing.so"])).expect(5);
        assert!(ran.stderr.contains("missing.so (--driver): no such file"), "{}", ran.stderr);
        let ran = run(place.cutrace(["replay", file]).env("CUTRACE_LIBCUDA", "missing.so")).expect(5);
        assert!(ran.stderr.contains("missing.so (CUTRACE_LIBCUDA)"), "{}", ran.stderr);
    }
    run(&mut place.cutrace(["replay", "--profile", "-o", "timed.bin"])).expect(0);
}
