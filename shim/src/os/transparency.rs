//! Transparency: errors and actions of the recorder are not visible outside it.

use std::io;

unsafe extern "C" {
    fn pthread_setcancelstate(state: libc::c_int, old: *mut libc::c_int) -> libc::c_int;
}

/// Does something that may make system calls, unseen by the host: errno stays as it was, and a pending
/// cancellation of the thread does not take effect in the middle of a record.
pub(crate) fn unseen<T>(work: impl FnOnce() -> T) -> T {
    const PTHREAD_CANCEL_DISABLE: libc::c_int = 1;
    // SAFETY: the address is the calling thread's own errno, valid as long as the thread; the cancellation
    // state is put back as it was.
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

/// Writes something where the host may have closed the other end of a pipe, or be allowed no longer files:
/// the signal that comes of that would end the host. One that was pending before stays.
pub(crate) fn without_signals(write: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
    // SAFETY: the sets are valid, and the mask is put back as it was.
    unsafe {
        let (mut ours, mut before, mut pending): (libc::sigset_t, libc::sigset_t, libc::sigset_t) = std::mem::zeroed();
        libc::sigemptyset(&mut ours);
        libc::sigpending(&mut pending);
        for signal in [libc::SIGPIPE, libc::SIGXFSZ].into_iter().filter(|s| libc::sigismember(&pending, *s) != 1) {
            libc::sigaddset(&mut ours, signal);
        }
        libc::pthread_sigmask(libc::SIG_BLOCK, &ours, &mut before);
        let written = write();
        if written.as_ref().is_err_and(|error| matches!(error.raw_os_error(), Some(libc::EPIPE | libc::EFBIG))) {
            let at_once = libc::timespec { tv_sec: 0, tv_nsec: 0 };
            libc::sigtimedwait(&ours, std::ptr::null_mut(), &at_once);
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut());
        written
    }
}

/// Does something in which no signal handler of the host may run on this thread, since it could leave by a
/// jump. Handlers of the thread's own faults still do: the host may mend them, and would be ended otherwise.
pub(crate) fn uninterrupted<T>(work: impl FnOnce() -> T) -> T {
    const FAULTS: [libc::c_int; 6] =
        [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGTRAP, libc::SIGSYS];
    // SAFETY: the sets are valid, and the mask is put back as it was.
    unsafe {
        let (mut all, mut before): (libc::sigset_t, libc::sigset_t) = std::mem::zeroed();
        libc::sigfillset(&mut all);
        FAULTS.iter().for_each(|fault| _ = libc::sigdelset(&mut all, *fault));
        libc::pthread_sigmask(libc::SIG_BLOCK, &all, &mut before);
        let result = work();
        libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut());
        result
    }
}

/// Does something that opens files, also where the host has taken almost all descriptors that it may have.
/// What is opened then lies beyond its limit, and stays open when that is as before.
pub(crate) fn with_descriptors<T>(work: impl FnOnce() -> T) -> T {
    /// More than are open at once.
    const OURS: libc::rlim_t = 64;
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: fills the struct that it is given.
    let is_known = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) } == 0;
    // What comes to lie away from the standard streams has numbers from 100 on.
    let more = limit.rlim_cur.max(100).saturating_add(OURS).min(limit.rlim_max);
    let raised = libc::rlimit { rlim_cur: more, ..limit };
    // SAFETY: the struct is valid; only the soft limit is another.
    if !is_known || !few_are_left() || unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raised) } != 0 {
        return work();
    }
    let result = work();
    // SAFETY: as it was.
    unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) };
    result
}

fn few_are_left() -> bool {
    let open = || std::fs::File::open("/dev/null");
    let some: Vec<std::io::Result<std::fs::File>> = (0..8).map(|_| open()).collect();
    let is_taken = |error: &std::io::Error| error.raw_os_error() == Some(libc::EMFILE);
    some.iter().any(|opened| opened.as_ref().is_err_and(is_taken))
}
