//! A mutex for cold paths. It is the standard library's, because parking_lot keeps all waiting threads in one
//! table of the process: a forked child inherits it with entries of its parent's threads, and then follows
//! dangling pointers.

use std::sync::{Mutex, MutexGuard, PoisonError};

#[derive(Default)]
pub(crate) struct Lock<T>(Mutex<T>);

impl<T> Lock<T> {
    pub(crate) const fn new(value: T) -> Lock<T> {
        Lock(Mutex::new(value))
    }

    /// A panic while it was held has switched recording off; what it guards is still whole.
    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
