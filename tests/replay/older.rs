//! A driver before CUDA 12.4 does not report the layout of a kernel's parameters, and one before 12.3 not
//! even a function's name: both are then read from the code that the program loaded.

use tests::*;

/// Records on such a driver, and replays there and on a new one.
#[track_caller]
fn there_and_back(app: &str, version: &str, verdict: &str, kernels: &[&str]) {
    let program = client(app);
    let place = Place::new();
    let bare = run(Place::new().bare(&program).env("CUTRACE_SIM_SEED", "1"));
    let recorded =
        run(place.recorded(&program).env("CUTRACE_SIM_SEED", "1").env("CUTRACE_SIM_DRIVER_VERSION", version));
    place.same(&bare, &recorded);

    let trace = place.trace();
    assert_eq!(trace.losses, []);
    assert!(!trace.kernels.is_empty());
    for kernel in trace.kernels.values() {
        assert!(kernel.params.is_some(), "{kernel:?}");
        assert!(!kernel.name.is_empty(), "{kernel:?}");
    }
    let info = run(&mut place.cutrace(["info", "--json"])).expect(0);
    let info: serde_json::Value = serde_json::from_str(&info.stdout).expect("JSON");
    assert_eq!(info["verdict"], verdict, "{}", info["reasons"]);
    let dump = run(&mut place.cutrace(["dump"])).expect(0);
    for kernel in kernels {
        let launched = |line: &str| line.contains("Launch") && line.contains(kernel);
        assert!(dump.stdout.lines().any(launched), "no launch of {kernel} in\n{}", dump.stdout);
    }
    for version in [Some(version), None] {
        let mut replay = place.cutrace(["replay", "--driver", "sim"]);
        version.map(|version| replay.env("CUTRACE_SIM_DRIVER_VERSION", version));
        let replayed = run(replay.env("CUTRACE_SIM_SEED", "99")).expect(0);
        assert!(is_verified(&replayed.stdout), "{}", replayed.stdout);
    }
}

macro_rules! workloads {
    ($($name:ident $file:literal $version:literal $verdict:literal [$($kernel:literal),*];)*) => {
        $(
            #[test]
            fn $name() {
                there_and_back($file, $version, $verdict, &[$($kernel),*]);
            }
        )*
    };
}

// All programs of `workloads` that launch kernels.
workloads! {
    vector_add "vector_add.c" "12020" "replayable" ["vector_add"];
    matrix_product "matrix_product.c" "12020" "replayable" ["matrix_product"];
    reduction "reduction.c" "12020" "replayable" ["tree_sum", "warp_sum"];
    histogram "histogram.c" "12020" "replayable" ["histogram"];
    linked_list "linked_list.c" "12020" "replayable" ["list_sum", "list_build"];
    struct_by_value "struct_by_value.c" "12020" "replayable" ["run_job"];
    globals "globals.c" "12020" "replayable" ["use_globals"];
    packed_arguments "packed_arguments.c" "12020" "replayable" ["scale_quads"];
    two_contexts "two_contexts.c" "12020" "replayable" ["add_two", "twice"];
    linking "linking.c" "12020" "replayable" ["weigh_all"];
    streams_events "streams_events.c" "12020" "replayable" ["add_two", "twice"];
    pools "pools.c" "12020" "replayable" ["twice"];
    virtual_memory "virtual_memory.c" "12020" "replayable" ["twice"];
    graphs "graphs.c" "12020" "replayable" ["add_two", "twice"];
    kernel_libraries "kernel_libraries.c" "12020" "replayable" ["add_two", "twice"];
    older_forms "older_forms.c" "12020" "replayable" ["weigh_all"];
    every_node "every_node.c" "12020" "replayable" [];
    stream_operations "stream_operations.c" "12020" "replayable" ["add_two"];
    texture "texture.c" "12020" "replayable" ["sample"];
    // What is looked up through a hidden table has no name before 12.3.
    hidden_tables "hidden_tables.c" "12030" "replayable" ["add_two", "twice"];
}

/// The simulated driver really lacks them, and with the recorder before it they are lacking in the same way.
#[test]
fn the_questions_are_gone() {
    let program = client("lacking_names.c");
    let names = ["cuFuncGetParamInfo", "cuKernelGetParamInfo", "cuFuncGetName"];
    for (version, gone) in [("12020", 3), ("12030", 2), ("13000", 0)] {
        let place = Place::new();
        let bare = run(place.bare(&program).args(names).env("CUTRACE_SIM_DRIVER_VERSION", version)).expect(0);
        let recorded = run(place.preloaded(&program).args(names).env("CUTRACE_SIM_DRIVER_VERSION", version));
        place.same(&bare, &recorded);
        for name in &names[..gone] {
            let lines: Vec<&str> = bare.stdout.lines().filter(|line| line.starts_with(name)).collect();
            assert_eq!(lines.len(), 2);
            assert!(lines.iter().all(|line| line.contains("not found")), "{lines:?}");
        }
        assert_eq!(bare.stdout.matches("status 0, found").count(), names.len() - gone, "{}", bare.stdout);
    }
}

/// A function that no recorded call looked up has no name before 12.3: its arguments are lost, counted, and
/// in the verdict.
#[test]
fn a_function_without_a_name_is_counted_as_lost() {
    let program = client("hidden_tables.c");
    let place = Place::new();
    let bare = run(Place::new().bare(&program).env("CUTRACE_SIM_SEED", "1"));
    let recorded =
        run(place.recorded(&program).env("CUTRACE_SIM_SEED", "1").env("CUTRACE_SIM_DRIVER_VERSION", "12020"));
    place.same(&bare, &recorded);
    let trace = place.trace();
    let [(what, count)] = &trace.losses[..] else { panic!("{:?}", trace.losses) };
    assert_eq!(what, "kernel arguments of unknown size");
    assert_eq!(*count, 2, "of three launches, one is of a function that was looked up openly");
    let unnamed = trace.kernels.values().filter(|kernel| kernel.params.is_none()).count();
    assert_eq!((unnamed, trace.kernels.len()), (4, 5), "two of them were set up and never launched");
    let info = run(&mut place.cutrace(["info", "--json"])).expect(0);
    let info: serde_json::Value = serde_json::from_str(&info.stdout).expect("JSON");
    assert_eq!(info["verdict"], "partly");
    assert!(info["reasons"].to_string().contains(what.as_str()), "{}", info["reasons"]);
}
