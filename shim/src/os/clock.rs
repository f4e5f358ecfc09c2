//! Time stamps: the time-stamp counter where Linux itself trusts it, clock_gettime elsewhere. x86-64 only.

#[cfg(not(target_arch = "x86_64"))]
compile_error!("cutrace records on x86-64 only: this file and interpose.rs depend on the architecture");

use std::arch::x86_64::{_mm_lfence, _rdtsc};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use trace::file::record::Clock;

static TRUSTED: AtomicBool = AtomicBool::new(false);

/// Decides which clock to use; before the first stamp.
pub(crate) fn choose() -> &'static str {
    let source = std::fs::read_to_string("/sys/devices/system/clocksource/clocksource0/current_clocksource");
    let flags = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let steady = flags.lines().find(|l| l.starts_with("flags")).is_some_and(|l| l.contains(" constant_tsc"));
    let trusted = match source.as_deref().map(str::trim) {
        Ok("tsc") => true,
        Ok("kvm-clock") => steady,
        _ => false,
    };
    TRUSTED.store(trusted, Relaxed);
    if trusted { "tsc" } else { "monotonic" }
}

/// The stamp of an entry: no later load may run ahead of it, or two threads could see each other's order
/// reversed.
#[inline(always)]
pub(crate) fn entry() -> u64 {
    if TRUSTED.load(Relaxed) {
        // SAFETY: both instructions exist on every x86-64 processor.
        unsafe {
            _mm_lfence();
            _rdtsc()
        }
    } else {
        monotonic()
    }
}

/// The stamp of a return.
#[inline(always)]
pub(crate) fn exit() -> u64 {
    if TRUSTED.load(Relaxed) {
        // SAFETY: the instruction exists on every x86-64 processor.
        unsafe { _rdtsc() }
    } else {
        monotonic()
    }
}

/// A pair of stamp and nanoseconds, taken together.
pub(crate) fn pair() -> Clock {
    let before = entry();
    let ns = monotonic();
    let after = exit();
    Clock { tsc: before + (after - before) / 2, ns }
}

/// The best of some pairs: that with the least time between its two stamps.
pub(crate) fn sharp_pair() -> Clock {
    let mut best = (u64::MAX, pair());
    for _ in 0..8 {
        let before = entry();
        let pair = pair();
        let apart = exit().wrapping_sub(before);
        if apart < best.0 {
            best = (apart, pair);
        }
    }
    best.1
}

/// Stamps of both clocks, before one is chosen.
pub(crate) fn both() -> Clock {
    // SAFETY: the instruction exists on every x86-64 processor.
    Clock { tsc: unsafe { _rdtsc() }, ns: monotonic() }
}

/// The one of `both` that counts.
pub(crate) fn chosen(both: Clock) -> u64 {
    if TRUSTED.load(Relaxed) { both.tsc } else { both.ns }
}

#[cold]
fn monotonic() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is a valid timespec; the clock exists on every Linux.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC_RAW, &mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Nanoseconds since Linux started; also for signal handlers.
pub(crate) fn now() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: fills the struct; may be called by a signal handler.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
