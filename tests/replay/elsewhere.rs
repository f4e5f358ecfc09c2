//! Memory that is not placed at its recorded addresses.

use tests::*;

#[test]
fn memory_that_is_elsewhere_ends_as_recorded() {
    for app in ["ordered_memory.c", "context_memory.c", "pools.c", "batch_copies.c", "managed_copies.c"] {
        let place = Place::new();
        run(&mut place.recorded(client(app))).expect(0);
        let replayed = run(&mut place.cutrace(["replay", "--driver", "sim", "--no-placement"])).expect(0);
        assert!(is_verified(&replayed.stdout), "{app}: {}", replayed.stdout);
    }
}

#[test]
fn a_dead_object_is_not_called() {
    let place = Place::new();
    run(&mut place.recorded(client("stale_handles.c"))).expect(0);
    let replayed = run(&mut place.cutrace(["replay", "--driver", "sim"])).expect(0);
    assert!(replayed.stdout.contains("uses a stream that call "), "{}", replayed.stdout);
    assert!(replayed.stdout.contains("uses an event that no call in the trace created"), "{}", replayed.stdout);
}

#[test]
fn a_device_that_may_be_too_small_is_named() {
    let place = Place::new();
    run(&mut place.recorded(client("context_memory.c"))).expect(0);
    let replayed = run(place.cutrace(["replay", "--driver", "sim"]).env("CUTRACE_SIM_MEMORY", "300000000")).expect(4);
    let [warning] = replayed.said()[..] else { panic!("one line was expected: {}", replayed.stderr) };
    assert!(warning.starts_with("cutrace: warning: device 0 has 300000000 bytes of memory, "), "{warning}");
}
