//! The start of a thread's recording: at its first call, that of a process, or after a fork.

use crate::driver::devices;
use crate::os::transparency::unseen;
use crate::os::{counters, generation};
use crate::recording::recorder;
use crate::records::lane::{self, Lane, with_lane};
use crate::records::{pre_init_nvtx, process_end, process_start};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{Ordering::*, compiler_fence};
use trace::file::record;

/// First call of a thread, or of a process, or after a fork. Returns whether this thread records now.
#[cold]
#[inline(never)]
pub(crate) fn join(lane: &Lane) -> bool {
    if generation::is_off() {
        lane.comes_afterwards();
        return false;
    }
    // A signal handler in the middle of this would wait for locks that its own thread holds.
    if lane.joining.replace(true) {
        counters::REENTRANT.fetch_add(1, Relaxed);
        return false;
    }
    let joined = unseen(|| join_now(lane));
    lane.joining.set(false);
    joined
}

fn join_now(lane: &Lane) -> bool {
    if !process_start::begin(process_end::scans_last) {
        return false;
    }
    let (recorder, generation) = (recorder::recorder(), generation::generation());
    if lane.generation.get() == generation {
        return true;
    }
    lane.renew(recorder.threads.fetch_add(1, Relaxed));
    let mut name = [0u8; 16];
    // SAFETY: PR_GET_NAME writes at most 16 bytes; gettid takes nothing.
    let os_id = unsafe {
        libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr());
        libc::syscall(libc::SYS_gettid) as u32
    };
    let name = name.split(|b| *b == 0).next().unwrap_or_default();
    let name = String::from_utf8_lossy(name).into_owned();
    lane.append(&record::with_body(record::THREAD, &record::Thread { os_id, name }));
    if lane.index() == 0 {
        devices::forget();
    }
    pre_init_nvtx::bring(lane);
    lane.has_joined(generation);
    generation == generation::generation()
}

/// Lets an annotation be written. Returns whether this process records: an annotation is no reason to begin.
#[inline]
pub(crate) fn annotate(work: impl FnOnce(&Lane)) -> bool {
    let lane = lane::current();
    if lane.generation.get() != generation::generation() && !(generation::recording() && join(lane)) {
        return false;
    }
    if lane.busy.replace(true) {
        counters::INTERRUPTING.fetch_add(1, Relaxed);
        return true;
    }
    compiler_fence(SeqCst);
    if catch_unwind(AssertUnwindSafe(|| work(lane))).is_err() {
        generation::off("an internal error");
    }
    compiler_fence(SeqCst);
    lane.busy.set(false);
    true
}

/// As [`with_lane`], on a thread that may not have made a call yet.
#[cold]
pub(crate) fn with_any_lane(work: impl FnOnce(&Lane)) {
    let lane = lane::current();
    if lane.generation.get() == generation::generation() || join(lane) {
        with_lane(work);
    }
}
