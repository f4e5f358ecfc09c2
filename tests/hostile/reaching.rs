//! The ways in which a program finds the driver.

use std::path::Path;
use tests::*;

const THREE: [&str; 3] = ["cuInit", "cuDeviceGetCount", "cuDriverGetVersion"];

fn opened_as(name: impl AsRef<std::ffi::OsStr>) {
    let place = Place::new();
    let ran = place.unchanged(client("open_driver.c"), &[name]).expect(0);
    assert_eq!(ran.stdout, "1 devices, version 13000\n");
    assert_eq!(ran.stderr, "");
    assert_eq!(names(&place.trace()), THREE);
}

#[test]
fn dlopen_by_soname() {
    opened_as("libcuda.so.1");
}

#[test]
fn dlopen_by_the_development_name() {
    opened_as("libcuda.so");
}

#[test]
fn dlopen_by_absolute_path() {
    opened_as(driver_directory().join("libcuda.so.1"));
}

#[test]
fn dlopen_by_the_path_of_the_file_itself() {
    opened_as(artifact("libcuda_sim.so"));
}

#[test]
fn dlsym_in_the_global_scope() {
    let place = Place::new();
    place.unchanged(client("dlsym_default.c"), &[""; 0]).expect(0);
    assert_eq!(names(&place.trace()), ["cuInit", "cuDeviceGetCount"]);
}

#[test]
fn dlsym_of_the_next_definition() {
    let place = Place::new();
    let ran = place.unchanged(client("dlsym_next.c"), &[""; 0]).expect(0);
    assert_eq!(ran.stdout, "101\n");
    assert_eq!(names(&place.trace()), ["cuInit", "cuDeviceGetCount"]);
}

#[test]
fn runpath_of_the_true_caller() {
    let place = Place::new();
    let outer = client_with("librunpath_outer.c", &["-Wl,--enable-new-dtags,-rpath,$ORIGIN/inner"]);
    std::fs::create_dir(place.join("inner")).expect("our own directory");
    let here = place.join("librunpath_outer.so");
    std::fs::copy(outer, &here).expect("copied");
    std::fs::copy(client("librunpath_inner.c"), place.join("inner/librunpath_inner.so")).expect("copied");
    let ran = place.unchanged(client("runpath.c"), &[here]).expect(0);
    assert_eq!(ran.stdout, "42\n");
    assert_eq!(names(&place.trace()), ["cuInit"]);
}

#[test]
fn rtld_deepbind() {
    let place = Place::new();
    place.unchanged(client("deepbind.c"), &[client("libdeepbind.c")]).expect(0);
    assert_eq!(names(&place.trace()), ["cuInit", "cuDeviceGetCount"]);
}

#[test]
fn cu_get_proc_address_old_and_new() {
    let place = Place::new();
    let ran = place.unchanged(client("proc_address.c"), &[""; 0]).expect(0);
    assert_eq!(ran.stderr, "");
    let trace = place.trace();
    let expected = [
        "cuGetProcAddress",
        "cuInit",
        "cuGetProcAddress_v2",
        "cuDeviceGetCount",
        "cuDevicePrimaryCtxRetain",
        "cuCtxSetCurrent",
        "cuGetProcAddress_v2",
        "cuStreamQuery_ptsz",
        "cuGetProcAddress_v2",
        "cuStreamQuery",
        "cuGetProcAddress_v2",
        "cuGetProcAddress",
        "cuCtxGetCurrent",
        "cuGetProcAddress_v2",
    ];
    assert_eq!(names(&trace), expected);
    assert_eq!(trace.calls().last().expect("a call").result, Some(0));
    assert_eq!(trace.losses, []);
}

/// Names, versions and the kind of default stream choose the function, as cudaTypedefs.h has it.
#[test]
fn functions_are_handed_out_by_version() {
    let ran = Place::new().unchanged(client("proc_address_versions.c"), &[""; 0]).expect(0);
    let wanted = "cuNoSuchFunction 13000 0: not found\n\
                  cuGraphAddNode 12010 0: version not sufficient\n\
                  cuGraphAddNode 12020 0: found\n\
                  cuMemAllocAsync 11010 2: version not sufficient\n\
                  cuMemAllocAsync 11020 2: found\n\
                  cuKernelGetLibrary 12040 0: version not sufficient\n\
                  cuStreamBeginCapture 9020 0: version not sufficient\n\
                  cuMemcpyBatchAsync 12060 0: version not sufficient\n\
                  cuLaunchKernel 6050 2: version not sufficient\n\
                  cuMemAlloc_v2 13000 0: not found\n\
                  010001\n";
    assert_eq!(ran.stdout, wanted);
}

#[test]
fn names_that_the_driver_lacks() {
    let place = Place::new();
    let ran = place.unchanged(client("lacking_names.c"), &[""; 0]).expect(0);
    assert_eq!(ran.stdout.matches(": not found, ").count(), 3, "{}", ran.stdout);
    place.no_traces();
}

/// Functions of CUDA 13.5, which the table has and the simulated driver has not: lacking as they are without
/// the recorder.
#[test]
fn functions_newer_than_the_driver() {
    let names = [
        "cuDeviceGetCliqueCount",
        "cuStreamBeginRecaptureToGraph",
        "cuStreamBeginRecaptureToGraph_ptsz",
        "cuLogicalEndpointQuery",
    ];
    let place = Place::new();
    let ran = place.unchanged(client("lacking_names.c"), &names).expect(0);
    assert_eq!(ran.stdout.matches(": not found, ").count(), 3 + names.len(), "{}", ran.stdout);
    assert_eq!(ran.stdout.matches(": result 0, status 1, not found").count(), names.len(), "{}", ran.stdout);
}

/// Runs without the simulated driver in any path.
fn without_driver(place: &Place, program: &Path, argument: &str) -> Option<Outcome> {
    if std::process::Command::new("sh").args(["-c", "ldconfig -p | grep -q 'libcuda.so'"]).status().ok()?.success() {
        eprintln!("skipped: this machine has a driver");
        return None;
    }
    Some(run(place.command(program).arg(argument).env("LD_PRELOAD", artifact("libcutrace.so"))))
}

#[test]
fn dlopen_without_a_driver_gives_null() {
    for name in ["libcuda.so.1", "libcuda.so", "/nowhere/libcuda.so.1"] {
        let place = Place::new();
        let program = client("open_driver.c");
        let Some(ran) = without_driver(&place, &program, name) else { return };
        let ran = ran.expect(3);
        let bare = run(place.command(&program).arg(name)).expect(3);
        assert!(ran.stdout.contains("cannot open shared object file"), "{}", ran.stdout);
        assert_eq!(ran.stdout.split(':').next(), bare.stdout.split(':').next());
        assert_eq!(ran.stderr, "");
        place.no_traces();
    }
}

#[test]
fn a_linked_program_without_a_driver_finds_no_device() {
    let place = Place::new();
    let Some(ran) = without_driver(&place, &client("needed_driver.c"), "") else { return };
    assert_eq!(ran.expect(0).stdout, "100 100 -1\n");
    let trace = place.trace();
    assert_eq!(names(&trace), ["cuInit", "cuDeviceGetCount"]);
    assert!(trace.calls().all(|call| call.result == Some(100)));
}

/// Runs with a further preloaded library, which stands in front of cuDeviceGetCount, before or behind the
/// recorder.
fn interposed(program: &Path, argument: &str, order: fn(String, String) -> String) -> (Place, Outcome, Outcome) {
    let place = Place::new();
    let other = client("libinterposer.c").display().to_string();
    let both = order(other.clone(), artifact("libcutrace.so").display().to_string());
    let bare = run(place.bare(program).arg(argument).env("LD_PRELOAD", &other)).expect(0);
    let recorded = run(place.bare(program).arg(argument).env("LD_PRELOAD", &both)).expect(0);
    (place, bare, recorded)
}

#[test]
fn another_preload_before() {
    let before = |other, ours| format!("{other}:{ours}");
    let (place, bare, recorded) = interposed(&client("needed_driver.c"), "", before);
    assert!(bare.stdout.ends_with("interposed 1\n"), "{}", bare.stdout);
    place.same(&bare, &recorded);
    assert_eq!(names(&place.trace()), ["cuInit", "cuDeviceGetCount"]);
    let (place, bare, recorded) = interposed(&client("open_driver.c"), "libcuda.so.1", before);
    place.same(&bare, &recorded);
    assert_eq!(names(&place.trace()), THREE);
}

/// `cutrace record` puts its recorder where it does not stand in the way of another preload.
#[test]
fn another_preload_under_record() {
    let place = Place::new();
    let (program, other) = (client("needed_driver.c"), client("libinterposer.c"));
    let bare = run(place.bare(&program).env("LD_PRELOAD", &other)).expect(0);
    let recorded = run(place.recorded(&program).env("LD_PRELOAD", &other)).expect(0);
    // The launcher ends with the library's line, too.
    assert!(recorded.stdout.starts_with(&bare.stdout), "{recorded:?}");
    assert_eq!(names(&place.trace()), ["cuInit", "cuDeviceGetCount"]);
}

/// The recorder calls the driver, not whoever stands behind itself: such a library is passed over, and
/// nothing else changes.
#[test]
fn another_preload_behind() {
    let behind = |other, ours| format!("{ours}:{other}");
    let (place, bare, recorded) = interposed(&client("needed_driver.c"), "", behind);
    assert_eq!(recorded.stdout, bare.stdout.replace("interposed 1", "interposed 0"));
    assert_eq!(names(&place.trace()), ["cuInit", "cuDeviceGetCount"]);
    let (place, bare, recorded) = interposed(&client("open_driver.c"), "libcuda.so.1", behind);
    place.same(&bare, &recorded);
    assert_eq!(names(&place.trace()), THREE);
}

#[test]
fn a_process_that_calls_nothing_leaves_nothing() {
    let place = Place::new();
    let ran = place.unchanged(client("no_calls.c"), &[""; 0]).expect(0);
    assert_eq!(ran.stderr, "");
    place.no_traces();
    let ran = run(&mut place.preloaded("true")).expect(0);
    assert_eq!(ran.stderr, "");
    place.no_traces();
}
