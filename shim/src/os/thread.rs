//! Threads of the recorder's own. They take no signal meant for the host, nobody waits for them, and they end
//! with the process. Made by hand: the standard library leaves thread-locals with destructors on the thread
//! that spawns.

use std::ffi::CStr;

pub type Work = extern "C" fn(*mut libc::c_void) -> *mut libc::c_void;

/// Whether there is one more now. `of` is handed to it.
pub fn spawn(stack: usize, work: Work, of: *mut libc::c_void) -> bool {
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
            libc::pthread_attr_setstacksize(&mut attributes, stack);
            is_made = libc::pthread_create(&mut thread, &attributes, work, of) == 0;
            libc::pthread_attr_destroy(&mut attributes);
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, &old, std::ptr::null_mut());
        is_made
    }
}

/// Names the calling thread.
pub fn name(name: &CStr) {
    // SAFETY: a string with its nul.
    unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
}
