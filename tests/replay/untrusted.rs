//! `replay --untrusted`: what the driver may still do on behalf of a stranger's trace.

use tests::*;

const FORBIDDEN: &[&str] = &[
    "create",
    "write",
    "append",
    "truncate",
    "empty",
    "rename",
    "remove",
    "chmod",
    "mkdir",
    "memory",
    "internet",
    "local socket",
    "socket file",
    "kill",
    "type",
    "io_uring",
    "shared memory",
    "fork",
];
const NEEDED: &[&str] = &["read", "null", "memfd", "comm", "packets", "bind", "listen", "thread"];

#[test]
fn nothing_beyond_the_device_is_reached() {
    let place = Place::new();
    run(&mut place.recorded(client("vector_add.c"))).expect(0);
    let driver = client_with("libreaching_out.c", &["-Wl,--no-as-needed"]);
    let replay = |options: &[&str]| {
        std::fs::write(place.join("there"), "there").expect("written");
        let mut command = place.cutrace(["replay", "--driver"]);
        command.arg(&driver).args(options).env("LD_LIBRARY_PATH", driver_directory());
        let ran = run(&mut command).expect(0);
        assert!(ran.stdout.starts_with("verified\n"), "{options:?}: {}", ran.stdout);
        ran
    };
    let is_done = |ran: &Outcome, what: &str| {
        let line = ran.stderr.lines().find_map(|line| line.strip_prefix(&format!("{what}: ")));
        line.unwrap_or_else(|| panic!("{what}: {}", ran.stderr)) == "done"
    };
    let sandboxed = replay(&["--untrusted"]);
    for what in FORBIDDEN {
        assert!(!is_done(&sandboxed, what), "{what}: {}", sandboxed.stderr);
    }
    assert!(NEEDED.iter().all(|what| is_done(&sandboxed, what)), "{}", sandboxed.stderr);
    assert_eq!(std::fs::read_to_string(place.join("there")).expect("still there"), "there");
    assert!(!place.join("made").exists() && !place.join("directory").exists());
    // It does try.
    let free = replay(&[]);
    assert!(
        ["create", "write", "truncate", "internet", "socket file", "shared memory", "fork"]
            .iter()
            .all(|what| is_done(&free, what)),
        "{}",
        free.stderr
    );
    assert!(place.join("made").exists());
}

#[test]
fn what_needs_files_or_processes_of_its_own_is_refused() {
    let place = Place::new();
    run(&mut place.recorded(client("vector_add.c"))).expect(0);
    for options in [&["--profile"][..], &["--bisect"], &["--dump-memory", "mem#1", "memory.bin"]] {
        let ran = run(place.cutrace(["replay", "--driver", "sim", "--untrusted"]).args(options)).expect(2);
        assert!(ran.stderr.contains(options[0]) && ran.stderr.contains("--untrusted"), "{}", ran.stderr);
    }
}

/// Threads, captures, callbacks, pinned memory, printing, code that is linked: with as little.
#[test]
fn programs_replay_as_ever() {
    for app in ["graphs.c", "callbacks.c", "printing.c", "linking.c", "pools.c", "kernel_libraries.c", "expandable.c"] {
        let place = Place::new();
        run(&mut place.recorded(client(app))).expect(0);
        let ran = run(&mut place.cutrace(["replay", "--driver", "sim", "--untrusted"]));
        let plain = run(&mut place.cutrace(["replay", "--driver", "sim"]));
        assert_eq!(
            (ran.code(), ran.stdout.lines().next()),
            (plain.code(), plain.stdout.lines().next()),
            "{app}: {ran:?}"
        );
    }
}
