//! What tells that work has finished: the stream it was put on, seen from where it was put there.

use crate::call::driver::{Driver, Failure};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Queue {
    pub context: u64,
    pub stream: u64,
    /// The thread, if the stream is its own default stream.
    pub thread: Option<u32>,
}

/// The stream was destroyed: only its whole context can be asked.
pub const GONE: u64 = u64::MAX;

impl Queue {
    /// Whether all work put here has finished, as far as this thread, in this context, can ask.
    pub fn is_finished(self, driver: &Driver, context: u64, thread: u32) -> bool {
        if self.context != context || !self.has_name(thread) {
            return false;
        }
        let query = if self.thread.is_some() { "cuStreamQuery_ptsz" } else { "cuStreamQuery" };
        // SAFETY: no pointers; a stream that is gone is an error, hence not finished.
        unsafe { driver.ask(query, &[self.stream]) }.is_ok()
    }

    /// Waits until all work put here has finished; whether it has. `captures` are under way: a wait for the whole
    /// context would break them.
    pub fn wait(self, driver: &Driver, thread: u32, captures: bool) -> bool {
        let wait = if self.thread.is_some() { "cuStreamSynchronize_ptsz" } else { "cuStreamSynchronize" };
        let waited = within(driver, self.context, || match self.has_name(thread) {
            true if captures && self.is_captured(driver) => None,
            // SAFETY: no pointers; a stream that is gone is an error.
            true => Some(unsafe { driver.ask(wait, &[self.stream]) }),
            false if captures => None,
            // SAFETY: no arguments.
            false => Some(unsafe { driver.ask("cuCtxSynchronize", &[]) }),
        });
        matches!(waited, Ok(Some(Ok(()))))
    }

    /// An event behind what has been put here; the context is current.
    pub fn record(self, driver: &Driver, event: u64) -> Result<(), Failure> {
        let record = if self.thread.is_some() { "cuEventRecord_ptsz" } else { "cuEventRecord" };
        // SAFETY: no pointers; an event of the replay's own, and a stream that a call names.
        unsafe { driver.ask(record, &[event, self.stream]) }
    }

    /// Whether what is put here becomes part of a graph. The driver does not say it of the default stream while others
    /// are captured: that may not be touched either.
    pub fn is_captured(self, driver: &Driver) -> bool {
        let mut status = 0u32;
        let ask = if self.thread.is_some() { "cuStreamIsCapturing_ptsz" } else { "cuStreamIsCapturing" };
        // SAFETY: one output word.
        unsafe { driver.ask(ask, &[self.stream, &raw mut status as u64]) }.is_err() || status != 0
    }

    pub fn has_name(self, thread: u32) -> bool {
        self.stream != GONE && self.thread.is_none_or(|own| own == thread)
    }
}

pub fn current_context(driver: &Driver) -> u64 {
    let mut context = 0u64;
    // SAFETY: one output word.
    let _ = unsafe { driver.ask("cuCtxGetCurrent", &[&raw mut context as u64]) };
    context
}

/// Waits for all work of a context.
pub fn synchronize(driver: &Driver, context: u64) -> Result<(), Failure> {
    // SAFETY: no arguments.
    within(driver, context, || unsafe { driver.ask("cuCtxSynchronize", &[]) })?
}

/// Has `work` done with this context current on this thread.
pub fn within<T>(driver: &Driver, context: u64, work: impl FnOnce() -> T) -> Result<T, Failure> {
    if current_context(driver) == context {
        return Ok(work());
    }
    // SAFETY: no pointers.
    unsafe { driver.ask("cuCtxPushCurrent_v2", &[context]) }?;
    let done = work();
    let mut popped = 0u64;
    // SAFETY: one output word.
    unsafe { driver.ask("cuCtxPopCurrent_v2", &[&raw mut popped as u64]) }?;
    Ok(done)
}
