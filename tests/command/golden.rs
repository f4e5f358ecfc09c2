//! Golden traces of this format version: they must be read, shown, and replayed as long as the version is.
//!
//! `cargo test -p tests --test command -- --ignored` makes them again (only for a new format version;
//! existing ones are left alone), and `INSTA_UPDATE=always cargo test -p tests --test command` updates the
//! expected output.

use std::path::PathBuf;
use tests::forge::Forge;
use tests::*;
use trace::file::segment::Kind;

/// The sum of two vectors; linking with options, logs and an error; calls that fail; graphs, with device
/// times of a replay, and of the recording; polls.
const GOLDEN: &[(&str, &str)] = &[
    ("vector_add", "vector_add.c"),
    ("linking", "linking.c"),
    ("failing_calls", "failing_calls.c"),
    (TIMED, "graphs.c"),
    (RECORDED, "graphs.c"),
    ("polling", "polling.c"),
];

/// The one that a replay has measured.
const TIMED: &str = "graphs_timed";
/// The one that was measured while it was recorded.
const RECORDED: &str = "graphs_recorded";

const ON_TIMES: &str = "cuda_gpu_kern_sum,cuda_gpu_kern_gb_sum,cuda_gpu_trace,cuda_gpu_mem_time_sum,cuda_gpu_mem_size_sum,\
                        cuda_gpu_sum,cuda_kern_exec_sum,cuda_kern_exec_trace,gaps";
const REPORTS: &str = "cuda_api_sum,cuda_api_trace,sync,memory,transfers,launches,modules,errors,pending";

fn directory() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("golden")
}

#[test]
fn golden_traces_are_read_shown_and_replayed() {
    let place = Place::new();
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path(directory());
    settings.set_prepend_module_to_snapshot(false);
    let _bound = settings.bind_to_scope();
    for (name, _) in GOLDEN {
        let file = format!("{name}.bin");
        assert!(sound(directory().join(&file)).footer.is_some());
        let command = |arguments: &[&str]| {
            let mut command = place.cutrace(arguments);
            run(command.arg(&file).current_dir(directory())).expect(0).stdout
        };
        insta::assert_snapshot!(format!("{name}-info"), command(&["info"]));
        insta::assert_snapshot!(format!("{name}-dump"), command(&["dump"]));
        insta::assert_snapshot!(format!("{name}-summary"), command(&["report"]));
        insta::assert_snapshot!(format!("{name}-reports"), command(&["report", "-r", REPORTS]));
        if [TIMED, RECORDED].contains(name) {
            insta::assert_snapshot!(format!("{name}-times"), command(&["report", "-r", ON_TIMES]));
        }
        let replayed = command(&["replay", "--driver", "sim"]);
        assert!(is_verified(&replayed), "{name}: {replayed}");
    }
}

/// Records them, with nothing of this machine in them.
#[test]
#[ignore = "makes the golden traces anew"]
fn make_golden_traces() {
    for (name, app) in GOLDEN {
        if directory().join(format!("{name}.bin")).exists() {
            continue;
        }
        let place = Place::new();
        let program = client(app);
        let mut record = place.recorded(&program);
        if *name == RECORDED {
            record.env("CUTRACE_GPU_TIMES", "1");
        }
        run(record.env("CUTRACE_SIM_SEED", "1")).expect(0);
        let mut forge = Forge::open(place.join("trace.bin"));
        forge.introduce(|about| {
            about.host = "golden".into();
            about.program = format!("/app/{name}");
            about.command_line = vec![about.program.clone()];
            about.directory = "/app".into();
            about.driver_path = "/usr/lib/libcuda_sim.so".into();
            (about.pid, about.parent) = (1000, 999);
            about.environment = vec![("CUTRACE_DATA".into(), "inputs".into())];
        });
        if *name == TIMED {
            let driver = place.join("libcuda_sim.so");
            std::fs::copy(artifact("libcuda_sim.so"), &driver).expect("copied");
            forge.write(place.join("trace.bin"));
            run(place.cutrace(["replay", "--driver", "sim", "--profile"]).env("CUTRACE_SIM", &driver)).expect(0);
            forge = Forge::open(place.join("timed.bin"));
            let driver = driver.to_str().expect("a plain path");
            let plain = format!("/usr/lib{}libcuda_sim.so", "/".repeat(driver.len() - "/usr/liblibcuda_sim.so".len()));
            forge.replace(Kind::Chunk, driver.as_bytes(), plain.as_bytes());
            forge.reseal();
        }
        std::fs::create_dir_all(directory()).expect("a directory for them");
        forge.write(directory().join(format!("{name}.bin")));
    }
}

/// The training loop on an H200 has device times and annotations, so that no report lacks anything.
#[test]
fn every_report_answers_on_a_real_trace() {
    let place = Place::new();
    std::fs::copy(source("data/training.bin"), place.join("training.bin")).expect("copied");
    let names = run(&mut place.cutrace(["report", "--list", "--json"])).expect(0).stdout;
    let names: serde_json::Value = serde_json::from_str(&names).expect("JSON");
    for report in names["reports"].as_array().expect("reports") {
        let name = report["name"].as_str().expect("a name");
        let ran = run(&mut place.cutrace(["report", "training.bin", "-r", name])).expect(0);
        assert!(ran.stdout.lines().count() > 1 && ran.stderr.is_empty(), "{name}: {ran:?}");
    }
    let info = run(&mut place.cutrace(["info", "training.bin"])).expect(0).stdout;
    assert!(info.starts_with("verdict: replayable\n") && info.contains("NVIDIA H200"), "{info}");
}
