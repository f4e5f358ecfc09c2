//! What tells that work has finished: the stream it was put on, seen from where it was put there.

use crate::driver::{Driver, Failure, result};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};
use trace::Function;

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

    /// What a wait for the work that this thread, in the current context, has put here would say. None: it takes longer.
    pub fn finished_within(self, driver: &Driver, patience: Duration) -> Option<Result<(), Failure>> {
        const PAUSE: Duration = Duration::from_millis(1);
        let query = if self.thread.is_some() { "cuStreamQuery_ptsz" } else { "cuStreamQuery" };
        let begun = Instant::now();
        loop {
            // SAFETY: no pointers; a stream that is gone is an error.
            match unsafe { driver.ask(query, &[self.stream]) } {
                Err(Failure { code: Some(result::NOT_READY), .. }) if begun.elapsed() < patience => {
                    std::thread::sleep(PAUSE);
                }
                Err(Failure { code: Some(result::NOT_READY), .. }) => return None,
                waited => return Some(waited),
            }
        }
    }

    /// Waits until all work put here has finished; whether it has. `captures` are under way: a wait for the whole
    /// context would break them.
    pub fn wait(self, driver: &Driver, thread: u32, captures: bool) -> bool {
        let waited = within(driver, self.context, || match self.has_name(thread) {
            true if captures && self.is_captured(driver) => None,
            true => Some(self.synchronize(driver)),
            false if captures => None,
            // SAFETY: no arguments.
            false => Some(unsafe { driver.ask("cuCtxSynchronize", &[]) }),
        });
        matches!(waited, Ok(Some(Ok(()))))
    }

    /// Waits for what this thread, in the context of the queue, has put here.
    pub fn synchronize(self, driver: &Driver) -> Result<(), Failure> {
        let wait = if self.thread.is_some() { "cuStreamSynchronize_ptsz" } else { "cuStreamSynchronize" };
        // SAFETY: no pointers; a stream that is gone is an error.
        unsafe { driver.ask(wait, &[self.stream]) }
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

/// Where a call puts its work: the default stream, if it names none.
pub fn queue_of(driver: &Driver, thread: u32, function: &Function, words: &[u64]) -> Queue {
    let stream = stream_of(function, words).unwrap_or(0);
    let own = function.twin_of.is_some() && stream == 0 || stream == 2;
    Queue { context: context_of(driver, stream), stream, thread: own.then_some(thread) }
}

/// The live stream that a call about to be made names.
pub fn stream_of(function: &Function, words: &[u64]) -> Option<u64> {
    // SAFETY: within a whole structure of the frame's, which lives until the call has been made and looked at.
    let at = |address| Some(unsafe { (address as *const u64).read_unaligned() });
    function.stream(|word| words.get(word).copied().unwrap_or(0), at)
}

/// The live context of a live stream; that of the thread for its default streams.
pub fn context_of(driver: &Driver, stream: u64) -> u64 {
    let mut context = 0u64;
    if stream > 2 {
        // SAFETY: a live stream and an output word.
        let _ = unsafe { driver.ask("cuStreamGetCtx", &[stream, &raw mut context as u64]) };
    }
    if context == 0 { current_context(driver) } else { context }
}

/// Waits for all work of a context.
pub fn synchronize(driver: &Driver, context: u64) -> Result<(), Failure> {
    // SAFETY: no arguments.
    within(driver, context, || unsafe { driver.ask("cuCtxSynchronize", &[]) })?
}

/// A wait for all work of a context that can be given up. A thread of its own makes it, which then stays behind.
pub struct Waiting(Receiver<Result<(), Failure>>);

/// Threads inside such a wait.
static INSIDE: AtomicUsize = AtomicUsize::new(0);

impl Waiting {
    pub fn begin(driver: &Arc<Driver>, context: u64) -> Waiting {
        let (tell, told) = mpsc::channel();
        let driver = driver.clone();
        let wait = move || {
            let waited = relaxed(&driver, || synchronize(&driver, context));
            INSIDE.fetch_sub(1, SeqCst);
            // Nobody may be asking any more.
            let _ = tell.send(waited);
        };
        INSIDE.fetch_add(1, SeqCst);
        if std::thread::Builder::new().spawn(wait).is_err() {
            INSIDE.fetch_sub(1, SeqCst);
        }
        Waiting(told)
    }

    /// None: it has not come to an end in this time.
    pub fn end(&self, patience: Duration) -> Option<Result<(), Failure>> {
        match self.0.recv_timeout(patience) {
            Ok(waited) => Some(waited),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => Some(Err(Failure { name: "pthread_create", code: None })),
        }
    }
}

/// Whether a wait that was given up is still inside the driver, which the end of the process would then wait for.
pub fn is_left_behind() -> bool {
    INSIDE.load(SeqCst) > 0
}

/// Runs `work` in a mode in which a capture elsewhere neither forbids it nor is broken by it.
pub fn relaxed<T>(driver: &Driver, work: impl FnOnce() -> T) -> T {
    const RELAXED: u32 = 2;
    let exchange = |mode: &mut u32| {
        // SAFETY: one word, read and written. A driver without capture modes needs no relaxing.
        let _ = unsafe { driver.ask("cuThreadExchangeStreamCaptureMode", &[&raw mut *mode as u64]) };
    };
    let mut mode = RELAXED;
    exchange(&mut mode);
    let done = work();
    exchange(&mut mode);
    done
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
