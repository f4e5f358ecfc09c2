//! Requests of a trace that a replay refuses: writes outside its memory, opening files, setting any variable.

use std::collections::BTreeSet;
use tests::forge::Forge;
use tests::*;
use trace::Trace;
use trace::base::hash::Hash;
use trace::file::record;
use trace::file::segment::Kind;
use trace::read::call::{Content, When};

/// What the program allocates and the replay cannot.
const LARGE: u64 = 16 << 20;

#[test]
fn what_names_memory_that_could_not_be_allocated_is_refused() {
    let place = Place::new();
    run(place.recorded(client("allocation_fails_in_replay.c")).env("CUTRACE_SIM_SEED", "1")).expect(0);
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
            line.is_some_and(|line| line.contains("is memory that the replay does not have"))
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
    // Of the trace as it was recorded: its file is written over below.
    let (arguments, size) = (add.argument_bytes().to_vec(), add.argument("size").expect("an argument"));
    let at = arguments.chunks_exact(8).position(|word| word == size.to_le_bytes()).expect("its word");
    for forged in [size + 1, 1 << 40] {
        let mut forge = whole.clone();
        forge.put(forge.find(Kind::Chunk, &arguments) + at * 8, &forged.to_le_bytes());
        forge.reseal();
        forge.write(&path);
        let ran = run(&mut place.cutrace(["replay", "--driver", "sim"])).expect(4);
        let why = format!("data should have {forged} bytes and has {size}");
        assert!(ran.stdout.contains(&why), "{}", ran.stdout);
    }
}

/// Programs, and calls of theirs that give kernels arguments.
const GIVING: &[(&str, &str)] = &[
    ("vector_add.c", "cuLaunchKernel"),
    ("kernel_libraries.c", "cuLaunchKernel"),
    ("updatable_nodes.c", "cuLaunchKernelEx"),
    ("every_node.c", "cuGraphAddKernelNode_v2"),
    ("every_node.c", "cuGraphExecKernelNodeSetParams_v2"),
    ("outputs_over_inputs.c", "cuGraphAddNode_v2"),
];

/// Takes the last argument of all calls of this name away. The kernels, and how many they had.
fn shorten(forge: &mut Forge, trace: &Trace, name: &str) -> Vec<(u32, u32)> {
    let mut all = Vec::new();
    for image in trace.calls().filter(|call| call.name() == name).flat_map(|call| call.images().collect::<Vec<_>>()) {
        if let Content::Arguments { kernel, count, .. } = image.content {
            let head = |count: u32| [image.address.to_le_bytes(), kernel_and(kernel, count)].concat();
            forge.replace(Kind::Chunk, &head(count), &head(count - 1));
            all.push((kernel, count));
        }
    }
    assert!(!all.is_empty(), "no {name} gives arguments");
    all
}

/// The driver reads an argument for each parameter that the kernel has.
#[test]
fn no_more_arguments_are_read_than_the_trace_has() {
    for (app, name) in GIVING {
        let place = Place::new();
        run(&mut place.recorded(client(app))).expect(0);
        let path = place.join("trace.bin");
        let mut forge = Forge::open(&path);
        let (_, count) = shorten(&mut forge, &place.trace(), name)[0];
        forge.reseal();
        forge.write(&path);
        let ran = run(place.cutrace(["replay", "--driver", "sim"]).env("CUTRACE_SIM_GUARD", "1"));
        assert!(matches!(ran.code(), 4 | 6), "{app} {name}: {ran:?}");
        is_refused(&ran, name, &format!("the kernel takes {count} arguments, the trace has {}", count - 1));
    }
}

/// A driver is not asked how many parameters the kernel has, so that nothing is refused: zeros are read.
#[test]
fn zeros_stand_in_for_arguments_that_the_trace_does_not_know_of() {
    for (app, name) in GIVING {
        let place = Place::new();
        run(&mut place.recorded(client(app))).expect(0);
        let path = place.join("trace.bin");
        let (trace, mut forge) = (place.trace(), Forge::open(&path));
        let launched: BTreeSet<u32> = shorten(&mut forge, &trace, name).into_iter().map(|(kernel, _)| kernel).collect();
        for known in launched.iter().map(|id| &trace.kernels[id]) {
            // As long as before: 8 bytes of a parameter become 8 of the name.
            let mut fewer = record::Kernel { name: format!("{}12345678", known.name), ..known.clone() };
            fewer.params.as_mut().expect("its parameters").pop();
            let body = |kernel| record::with_body(record::KERNEL, kernel).split_off(8);
            forge.put(forge.find(Kind::Chunk, &body(known)), &body(&fewer));
        }
        forge.reseal();
        forge.write(&path);
        for version in ["13000", "12020"] {
            let mut replay = place.cutrace(["replay", "--driver", "sim"]);
            replay.env("CUTRACE_SIM_GUARD", "1").env("CUTRACE_SIM_DRIVER_VERSION", version);
            let ran = run(&mut replay).expect(4);
            assert!(ran.stdout.starts_with("diverged: ") && !ran.stdout.contains("refused "), "{}", ran.stdout);
            // The argument that is taken away is the number of elements.
            let found = format!("found    hash {},", Hash::compute(&[0; 4000]));
            assert!(*app != "vector_add.c" || ran.stdout.contains(&found), "{}", ran.stdout);
        }
    }
}

fn kernel_and(kernel: u32, count: u32) -> [u8; 8] {
    (u64::from(kernel) | u64::from(count) << 32).to_le_bytes()
}

/// Nothing is known of what a refused call would have written: what depends on it is no divergence, and no
/// launch is a suspect.
#[test]
fn what_depends_on_a_refused_call_is_not_compared() {
    let place = Place::new();
    run(&mut place.recorded(client("vector_add.c"))).expect(0);
    let (path, trace) = (place.join("trace.bin"), place.trace());
    let whole = Forge::open(&path);
    let result = calls_named(&trace, "cuMemcpyDtoH_v2")[0].number;
    for name in ["cuMemcpyHtoD_v2", "cuLaunchKernel"] {
        let call = calls_named(&trace, name)[0];
        let mut forge = whole.clone();
        match name {
            // A copy to where nothing is.
            "cuMemcpyHtoD_v2" => {
                let words = call.argument_bytes();
                forge.put(forge.find(Kind::Chunk, words), &0x1000u64.to_le_bytes());
            }
            _ => call.images().for_each(|image| {
                if let Content::Arguments { kernel, count, .. } = image.content {
                    let head = |count: u32| [image.address.to_le_bytes(), kernel_and(kernel, count)].concat();
                    forge.replace(Kind::Chunk, &head(count), &head(count - 1));
                }
            }),
        }
        forge.reseal();
        forge.write(&path);
        let ran = run(&mut place.cutrace(["replay", "--driver", "sim"])).expect(6);
        assert!(ran.stdout.starts_with("unverified: the copies to the host could not be compared\n"), "{}", ran.stdout);
        let why = format!("call {result} differs, possibly because call {} {name} was refused", call.number);
        assert!(
            ran.stdout.contains(&why) && !ran.stdout.contains("earlier launch with this address"),
            "{}",
            ran.stdout
        );
        let report = run(&mut place.cutrace(["replay", "--driver", "sim", "--json"])).expect(6).stdout;
        let report: serde_json::Value = serde_json::from_str(&report).expect("JSON");
        let behind = serde_json::json!([{ "call": result, "refused": call.number }]);
        assert_eq!((&report["divergences"], &report["not_compared"]["dependents"]), (&0.into(), &behind));
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

/// Variables can have the driver write files, and names and values need not be such as an environment can
/// have.
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
    assert!(is_verified(&ran.stdout), "{}", ran.stdout);
    let line = ran.stdout.lines().find(|line| line.trim_start().starts_with("not set "));
    assert!(line.is_some_and(|line| line.contains(" CUDA_LOG_FILE, CUDA_=, CUDA_DEVICE_ORDER: ")), "{}", ran.stdout);
}

/// The driver keeps an address of its own in what it hands out.
#[test]
fn resources_are_those_that_calls_handed_out() {
    let place = Place::new();
    run(&mut place.recorded(client("green_context_ends.c"))).expect(0);
    let path = place.join("trace.bin");
    let mut forge = Forge::open(&path);
    let trace = place.trace();
    let split = calls_named(&trace, "cuDevSmResourceSplitByCount")[0];
    let given = split.argument("input").expect("an argument");
    let given = split.memory(When::Return, given, 144).expect("recorded").into_owned();
    // As the first call hands it out; the split is given what no call has handed out so far.
    let is_given = |at: &usize| forge.bytes()[*at..].starts_with(&given);
    let at = (0..forge.bytes().len() - given.len()).find(is_given).expect("handed out");
    forge.flip(at + 12);
    forge.reseal();
    forge.write(&path);
    let ran = run(place.cutrace(["replay", "--driver", "sim"]).env("CUTRACE_SIM_GUARD", "1")).expect(4);
    is_refused(&ran, "cuDevSmResourceSplitByCount", "needs a resource that no call in the trace returned");
}

/// Values of options may be addresses.
#[test]
fn options_of_the_linker_are_those_that_are_known() {
    let place = Place::new();
    run(&mut place.recorded(client("linker_logs.c"))).expect(0);
    let path = place.join("trace.bin");
    let mut forge = Forge::open(&path);
    let options = |last: u32| [3, 4, 5, 6, last].iter().flat_map(|code: &u32| code.to_le_bytes()).collect::<Vec<u8>>();
    forge.replace(Kind::Chunk, &options(12), &options(1000));
    forge.reseal();
    forge.write(&path);
    let ran = run(&mut place.cutrace(["replay", "--driver", "sim"])).expect(6);
    is_refused(&ran, "cuLinkCreate_v2", "this version of cutrace does not know option 1000");
}

/// The driver knows it from a launch of its graph on.
#[test]
fn memory_of_a_graph_that_was_not_launched_is_refused() {
    let place = Place::new();
    run(place.recorded(client("graph_memory.c")).env("CUTRACE_SIM_SEED", "1")).expect(0);
    let path = place.join("trace.bin");
    let mut forge = Forge::open(&path);
    for launch in calls_named(&place.trace(), "cuGraphLaunch") {
        let words = launch.argument_bytes();
        forge.replace(Kind::Chunk, words, &vec![0; words.len()]);
    }
    forge.reseal();
    forge.write(&path);
    for options in [&[][..], &["--no-placement"]] {
        let mut replay = place.cutrace(["replay", "--driver", "sim"]);
        let ran = run(replay.args(options).env("CUTRACE_SIM_SEED", "99000000").env("CUTRACE_SIM_GUARD", "1")).expect(4);
        is_refused(&ran, "cuMemcpyDtoHAsync_v2", "is memory that the replay does not have");
    }
}

#[track_caller]
fn is_refused(ran: &Outcome, name: &str, why: &str) {
    let is_it = |line: &str| line.contains(&format!("refused      {name} (")) && line.contains(why);
    assert!(ran.stdout.lines().any(is_it), "{name}: {}", ran.stdout);
}
