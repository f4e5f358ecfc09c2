//! Annotations from before the first driver call, when it is not known whether there will be a recording:
//! programs open their outermost range and name their threads then. A few are kept in memory, and each thread
//! adds its own once it records.

use crate::os::clock;
use crate::os::guard::guarded;
use crate::os::text::Text;
use crate::recording::nvtx_registry;
use crate::records::lane::Lane;
use crate::records::notes;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering::*};
use trace::file::record::{Annotation, Clock, annotated};

struct Early {
    next: *mut Early,
    process: u32,
    thread: u32,
    stamps: Clock,
    about: Annotation,
    text: Option<Vec<u8>>,
    trouble: Option<&'static str>,
    taken: AtomicBool,
}

/// The latest first. Never freed; a forked child keeps its parent's and takes none of them.
static LATEST: AtomicPtr<Early> = AtomicPtr::new(std::ptr::null_mut());
/// Bytes that they take.
static SIZE: AtomicUsize = AtomicUsize::new(0);
const MOST: usize = 1 << 20;
/// Those that there was no room for.
static TOO_MANY: AtomicU64 = AtomicU64::new(0);

#[cold]
pub(crate) fn keep(mut about: Annotation, text: Text, mut trouble: Option<&'static str>) {
    let stamps = clock::both();
    if SIZE.load(Relaxed) > MOST {
        TOO_MANY.fetch_add(1, Relaxed);
        return;
    }
    guarded(|| {
        if let Text::Registered(handle) = text {
            match nvtx_registry::find(handle).filter(|found| found.what == annotated::TEXT) {
                Some(_) => (about.message, about.registered) = (handle as u32, true),
                None => trouble = Some(notes::FOREIGN),
            }
        }
        let text = text.copied();
        SIZE.fetch_add(size_of::<Early>() + text.as_ref().map_or(0, Vec::len), Relaxed);
        let (process, thread) = (std::process::id(), thread());
        let (next, taken) = (LATEST.load(Acquire), AtomicBool::new(false));
        let new = Box::into_raw(Box::new(Early { next, process, thread, stamps, about, text, trouble, taken }));
        // SAFETY: `new` is this thread's alone until it is in the list.
        unsafe {
            while let Err(other) = LATEST.compare_exchange((*new).next, new, AcqRel, Acquire) {
                (*new).next = other;
            }
        }
    });
}

/// Brings the calling thread's into its lane, which is new.
#[cold]
pub(crate) fn bring(lane: &Lane) {
    let thread = thread();
    let mut mine: Vec<&Early> = early_calls().filter(|early| early.thread == thread).collect();
    mine.reverse();
    for early in mine.into_iter().filter(|early| !early.taken.swap(true, AcqRel)) {
        let about = Annotation { time: clock::chosen(early.stamps), ..early.about };
        notes::add_early(lane, &about, early.text.as_deref(), early.trouble);
    }
}

/// Those that no recording has: of threads that never came to record, or too many.
pub(crate) fn lost() -> u64 {
    TOO_MANY.load(Relaxed) + early_calls().filter(|early| !early.taken.load(Relaxed)).count() as u64
}

/// This process's, the latest first.
fn early_calls() -> impl Iterator<Item = &'static Early> {
    let process = std::process::id();
    // SAFETY: what is in the list is never freed or changed.
    let mut next = unsafe { LATEST.load(Acquire).as_ref() };
    std::iter::from_fn(move || {
        let early = next?;
        // SAFETY: as above.
        next = unsafe { early.next.as_ref() };
        Some(early)
    })
    .filter(move |early| early.process == process)
}

fn thread() -> u32 {
    // SAFETY: takes nothing.
    unsafe { libc::syscall(libc::SYS_gettid) as u32 }
}
