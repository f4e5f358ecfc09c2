//! Whether the driver can be used: not before cuInit, in a forked child, or while the process ends.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, Ordering};
use std::time::Instant;

use parking_lot::Mutex;

use crate::abi::code::{Code, Result};

const READY: u8 = 1;
const SHUT: u8 = 2;

/// The state byte lies in a page that the kernel empties in a forked child, so a child reads 0 whatever made
/// it.
static PAGE: AtomicPtr<AtomicU8> = AtomicPtr::new(std::ptr::null_mut());
static EVER: AtomicBool = AtomicBool::new(false);
static INIT: Mutex<()> = Mutex::new(());

/// Settings from the environment, read by cuInit.
#[derive(Debug)]
pub(crate) struct Knobs {
    pub seed: u64,
    pub memory: usize,
    pub devices: i32,
    pub slow_us: u64,
    /// As the real driver has it.
    pub launches_wait: bool,
    /// Managed memory leaves the CPU's page table when a kernel has run, as pages do that went to a device.
    pub migrates: bool,
    /// Compute capability, ten times.
    pub compute: u32,
}

pub(crate) fn knobs() -> &'static Knobs {
    static KNOBS: OnceLock<Knobs> = OnceLock::new();
    KNOBS.get_or_init(|| Knobs {
        seed: number("CUTRACE_SIM_SEED").unwrap_or_else(random),
        memory: number("CUTRACE_SIM_MEMORY").unwrap_or(1 << 30) as usize,
        devices: number("CUTRACE_SIM_DEVICES").unwrap_or(1) as i32,
        slow_us: number("CUTRACE_SIM_SLOW_US").unwrap_or(0),
        launches_wait: number("CUDA_LAUNCH_BLOCKING").unwrap_or(0) != 0,
        migrates: number("CUTRACE_SIM_MIGRATES").unwrap_or(0) != 0,
        compute: number("CUTRACE_SIM_COMPUTE").unwrap_or(90) as u32,
    })
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

fn random() -> u64 {
    let mut bytes = [0; 8];
    // SAFETY: the buffer is eight bytes long; if nothing is written the seed is zero.
    unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    u64::from_ne_bytes(bytes)
}

/// Refuses unless cuInit has succeeded in this very process.
#[inline]
pub(crate) fn ready() -> Result {
    let page = PAGE.load(Ordering::Acquire);
    if page.is_null() {
        return Err(Code::NOT_INITIALIZED);
    }
    // SAFETY: once stored, the pointer is to a mapped page that is never unmapped.
    match unsafe { &*page }.load(Ordering::Relaxed) {
        READY => Ok(()),
        SHUT => Err(Code::DEINITIALIZED),
        _ => Err(Code::NOT_INITIALIZED),
    }
}

/// cuInit; `prepare` runs before the driver is ready, once in a process.
pub(crate) fn init(flags: u32, prepare: impl FnOnce()) -> Result {
    if flags != 0 {
        return Err(Code::INVALID_VALUE);
    }
    match ready() {
        Err(Code::NOT_INITIALIZED) if EVER.load(Ordering::Acquire) && !PAGE.load(Ordering::Acquire).is_null() => {
            return Err(Code::NOT_INITIALIZED);
        }
        Err(Code::NOT_INITIALIZED) => {}
        other => return other,
    }
    let _one = INIT.lock();
    if ready().is_ok() {
        return Ok(());
    }
    if knobs().devices < 1 {
        return Err(Code::NO_DEVICE);
    }
    prepare();
    nanoseconds();
    let page = page().ok_or(Code::OPERATING_SYSTEM)?;
    // SAFETY: just mapped, readable and writable, aligned to a page.
    unsafe { &*page }.store(READY, Ordering::Relaxed);
    EVER.store(true, Ordering::Release);
    PAGE.store(page, Ordering::Release);
    // SAFETY: `shut` is a function of this library, which is never unloaded.
    unsafe { libc::atexit(shut) };
    Ok(())
}

fn page() -> Option<*mut AtomicU8> {
    let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new anonymous mapping at an address of the kernel's choice disturbs nothing.
    let page = unsafe { libc::mmap(std::ptr::null_mut(), 4096, access, kind, -1, 0) };
    if page == libc::MAP_FAILED {
        return None;
    }
    // SAFETY: the page was mapped above and belongs to nobody else.
    let wiped = unsafe { libc::madvise(page, 4096, libc::MADV_WIPEONFORK) };
    (wiped == 0).then_some(page.cast())
}

/// From here on the process is ending: calls say so.
extern "C" fn shut() {
    let page = PAGE.load(Ordering::Acquire);
    if ready().is_ok() {
        // SAFETY: not null where `ready` said yes, and never unmapped.
        unsafe { &*page }.store(SHUT, Ordering::Relaxed);
    }
}

/// Time since the first call of this function, in nanoseconds.
pub(crate) fn nanoseconds() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

/// Makes a synchronising call last as long as the tests ask for.
pub(crate) fn slow_down() {
    let us = knobs().slow_us;
    if us > 0 {
        std::thread::sleep(std::time::Duration::from_micros(us));
    }
}
