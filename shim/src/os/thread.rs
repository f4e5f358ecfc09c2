//! The recorder's own threads. They take no signal meant for the host, nobody waits for them, and they end
//! with the process. They are not made by the standard library, because it leaves thread-locals with
//! destructors on the spawning thread.
//!
//! The C library ends a process with its last thread, and counts these too: once all others have ended, they
//! end the process as it would have ended without them.

use crate::os::generation::page;
use std::cell::Cell;
use std::ffi::{CStr, c_void};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::Ordering::*;
use std::time::{Duration, Instant};
use trace::base::job::field;

pub(crate) type Work = extern "C" fn(*mut libc::c_void) -> *mut libc::c_void;

/// As many bytes of stack as the host's own threads have.
const STACK_OF_HOST: usize = 0;

/// Whether there is one more now. `of` is handed to it.
pub(crate) fn spawn(stack: usize, work: Work, of: *mut libc::c_void) -> bool {
    // SAFETY: the sets and attributes are valid; the mask is put back at once.
    unsafe {
        let (mut all, mut old): (libc::sigset_t, libc::sigset_t) = std::mem::zeroed();
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut old);
        let mut attributes: libc::pthread_attr_t = std::mem::zeroed();
        let mut thread: libc::pthread_t = std::mem::zeroed();
        let mut is_made = false;
        if libc::pthread_attr_init(&mut attributes) == 0 {
            libc::pthread_attr_setdetachstate(&mut attributes, libc::PTHREAD_CREATE_DETACHED);
            if stack != STACK_OF_HOST {
                libc::pthread_attr_setstacksize(&mut attributes, stack);
            }
            is_made = libc::pthread_create(&mut thread, &attributes, work, of) == 0;
            libc::pthread_attr_destroy(&mut attributes);
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, &old, std::ptr::null_mut());
        is_made
    }
}

/// Names the calling thread, which is one of these and does not end before the process.
pub(crate) fn begin(name: &CStr) {
    page().own_threads.fetch_add(1, Relaxed);
    // SAFETY: a string with its nul.
    unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
}

/// How often one of these threads looks whether only they are left.
pub(crate) const SELDOM: Duration = Duration::from_secs(1);

#[derive(Default)]
pub(crate) struct LastThreads {
    looked: Cell<Option<Instant>>,
}

impl LastThreads {
    /// Ends the process if only these threads are left, and nobody has looked for a while. The first thread stays in
    /// the list until the process ends, and whoever might make another thread is no more. A driver's own threads
    /// do not end, with the recorder or without.
    pub(crate) fn look(&self) {
        if self.looked.get().is_some_and(|looked| looked.elapsed() < SELDOM) {
            return;
        }
        self.looked.set(Some(Instant::now()));
        // What the program does at its end may need more stack than these threads have.
        if all_others_have_ended() && !spawn(STACK_OF_HOST, end_process, std::ptr::null_mut()) {
            end_process(std::ptr::null_mut());
        }
    }
}

extern "C" fn end_process(_: *mut c_void) -> *mut c_void {
    // SAFETY: the set is valid. The handlers are the host's own, which takes signals.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &all, std::ptr::null_mut());
        // As glibc's `start_thread` and `pthread_exit` do it behind the last thread.
        libc::exit(0)
    }
}

/// Opens no file before nobody is left whose descriptors would have other numbers for it.
fn all_others_have_ended() -> bool {
    let own = page().own_threads.load(Relaxed);
    let threads = std::fs::metadata("/proc/self/task").map_or(0, |about| about.nlink().saturating_sub(2));
    // What has no memory any more runs no file.
    let has_ended = || std::fs::read_link("/proc/self/exe").is_err_and(|error| error.kind() == ErrorKind::NotFound);
    threads == own + 1 && has_ended() && std::fs::read("/proc/self/stat").is_ok_and(|stat| is_left(&stat, own))
}

/// Whether `/proc/PID/stat` (proc(5)), which is about the first thread, says that it has ended, and that so many others
/// are there; the number of threads counts the first until the end.
fn is_left(stat: &[u8], own: u64) -> bool {
    let behind_name = stat.iter().rposition(|byte| *byte == b')').map_or(0, |at| at + 2);
    stat.get(behind_name) == Some(&b'Z') && field(stat, 20) == Some(own + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_of_a_process() {
        let of = |state: char, threads: u64, own| {
            let zeros = vec!["0"; 16].join(" ");
            is_left(format!("7 (a) Z (b) {state} {zeros} {threads} 0 0\n").as_bytes(), own)
        };
        assert!(of('Z', 3, 2));
        assert!(!of('Z', 4, 2), "a thread of the program");
        assert!(!of('S', 3, 2), "the first thread");
        assert!(!all_others_have_ended());
    }
}
