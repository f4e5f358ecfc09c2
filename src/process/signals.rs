//! Signals: `record` survives a signal that ends its program, because it must still print the closing line;
//! `replay` reports its progress.

use crate::process::allocation;
use std::io;
use std::mem::zeroed;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitStatus};
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering::SeqCst};

const FORWARDED: [libc::c_int; 4] = [libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGHUP];

static CHILD: AtomicI32 = AtomicI32::new(0);
/// Came before there was a child to have it.
static EARLY: AtomicI32 = AtomicI32::new(0);

/// What another process sends is meant for the program. What the terminal sends (Ctrl-C, a hangup) the
/// program gets itself, and what the program sends to its whole group it has already.
extern "C" fn forward(signal: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    let child = CHILD.load(SeqCst);
    // SAFETY: the kernel gives a valid siginfo_t; one that a process sent, which has a code of zero or less,
    // names it.
    let from_program = unsafe {
        if (*info).si_code > 0 {
            return;
        }
        child != 0 && (*info).si_pid() == child
    };
    if child == 0 {
        EARLY.store(signal, SeqCst);
    } else if !from_program {
        // SAFETY: kill is async-signal-safe; the child has not been waited for while CHILD names it.
        unsafe { libc::kill(child, signal) };
    }
}

/// A signal that was ignored when we were started (nohup) stays so, for the program too.
fn is_ignored(signal: libc::c_int) -> bool {
    // SAFETY: the struct is valid for writing.
    unsafe {
        let mut now: libc::sigaction = zeroed();
        libc::sigaction(signal, null(), &mut now) != 0 || now.sa_sigaction == libc::SIG_IGN
    }
}

/// Whether the program that `record` starts has it so, too.
static LIMIT_IGNORED: AtomicBool = AtomicBool::new(false);

/// A file that may not grow any more (RLIMIT_FSIZE) is then an error of the write, where Linux would end the
/// process.
pub(crate) fn outlive_the_file_size_limit() {
    LIMIT_IGNORED.store(is_ignored(libc::SIGXFSZ), SeqCst);
    // SAFETY: no handler of anybody's is replaced.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

/// Runs a program to its end and passes on what ends programs. Its id, and how it ended.
pub(crate) fn run(command: &mut Command) -> io::Result<(u32, ExitStatus)> {
    for signal in FORWARDED.into_iter().filter(|signal| !is_ignored(*signal)) {
        // A handler, unlike SIG_IGN, is not inherited. SAFETY: the struct is filled in before use, and the
        // handler does nothing but async-signal-safe things.
        unsafe {
            let mut new: libc::sigaction = zeroed();
            new.sa_sigaction = forward as *const () as usize;
            new.sa_flags = libc::SA_RESTART | libc::SA_SIGINFO;
            libc::sigaction(signal, &new, null_mut());
        }
    }
    if !LIMIT_IGNORED.load(SeqCst) {
        let to_default = || {
            // SAFETY: async-signal-safe, as what runs between fork and exec must be.
            unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_DFL) };
            Ok(())
        };
        // SAFETY: as it says there.
        unsafe { command.pre_exec(to_default) };
    }
    let mut child = command.spawn()?;
    CHILD.store(child.id() as i32, SeqCst);
    let early = EARLY.load(SeqCst);
    if early != 0 {
        // SAFETY: the child was just started and not yet waited for.
        unsafe { libc::kill(child.id() as i32, early) };
    }
    let pid = child.id() as libc::id_t;
    // SAFETY: an all-zero siginfo_t is valid; WNOWAIT leaves the child to be reaped below, once CHILD is
    // cleared.
    unsafe {
        let mut info: libc::siginfo_t = zeroed();
        while libc::waitid(libc::P_PID, pid, &mut info, libc::WEXITED | libc::WNOWAIT) != 0
            && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted
        {}
    }
    CHILD.store(0, SeqCst);
    Ok((child.id(), child.wait()?))
}

/// The exit status where a mapped trace is cut short under us, and where there is no memory.
static IF_CUT: AtomicI32 = AtomicI32::new(0);
static IF_REFUSED: AtomicI32 = AtomicI32::new(0);

/// Says why on stderr and ends the process, in a signal's handler.
fn end(status: &AtomicI32, why: &[u8]) -> ! {
    // SAFETY: both calls are allowed in a signal's handler; no destructor may run here.
    unsafe {
        libc::write(2, why.as_ptr().cast(), why.len());
        libc::_exit(status.load(SeqCst));
    }
}

const CUT: &[u8] = b"cutrace: another process truncated the trace during reading\n";

extern "C" fn cut(_: libc::c_int) {
    end(&IF_CUT, CUT);
}

/// What is no trace's address is the driver's affair: met again, it ends the process as it would have.
extern "C" fn cut_where_mapped(_: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: Linux gives a valid siginfo_t, which has an address for this signal.
    if trace::base::mapped::has(unsafe { (*info).si_addr() }.addr()) {
        end(&IF_CUT, CUT);
    }
}

/// What the standard library does where memory is refused; an abort for another reason goes on.
extern "C" fn refused(_: libc::c_int) {
    if allocation::is_refused() {
        end(&IF_REFUSED, b"cutrace: not enough memory for this trace\n");
    }
}

fn handle(signal: libc::c_int, handler: usize, flags: libc::c_int) {
    // SAFETY: the struct is filled in before use, and the handlers do only what a handler may.
    unsafe {
        let mut new: libc::sigaction = zeroed();
        new.sa_sigaction = handler;
        new.sa_flags = flags;
        libc::sigaction(signal, &new, null_mut());
    }
}

/// A trace that another process cuts short while it is mapped answers a read with SIGBUS: the process then
/// says so and ends with this status, where Linux would kill it; with the other one where there is no memory.
/// For `record`, whose program's status must not be lost, and for what only reads.
pub(crate) fn end_where_a_trace_is_cut(status: u8, without_memory: u8) {
    IF_CUT.store(status.into(), SeqCst);
    handle(libc::SIGBUS, cut as *const () as usize, 0);
    end_without_memory(without_memory);
}

/// The same where a driver runs in this process: of SIGBUS at the addresses of traces alone.
pub(crate) fn end_where_a_mapped_trace_is_cut(status: u8) {
    IF_CUT.store(status.into(), SeqCst);
    // Reset, so that the signal comes again to Linux's own handler.
    handle(libc::SIGBUS, cut_where_mapped as *const () as usize, libc::SA_SIGINFO | libc::SA_RESETHAND);
    end_without_memory(crate::terminal::exit::FAILED);
}

fn end_without_memory(status: u8) {
    IF_REFUSED.store(status.into(), SeqCst);
    handle(libc::SIGABRT, refused as *const () as usize, 0);
}

/// Has `last_words` called with the signal's name, on a thread of its own, when SIGINT, SIGTERM or SIGHUP
/// ends this process. To be called before there are other threads, which must not take the signal; a program
/// that this one becomes by exec must call it too.
pub(crate) fn on_interruption(last_words: impl FnOnce(&str) + Send + 'static) {
    let ending = [(libc::SIGINT, "SIGINT"), (libc::SIGTERM, "SIGTERM"), (libc::SIGHUP, "SIGHUP")];
    // SAFETY: plain calls on a set of our own.
    let set = unsafe {
        let mut set: libc::sigset_t = zeroed();
        libc::sigemptyset(&mut set);
        for (signal, _) in ending.iter().filter(|(signal, _)| !is_ignored(*signal)) {
            libc::sigaddset(&mut set, *signal);
        }
        libc::pthread_sigmask(libc::SIG_BLOCK, &set, null_mut());
        set
    };
    let started = std::thread::Builder::new().spawn(move || {
        let mut signal = 0;
        // SAFETY: both are valid; the set's signals are blocked in every thread.
        if unsafe { libc::sigwait(&set, &mut signal) } != 0 {
            return;
        }
        let name = ending.iter().find(|(number, _)| *number == signal).map_or("a signal", |(_, name)| *name);
        last_words(name);
        // SAFETY: ends the process at once: the driver is busy in other threads, and no destructor may run
        // under it.
        unsafe { libc::_exit(128 + signal) };
    });
    if started.is_err() {
        // They end the process as they would have without us, rather than never.
        // SAFETY: a plain call on a set of our own.
        unsafe { libc::pthread_sigmask(libc::SIG_UNBLOCK, &set, null_mut()) };
    }
}
