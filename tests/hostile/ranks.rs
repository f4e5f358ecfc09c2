//! Ranks that use NCCL are killed, all at once and at any time.

use std::os::unix::fs::FileExt;
use std::process::{Child, Stdio};
use std::time::Duration;
use tests::*;
use trace::Trace;
use trace::read::collective::Operation;

const MOMENTS: u32 = 100;
/// Behind the two communicators of the file that ranks share: how many collectives each has done.
const COUNTS: u64 = 2 * 16384;

/// Two ranks into `run/`, without a `record` that would see them end.
fn started(place: &Place, program: &std::path::Path) -> Vec<Child> {
    let start = |rank: u32| {
        let mut rank_of = place.preloaded(program);
        rank_of.args(["ring", &rank.to_string(), "2", "1000000"]).stdout(Stdio::null());
        rank_of.env("CUTRACE_OUTPUT", "run/").env("NCCL_PROFILER_PLUGIN", artifact("libcutrace.so"));
        rank_of.env("RANK", rank.to_string()).env("RING_VERSION", if rank == 0 { "4" } else { "7" });
        rank_of.spawn().expect("started")
    };
    (0..2).map(start).collect()
}

/// Every operation that NCCL had returned from is there, and every call, whenever the ranks are killed.
#[test]
fn no_operation_is_lost_when_all_ranks_are_killed() {
    let library = client("libring.c");
    let program = client_with("collectives.c", &[library.to_str().expect("a plain path")]);
    let mut seen = 0;
    for moment in 0..MOMENTS {
        let place = Place::new();
        std::fs::create_dir(place.join("run")).expect("our own directory");
        let ring = std::fs::File::options().read(true).write(true).create_new(true).open(place.join("ring"));
        let ring = ring.expect("our own directory");
        ring.set_len(COUNTS + 4096).expect("room");
        let done = |rank: u64| {
            let mut count = [0; 4];
            ring.read_exact_at(&mut count, COUNTS + 4 * rank).expect("its own page");
            u32::from_le_bytes(count) as usize
        };
        let mut ranks = started(&place, &program);
        until("each has done a collective", || done(0).min(done(1)) > 0);
        std::thread::sleep(Duration::from_micros(u64::from(moment) * 300));
        ranks.iter_mut().for_each(|rank| rank.kill().expect("ours"));
        ranks.iter_mut().for_each(|rank| _ = rank.wait().expect("ours"));
        let traces = std::fs::read_dir(place.join("run")).expect("ours").flatten().map(|entry| entry.path());
        let mut traces: Vec<_> = traces.filter(|path| path.is_file()).collect();
        traces.sort();
        assert_eq!(traces.len(), 2, "moment {moment}");
        for (rank, path) in traces.iter().enumerate() {
            let trace = sound(path);
            let of_world = |operation: &Operation| operation.communicator == 1;
            let (told, done) = (trace.operations().into_iter().filter(of_world).count(), done(rank as u64));
            assert!(
                (done..=done + 1).contains(&told),
                "moment {moment}: rank {rank} told of {told}, and had done {done}"
            );
            // A launch of each, and on the second communicator of every fourth.
            let returned = calls_named(&trace, "cuLaunchKernel").iter().filter(|call| call.result == Some(0)).count();
            assert!(returned >= done + done.saturating_sub(1) / 4, "{returned} launches, and {done} were done");
            seen += told;
        }
        if moment % 25 == 0 {
            let report = run(&mut place.cutrace(["report", "run/", "-r", "collectives"])).expect(0).stdout;
            assert!(report.contains("0x1234567890abcdef"), "{report}");
        }
        traces.iter().filter_map(|path| Trace::open(path).ok()).for_each(|trace| trace.release_memory());
    }
    assert!(seen as u32 > 2 * MOMENTS, "{seen} operations");
}
