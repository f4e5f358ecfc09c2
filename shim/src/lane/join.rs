//! How a thread begins to record: its first call, or that of a process, or after a fork.

use super::{Lane, Run};
use crate::counters;
use crate::generation;
use crate::manners::unseen;
use crate::recorder;
use crate::{devices, early, start};
use std::ops::Range;
use std::sync::atomic::Ordering::*;
use trace::record;

impl Lane {
    /// The addresses of the calling thread's stack.
    pub fn stack(&self) -> Option<Range<u64>> {
        if self.stack.get().0 == 0 {
            self.stack.set(stack_of_thread().unwrap_or((1, 1)));
        }
        let (from, to) = self.stack.get();
        (to > 1).then_some(from..to)
    }

    /// First call of a thread, or of a process, or after a fork. Returns whether this thread records now.
    #[cold]
    #[inline(never)]
    pub(super) fn join(&self) -> bool {
        // A signal handler in the middle of this would wait for locks that its own thread holds.
        if self.joining.replace(true) {
            counters::REENTRANT.fetch_add(1, Relaxed);
            return false;
        }
        let joined = unseen(|| self.join_now());
        self.joining.set(false);
        joined
    }

    fn join_now(&self) -> bool {
        if !start::begin() {
            return false;
        }
        let (recorder, generation) = (recorder::recorder(), generation::generation());
        if self.generation.get() == generation {
            return true;
        }
        // The chunk of a former generation is the parent's: not mapped here, and not ours to seal.
        // SAFETY: only this thread touches its lane, and nothing of it is borrowed.
        unsafe { *self.chunk.get() = None };
        self.cursor.set(std::ptr::null_mut());
        self.limit.set(std::ptr::null_mut());
        self.sequence.set(0);
        self.calls.set(0);
        self.ordinal.set(0);
        self.outer.set(0);
        self.gap.set(std::ptr::null_mut());
        self.run.set(Run::NONE);
        self.within.set((0, 0));
        // Until the lane is whole: a signal handler on this thread has to leave it alone.
        self.busy.set(true);
        self.index.set(recorder.threads.fetch_add(1, Relaxed));
        let mut name = [0u8; 16];
        // SAFETY: PR_GET_NAME writes at most 16 bytes; gettid takes nothing.
        let os_id = unsafe {
            libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr());
            libc::syscall(libc::SYS_gettid) as u32
        };
        let name = name.split(|b| *b == 0).next().unwrap_or_default();
        let name = String::from_utf8_lossy(name).into_owned();
        self.append(&record::with_body(record::THREAD, &record::Thread { os_id, name }));
        if self.index.get() == 0 {
            devices::forget();
        }
        early::bring(self);
        self.generation.set(generation);
        self.busy.set(false);
        generation == generation::generation()
    }
}

fn stack_of_thread() -> Option<(u64, u64)> {
    // SAFETY: the attributes are filled by the first call and freed by the last.
    unsafe {
        let mut attributes: libc::pthread_attr_t = std::mem::zeroed();
        if libc::pthread_getattr_np(libc::pthread_self(), &mut attributes) != 0 {
            return None;
        }
        let (mut start, mut len) = (std::ptr::null_mut(), 0);
        let known = libc::pthread_attr_getstack(&attributes, &mut start, &mut len) == 0;
        libc::pthread_attr_destroy(&mut attributes);
        known.then_some((start as u64, start as u64 + len as u64))
    }
}
