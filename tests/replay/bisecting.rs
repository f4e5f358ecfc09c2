//! `replay --bisect`: it distinguishes a nondeterministic kernel from a replay that differs from the
//! recording.

use serde_json::Value;
use tests::forge::Forge;
use tests::*;
use trace::file::segment::Kind;

fn recorded(app: &str, arguments: &[&str]) -> Place {
    let place = Place::new();
    run(place.recorded(client(app)).args(arguments)).expect(0);
    place
}

fn replayed(place: &Place, options: &[&str]) -> Outcome {
    run(place.cutrace(["replay", "--driver", "sim", "--bisect"]).args(options))
}

fn report(place: &Place, options: &[&str], code: i32) -> Value {
    let ran = replayed(place, &[&["--json"], options].concat()).expect(code);
    serde_json::from_str(&ran.stdout).expect("JSON")
}

#[test]
fn the_kernel_that_does_not_compute_the_same_twice() {
    for (how, function, kernel, node, compared, memory) in [
        ("direct", "cuLaunchKernel", "stamp", Value::Null, 3, "mem#3"),
        ("long", "cuLaunchKernel", "stamp", Value::Null, 3, "mem#3+0x4000000"),
        ("through", "cuLaunchKernel", "stamp_through", Value::Null, 3, "mem#3"),
        ("graph", "cuGraphLaunch", "stamp", 1.into(), 4, "mem#3"),
    ] {
        let place = recorded("nondeterministic.c", &[how]);
        let trace = place.trace();
        let nth = if function == "cuLaunchKernel" { 2 } else { 0 };
        let call = calls_named(&trace, function)[nth].number;
        for options in [&[][..], &["--no-placement"]] {
            // Pointers in memory lead nowhere unless memory is where it was.
            if how == "through" && !options.is_empty() {
                continue;
            }
            let report = report(&place, options, 4);
            let bisection = &report["bisection"];
            let first = &bisection["first"];
            assert_eq!((&first["kernel"], &first["call"]), (&kernel.into(), &call.into()), "{how}: {bisection}");
            assert_eq!((&first["node"], &bisection["compared"]), (&node, &compared.into()), "{how}: {bisection}");
            assert_eq!(bisection["in_parts"], how == "long");
            assert_eq!((&first["inputs_differ"], &first["memory"]), (&false.into(), &[memory][..].into()));
        }
        let text = replayed(&place, &[]).expect(4).stdout;
        assert!(text.contains("that computes another result in a second replay"), "{text}");
    }
}

/// The stop stands before the only copy to the host: that the launches agree is not known.
#[test]
fn a_stop_before_anything_is_compared_is_unverified() {
    let place = recorded("nondeterministic.c", &["direct"]);
    let copy = calls_named(&place.trace(), "cuMemcpyDtoH_v2")[0].number;
    let until = (copy - 1).to_string();
    let ran = replayed(&place, &["--until", &until]).expect(6);
    assert!(ran.stdout.starts_with("unverified: "), "{}", ran.stdout);
    assert!(ran.stdout.contains("bisection: no device result is compared, 4 launches"), "{}", ran.stdout);
    let report = report(&place, &["--until", &until], 6);
    assert_eq!((&report["outcome"], &report["stopped_before"]), (&"unverified".into(), &copy.into()));
    // Without a comparison asked for it is a stop, which does not claim one.
    let stop = run(&mut place.cutrace(["replay", "--driver", "sim", "--until", &until])).expect(0).stdout;
    assert!(stop.starts_with("stopped before call "), "{stop}");
}

#[test]
fn a_replay_that_is_not_as_recorded() {
    let place = recorded("vector_add.c", &[]);
    let path = place.join("trace.bin");
    let mut forge = Forge::open(&path);
    let wanted: Vec<u8> = [0.5f32, 2.5, 4.5].iter().flat_map(|f| f.to_le_bytes()).collect();
    forge.flip(forge.find(Kind::Blob, &wanted) + 8);
    forge.reseal();
    forge.write(&path);
    let report = report(&place, &[], 4);
    assert_eq!((&report["bisection"]["compared"], &report["bisection"]["first"]), (&1.into(), &Value::Null));
    let text = replayed(&place, &[]).expect(4).stdout;
    assert!(text.contains("bisection: two replays agree on all of 1 launch\n"), "{text}");
}

/// Hashing changes nothing, and memory with addresses in it is the same wherever it lies.
#[test]
fn nothing_to_find() {
    for app in ["vector_add.c", "linked_list.c", "graphs.c", "two_contexts.c", "launch_beside_capture.c"] {
        let place = recorded(app, &[]);
        let report = report(&place, &[], 0);
        assert_eq!((&report["outcome"], &report["bisection"]), (&"verified".into(), &Value::Null), "{app}");
    }
    let text = replayed(&recorded("vector_add.c", &[]), &[]).expect(0).stdout;
    assert!(text.contains("bisection: no difference from the recording, 1 launch replayed one by one"), "{text}");
}
