//! `record --max-size`: recording ends before its file is too long, and the program continues.

use tests::*;
use trace::Trace;

const LIMIT: u64 = 3_000_000;

/// It ended at the limit: what came before is whole, and what came later is counted.
#[track_caller]
fn is_cut_at_the_limit(place: &Place, ran: &Outcome, made: u64) -> Trace {
    let trace = place.trace();
    let told: Vec<&str> = ran.said().into_iter().filter(|line| line.contains("recording is off: ")).collect();
    assert!(matches!(told[..], [line] if line.ends_with("the size limit of 3M is reached; the program goes on")));
    let size = place.join("trace.bin").metadata().expect("a file").len();
    assert!(size <= LIMIT && size > LIMIT / 2, "{size}");
    // Of threads that record nothing the last thousand may not be told.
    let (limit, beyond) = trace.size_limit_reached().expect("it says so");
    let all = trace.calls_made() + beyond;
    assert!(limit == "3M" && (made - 1024..=made + 1).contains(&all), "{} and {beyond} of {made}", trace.calls_made());
    let info = run(&mut place.cutrace(["info"])).expect(0).stdout;
    let why = format!("recording ended at its size limit of 3M, after {} calls", trace.calls_made());
    assert!(
        info.contains(&format!(
            "verdict: partly replayable\n  {why}: at least this many later calls are missing ({beyond})\n"
        )),
        "{info}"
    );
    assert!(!info.contains("unfinished: "), "{info}");
    trace
}

#[test]
fn calls_fill_the_trace() {
    let (place, program) = (Place::new(), client("many_calls.c"));
    let ran =
        run(place.cutrace(["record", "--driver", "sim", "--max-size", "3M"]).arg(&program).arg("300000")).expect(0);
    assert_eq!(ran.stdout, "done\n");
    let trace = is_cut_at_the_limit(&place, &ran, 300_004);
    assert!(trace.footer.is_some());
    let closing = "partly replayable (recording ended at its size limit of 3M, after ";
    assert!(ran.stderr.contains(closing), "{}", ran.stderr);

    let place = Place::new();
    let ran = run(place.preloaded(&program).arg("300000").env("CUTRACE_MAX_SIZE", "3M")).expect(0);
    assert_eq!(ran.stdout, "done\n");
    is_cut_at_the_limit(&place, &ran, 300_004);
}

#[test]
fn data_fill_the_trace() {
    let place = Place::new();
    let mut record = place.cutrace(["record", "--driver", "sim", "--max-size", "3000K", "--"]);
    let ran = run(record.env("CUTRACE_MAX_SIZE", "5M").arg(client("copies_blocks.c")).arg("100")).expect(0);
    assert_eq!(ran.stdout, "100 blocks\n");
    let trace = place.trace();
    assert!(place.join("trace.bin").metadata().expect("a file").len() <= LIMIT);
    // The copy whose bytes there was no room for has not returned; all others are checked.
    let copied = calls_named(&trace, "cuMemcpyDtoH_v2").len();
    assert!((20..100).contains(&copied), "{copied}");
    assert!(trace.calls().last().is_some_and(|call| call.result.is_none() && call.name() == "cuMemcpyHtoD_v2"));
    assert!(trace.losses.iter().all(|(what, _)| what.starts_with("calls beyond the size limit")), "{:?}", trace.losses);
    let replayed = run(&mut place.cutrace(["replay", "--driver", "sim"])).expect(0).stdout;
    assert!(is_verified(&replayed) && replayed.contains(&format!("{copied} copies to the host")));
    assert!(replayed.contains("recording ended at its size limit of 3000K, after "), "{replayed}");
}

#[test]
fn threads_fill_the_trace() {
    let (place, program) = (Place::new(), client("many_threads.c"));
    let ran = run(place.preloaded(&program).args(["4", "2", "20000"]).env("CUTRACE_MAX_SIZE", "3M")).expect(0);
    assert_eq!(ran.stdout, "done\n");
    // Threads of the second round record nothing.
    let trace = place.trace();
    let beyond = trace.size_limit_reached().expect("it says so").1;
    let all = trace.calls_made() + beyond;
    assert!((160_003 - 8 * 1024..=160_003 + 8).contains(&all), "{all}");
    assert!(place.join("trace.bin").metadata().expect("a file").len() <= LIMIT);
}

#[test]
fn a_trace_with_room_is_whole() {
    let place = Place::new();
    run(place.cutrace(["record", "--driver", "sim", "--max-size", "1G"]).arg(client("many_calls.c")).arg("10"))
        .expect(0);
    let info = run(&mut place.cutrace(["info"])).expect(0).stdout;
    assert!(info.contains("size limit   1G\n") && info.contains("verdict: replayable\n"), "{info}");
}

#[test]
fn no_size() {
    let (place, program) = (Place::new(), client("many_calls.c"));
    for wrong in ["", "0", "999K", "-5", "1.5G", "500MB", "99999999999T"] {
        let ran = run(place.cutrace(["record", "--driver", "sim", "--max-size", wrong]).arg(&program)).expect(2);
        assert!(ran.stderr.contains("expected a size of 1M or more: 500M, 2G, 1Gi"), "{}", ran.stderr);
    }
    place.no_traces();
    let ran = run(place.preloaded(&program).arg("10").env("CUTRACE_MAX_SIZE", "5 MB")).expect(0);
    let told = "cutrace: CUTRACE_MAX_SIZE=\"5 MB\": expected a size of 1M or more (500M, 2G); ignored";
    assert_eq!(ran.said(), [told]);
    assert_eq!(place.trace().len(), 14);
}
