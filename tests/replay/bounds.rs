//! What a trace says that the replay does not do: write where it has no memory, open files, set any variable.

use tests::forge::Forge;
use tests::*;
use trace::segment::Kind;

/// What the program allocates and the replay cannot.
const LARGE: u64 = 16 << 20;

#[test]
fn what_names_memory_that_could_not_be_allocated_is_refused() {
    let place = Place::new();
    run(place.recorded(client("unmet_allocation.c")).env("CUTRACE_SIM_SEED", "1")).expect(0);
    let path = place.join("trace.bin");
    let mut forge = Forge::open(&path);
    forge.replace(Kind::Chunk, &LARGE.to_le_bytes(), &(1u64 << 40).to_le_bytes());
    forge.reseal();
    forge.write(&path);
    for options in [&[][..], &["--no-placement"]] {
        let mut replay = place.cutrace(["replay", "--driver", "sim"]);
        let ran = run(replay.args(options).env("CUTRACE_SIM_SEED", "99000000")).expect(4);
        let is_refused = |name: &str| {
            let line = ran.stdout.lines().find(|line| line.trim_start().starts_with(&format!("refused      {name} (")));
            line.is_some_and(|line| line.contains("is memory that is not here"))
        };
        for name in [
            "cuMemcpy",
            "cuMemcpyAsync",
            "cuMemcpyDtoDAsync_v2",
            "cuMemsetD8Async",
            "cuMemsetD2D32Async",
            "cuStreamWriteValue32_v2",
            "cuMemcpy2DAsync_v2",
            "cuMemcpyBatchAsync_v2",
            "cuGraphAddMemsetNode",
        ] {
            assert!(is_refused(name), "{options:?} {name}: {}", ran.stdout);
        }
        // What needs none of it is made, and compared.
        assert!(ran.stdout.contains("CUDA_ERROR_OUT_OF_MEMORY"), "{}", ran.stdout);
        assert!(ran.stdout.contains("1 copy to the host (4.1 kB)"), "{options:?}: {}", ran.stdout);
    }
}

/// The driver reads as much of an image as the call says.
#[test]
fn no_more_of_an_image_is_read_than_the_trace_has() {
    let place = Place::new();
    run(&mut place.recorded(client("linking.c"))).expect(0);
    let path = place.join("trace.bin");
    let whole = Forge::open(&path);
    let trace = place.trace();
    let add = calls_named(&trace, "cuLinkAddData_v2")[0];
    let (arguments, size) = (add.argument_bytes(), add.argument("size").expect("an argument"));
    let at = arguments.chunks_exact(8).position(|word| word == size.to_le_bytes()).expect("its word");
    for forged in [size + 1, 1 << 40] {
        let mut forge = whole.clone();
        forge.put(forge.find(Kind::Chunk, arguments) + at * 8, &forged.to_le_bytes());
        forge.reseal();
        forge.write(&path);
        let ran = run(&mut place.cutrace(["replay", "--driver", "sim"])).expect(4);
        let why = format!("says that data has {forged} bytes, of which there are {size}");
        assert!(ran.stdout.contains(&why), "{}", ran.stdout);
    }
}

/// To open a FIFO is to wait for who writes to it.
#[test]
fn a_file_that_the_trace_names_is_not_opened() {
    let place = Place::new();
    run(&mut place.recorded(client("files_not_there.c"))).expect(0);
    run(place.command("mkfifo").arg("later.ptx")).expect(0);
    let ran = run(place.cutrace(["replay", "--driver", "sim", "--json"]).stdin(std::process::Stdio::null())).expect(6);
    let report: serde_json::Value = serde_json::from_str(&ran.stdout).expect("JSON");
    assert_eq!(report["left_out"].as_array().map(Vec::len), Some(0), "{report}");
}

/// Variables can have the driver write files, and names and values need not be such as an environment can have.
#[test]
fn variables_that_do_not_change_what_is_computed_are_not_set() {
    let place = Place::new();
    run(place.recorded(client("vector_add.c")).env("CUDA_LAUNCH_BLOCKING", "1")).expect(0);
    let path = place.join("trace.bin");
    let mut forge = Forge::open(&path);
    forge.introduce(|preamble| {
        for (name, value) in [("CUDA_LOG_FILE", "log"), ("CUDA_=", "1"), ("CUDA_DEVICE_ORDER", "\0")] {
            preamble.environment.push((name.into(), value.into()));
        }
    });
    forge.write(&path);
    let ran = run(&mut place.cutrace(["replay", "--driver", "sim"])).expect(0);
    assert!(ran.stdout.starts_with("verified\n"), "{}", ran.stdout);
    let line = ran.stdout.lines().find(|line| line.trim_start().starts_with("not set "));
    assert!(line.is_some_and(|line| line.contains(" CUDA_LOG_FILE, CUDA_=, CUDA_DEVICE_ORDER: ")), "{}", ran.stdout);
}
