//! Forged traces: whatever a trace says, each command that reads it ends with one of its own statuses, in
//! time, and within bounded memory. (tests/replay/fuzz.rs has their replays.)
//!
//! A few run with a fixed seed. To run for hours by hand:
//!
//!     FUZZ_SEED=1 FUZZ_RUNS=100000 cargo test -p tests --test command fuzz
//!
//! Failing traces stay in target/debug/fuzz, named by trace and seed. tests/FUZZING.md lists the runs so far.

use std::collections::HashMap;
use std::os::unix::process::CommandExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use tests::forge::Forge;
use tests::mutate::{Random, mutate, seeds};
use tests::mutate_index::Index;
use tests::mutate_names::mutate_names;
use tests::mutate_packed::mutate_packed;
use tests::mutate_segments::mutate_segments;
use tests::*;
use trace::Trace;
use viewer::data::open::Opened;

/// Kept traces, with device times, annotations, graphs, code, errors and polls.
const KEPT: &[&str] = &[
    "golden/vector_add.bin",
    "golden/linking.bin",
    "golden/failing_calls.bin",
    "golden/graphs_recorded.bin",
    "golden/polling.bin",
    "data/torch_nvtx.bin",
];

/// Recorded now, and left open: what the CPU wrote without a call, callbacks, memory of both sides.
const RECORDED: &[&str] = &["callbacks.c", "managed_results.c"];

/// Commands with the exit statuses that they may have for any file.
const READING: &[(&[&str], &[i32])] = &[
    (&["info", "--json"], &[0, 3]),
    (&["dump"], &[0, 3]),
    (&["dump", "--json", "--writes"], &[0, 3]),
    (&["report", "-r", REPORTS], &[0, 3]),
    // 2: the trace has no device times, or no annotations.
    (&["report", "-r", REPORTS_ON_TIMES], &[0, 2, 3]),
    (&["export", "--to", "perfetto", "-o", "-"], &[0, 3]),
    (&["replay", "--dry-run"], &[0, 1, 3]),
    (&["view", "--no-index", "--color", "never"], &[0, 3]),
];

const REPORTS: &str = "summary,cuda_api_sum,cuda_api_trace,sync,host,memory,leaks,transfers,launches,\
                       modules,errors,pending,ranks,collectives";
const REPORTS_ON_TIMES: &str = "cuda_gpu_kern_sum,cuda_gpu_kern_gb_sum,cuda_gpu_trace,cuda_gpu_mem_time_sum,\
                                cuda_gpu_mem_size_sum,cuda_gpu_sum,cuda_kern_exec_sum,cuda_kern_exec_trace,gaps,\
                                nvtx_sum,nvtx_pushpop_sum,nvtx_gpu_proj_sum";

/// The address space of a command: the files are not longer than a MiB.
const MEMORY: u64 = 1 << 30;
/// Seconds that a command may compute for, however long it waits for a processor. Then SIGXCPU ends it.
const TIME: u64 = 30;

/// What shows names, in other forms than the above.
const SHOWING: &[(&[&str], &[i32])] = &[
    (&["info"], &[0, 3]),
    (&["export", "--to", "jsonl", "-o", "-"], &[0, 3]),
    (&["export", "--to", "chrome", "-o", "-"], &[0, 3]),
    (&["report", "--json", "-r", REPORTS], &[0, 3]),
    (&["report", "--format", "csv", "-r", REPORTS], &[0, 3]),
    (&["view", "--once", "--no-index", "--view", "kernels"], &[0, 3]),
    (&["view", "--once", "--no-index", "--view", "events"], &[0, 3]),
];

/// Runs in every test run, for each trace; of names, and of jobs.
const USUAL: u64 = 8;
const OF_NAMES: u64 = 3;
const OF_JOBS: u64 = 12;

/// A trace that was changed, and what is known of it.
struct Forged {
    place: Place,
    path: PathBuf,
    /// The trace's name, the seed, and what was done.
    what: String,
}

impl Forged {
    /// Runs a command on the trace; it must end in one of these ways.
    fn run(&self, arguments: &[&str], statuses: &[i32]) -> Outcome {
        let mut command = self.place.cutrace(arguments);
        command.arg(&self.path).env("HOME", self.place.path());
        // SAFETY: the closure makes system calls alone, on memory of its own.
        unsafe {
            command.pre_exec(|| {
                let limits = [(libc::RLIMIT_AS, MEMORY), (libc::RLIMIT_CPU, TIME)];
                match limits.iter().all(|(of, most)| limit(*of, *most) == 0) {
                    true => Ok(()),
                    false => Err(std::io::Error::last_os_error()),
                }
            })
        };
        let ran = catch_unwind(AssertUnwindSafe(|| run(&mut command)));
        let ran = ran.unwrap_or_else(|_| panic!("{arguments:?} has no end: {}", self.what));
        let is_sound = statuses.contains(&ran.code()) && !ran.stderr.contains("panicked");
        assert!(is_sound, "{arguments:?} ended with {}: {}\nstderr:\n{}", ran.code(), self.what, ran.stderr);
        ran
    }
}

fn limit(of: libc::__rlimit_resource_t, most: u64) -> i32 {
    // SAFETY: the struct is valid.
    unsafe { libc::setrlimit(of, &libc::rlimit { rlim_cur: most, rlim_max: most }) }
}

/// Does something with every trace, changed in every way that the seeds say.
fn with_forged(check: impl Fn(&Forged, &mut Random)) {
    let change = |forge: &mut Forge, random: &mut Random| {
        let mut done = Vec::new();
        let where_to = random.below(3);
        if where_to != 0 {
            done = mutate(forge, random, |_| true);
        }
        if where_to != 1 {
            done.push(mutate_segments(forge, random));
        }
        done
    };
    with_changed(USUAL, change, check);
}

fn with_changed(
    usual: u64,
    change: impl Fn(&mut Forge, &mut Random) -> Vec<String>,
    check: impl Fn(&Forged, &mut Random),
) {
    let failed = artifact("cutrace").with_file_name("fuzz");
    std::fs::create_dir_all(&failed).expect("a directory in target");
    let recorded = RECORDED.iter().map(|app| {
        let place = Place::new();
        run(&mut place.preloaded(client(app))).expect(0);
        (app.trim_end_matches(".c"), Forge::open(place.join("trace.bin")))
    });
    let nccl = std::iter::once_with(|| ("collectives", one_rank()));
    let kept = KEPT.iter().map(|path| {
        let (_, name) = path.split_once('/').expect("in a directory");
        (name.trim_end_matches(".bin"), Forge::open(source(path)))
    });
    let mut failures = Vec::new();
    for (name, whole) in recorded.chain(nccl).chain(kept) {
        for seed in seeds(usual) {
            let mut random = Random::new(seed);
            let mut forge = whole.clone();
            let done = change(&mut forge, &mut random);
            let kept = failed.join(format!("{name}.{seed}.bin"));
            let place = Place::new();
            let path = place.join("trace.bin");
            forge.write(&path);
            let what = format!("{} (FUZZ_SEED={seed} FUZZ_RUNS=1), where {done:?}", kept.display());
            let forged = Forged { place, path, what };
            if catch_unwind(AssertUnwindSafe(|| check(&forged, &mut random))).is_err() {
                forge.write(&kept);
                failures.push(forged.what);
            }
        }
    }
    assert!(failures.is_empty(), "{} failed, for the reasons above:\n{}", failures.len(), failures.join("\n"));
}

/// What NCCL told of a job of one rank.
fn one_rank() -> Forge {
    let place = Place::new();
    let library = client("libring.c");
    let program = client_with("collectives.c", &[library.to_str().expect("a plain path")]);
    let ring = std::fs::File::create(place.join("ring")).expect("our own directory");
    ring.set_len(36864).expect("room");
    let mut rank = place.preloaded(program);
    rank.env("NCCL_PROFILER_PLUGIN", artifact("libcutrace.so")).env("RING_VERSION", "7");
    run(rank.args(["ring", "0", "1", "5"])).expect(0);
    Forge::open(place.join("trace.bin"))
}

#[test]
fn forged_traces_are_read_and_planned() {
    with_forged(|forged, _| {
        for (arguments, statuses) in READING {
            forged.run(arguments, statuses);
        }
    });
}

/// Names in any alphabet, or in none: nothing panics, no terminal obeys them, and JSON is JSON; packed or not.
#[test]
fn forged_names_are_text() {
    with_changed(OF_NAMES, mutate_names, |forged, _| {
        let packed = forged.place.join("packed.bin");
        forged.run(&["pack", "-o", "packed.bin"], &[0, 1, 3]);
        let packed = Forged { path: packed, place: Place::new(), what: format!("packed: {}", forged.what) };
        for (arguments, statuses) in READING.iter().chain(SHOWING) {
            let shown = forged.run(arguments, statuses).stdout;
            if arguments.contains(&"perfetto") {
                continue;
            }
            let obeyed = shown.chars().find(|c| c.is_control() && !"\n\t\r".contains(*c));
            assert_eq!(obeyed, None, "{arguments:?}: {}", forged.what);
            if arguments.contains(&"--json") && arguments[0] != "dump" {
                serde_json::from_str::<serde_json::Value>(&shown).expect("JSON");
            }
        }
        if packed.path.exists() {
            packed.run(&["dump", "--json"], &[0, 3]);
            packed.run(&["info"], &[0, 3]);
            packed.run(&["redact", "-o", "redacted.bin", "--drop-data"], &[0, 3]);
        }
    });
}

/// A job of three ranks, in which traces, their names and the lists of their processes are forged.
#[test]
fn forged_jobs_are_read() {
    for seed in seeds(OF_JOBS) {
        let mut random = Random::new(seed);
        let place = Place::new();
        let (run, list) = (place.join("run"), place.join("run/processes"));
        std::fs::create_dir_all(&list).expect("our own directory");
        let mut done = vec![format!("FUZZ_SEED={seed} FUZZ_RUNS=1")];
        for rank in 0..3 {
            let mut forge = Forge::open(source(&format!("data/ring/rank{rank}.bin")));
            match random.below(4) {
                0 => done.extend(mutate(&mut forge, &mut random, |_| true)),
                1 => done.push(mutate_segments(&mut forge, &mut random)),
                2 => done.extend(mutate_names(&mut forge, &mut random)),
                _ => {}
            }
            let name = format!("h-rank{rank}-ring-{}.bin", 7 + rank);
            forge.write(run.join(&name));
            if random.below(4) == 0 {
                let packed = run.join("packed");
                // What is damaged may not be packed: then it stays as it is.
                place
                    .cutrace(["pack".as_ref(), "-o".as_ref(), packed.as_os_str(), run.join(&name).as_os_str()])
                    .output()
                    .expect("run");
                let _stays = std::fs::rename(packed, run.join(&name));
            }
            let lines = listed(rank, &name, &mut random);
            done.push(lines.escape_ascii().to_string());
            std::fs::write(list.join(format!("h-{}.jsonl", 7 + rank)), lines).expect("written");
        }
        let forged = Forged { path: run, place, what: done.join("; ") };
        for (arguments, statuses) in OF_A_JOB {
            let shown = forged.run(arguments, statuses).stdout;
            let obeyed = shown.chars().find(|c| c.is_control() && !"\n\t\r".contains(*c));
            assert_eq!(obeyed, None, "{arguments:?}: {}", forged.what);
        }
    }
}

/// Commands that read the traces of a directory.
const OF_A_JOB: &[(&[&str], &[i32])] = &[
    (&["info"], &[0, 3]),
    (&["info", "--json"], &[0, 3]),
    (&["report", "-r", "ranks,collectives,summary"], &[0, 2, 3]),
    (&["replay", "--dry-run"], &[0, 1, 2, 3, 5]),
    (&["view", "--once", "--no-index"], &[0, 3]),
    (&["export", "--to", "chrome", "-o", "-"], &[0, 3]),
    (&["repair"], &[0, 2, 3]),
];

/// What a process of a job says of itself, forged.
fn listed(rank: usize, trace: &str, random: &mut Random) -> Vec<u8> {
    let (pid, odd) =
        (7 + rank, ["a", "\\u009b31m", "\u{6838}\u{202e}", "../../etc/passwd", "/dev/zero", "\u{0}", "\\ud800", ""]);
    let mut pick =
        |usual: &str| if random.below(4) == 0 { odd[random.below(odd.len())].to_owned() } else { usual.into() };
    let (host, boot, name) = (pick("h"), pick("boot"), pick(trace));
    let (program, word) = (pick("/usr/bin/ring"), pick("ring"));
    let number = [0, 1, u64::MAX][random.below(3)];
    let of = format!("\"time\":{number},\"pid\":{pid},\"start\":{number}");
    let mut lines = format!(
        "{{\"what\":\"began\",{of},\"parent\":1,\"forked\":false,\"host\":\"{host}\",\"boot\":\"{boot}\",\"rank\":{rank},\"ranks\":3,\"local_rank\":{rank},\"session\":\"s\",\"program\":\"{program}\",\"command\":[\"{word}\"]}}\n\
         {{\"what\":\"recorded\",{of},\"trace\":\"{name}\"}}\n{{\"what\":\"ended\",{of},\"status\":0,\"signal\":0}}\n"
    )
    .into_bytes();
    for _ in 0..random.below(3) {
        let at = random.below(lines.len());
        match random.below(3) {
            0 => lines[at] = random.word() as u8,
            1 => lines.truncate(at + 1),
            _ => lines.splice(at..at, b"[[[[{\"\xc2\x9b\xff".iter().copied()).for_each(drop),
        }
    }
    lines
}

/// The calls of a trace, as far as they can be read: how often there is one of this thread, with this
/// function, these words and this result.
fn calls(path: &Path) -> HashMap<(u32, String, Vec<u64>, Option<u32>), usize> {
    let mut found = HashMap::new();
    for call in Trace::open(path).iter().flat_map(Trace::calls) {
        let call = (call.thread, call.name().to_string(), call.words().collect(), call.result);
        *found.entry(call).or_insert(0) += 1;
    }
    found
}

#[test]
fn repairing_a_forged_trace_loses_nothing() {
    with_forged(|forged, _| {
        let before = std::fs::read(&forged.path).expect("the trace");
        let repaired = forged.place.join("repaired.bin");
        let ran = forged.run(&["repair", "-o", "repaired.bin"], &[0, 3]);
        assert!(std::fs::read(&forged.path).expect("the trace") == before, "the trace was changed: {}", forged.what);
        if Trace::open(&forged.path).is_err() {
            assert!(!repaired.exists(), "{}: {ran:?}", forged.what);
            return;
        }
        let (readable, kept) = (calls(&forged.path), calls(&repaired));
        let lost: Vec<_> = readable.iter().filter(|(call, count)| kept.get(*call) < Some(count)).collect();
        assert!(lost.is_empty(), "the repair lost {lost:?}: {}", forged.what);
        let repaired = Forged { path: repaired, place: Place::new(), what: format!("repaired: {}", forged.what) };
        repaired.run(&["info"], &[0, 3]);
        repaired.run(&["dump"], &[0, 3]);
    });
}

#[test]
fn forged_indexes_are_refused_or_shown() {
    with_forged(|forged, random| {
        let frame = forged.run(&["view", "--once", "--no-index"], &[0, 3]).stdout;
        let opened = catch_unwind(|| Opened::open(&forged.path, false, |_| Vec::new()).ok()?.save().ok()?);
        let opened = opened.unwrap_or_else(|_| panic!("the index of {}", forged.what));
        let Some(index) = opened else { return };
        assert_eq!(forged.run(&["view", "--once"], &[0, 3]).stdout, frame, "{}", forged.what);
        let whole = std::fs::read(&index).expect("the index");
        let mut damaged = Index::open(&index);
        let done = damaged.damage(random);
        damaged.write(&index);
        assert_eq!(forged.run(&["view", "--once"], &[0, 3]).stdout, frame, "{done}: {}", forged.what);
        std::fs::write(&index, whole).expect("written");
        let mut wrong = Index::open(&index);
        let done = wrong.forge(random);
        wrong.write(&index);
        let wrong = Forged { what: format!("{done}: {}", forged.what), path: forged.path.clone(), place: Place::new() };
        for view in ["timeline", "events", "kernels", "objects"] {
            wrong.run(&["view", "--once", "--view", view], &[0, 3]);
        }
    });
}

/// Whatever a trace says, it is packed as it is.
#[test]
fn forged_traces_are_packed() {
    with_forged(|forged, _| {
        if forged.run(&["pack", "-o", "packed.bin"], &[0, 1, 3]).code() == 1
            || !forged.place.join("packed.bin").exists()
        {
            return;
        }
        let told = forged.run(&["dump"], &[0, 3]);
        let packed = Forged { path: forged.place.join("packed.bin"), place: Place::new(), what: forged.what.clone() };
        packed.run(&["pack", "--unpack", "-o", "again.bin"], &[0, 3]);
        let again = std::fs::read(packed.place.join("again.bin")).expect("a trace");
        assert!(again == std::fs::read(&forged.path).expect("the trace"), "{}", forged.what);
        let (path, other) = (forged.path.display().to_string(), packed.path.display().to_string());
        let ran = packed.run(&["dump"], &[0, 3]);
        assert_eq!((ran.stdout, ran.stderr.replace(&other, &path)), (told.stdout, told.stderr), "{}", forged.what);
    });
}

#[test]
fn forged_packed_traces_are_read() {
    for kept in KEPT {
        for seed in seeds(USUAL) {
            let place = Place::new();
            let path = place.join("packed.bin");
            run(place.cutrace(["pack", "-o", "packed.bin"]).arg(source(kept))).expect(0);
            let mut forge = Forge::open(&path);
            let done = mutate_packed(&mut forge, &mut Random::new(seed));
            forge.write(&path);
            let forged = Forged { place, path, what: format!("{kept} packed (FUZZ_SEED={seed} FUZZ_RUNS=1): {done}") };
            for (arguments, statuses) in READING {
                forged.run(arguments, statuses);
            }
            forged.run(&["pack", "--unpack", "-o", "plain.bin"], &[0, 1, 3]);
            forged.run(&["repair", "-o", "repaired.bin"], &[0, 1, 3]);
        }
    }
}
