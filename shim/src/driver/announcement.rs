//! Announcements of this process to `cutrace record`.

use crate::os::environment::variable;
use std::os::unix::ffi::OsStrExt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use trace::base::announcements::{Announcement, Announcements, VARIABLE};

/// None where no `record` has started this process, or there is no shared memory. A forked child has it, too.
static ANNOUNCEMENTS: OnceLock<Option<Announcements>> = OnceLock::new();
/// The process that has mapped it.
static MAPPED_BY: AtomicU32 = AtomicU32::new(0);

/// In the constructor.
pub(crate) fn map() {
    ANNOUNCEMENTS.get_or_init(|| Announcements::map(variable(VARIABLE)?.as_bytes()));
    MAPPED_BY.store(std::process::id(), Relaxed);
}

/// At the end by `exit`, of which a forked child may have one, too.
pub(crate) fn end() {
    let all = ANNOUNCEMENTS.get().and_then(Option::as_ref).filter(|_| MAPPED_BY.load(Relaxed) == std::process::id());
    all.iter().for_each(|all| all.end());
}

/// Whether it could be said.
pub(crate) fn say(said: &Announcement) -> bool {
    let all = ANNOUNCEMENTS.get().and_then(Option::as_ref);
    all.is_some_and(|all| all.say(std::process::id(), said))
}
