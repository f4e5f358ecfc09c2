//! Captures under way: none would survive a wait for its whole context, nor a question about its stream.

use parking_lot::{RwLock, RwLockReadGuard};

#[derive(Default)]
pub struct Captures {
    under_way: RwLock<i64>,
}

pub type Held<'c> = RwLockReadGuard<'c, i64>;

impl Captures {
    pub fn any(&self) -> bool {
        *self.hold() > 0
    }

    /// While this is held none begins, or is known to have ended.
    pub fn hold(&self) -> Held<'_> {
        // Callbacks look as well, which a wait that holds it may be for: it must not queue behind who wants to begin one.
        self.under_way.read_recursive()
    }

    /// Held across what would break a capture; none if one is under way.
    pub fn none(&self) -> Option<Held<'_>> {
        Some(self.hold()).filter(|under_way| **under_way == 0)
    }

    /// Before the call that begins one.
    pub fn begins(&self) {
        *self.under_way.write() += 1;
    }

    /// After the call that ended it, or did not begin it.
    pub fn ends(&self) {
        *self.under_way.write() -= 1;
    }
}
