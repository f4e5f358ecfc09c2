//! How a guest behaves: what goes wrong or is done in here is not seen outside.

use crate::start;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A fault of ours must not become the program's, nor an error of our system calls.
pub fn guarded(work: impl FnOnce()) {
    unseen(|| {
        if catch_unwind(AssertUnwindSafe(work)).is_err() {
            start::off("an internal error");
        }
    });
}

unsafe extern "C" {
    fn pthread_setcancelstate(state: libc::c_int, old: *mut libc::c_int) -> libc::c_int;
}

/// Does something that may make system calls, unseen by the host: errno stays as it was, and a pending cancellation of the
/// thread does not take effect in the middle of a record.
pub fn unseen<T>(work: impl FnOnce() -> T) -> T {
    const PTHREAD_CANCEL_DISABLE: libc::c_int = 1;
    // SAFETY: the address is the calling thread's own errno, valid as long as the thread; the cancellation state is put back
    // as it was.
    unsafe {
        let errno = libc::__errno_location();
        let (before, mut cancellation) = (*errno, 0);
        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &mut cancellation);
        let result = work();
        pthread_setcancelstate(cancellation, &mut cancellation);
        *errno = before;
        result
    }
}
