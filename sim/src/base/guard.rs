//! The guard of pageable host memory: it limits where a copy may write and a launch may read. A driver cannot
//! know these limits, but the program can register its buffers.
//!
//! With `CUTRACE_SIM_GUARD` set, a copy to unregistered memory ends the process, and so does a launch whose
//! array of arguments begins in registered memory and leads out of it. This shows that a replay of a forged
//! trace uses nothing but its own buffers.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use parking_lot::RwLock;

/// The program's buffers: start and size.
static BUFFERS: RwLock<BTreeMap<u64, u64>> = RwLock::new(BTreeMap::new());

fn is_on() -> bool {
    static ON: OnceLock<bool> = OnceLock::new();
    *ON.get_or_init(|| std::env::var_os("CUTRACE_SIM_GUARD").is_some())
}

/// Called by the program: it has a buffer here, or (of size 0) has none any more.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn cutrace_sim_buffer(start: u64, size: u64) {
    let mut buffers = BUFFERS.write();
    match size {
        0 => _ = buffers.remove(&start),
        _ => _ = buffers.insert(start, size),
    }
}

/// Before a copy writes pageable memory.
pub(crate) fn writes(at: u64, length: u64) {
    if !is_on() || length == 0 {
        return;
    }
    if !is_within(at, length) {
        end("write", at, length);
    }
}

/// Before a launch reads from an array of arguments, or what a pointer in it leads to.
pub(crate) fn reads(array: u64, at: u64, length: u64) {
    if is_on() && is_within(array, 1) && !is_within(at, length) {
        end("read", at, length);
    }
}

fn is_within(at: u64, length: u64) -> bool {
    let buffers = BUFFERS.read();
    let around = buffers.range(..=at).next_back();
    around.is_some_and(|(start, size)| at.saturating_add(length) <= start + size)
}

fn end(what: &str, at: u64, length: u64) -> ! {
    eprintln!("simulated driver: cannot {what} {length} bytes at {at:#x}: outside the program's buffers");
    std::process::abort()
}
