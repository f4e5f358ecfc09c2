//! The state of a process, as Linux reports it, so that a test waits for a state and not for a time that a
//! busy machine may exceed.

use crate::run::HANG;
use std::time::{Duration, Instant};

/// Waits until it is so, or panics when that takes as long as nothing does.
#[track_caller]
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < HANG, "not so after {HANG:?}: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn stat(pid: u32) -> Option<Vec<u8>> {
    std::fs::read(format!("/proc/{pid}/stat")).ok()
}

/// What it and its threads have computed for; nothing of a process that is gone.
pub fn computed(pid: u32) -> Duration {
    let ticks = |field| stat(pid).and_then(|stat| trace::base::job::field(&stat, field)).unwrap_or(0);
    // SAFETY: asks.
    let a_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) } as f64;
    Duration::from_secs_f64((ticks(14) + ticks(15)) as f64 / a_second)
}

/// Whether each of its threads waits for something.
pub fn is_asleep(pid: u32) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let mut states = threads.map(|thread| std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default());
    states.all(|stat| stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('S')))
}

/// Whether a signal is in one of these sets of `/proc/PID/status`.
fn is_in(pid: u32, signal: i32, sets: &[&str]) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    sets.iter().any(|name| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        let set = line.and_then(|set| u64::from_str_radix(set.trim(), 16).ok()).unwrap_or(0);
        set >> (signal - 1) & 1 == 1
    })
}

/// Whether it does something of its own when this signal comes: it blocks it, to wait for it, or has a
/// handler.
pub fn heeds(pid: u32, signal: i32) -> bool {
    is_in(pid, signal, &["SigBlk", "SigCgt"])
}

/// Whether the signal has been sent to it, and none of its threads has taken it yet.
pub fn is_pending(pid: u32, signal: i32) -> bool {
    is_in(pid, signal, &["ShdPnd"])
}

/// The processes that it has started and that have not been waited for.
pub fn children(pid: u32) -> Vec<u32> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let lists = threads.map(|thread| std::fs::read_to_string(thread.path().join("children")).unwrap_or_default());
    lists.flat_map(|list| list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>()).collect()
}
