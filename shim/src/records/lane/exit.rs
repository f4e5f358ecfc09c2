//! The end of a thread: its chunk is released by a key's destructor, because calls that come even later could
//! not use a thread-local with Drop. If such a call comes, the key is set again and its destructor runs
//! again.

use super::LANE;
use crate::os::generation;
use crate::os::guard::guarded;
use std::sync::atomic::{AtomicU32, Ordering::*};

/// 0: not made yet; otherwise the key plus one.
static KEY: AtomicU32 = AtomicU32::new(0);

pub(super) fn watch() {
    let mut key = KEY.load(Acquire);
    if key == 0 {
        let mut made = 0;
        // SAFETY: the destructor is a plain function of the right type.
        if unsafe { libc::pthread_key_create(&mut made, Some(ended)) } != 0 {
            return;
        }
        key = match KEY.compare_exchange(0, made + 1, AcqRel, Acquire) {
            Ok(_) => made + 1,
            Err(other) => other,
        };
    }
    // SAFETY: the key exists. The value only has to be non-null.
    unsafe { libc::pthread_setspecific(key - 1, std::ptr::dangling()) };
}

extern "C" fn ended(_: *mut libc::c_void) {
    LANE.with(|lane| {
        lane.counts_afterwards();
        if lane.generation.get() != generation::generation() || lane.busy.replace(true) {
            return;
        }
        // A panic must not leave through the C library.
        guarded(|| {
            // SAFETY: only this thread touches its lane, and nothing of it is borrowed.
            let chunk = unsafe { (*lane.chunk.get()).take() };
            if let Some(chunk) = chunk {
                lane.recorder().supply.retire(&lane.recorder().around.file, chunk);
            }
            lane.recorder().around.pending.thread_ends(lane.index());
        });
        lane.cursor.set(std::ptr::null_mut());
        lane.limit.set(std::ptr::null_mut());
        lane.busy.set(false);
    });
}
