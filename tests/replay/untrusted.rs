//! `replay --untrusted`: the actions that the driver may still perform for a stranger's trace.

use std::io::Error;
use std::os::unix::process::CommandExt;
use tests::forge::Forge;
use tests::*;
use trace::file::segment::Kind;

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
    "datagram",
    "attribute",
    "flags",
    "extended flags",
    "owner",
    "signal",
    "lock",
    "lock of a part",
    "lock of an open part",
    "disks",
    "affinity",
    "segments",
    "window",
    "hidden",
    "semaphore",
    "message",
    "inherited",
    "kill",
    "type",
    "io_uring",
    "shared memory",
    "fork",
];
/// What these are asked is no sense: without the sandbox they fail, but otherwise.
const ASKED_WRONGLY: &[&str] = &[
    "type",
    "io_uring",
    "datagram",
    "attribute",
    "flags",
    "extended flags",
    "semaphore",
    "message",
    "disks",
    "window",
];
const REFUSALS: &[&str] =
    &["Operation not permitted", "Permission denied", "Function not implemented", "Bad file descriptor"];
/// A descriptor that libreaching_out.c looks for.
const INHERITED: i32 = 99;
const NEEDED: &[&str] =
    &["read", "null", "memfd", "own affinity", "comm", "nothing to remove", "packets", "bind", "listen", "thread"];

#[test]
fn nothing_beyond_the_device_is_reached() {
    let place = Place::new();
    run(&mut place.recorded(client("vector_add.c"))).expect(0);
    let driver = client_with("libreaching_out.c", &["-Wl,--no-as-needed"]);
    let replay = |options: &[&str]| {
        std::fs::write(place.join("there"), "there").expect("written");
        let mut command = place.cutrace(["replay", "--driver"]);
        command.arg(&driver).args(options).env("LD_LIBRARY_PATH", driver_directory());
        // SAFETY: dup2 may be called between fork and exec.
        unsafe { command.pre_exec(|| if libc::dup2(0, INHERITED) < 0 { Err(Error::last_os_error()) } else { Ok(()) }) };
        let ran = run(&mut command).expect(0);
        assert!(is_verified(&ran.stdout), "{options:?}: {}", ran.stdout);
        ran
    };
    let became = |ran: &Outcome, what: &str| {
        let line = ran.stderr.lines().find_map(|line| line.strip_prefix(&format!("{what}: ")));
        line.unwrap_or_else(|| panic!("{what}: {}", ran.stderr)).to_owned()
    };
    let sandboxed = replay(&["--untrusted"]);
    for what in FORBIDDEN {
        assert!(REFUSALS.contains(&&*became(&sandboxed, what)), "{what}: {}", sandboxed.stderr);
    }
    for what in NEEDED {
        assert_eq!(became(&sandboxed, what), "done", "{what}: {}", sandboxed.stderr);
    }
    assert_eq!(std::fs::read_to_string(place.join("there")).expect("still there"), "there");
    assert!(!place.join("made").exists() && !place.join("directory").exists());
    // Without the sandbox each is done, or the kernel looks at what is asked and finds it wrong.
    let free = replay(&[]);
    for what in FORBIDDEN {
        let (free_to, found) = (became(&free, what), became(&sandboxed, what));
        let is_done = free_to == "done" || ASKED_WRONGLY.contains(what) && free_to != found;
        assert!(is_done, "{what}: {}", free.stderr);
    }
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
    for app in
        ["graphs.c", "callbacks.c", "printing.c", "linking.c", "pools.c", "kernel_libraries.c", "expandable_segments.c"]
    {
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

/// A driver that takes all it can get is ended, and so is one that has more threads than any replay needs.
#[test]
fn memory_and_threads_have_limits() {
    const MEMORY: u64 = 256 << 20;
    let place = Place::new();
    run(&mut place.recorded(client("vector_add.c"))).expect(0);
    let driver = client_with("libtaking_all.c", &["-Wl,--no-as-needed"]);
    let replay = |takes: &str, options: &[&str]| {
        let mut command = place.cutrace(["replay", "--driver"]);
        command.arg(&driver).args(options).env("LD_LIBRARY_PATH", driver_directory()).env("TAKES", takes);
        let limit = || {
            let limit = libc::rlimit { rlim_cur: MEMORY, rlim_max: MEMORY };
            // SAFETY: a struct of ours, between fork and exec.
            if unsafe { libc::setrlimit(libc::RLIMIT_RSS, &limit) } < 0 { Err(Error::last_os_error()) } else { Ok(()) }
        };
        // SAFETY: it makes one system call.
        unsafe { command.pre_exec(limit) };
        run(&mut command)
    };
    for takes in ["memory", "files", "threads"] {
        let ran = replay(takes, &["--untrusted"]).expect(128 + libc::SIGKILL);
        let (what, most) = if takes == "threads" { ("threads", "1001") } else { ("MiB of memory", "256 MiB") };
        let said = ran.said();
        let is_told = |line: &&str| line.contains(what) && line.contains(most) && line.ends_with("no verdict");
        assert!(matches!(&said[..], [line] if is_told(line)), "{takes}: {ran:?}");
    }
    // What stays below is left alone, and without the sandbox nobody looks.
    replay("little", &["--untrusted"]).expect(0);
    replay("threads", &[]).expect(0);
}

/// Where the process may have few addresses (`ulimit -v`), a place for all that a trace says to need is not looked for on
/// and on.
#[test]
fn a_full_address_space_is_not_searched_for_ever() {
    const RECORDED: u64 = 16 << 20;
    let place = Place::new();
    run(&mut place.recorded(client("allocation_fails_in_replay.c"))).expect(0);
    let mut forge = Forge::open(place.join("trace.bin"));
    forge.replace(Kind::Chunk, &RECORDED.to_le_bytes(), &(16u64 << 40).to_le_bytes());
    forge.reseal();
    forge.write(place.join("trace.bin"));
    let mut command = place.command("sh");
    let replay = "ulimit -v 4000000; exec \"$0\" replay --driver sim --no-explain --timeout 120";
    let ran = run(command.args(["-c", replay]).arg(artifact("cutrace")));
    assert!(!ran.stderr.contains("panicked") && !ran.stderr.contains("given up"), "{ran:?}");
}
