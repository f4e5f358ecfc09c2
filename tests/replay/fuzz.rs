//! Forged traces: whatever a trace says, its replay ends with one of its own statuses, and writes no host
//! memory except its buffers (the simulated driver checks this, `CUTRACE_SIM_GUARD`).
//!
//! A few run with a fixed seed. To run for hours by hand:
//!
//!     FUZZ_SEED=1 FUZZ_RUNS=100000 cargo test -p tests --test replay fuzz -- --nocapture
//!
//! Failing traces stay in target/debug/fuzz, named by program and seed.

use tests::forge::Forge;
use tests::mutate::{Random, Record, mutate, seeds};
use tests::mutate_names::mutate_names;
use tests::*;
use trace::Trace;

/// Copies of all kinds, graphs, pinned memory, memory that comes and goes, code.
const PROGRAMS: &[&str] = &[
    "vector_add.c",
    "unified_copies.c",
    "every_copy.c",
    "batch_copies.c",
    "graphs.c",
    "mapped_results.c",
    "pools.c",
    "linking.c",
];

/// How long a launch takes, and whether it ever ends, is its kernel's affair: a trace is a program.
fn is_no_launch(trace: &Trace) -> impl Fn(&Record) -> bool {
    let functions = &trace.preamble.functions;
    move |record| {
        let name = functions.get(record.function as usize).map_or("", |(name, _)| name.as_str());
        !name.contains("Launch") && !name.contains("Kernel")
    }
}

#[test]
fn forged_traces_write_nothing_but_buffers() {
    let kept = artifact("cutrace").with_file_name("fuzz");
    std::fs::create_dir_all(&kept).expect("a directory in target");
    for app in PROGRAMS {
        let place = Place::new();
        run(&mut place.recorded(client(app))).expect(0);
        let path = place.join("trace.bin");
        let whole = Forge::open(&path);
        let trace = place.trace();
        for seed in seeds(12) {
            let mut forge = whole.clone();
            let mut random = Random::new(seed);
            let mut done = mutate(&mut forge, &mut random, is_no_launch(&trace));
            if seed % 4 == 3 {
                done.extend(mutate_names(&mut forge, &mut random));
            }
            forge.write(&path);
            if seed % 3 == 0 {
                // What is damaged may not be packed: then it is replayed as it is.
                let packed = run(&mut place.cutrace(["pack", "-o", "packed", "trace.bin"])).code();
                if matches!(packed, 0 | 3) {
                    std::fs::rename(place.join("packed"), &path).expect("in our own directory");
                }
            }
            let options: &[&str] = if seed % 2 == 0 { &["--no-placement"] } else { &[] };
            let mut replay = place.cutrace(["replay", "--driver", "sim", "--no-explain"]);
            replay.args(options).env("CUTRACE_SIM_GUARD", "1").env("CUTRACE_SIM_SEED", seed.to_string());
            let kept = kept.join(format!("{app}.{seed}.bin"));
            forge.write(&kept);
            let ran = run(&mut replay);
            let is_sound = matches!(ran.code(), 0 | 1 | 3 | 4 | 5 | 6) && !ran.stderr.contains("panicked");
            assert!(is_sound, "{} {options:?}, where {done:?}: {ran:?}", kept.display());
            std::fs::remove_file(kept).expect("just written");
        }
    }
}
