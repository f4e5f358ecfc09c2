//! Whether the process has relatives that share its memory: it has forked, or was forked and has executed no
//! new program since. Children made without the C library (by clone itself) are not noticed.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

static HAS_FORKED: AtomicBool = AtomicBool::new(false);

/// Before the program, and so before its first child.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_START: extern "C" fn() = at_start;

extern "C" fn at_start() {
    // SAFETY: a plain function. Where it cannot be registered the process counts as one that has forked.
    let is_told = unsafe { libc::pthread_atfork(Some(forks), None, None) } == 0;
    HAS_FORKED.store(!is_told, Relaxed);
}

/// In the parent, so that the child has it, too.
unsafe extern "C" fn forks() {
    HAS_FORKED.store(true, Relaxed);
}

pub(crate) fn has_forked() -> bool {
    HAS_FORKED.load(Relaxed)
}
