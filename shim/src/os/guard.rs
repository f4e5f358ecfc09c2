//! Containment: a fault of the recorder must not become the program's.

use crate::os::generation;
use crate::os::transparency::unseen;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A fault of ours must not become the program's, nor an error of our system calls.
pub(crate) fn guarded(work: impl FnOnce()) {
    unseen(|| {
        if catch_unwind(AssertUnwindSafe(work)).is_err() {
            generation::off("an internal error");
        }
    });
}
