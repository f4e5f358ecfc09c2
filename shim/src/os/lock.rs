//! A mutex for cold paths. The standard library's, not parking_lot's: that keeps all waiting threads in one
//! table of the process, which a forked child inherits with its parent's threads still in it, and then
//! follows into nothing.

use std::sync::{Mutex, MutexGuard, PoisonError};

#[derive(Default)]
pub struct Lock<T>(Mutex<T>);

impl<T> Lock<T> {
    pub const fn new(value: T) -> Lock<T> {
        Lock(Mutex::new(value))
    }

    /// A panic while it was held has switched recording off; what it guards is still whole.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
