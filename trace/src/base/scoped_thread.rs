//! Work in a thread of its own, where one can be made: a process may have no more of them than a limit of the
//! user's or of a control group allows.

use std::panic::resume_unwind;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, Scope, ScopedJoinHandle};

/// Work that may be under way.
pub enum Beside<'s, T> {
    Started(ScopedJoinHandle<'s, T>),
    /// There could be no thread.
    Done(T),
}

/// Begins it in a thread; without one it is done here, and now: it may wait for nothing that this thread does
/// later.
pub fn beside<'s, T, F>(scope: &'s Scope<'s, '_>, work: F) -> Beside<'s, T>
where
    T: Send + 's,
    F: FnOnce() -> T + Send + 's,
{
    // A thread that cannot be made takes what it was given along.
    let left = Arc::new(Mutex::new(Some(work)));
    let take = |left: &Mutex<Option<F>>| {
        let work = left.lock().unwrap_or_else(PoisonError::into_inner).take();
        work.expect("taken once")
    };
    let given = left.clone();
    match Builder::new().spawn_scoped(scope, move || take(&given)()) {
        Ok(started) => Beside::Started(started),
        Err(_) => Beside::Done(take(&left)()),
    }
}

impl<T> Beside<'_, T> {
    /// Waits for it. Panics as it did, if it has.
    pub fn join(self) -> T {
        match self {
            Beside::Started(started) => started.join().unwrap_or_else(|panic| resume_unwind(panic)),
            Beside::Done(done) => done,
        }
    }
}
