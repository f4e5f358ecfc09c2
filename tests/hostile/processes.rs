//! The start and end of processes.

use std::os::unix::fs::PermissionsExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::Duration;
use tests::*;
use trace::Trace;
use trace::base::hash::Hash;
use trace::read::call::Content;

const START: [&str; 4] = ["cuInit", "cuDeviceGet", "cuDevicePrimaryCtxRetain", "cuCtxSetCurrent"];

/// The trace of the process whose second call is of this function.
fn with_second<'a>(traces: &'a [Trace], name: &str) -> &'a Trace {
    traces.iter().find(|t| names(t).get(1) == Some(&name)).unwrap_or_else(|| panic!("no process called {name} second"))
}

#[test]
fn fork_before_the_first_call() {
    let place = Place::new();
    let ran = place.unchanged(client("fork_before.c"), &[""; 0]).expect(0);
    assert_eq!(ran.stderr, "");
    let traces = place.traces();
    assert_eq!(traces.len(), 2);
    let (parent, child) = (with_second(&traces, "cuDriverGetVersion"), with_second(&traces, "cuDeviceGetCount"));
    assert_eq!(names(parent), ["cuInit", "cuDriverGetVersion"]);
    assert_eq!(names(child), ["cuInit", "cuDeviceGetCount"]);
    assert_eq!(child.preamble.parent, parent.preamble.pid);
}

#[test]
fn fork_after_the_first_call() {
    let place = Place::new();
    let ran = place.unchanged(client("fork_after.c"), &[""; 0]).expect(0);
    assert_eq!(ran.stderr, "");
    let traces = place.traces();
    assert_eq!(traces.len(), 2);
    let (parent, child) = (&traces[0], &traces[1]);
    assert_eq!(names(parent), [&START[..], &["cuCtxSynchronize"]].concat());
    assert!(parent.calls().all(|call| call.succeeded()));
    assert_eq!(names(child), ["cuDeviceGetCount", "cuCtxGetCurrent"]);
    assert_eq!(child.calls().map(|call| call.result).collect::<Vec<_>>(), [Some(3), Some(3)]);
    assert_eq!(child.preamble.parent, parent.preamble.pid);
    let info = run(place.cutrace(["info"]).args(place.trace_paths())).expect(0).stdout;
    let said: Vec<&str> = info.lines().filter(|line| line.starts_with("forked ")).collect();
    let had = "which had initialised the driver, which does not work in a forked child";
    let calls = START.len();
    let pid = parent.preamble.pid;
    assert_eq!(said, [format!("forked       of process {pid}, {had}; calls by the thread that forked: {calls}")]);
}

#[test]
fn another_thread_calls_first_after_a_fork() {
    let place = Place::new();
    place.unchanged(client("fork_then_thread.c"), &[""; 0]).expect(0);
    let traces = place.traces();
    let info = run(place.cutrace(["info"]).args(place.trace_paths())).expect(0).stdout;
    let said: Vec<&str> = info.lines().filter(|line| line.starts_with("forked ")).collect();
    let pid = traces[0].preamble.pid;
    let had = "which had initialised the driver, which does not work in a forked child";
    assert_eq!(said, [format!("forked       of process {pid}, {had}")]);
}

#[test]
fn a_child_by_raw_clone() {
    let place = Place::new();
    let ran = place.unchanged(client("raw_clone.c"), &[""; 0]).expect(0);
    assert_eq!(ran.stdout, "7\n");
    let traces = place.traces();
    assert_eq!(traces.len(), 2);
    assert_eq!(names(&traces[0]), [&START[..], &["cuCtxSynchronize"]].concat());
    assert_eq!(names(&traces[1]), ["cuDeviceGetCount"]);
}

fn started_again(way: &str, code: i32, last: &[&str]) {
    let place = Place::new();
    let ran = place.unchanged(client("exec_self.c"), &[way]).expect(code);
    assert_eq!(ran.stderr, "");
    let traces = place.traces();
    assert_eq!(traces.len(), 2);
    assert_eq!(names(&traces[0]), [&["cuInit", "cuDriverGetVersion"], last].concat());
    assert_eq!(names(&traces[1]), ["cuInit", "cuDeviceGetCount"]);
    assert_eq!(traces[0].preamble.pid == traces[1].preamble.pid, way == "exec");
}

#[test]
fn exec() {
    started_again("exec", 9, &[]);
}

#[test]
fn vfork_and_exec() {
    started_again("vfork", 0, &["cuDeviceGetCount"]);
}

#[test]
fn posix_spawn() {
    started_again("spawn", 0, &["cuDeviceGetCount"]);
}

/// Whatever ends a process, every call that returned is in the trace.
fn ended_by(way: &str, code: i32) {
    let place = Place::new();
    let ran = place.unchanged(client("ends.c"), &[way]).expect(code);
    assert_eq!(ran.stderr, "");
    let trace = place.trace();
    assert_eq!(names(&trace), [&START[..], &["cuMemAlloc_v2", "cuMemsetD8_v2"]].concat());
    assert!(trace.calls().all(|call| call.succeeded()));
}

#[test]
fn return_from_main() {
    ended_by("return", 13);
}

#[test]
fn underscore_exit() {
    ended_by("_exit", 11);
}

#[test]
fn quick_exit() {
    ended_by("quick_exit", 12);
}

#[test]
fn abort() {
    ended_by("abort", 128 + libc::SIGABRT);
}

#[test]
fn a_fault_of_the_program() {
    ended_by("fault", 128 + libc::SIGSEGV);
}

#[test]
fn sigkill() {
    ended_by("kill", 128 + libc::SIGKILL);
}

/// The threads of the recorder's own end with the program's last, and what is done at the end is done.
#[test]
fn pthread_exit_in_main() {
    for arguments in [&[][..], &["copies"]] {
        let place = Place::new();
        let ran = place.unchanged(client("main_thread_ends.c"), arguments).expect(0);
        assert_eq!(ran.stdout, "worked\nended\n");
        let trace = place.trace();
        let work = ["cuCtxSetCurrent", "cuMemAlloc_v2", "cuMemcpyHtoD_v2", "cuMemFree_v2"];
        assert!(names(&trace).ends_with(&work), "{:?}", names(&trace));
        assert!(trace.calls().all(|call| call.succeeded()));
    }
}

fn killed_in_call(place: &Place, command: fn(&Place, &Path) -> std::process::Command) -> Outcome {
    let program = client("killed_in_call.c");
    run(command(place, &program).env("CUTRACE_SIM_SLOW_US", "30000000")).expect(128 + libc::SIGKILL)
}

#[test]
fn sigkill_in_the_middle_of_a_call() {
    let place = Place::new();
    let bare = killed_in_call(&place, |place, program| place.bare(program));
    let recorded = killed_in_call(&place, |place, program| place.preloaded(program));
    place.same(&bare, &recorded);
    let trace = place.trace();
    assert_eq!(names(&trace), [&START[..], &["cuCtxSynchronize"]].concat());
    let last = trace.calls().last().expect("a call");
    assert_eq!((last.end, last.result), (None, None));
    assert!(trace.calls().take(START.len()).all(|call| call.succeeded()));
}

#[test]
fn calls_after_main() {
    let place = Place::new();
    let ran = place.unchanged(client("call_after_main.c"), &[""; 0]).expect(0);
    assert_eq!(ran.stderr, "");
    assert_eq!(names(&place.trace()), ["cuInit", "cuDeviceGetCount", "cuDriverGetVersion"]);
}

/// The destructors of libraries run after ours, where those are not preloaded.
#[test]
fn calls_in_a_destructor_of_a_library() {
    let place = Place::new();
    let library = client("libcalls_at_unload.c");
    let program = client_with("calls_after_us.c", &[library.to_str().expect("a plain path")]);
    let ran = place.unchanged(program, &[""; 0]).expect(0);
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("1\n", ""));
    let recorded = Trace::open(place.join("record/trace.bin")).expect("a trace");
    for trace in [place.trace(), recorded] {
        let names = names(&trace);
        assert_eq!(names[..START.len() + 1], [&START[..], &["cuDeviceGetCount"]].concat());
        assert_eq!(names.len(), START.len() + 1 + 50_000);
    }
}

#[test]
fn fork_while_other_threads_call() {
    let place = Place::new();
    let ran = place.unchanged(client("fork_storm.c"), &[""; 0]).expect(0);
    assert_eq!(ran.stdout, "20 children\n");
    assert_eq!(ran.stderr, "");
    let traces = place.traces();
    assert_eq!(traces.len(), 21);
    for child in &traces[1..] {
        assert_eq!(names(child), ["cuDeviceGetCount"]);
        assert_eq!(child.preamble.parent, traces[0].preamble.pid);
    }
    assert!(traces[0].calls().all(|call| call.succeeded()));
}

#[test]
fn fork_within_a_call() {
    let place = Place::new();
    place.unchanged(client("fork_in_call.c"), &[""; 0]).expect(0);
    let traces = place.traces();
    assert_eq!(traces.len(), 2);
    let last = ["cuOccupancyMaxPotentialBlockSize", "cuCtxGetCurrent", "cuCtxGetDevice"];
    assert_eq!(names(&traces[0])[6..], last);
    assert!(traces[0].calls().all(|call| call.succeeded()));
    // The call in which it came into being is its parent's.
    assert_eq!(names(&traces[1]), ["cuDeviceGetCount"]);
    assert!(traces[1].calls().all(|call| !call.inner && call.result == Some(3)));
}

#[test]
fn sigkill_at_any_time() {
    let program = client("many_threads.c");
    for round in 0..12 {
        let place = Place::new();
        let running = begin(place.preloaded(&program).args(["8", "1000", "2000"]));
        // The first ones maybe before they have made a call.
        if round > 3 {
            until("it calls", || Trace::open(place.join("trace.bin")).is_ok_and(|trace| trace.len() > 1000));
        }
        std::thread::sleep(Duration::from_millis(30 + 13 * round));
        running.send(libc::SIGKILL);
        running.end().expect(128 + libc::SIGKILL);
        // Killed before it had said what it is, or made no call yet: nothing to be read.
        let Some(path) = place.trace_paths().pop().filter(|path| Trace::open(path).is_ok()) else { continue };
        let trace = sound(path);
        assert!(round <= 3 || trace.len() > 1000, "{} calls", trace.len());
        let mut next = vec![0; trace.threads.len()];
        let mut open = vec![None; trace.threads.len()];
        for call in trace.calls() {
            let thread = call.thread as usize;
            assert_eq!(call.sequence, next[thread], "a call of thread {thread} is missing");
            assert_eq!(open[thread], None, "a call came after one that did not return");
            next[thread] += 1;
            open[thread] = call.result.is_none().then_some(call.sequence);
        }
    }
}

/// What the calls of a trace name: pieces of data in the file.
fn named(trace: &Trace) -> Vec<Hash> {
    let images = trace.calls().flat_map(|call| call.images().collect::<Vec<_>>());
    images.filter_map(|image| if let Content::Blob(hash) = image.content { Some(hash) } else { None }).collect()
}

/// What a record names is in the file, however many threads were just writing there.
#[test]
fn sigkill_among_payloads() {
    let program = client("long_payloads.c");
    for round in 0..4 {
        let place = Place::new();
        let running = begin(&mut place.preloaded(&program));
        until("it copies", || Trace::open(place.join("trace.bin")).is_ok_and(|trace| !named(&trace).is_empty()));
        std::thread::sleep(Duration::from_millis(170 * round));
        running.send(libc::SIGKILL);
        running.end().expect(128 + libc::SIGKILL);
        let trace = place.trace();
        for hash in named(&trace) {
            assert_eq!(trace.blob(hash).map(Hash::compute), Some(hash));
        }
    }
}

#[test]
fn threads_for_payloads_come_with_the_first() {
    let place = Place::new();
    let report = place.join("report");
    place.unchanged(client("long_payloads.c"), &[&report]).expect(0);
    let processors = std::thread::available_parallelism().expect("known").get();
    let counts = format!("0\n{}\n0\n", (processors - 1).min(4));
    assert_eq!(std::fs::read_to_string(report).expect("written by the program"), counts);
}

/// A program hangs; its trace tells where, while it hangs.
#[test]
fn a_trace_is_read_while_its_program_hangs() {
    let place = Place::new();
    let out = std::fs::File::create(place.join("out")).expect("a file");
    let mut child = place.preloaded(client("hangs.c")).stdout(out).spawn().expect("started");
    let mut info = serde_json::Value::Null;
    let hangs = catch_unwind(AssertUnwindSafe(|| {
        until("the program hangs in its second wait", || {
            // What is read later than it says so is its second wait.
            let is_there = std::fs::read_to_string(place.join("out")).is_ok_and(|out| out == "hanging\n");
            if is_there {
                let ran = run(&mut place.cutrace(["info", "--json"]));
                info = serde_json::from_str(&ran.stdout).unwrap_or_default();
            }
            info["unfinished"]["inside"].as_array().is_some_and(|all| !all.is_empty())
        })
    }));
    let text = run(&mut place.cutrace(["info"]));
    child.kill().and_then(|()| child.wait()).expect("ours");
    assert!(hangs.is_ok());
    assert_eq!(info["unfinished"]["inside"][0]["function"], "cuStreamSynchronize");
    let pending = &info["unfinished"]["pending"];
    assert_eq!(pending[0]["stream"], "stream#1", "{pending}");
    assert_eq!(pending[0]["submissions"], 2, "{pending}");
    assert_eq!(pending[0]["calls"][0]["kernel"], "wait_for_host", "{pending}");
    assert!(text.stdout.contains("unfinished: thread t0"), "{}", text.stdout);
    assert!(text.stdout.contains("of wait_for_host"), "{}", text.stdout);
}

/// The new user may not write where the launcher is told of traces.
#[test]
fn privileges_are_given_up_before_the_first_call() {
    // SAFETY: a question.
    if unsafe { libc::geteuid() } != 0 {
        eprintln!("skipped: only root can give up privileges");
        return;
    }
    let place = Place::new();
    std::fs::set_permissions(place.path(), std::fs::Permissions::from_mode(0o777)).expect("our own directory");
    let ran = run(&mut place.recorded(client("privileges_given_up.c"))).expect(0);
    assert_eq!(ran.stdout, "done\n");
    assert_eq!(ran.said().len(), 1, "{}", ran.stderr);
    assert!(ran.stderr.starts_with("cutrace: trace.bin: 704 calls, "), "{}", ran.stderr);
    assert!(place.trace().footer.is_some());
}

#[test]
fn a_recording_that_could_not_begin_is_no_program_without_calls() {
    let place = Place::new();
    let mut record = place.recorded(client("refused_system_calls.c"));
    // The simulated driver cannot do without either.
    let ran = run(record.args(["madvise", "return"])).expect(99);
    let [line] = ran.said()[..] else { panic!("{}", ran.stderr) };
    assert!(line.contains("called the CUDA driver, but nothing was recorded: MADV_WIPEONFORK: "), "{line}");
    assert!(!ran.stderr.contains("made no CUDA driver call"), "{}", ran.stderr);
    place.no_traces();
}
