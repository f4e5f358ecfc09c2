//! The threads whose calls have named a piece of memory.

/// The threads whose calls have named memory.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Users {
    Nobody,
    One(u32),
    Several,
}

impl Users {
    pub(crate) fn and(self, others: Users) -> Users {
        match (self, others) {
            (Users::Nobody, users) | (users, Users::Nobody) => users,
            _ if self == others => self,
            _ => Users::Several,
        }
    }

    /// Whether there are no others.
    pub(crate) fn are_only(self, thread: u32) -> bool {
        self == Users::Nobody || self == Users::One(thread)
    }

    /// The only one, if there is one.
    pub(crate) fn only(self) -> Option<u32> {
        if let Users::One(thread) = self { Some(thread) } else { None }
    }
}
