//! Others change the trace while it is written: the program does not notice.

use std::fs::File;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use tests::*;
use trace::Trace;

fn within<T>(mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let started = Instant::now();
    while started.elapsed() < Duration::from_secs(120) {
        if let Some(found) = look() {
            return Some(found);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    None
}

fn len(path: &Path) -> u64 {
    path.metadata().map_or(0, |found| found.len())
}

/// Runs until the trace has been cut to `to` bytes and is one again; by how it ended, and the trace.
fn cut(command: fn(&Place, &Path) -> Command, threads: &str, to: u64, ends: &str) -> (Place, Outcome, Trace) {
    let (place, program) = (Place::new(), client("cut_short.c"));
    let (trace, stop) = (place.join("trace.bin"), place.join("stop"));
    let ran = std::thread::scope(|scope| {
        let running = scope.spawn(|| run(command(&place, &program).arg(threads).arg(&stop).arg(ends)));
        let began = within(|| (len(&trace) > 1 << 20).then_some(()));
        for _ in 0..5 {
            File::options().write(true).open(&trace).and_then(|file| file.set_len(to)).expect("a trace");
            std::thread::sleep(Duration::from_millis(5));
        }
        let is_again = || Trace::open(&trace).ok().filter(|trace| !trace.is_empty());
        let again = within(|| began.and_then(|()| is_again()).map(|_| ()));
        File::create(&stop).expect("our own directory");
        let ran = running.join().expect("ran");
        assert!(began.is_some() && again.is_some(), "{ran:?}");
        ran
    });
    let trace = Trace::open(&trace).unwrap_or_else(|error| panic!("{error}\n{ran:?}"));
    (place, ran, trace)
}

fn is_unharmed(ran: &Outcome, trace: &Trace, code: i32) {
    assert_eq!((ran.code(), ran.stdout.as_str()), (code, "done\n"), "{}", ran.stderr);
    let told = ran.said().iter().filter(|line| line.contains("its earlier contents are lost")).count();
    assert_eq!(told, 1, "{}", ran.stderr);
    assert!(!trace.is_empty() && trace.calls().all(|call| !call.name().is_empty()));
    let what = "contents of the trace before another process truncated it";
    assert!(trace.losses.iter().any(|(lost, _)| lost == what), "{:?}", trace.losses);
}

#[test]
fn a_recorded_trace_is_emptied() {
    for threads in ["1", "4"] {
        let (place, ran, trace) = cut(|place, program| place.recorded(program), threads, 0, "return");
        is_unharmed(&ran, &trace, 7);
        // Who says what is lost is no thread of the program.
        assert!(trace.footer.is_some(), "{}", ran.stderr);
        assert!(trace.threads.iter().all(|thread| thread.name != "cutrace"), "{:?}", trace.threads);
        let repaired = run(&mut place.cutrace(["repair", "trace.bin"])).stdout;
        assert_eq!(repaired.contains("closed and whole"), !repaired.contains("lost: "), "{repaired}");
    }
}

#[test]
fn a_trace_of_a_bare_preload_is_emptied() {
    for threads in ["1", "4"] {
        let (_place, ran, trace) = cut(|place, program| place.preloaded(program), threads, 0, "return");
        is_unharmed(&ran, &trace, 7);
    }
}

#[test]
fn a_trace_is_cut_in_the_middle() {
    let (_place, ran, trace) = cut(|place, program| place.recorded(program), "4", 600_000, "return");
    is_unharmed(&ran, &trace, 7);
}

/// How many blocks of shared memory are there that this process made.
fn blocks_of(pid: u32) -> usize {
    let all = std::fs::read_to_string("/proc/sysvipc/shm").expect("a Linux with shared memory");
    all.lines().filter(|line| line.split_ascii_whitespace().nth(4) == Some(&pid.to_string())).count()
}

#[test]
fn a_trace_is_emptied_and_its_program_killed() {
    let kill = 128 + libc::SIGKILL;
    let (_place, ran, trace) = cut(|place, program| place.recorded(program), "4", 0, "kill");
    is_unharmed(&ran, &trace, kill);
    let (place, ran, trace) = cut(|place, program| place.preloaded(program), "4", 0, "kill");
    is_unharmed(&ran, &trace, kill);
    assert!(blocks_of(trace.preamble.pid) > 0);
    run(&mut place.cutrace(["repair", "trace.bin"]));
    let closed = Trace::open(place.join("trace.bin")).expect("a trace");
    assert_eq!((closed.len(), closed.footer.is_some(), blocks_of(trace.preamble.pid)), (trace.len(), true, 0));
}

/// By somebody else (systemd's RemoveIPC, ipcrm), or with the process's own IPC namespace (a container). What
/// it did last is in the file as well.
#[test]
fn shared_memory_is_gone_when_the_process_has_ended() {
    for why in ["removed", "namespace"] {
        let place = Place::new();
        let ran = place.unchanged(client("memory_gone.c"), &[why, "3"]).expect(0);
        assert!(ran.said().is_empty(), "{}", ran.stderr);
        let recorded = Trace::open(place.join("record/trace.bin")).expect("a trace");
        for trace in [place.trace(), recorded] {
            assert_eq!((trace.len(), trace.damage.len(), trace.losses.len()), (4 + 3 * 20_001, 0, 0));
        }
    }
}

/// Then chunks are in memory of the process alone, and what is lost with it is said.
#[test]
fn shared_memory_is_refused() {
    let program = client("refused_system_calls.c");
    let commands: [fn(&Place, &Path) -> Command; 2] =
        [|place, program| place.recorded(program), |place, program| place.preloaded(program)];
    for command in commands {
        let place = Place::new();
        let ran = run(command(&place, &program).args(["shmget", "return"])).expect(0);
        assert!(ran.stderr.contains("no shared memory (shmget: "), "{}", ran.stderr);
        assert_eq!(place.trace().len(), 20_004);

        let place = Place::new();
        run(command(&place, &program).args(["shmget", "kill"])).expect(128 + libc::SIGKILL);
        let trace = Trace::open(place.join("trace.bin")).expect("a trace");
        assert!(trace.len() < 20_004);
        let info = run(&mut place.cutrace(["info"]));
        assert!(info.stdout.contains("private memory of the process"), "{}", info.stdout);
    }
}
