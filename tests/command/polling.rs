//! Programs that poll: a run of equal polls is one call in the trace, and counts as many wherever calls are
//! counted.

use serde_json::Value;
use std::process::Command;
use tests::*;
use trace::Trace;
use trace::file::segment::Kind;

/// What the program counted: calls of cuEventQuery and of cuStreamQuery.
fn told<const N: usize>(stdout: &str) -> [u64; N] {
    let counts: Vec<u64> = stdout.split_whitespace().map(|count| count.parse().expect("a number")).collect();
    counts.try_into().expect("as many counts")
}

fn polling(place: &Place, how: &str) -> Command {
    let mut record = place.recorded(client("polling.c"));
    record.arg(how);
    record
}

fn lines(stdout: &str) -> Vec<Value> {
    stdout.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

const NAMES: [&str; 2] = ["cuEventQuery", "cuStreamQuery"];

/// Every command that counts calls says what the program did.
#[track_caller]
fn all_count(place: &Place, made: [u64; 2]) {
    let command = |arguments: &[&str]| run(&mut place.cutrace(arguments)).expect(0).stdout;
    let info: Value = serde_json::from_str(&command(&["info", "--json"])).expect("JSON");
    let exported = lines(&command(&["export", "--to", "jsonl", "-o", "-"]));
    let sums: Value = serde_json::from_str(&command(&["report", "-r", "cuda_api_sum,sync", "--json"])).expect("JSON");
    let (trace, dump) = (Trace::open(place.join("trace.bin")).expect("readable"), command(&["dump"]));
    for (name, made) in NAMES.into_iter().zip(made).filter(|(_, made)| *made > 0) {
        assert_eq!(info["functions"][name], made, "{info}");
        let times = |line: &Value| 1 + line["repeats"]["calls"].as_u64().unwrap_or(0);
        let of_name = exported.iter().filter(|line| line["function"] == name);
        assert_eq!(of_name.clone().map(times).sum::<u64>(), made);
        let took = |line: &Value| {
            let all = [&line["duration_ns"], &line["repeats"]["duration_ns"]];
            all.map(|ns| ns.as_i64().unwrap_or(0)).iter().sum::<i64>()
        };
        let took: i64 = of_name.map(took).sum();
        let rows = |report: &str, name_at: &str| -> Vec<Value> {
            let tables = sums["reports"].as_array().expect("tables");
            let table = tables.iter().find(|table| table["report"] == report).expect("one of those asked for");
            let rows = table["rows"].as_array().expect("rows");
            rows.iter().filter(|row| row[name_at] == name).cloned().collect()
        };
        let [sum] = &rows("cuda_api_sum", "Name")[..] else { panic!("{sums}") };
        assert_eq!((&sum["Num Calls"], &sum["Total Time (ns)"]), (&made.into(), &took.into()), "{sums}");
        let waits: u64 = rows("sync", "function").iter().filter_map(|row| row["calls"].as_u64()).sum();
        assert_eq!(waits, made, "{sums}");
        let shown = dump.lines().filter(|line| line.contains(name)).map(|line| {
            let more = line.split(", and ").nth(1).map_or(0, |more| match more.split(' ').next().expect("a word") {
                "once" => 1,
                count => count.replace(',', "").parse().expect("a number"),
            });
            1 + more
        });
        assert_eq!(shown.sum::<u64>(), made, "{dump}");
    }
    assert_eq!(info["calls"], trace.calls_made());
    let calls = |thread: &Value| thread["calls"].as_u64().expect("a number");
    let of_threads: u64 = info["threads"].as_array().expect("a list").iter().map(calls).sum();
    assert_eq!(of_threads, trace.calls_made());
}

#[test]
fn equal_polls_are_one_call_that_counts_as_many() {
    let place = Place::new();
    let ran = run(&mut polling(&place, "e")).expect(0);
    let made = told(&ran.stdout);
    assert!(made[0] > 100_000);
    all_count(&place, made);
    let trace = place.trace();
    let closing = format!("{} calls", grouped(trace.calls_made()));
    assert!(ran.said().iter().any(|line| line.contains(&closing)), "{}", ran.stderr);
    let chunks = trace.segments.iter().filter(|(_, header)| header.kind == Kind::Chunk);
    let bytes: u64 = chunks.map(|(_, header)| header.length).sum();
    assert!(trace.len() < 50 && bytes < 8 << 10, "{} calls, {bytes} bytes", trace.len());
    let seen = run(&mut place.cutrace(["view", "--once", "--view", "api", "--color", "never"])).expect(0).stdout;
    let row = seen.lines().find(|line| line.contains("cuEventQuery")).expect("a row");
    assert!(row.contains(&grouped(made[0])), "{seen}");
    // By the index that is there now.
    let run_of = trace.calls().find(|call| call.count() == 100_000).expect("a run").number.to_string();
    let seen = run(&mut place.cutrace(["view", "--once", "--at", &run_of, "--color", "never"])).expect(0).stdout;
    assert!(seen.contains("99,999 further calls with the same result"), "{seen}");
    let replayed = run(&mut place.cutrace(["replay", "--driver", "sim"])).expect(0).stdout;
    assert!(is_verified(&replayed), "{replayed}");
}

/// `1234567` as `1,234,567`.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let groups: Vec<&str> =
        digits.as_bytes().rchunks(3).rev().map(|g| std::str::from_utf8(g).expect("digits")).collect();
    groups.join(",")
}

#[test]
fn a_run_ends_with_another_question_or_answer_and_is_a_threads_own() {
    for (how, most) in [("c", 60), ("t", 60)] {
        let place = Place::new();
        let made = told(&run(&mut polling(&place, how)).expect(0).stdout);
        assert!(made[0] > 200_000);
        all_count(&place, made);
        let trace = place.trace();
        assert!(trace.len() < most, "{how}: {} calls", trace.len());
        for thread in 0..trace.threads.len() as u32 {
            let own: Vec<_> = trace.calls().filter(|call| call.thread == thread).collect();
            let follows = |pair: &[trace::Call]| pair[0].last_end().is_some_and(|end| end <= pair[1].begin);
            assert!(own.windows(2).all(follows), "{how}: calls of t{thread} overlap");
        }
        let unlike = trace.calls().filter(|call| call.name() == "cuEventQuery" && call.succeeded()).count();
        assert_eq!(unlike, 1, "the answer that was another");
        let replayed = run(&mut place.cutrace(["replay", "--driver", "sim"])).expect(0).stdout;
        assert!(is_verified(&replayed), "{replayed}");
    }
}

#[test]
fn that_all_is_done_is_told_once_by_a_thread_that_is_alone() {
    let place = Place::new();
    let made: [u64; 2] = told(&run(&mut polling(&place, "d")).expect(0).stdout);
    assert!(made[0] > 100_000);
    let trace = place.trace();
    assert!(trace.len() < 100, "{} calls", trace.len());
    let polled: u64 = calls_named(&trace, "cuEventQuery").iter().map(|call| call.count()).sum();
    assert_eq!(polled, made[0]);
}

#[test]
fn a_process_that_is_killed_keeps_the_count() {
    let place = Place::new();
    let made = told(&run(place.preloaded(client("polling.c")).args(["k", "77777"])).stdout);
    assert_eq!(made, [77_777, 0]);
    // Open, closed, redacted.
    all_count(&place, made);
    run(&mut place.cutrace(["repair", "trace.bin"])).expect(0);
    all_count(&place, made);
    run(&mut place.cutrace(["redact", "trace.bin", "-o", "shown.bin"])).expect(0);
    assert_eq!(sound(place.join("shown.bin")).calls_made(), sound(place.join("trace.bin")).calls_made());
}

/// Whatever it is doing just then: a call more or less is one that was under way.
#[test]
fn a_process_that_is_killed_inside_a_poll_keeps_what_it_reached() {
    for microseconds in (0..10).map(|n| 2000 + n * 777) {
        let place = Place::new();
        run(place.preloaded(client("polling.c")).args(["b", &microseconds.to_string()]));
        let asked = std::fs::read(place.join("asked")).unwrap_or_default();
        let asked = asked.try_into().map_or(0, u64::from_ne_bytes);
        let trace = place.trace();
        let polls = calls_named(&trace, "cuEventQuery");
        let counted: u64 = polls.iter().map(|call| call.count()).sum();
        let inside = polls.iter().filter(|call| call.inside_since().is_some()).count() as u64;
        let returned = counted - polls.iter().filter(|call| call.end.is_none()).count() as u64;
        assert!(
            (asked..=asked + 1).contains(&returned) && inside <= 1,
            "{asked} asked, {counted} counted, {inside} inside"
        );
        let info: Value = serde_json::from_str(&run(&mut place.cutrace(["info", "--json"])).stdout).expect("JSON");
        assert_eq!(info["in_flight"], inside, "{info}");
    }
}

/// Which context is current, and what a device can do, runtimes ask again and again.
#[test]
fn equal_questions_are_one_call_that_counts_as_many() {
    let place = Place::new();
    let made: [u64; 3] = told(&run(&mut place.recorded(client("asking.c"))).expect(0).stdout);
    let info = run(&mut place.cutrace(["info", "--json"])).expect(0).stdout;
    let info: Value = serde_json::from_str(&info).expect("JSON");
    for (name, made) in ["cuCtxGetCurrent", "cuDeviceGetAttribute", "cuCtxGetDevice"].into_iter().zip(made) {
        assert_eq!(info["functions"][name], made, "{info}");
    }
    let trace = place.trace();
    let counts = |name| calls_named(&trace, name).iter().map(|call| call.count()).collect::<Vec<_>>();
    let in_turn = [1, 499, 4, 4, 4];
    // Across launches and other queries, once the kernel is known, and no more than 64 of them.
    let across = [1, 1, 48, 51, 51, 48];
    assert_eq!(
        counts("cuCtxGetCurrent"),
        [&[1000, 10, 10, 1, 1, 1][..], &in_turn, &[1], &across].concat(),
        "failures stand for themselves"
    );
    assert_eq!(counts("cuDeviceGetAttribute")[..2], [1002, 1000], "wherever the answer goes");
    assert_eq!(counts("cuCtxGetDevice"), [&in_turn[..], &across].concat());
    assert_eq!(counts("cuStreamQuery"), [1, 100], "a poll has no others beside it");
    let own: Vec<_> = trace.calls().filter(|call| call.thread == 0).collect();
    let follows = |pair: &[trace::Call]| pair[0].end.is_some_and(|end| end <= pair[1].begin);
    assert!(own.windows(2).all(follows), "calls of t0 overlap");
    let turns = calls_named(&trace, "cuCtxGetDevice");
    let next = trace.calls().find(|call| call.thread == turns[1].thread && call.begin > turns[1].begin).expect("one");
    assert_eq!(turns[1].last_end(), Some(next.begin), "of what is asked in turn each lasts until the next");
    let replayed = run(&mut place.cutrace(["replay", "--driver", "sim"])).expect(0).stdout;
    assert!(is_verified(&replayed), "{replayed}");
}
