//! What this process says of itself to `cutrace record`.

use crate::os::environment::variable;
use std::os::unix::ffi::OsStrExt;
use std::sync::OnceLock;
use trace::base::announcements::{Announcements, Said, VARIABLE};

/// None where no `record` has started this process, or there is no shared memory. A forked child has it, too.
static ANNOUNCEMENTS: OnceLock<Option<Announcements>> = OnceLock::new();

/// In the constructor.
pub fn map() {
    ANNOUNCEMENTS.get_or_init(|| Announcements::map(variable(VARIABLE)?.as_bytes()));
}

/// Whether it could be said.
pub fn say(said: &Said) -> bool {
    let all = ANNOUNCEMENTS.get().and_then(Option::as_ref);
    all.is_some_and(|all| all.say(std::process::id(), said))
}
