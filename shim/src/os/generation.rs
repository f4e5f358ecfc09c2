//! The generation: one word that decides whether this process records. It lies in a page that Linux wipes in
//! a child, is 0 while nothing records, and is compared with the thread's own copy on every call.

use crate::os::log::tell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering::*};
use trace::file::record::BEYOND_LIMIT;

/// A value that is as new in a forked child: Linux wipes its page.
pub(crate) struct Wiped {
    pub generation: AtomicU64,
    /// Whether a thread of this process has taken it on to start.
    pub taken: AtomicU64,
    /// The thread that is starting: a signal handler on it must not wait for itself.
    pub starting: AtomicU64,
    /// Whether this process has a trace.
    pub recorded: AtomicU64,
    /// Whether that is as long as it may be.
    pub full: AtomicU64,
    /// Its number, once it records.
    pub process: AtomicU64,
    /// How many threads of the recorder's own it has.
    pub own_threads: AtomicU64,
}

/// Stands for the page until there is one.
static DORMANT: Wiped = Wiped {
    generation: AtomicU64::new(0),
    taken: AtomicU64::new(0),
    starting: AtomicU64::new(0),
    recorded: AtomicU64::new(0),
    full: AtomicU64::new(0),
    process: AtomicU64::new(0),
    own_threads: AtomicU64::new(0),
};
static PAGE: AtomicPtr<Wiped> = AtomicPtr::new(std::ptr::addr_of!(DORMANT).cast_mut());
/// The generation last given out; survives a fork, so that a child's lanes never match their parent's.
pub(crate) static LAST: AtomicU64 = AtomicU64::new(OFF);
/// The generation of a process that does not record any more.
pub(crate) const OFF: u64 = 1;

#[inline(always)]
pub(crate) fn page() -> &'static Wiped {
    // SAFETY: points to DORMANT or to a page that is never unmapped.
    unsafe { &*PAGE.load(Relaxed) }
}

/// The current generation; 0 while this process does not record.
#[inline(always)]
pub(crate) fn generation() -> u64 {
    page().generation.load(Relaxed)
}

/// Whether there is a trace of this process, still written to or not.
pub(crate) fn has_recorded() -> bool {
    page().recorded.load(Acquire) != 0
}

pub(crate) fn recording() -> bool {
    generation() > OFF
}

/// Whether no driver call has come by in this process yet.
pub(crate) fn dormant() -> bool {
    generation() == 0
}

/// Ends recording in this process; said once. An empty reason says nothing.
#[cold]
pub(crate) fn off(why: &str) {
    ends(why, &format!("calls after recording was switched off ({why})"));
}

/// The same, because the trace is as long as it may be.
#[cold]
pub(crate) fn full(why: &str) {
    if recording() {
        page().full.store(1, Release);
    }
    ends(why, BEYOND_LIMIT);
}

/// Whether recording ended because of that.
pub(crate) fn is_full() -> bool {
    page().full.load(Acquire) != 0
}

/// `lost`: what the trace then lacks.
fn ends(why: &str, lost: &str) {
    let before = page().generation.swap(OFF, AcqRel);
    if before != OFF && !why.is_empty() {
        tell(&format!("recording is off: {why}; the program goes on"));
    }
    if before > OFF {
        say_last(lost);
    }
}

/// Whether recording has ended for good.
#[inline(always)]
pub(crate) fn is_off() -> bool {
    generation() == OFF
}

/// How the recording that began last puts its last words into its file.
pub(crate) static LAST_WORDS: OnceLock<fn(&str)> = OnceLock::new();

/// Counts this once among what the trace lacks; only where there is one.
pub(crate) fn say_last(what: &str) {
    if let Some(say) = LAST_WORDS.get() {
        say(what);
    }
}

/// Puts a page that is zero again in a child in DORMANT's place, if that has not been done.
pub(crate) fn wiped_page() -> Result<(), String> {
    let dormant = std::ptr::addr_of!(DORMANT).cast_mut();
    if PAGE.load(Acquire) != dormant {
        return Ok(());
    }
    let failed = |what: &str| Err(format!("{what}: {}", std::io::Error::last_os_error()));
    // SAFETY: an anonymous mapping at a place Linux chooses; given back if another thread was first.
    unsafe {
        let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        let page = libc::mmap(std::ptr::null_mut(), 4096, access, kind, -1, 0);
        if page == libc::MAP_FAILED {
            return failed("cannot map a page for the recorder");
        }
        if libc::madvise(page, 4096, libc::MADV_WIPEONFORK) != 0 {
            return failed("MADV_WIPEONFORK");
        }
        if PAGE.compare_exchange(dormant, page.cast(), AcqRel, Acquire).is_err() {
            libc::munmap(page, 4096);
        }
    }
    Ok(())
}
