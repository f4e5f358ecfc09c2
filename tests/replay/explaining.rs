//! A diverging replay names the reason: a nondeterministic kernel, a missing order, or the replay itself.

use serde_json::Value;
use std::process::Stdio;
use tests::forge::Forge;
use tests::*;
use trace::file::segment::Kind;

fn recorded(app: &str, arguments: &[&str]) -> Place {
    let place = Place::new();
    run(place.recorded(client(app)).args(arguments)).expect(0);
    place
}

fn replayed(place: &Place, options: &[&str]) -> Outcome {
    run(place.cutrace(["replay", "--driver", "sim"]).args(options)).expect(4)
}

fn report(place: &Place, options: &[&str]) -> Value {
    serde_json::from_str(&replayed(place, &[&["--json"], options].concat()).stdout).expect("JSON")
}

fn json(place: &Place, arguments: &[&str]) -> Value {
    serde_json::from_str(&run(&mut place.cutrace(arguments)).expect(0).stdout).expect("JSON")
}

/// Other bytes than were recorded.
fn forged(app: &str, arguments: &[&str], wanted: &[u8]) -> Place {
    let place = recorded(app, arguments);
    let path = place.join("trace.bin");
    let mut forge = Forge::open(&path);
    forge.flip(forge.find(Kind::Blob, wanted));
    forge.reseal();
    forge.write(&path);
    place
}

#[test]
fn a_kernel_that_does_not_compute_the_same_twice() {
    for (how, function, kernel, node) in [
        ("direct", "cuLaunchKernel", "stamp", ""),
        ("through", "cuLaunchKernel", "stamp_through", ""),
        ("graph", "cuGraphLaunch", "stamp", ", node 2 of its graph"),
    ] {
        let place = recorded("nondeterministic.c", &[how]);
        let nth = if function == "cuLaunchKernel" { 2 } else { 0 };
        let call = calls_named(&place.trace(), function)[nth].number;
        let line = format!("diverged: kernel {kernel} (call {call}{node}) is nondeterministic: it reads the clock");
        for options in [&[][..], &["--sync-launches"], &["--bisect"]] {
            let text = replayed(&place, options).stdout;
            assert_eq!(text.lines().next(), Some(&*line), "{options:?}: {text}");
            assert!(text.contains(&format!("  likely cause {kernel} reads the clock\n")), "{text}");
        }
        let explanation = report(&place, &[])["explanation"].take();
        assert_eq!(explanation["line"], line, "{explanation}");
        assert_eq!(explanation["conclusion"], "nondeterministic");
        assert_eq!((&explanation["replays_agree"], &explanation["given_up"]), (&false.into(), &Value::Null));
        assert_eq!((&explanation["launch"]["call"], &explanation["launch"]["kernel"]), (&call.into(), &kernel.into()));
        assert_eq!((&explanation["causes"][0]["kind"], &explanation["causes"][1]), (&"clock".into(), &Value::Null));
    }
}

#[test]
fn a_replay_that_is_not_as_recorded() {
    let wanted: Vec<u8> = [0.5f32, 2.5, 4.5].iter().flat_map(|f| f.to_le_bytes()).collect();
    let place = forged("vector_add.c", &[], &wanted);
    let text = replayed(&place, &[]).stdout;
    assert!(text.starts_with("diverged: the replay differs from the recording\n"), "{text}");
    assert!(!text.contains("because"), "{text}");
    let explanation = report(&place, &[])["explanation"].take();
    assert_eq!((&explanation["conclusion"], &explanation["replays_agree"]), (&"differs".into(), &true.into()));
    assert_eq!((&explanation["compared_launches"], &explanation["launch"]), (&1.into(), &Value::Null));
    assert_eq!(explanation["reads_unwritten_memory"], false);
}

/// When recorded it held something else than zeros.
#[test]
fn memory_that_was_never_written() {
    let place = Place::new();
    run(place
        .cutrace(["record", "--driver", "sim", "--data", "all", "-o", "trace.bin", "--"])
        .arg(client("uninitialised.c")))
    .expect(0);
    let path = place.join("trace.bin");
    let mut forge = Forge::open(&path);
    let edge: Vec<u8> = [498u32, 499, 0, 0].iter().flat_map(|n| n.to_le_bytes()).collect();
    forge.flip(forge.find(Kind::Blob, &edge) + 8);
    forge.reseal();
    forge.write(&path);
    let text = replayed(&place, &[]).stdout;
    assert!(text.starts_with("diverged: the replay differs from the recording\n"), "{text}");
    assert!(text.contains("likely cause it reads memory that was never written: replay --fill 0xa5"), "{text}");
    assert_eq!(report(&place, &[])["explanation"]["reads_unwritten_memory"], true);
}

#[test]
fn memory_that_was_never_written_is_not_called_unordered() {
    let place = Place::new();
    let record = ["record", "--driver", "sim", "--data", "all", "-o", "trace.bin", "--"];
    run(place.cutrace(record).arg(client("uninitialised.c")).arg("unordered")).expect(0);
    let told = report(&place, &["--fill", "0xa5"]);
    assert_eq!(told["first_divergence"]["extent"]["fill"]["never_written"], true, "{told}");
    assert!(told["explanation"].is_object() && told["explanation"]["unordered"].is_null(), "{told}");
}

#[test]
fn nothing_is_explained_that_is_not_to_be() {
    let place = recorded("nondeterministic.c", &["direct"]);
    let text = replayed(&place, &["--no-explain"]).stdout;
    assert!(text.starts_with("diverged\n") && text.contains(" --bisect"), "{text}");
    assert_eq!(report(&place, &["--no-explain"])["explanation"], Value::Null);
    let text = replayed(&place, &["--explain-within", "0"]).stdout;
    assert!(text.starts_with("diverged\n") && text.contains("two more have to fit into 0 s"), "{text}");
    let explanation = report(&place, &["--explain-within", "0"])["explanation"].take();
    assert_eq!((&explanation["line"], &explanation["conclusion"]), (&"diverged".into(), &Value::Null));
    let sound = recorded("vector_add.c", &[]);
    assert_eq!(json(&sound, &["replay", "--driver", "sim", "--json"])["explanation"], Value::Null);
}

/// The copies and fills come before the kernel, as they did; where launches are waited for, behind it.
#[test]
fn what_nothing_orders() {
    for (how, later) in [("copy", "cuMemcpyDtoH_v2"), ("fill", "cuMemsetD32Async"), ("event", "cuMemsetD32Async")] {
        let place = recorded("unordered_copy.c", &[how]);
        let trace = place.trace();
        let launch = calls_named(&trace, "cuLaunchKernel")[0].number;
        let other = calls_named(&trace, later)[0].number;
        run(&mut place.cutrace(["replay", "--driver", "sim"])).expect(0);
        let text = replayed(&place, &["--sync-launches"]).stdout;
        let line = format!("diverged: calls {launch} and {other} use the same memory without an order");
        assert!(text.starts_with(&line), "{how}: {text}");
        assert!(text.contains("this replay waited for each launch, the program does not"), "{text}");
        assert!(text.contains(&format!("no order     call {launch} cuLaunchKernel late on stream#1\n")), "{text}");
        let explanation = report(&place, &["--sync-launches"])["explanation"].take();
        let unordered = &explanation["unordered"];
        assert_eq!((&unordered["earlier"]["call"], &unordered["earlier"]["kernel"]), (&launch.into(), &"late".into()));
        assert_eq!((&unordered["later"]["call"], &unordered["later"]["function"]), (&other.into(), &later.into()));
        let stream = if how == "copy" { "the legacy stream of ctx#1" } else { "stream#2" };
        assert_eq!(unordered["later"]["stream"], stream);
        assert_eq!(explanation["replays_agree"], true, "{explanation}");
    }
}

/// However many copies a batch has. The bytes that were recorded differ in any case, whichever comes last here.
#[test]
fn a_batch_that_nothing_orders() {
    for count in ["4", "513", "4096"] {
        let place = Place::new();
        let mut record = place.cutrace(["record", "--driver", "sim", "--data", "all", "--"]);
        run(record.arg(client("fill_before_batch_copies.c")).arg(count)).expect(0);
        let trace = place.trace();
        let call = |name| calls_named(&trace, name)[0].number;
        let (fill, batch) = (call("cuMemsetD8Async"), call("cuMemcpyBatchAsync_v2"));
        let path = place.join("trace.bin");
        let mut forge = Forge::open(&path);
        forge.flip(forge.find(Kind::Blob, &0xc0ffeeu32.to_le_bytes()));
        forge.reseal();
        forge.write(&path);
        let text = replayed(&place, &[]).stdout;
        let line = text.lines().next().unwrap_or_default();
        let says = format!(" calls {fill} and {batch} use the same memory without an order");
        assert!(line.starts_with("diverged: ") && line.ends_with(&says), "{count}: {text}");
    }
}

/// Waiting for launches changes nothing then, and what a fill of memory shows is not known to be its doing.
#[test]
fn what_nothing_orders_is_told_of_whatever_diverges() {
    let place = Place::new();
    let mut record = place.cutrace(["record", "--driver", "sim", "--data", "all", "--"]);
    run(record.arg(client("unordered_copy.c")).arg("before")).expect(0);
    let path = place.join("trace.bin");
    let trace = place.trace();
    let (fill, launch) =
        (calls_named(&trace, "cuMemsetD32Async")[0].number, calls_named(&trace, "cuLaunchKernel")[0].number);
    let copy = calls_named(&trace, "cuMemcpyDtoH_v2")[0];
    let mut forge = Forge::open(&path);
    forge.flip(forge.find(Kind::Blob, &3_000_000u32.to_le_bytes()));
    forge.reseal();
    forge.write(&path);
    let text = replayed(&place, &[]).stdout;
    let line = format!(
        "diverged: the replay differs from the recording; calls {fill} and {launch} use the same memory without an order"
    );
    assert!(text.starts_with(&line) && !text.contains("because"), "call {}: {text}", copy.number);
    assert!(text.contains(&format!("no order     call {fill} cuMemsetD32Async on stream#2\n")), "{text}");
}

#[test]
fn kernels_that_read_the_clock_are_noted() {
    let place = recorded("nondeterministic.c", &["direct"]);
    let call = calls_named(&place.trace(), "cuLaunchKernel")[2].number;
    // The other one of the module is not launched.
    let note = format!("kernel stamp reads the clock (1 call: {call})");
    for arguments in [&["info", "--json"][..], &["replay", "--dry-run", "--json"]] {
        let said = json(&place, arguments);
        assert_eq!((&said["verdict"], &said["notes"]), (&"replayable".into(), &serde_json::json!([note])), "{said}");
    }
    let text = run(&mut place.cutrace(["info"])).expect(0).stdout;
    assert!(text.contains(&format!("  note: {note}\n")), "{text}");
    assert_eq!(json(&recorded("vector_add.c", &[]), &["info", "--json"])["notes"], serde_json::json!([]));
}

/// The replays that an explanation takes fail where the first one did not.
#[test]
fn replays_that_fail_explain_nothing() {
    let place = recorded("nondeterministic.c", &["direct"]);
    let sim = driver_directory().join("libcuda.so.1");
    let directory = format!("-Wl,-rpath,{}", driver_directory().display());
    let flags = ["-Wl,--no-as-needed", sim.to_str().expect("a path"), &directory, "-ldl"];
    let unlinked = client_with("libdriver_unlinked.c", &flags);
    let replayed = |options: &[&str]| {
        std::fs::copy(&unlinked, place.join("driver.so")).expect("a copy");
        run(place.cutrace(["replay", "--driver", "./driver.so"]).args(options)).expect(4).stdout
    };
    let text = replayed(&[]);
    assert!(text.starts_with("diverged\n"), "{text}");
    assert!(text.contains("  not explained: another replay failed (exit status: 5): "), "{text}");
    assert!(text.contains("driver.so"), "{text}");
    let report: Value = serde_json::from_str(&replayed(&["--bisect", "--json"])).expect("JSON");
    let why = report["explanation"]["given_up"].as_str().unwrap_or_default();
    assert!(why.contains("another replay failed"), "{report}");
    assert_eq!(report["bisection"], Value::Null);
}

/// What another replay says is not what a user is told.
#[test]
fn another_replay_says_what_it_is_asked_for() {
    let place = recorded("nondeterministic.c", &["direct"]);
    let said = replayed(&place, &["--json", "--again", "--bisect"]).stdout;
    let (object, trail) = said.split_once('\n').expect("lines");
    let object: Value = serde_json::from_str(object).expect("JSON");
    assert_eq!(object.as_object().map(serde_json::Map::len), Some(2), "{object}");
    assert_eq!((&object["outcome"], object["first_divergence"].is_object()), (&"diverged".into(), true));
    assert_eq!(trail.lines().count(), 4, "{trail}");
}

#[test]
fn an_interrupted_explanation_leaves_nothing() {
    let place = recorded("nondeterministic.c", &["direct"]);
    let directory = place.join("temporary");
    std::fs::create_dir(&directory).expect("our own directory");
    for signal in [libc::SIGINT, libc::SIGTERM] {
        let mut replay = place.cutrace(["replay", "--driver", "sim"]);
        let heeds = move || {
            // SAFETY: allowed between fork and exec.
            let _as_before = unsafe { libc::signal(signal, libc::SIG_DFL) };
            Ok(())
        };
        // SAFETY: as above.
        unsafe { std::os::unix::process::CommandExt::pre_exec(&mut replay, heeds) };
        // Each call that waits takes so long.
        replay.env("TMPDIR", &directory).env("CUTRACE_SIM_SLOW_US", "500000");
        let mut child = replay.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("started");
        while !has_child(child.id()) {
            assert!(child.try_wait().expect("our child").is_none(), "too fast to be interrupted");
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        // SAFETY: the child is ours and has not been waited for.
        unsafe { libc::kill(child.id() as i32, signal) };
        assert_eq!(child.wait().expect("our child").code(), Some(128 + signal));
        let left: Vec<_> = std::fs::read_dir(&directory).expect("our own directory").collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

fn has_child(process: u32) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let children = threads.map(|thread| std::fs::read_to_string(thread.path().join("children")).unwrap_or_default());
    children.into_iter().any(|children| !children.is_empty())
}
