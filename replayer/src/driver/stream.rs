//! The stream by which completion of work is detected, as seen from the context and thread that submitted it.

use crate::driver::{Driver, Failure};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};
use trace::Function;
use trace::api::enums::CUstreamCaptureMode;
use trace::model::stream::{PER_THREAD, StreamHandle};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Queue {
    pub context: u64,
    pub stream: u64,
    /// The thread, if the stream is its own default stream.
    pub thread: Option<u32>,
}

/// The stream was destroyed: only its whole context can be asked.
pub(crate) const GONE: u64 = u64::MAX;

impl Queue {
    /// The stream that a call of this thread means by a handle, seen from this context.
    pub(crate) fn from_handle(context: u64, named: StreamHandle, thread: u32) -> Queue {
        Queue { context, stream: named.handle, thread: named.resolve(context, thread).thread }
    }

    fn handle(self) -> StreamHandle {
        StreamHandle { handle: self.stream, per_thread: self.thread.is_some() }
    }

    /// Whether all work put here has finished, as far as this thread, in this context, can ask.
    pub(crate) fn is_finished(self, driver: &Driver, context: u64, thread: u32) -> bool {
        // A stream that is gone is an error, hence not finished.
        self.context == context && self.has_name(thread) && matches!(driver.query_stream(self.handle()), Ok(true))
    }

    /// What a wait for the work that this thread, in the current context, has put here would say. None: it
    /// takes longer.
    pub(crate) fn finished_within(self, driver: &Driver, patience: Duration) -> Option<Result<(), Failure>> {
        const PAUSE: Duration = Duration::from_millis(1);
        let begun = Instant::now();
        loop {
            match driver.query_stream(self.handle()) {
                Ok(false) if begun.elapsed() < patience => std::thread::sleep(PAUSE),
                Ok(false) => return None,
                waited => return Some(waited.map(|_| ())),
            }
        }
    }

    /// Waits until all work put here has finished; whether it has. `captures` are under way: a wait for the
    /// whole context would break them.
    pub(crate) fn wait(self, driver: &Driver, thread: u32, captures: bool) -> bool {
        let waited = with_context(driver, self.context, || match self.has_name(thread) {
            true if captures && self.is_captured(driver) => None,
            true => Some(self.synchronize(driver)),
            false if captures => None,
            false => Some(driver.synchronize_context()),
        });
        matches!(waited, Ok(Some(Ok(()))))
    }

    /// Waits for what this thread, in the context of the queue, has put here.
    pub(crate) fn synchronize(self, driver: &Driver) -> Result<(), Failure> {
        driver.synchronize_stream(self.handle())
    }

    /// An event behind what has been put here; the context is current.
    pub(crate) fn record(self, driver: &Driver, event: u64) -> Result<(), Failure> {
        driver.record_event(event, self.handle())
    }

    /// Whether what is put here becomes part of a graph. The driver does not say it of the default stream
    /// while others are captured: that may not be touched either.
    pub(crate) fn is_captured(self, driver: &Driver) -> bool {
        driver.is_capturing(self.handle()).unwrap_or(true)
    }

    pub(crate) fn has_name(self, thread: u32) -> bool {
        self.stream != GONE && self.thread.is_none_or(|own| own == thread)
    }
}

/// Where a call puts its work: the default stream, if it names none.
pub(crate) fn queue_of(driver: &Driver, thread: u32, function: &Function, words: &[u64]) -> Queue {
    let stream = stream_of(function, words).unwrap_or(0);
    Queue::from_handle(context_of(driver, stream), StreamHandle::new(function, stream), thread)
}

/// The live stream that a call about to be made names.
pub(crate) fn stream_of(function: &Function, words: &[u64]) -> Option<u64> {
    // SAFETY: within a whole structure of the frame's, which lives until the call has been made and looked
    // at.
    let at = |address| Some(unsafe { (address as *const u64).read_unaligned() });
    function.stream(|word| words.get(word).copied().unwrap_or(0), at)
}

/// The live context of a live stream; that of the thread for its default streams.
pub(crate) fn context_of(driver: &Driver, stream: u64) -> u64 {
    let own = if stream > PER_THREAD { driver.context_of_stream(stream).unwrap_or(0) } else { 0 };
    if own == 0 { driver.current_context() } else { own }
}

/// Waits for all work of a context.
pub(crate) fn synchronize(driver: &Driver, context: u64) -> Result<(), Failure> {
    with_context(driver, context, || driver.synchronize_context())?
}

/// A wait for all work of a context that the caller can abandon. It runs in a thread of its own, which then
/// stays behind.
pub(crate) struct ContextWait(Receiver<Result<(), Failure>>);

/// Threads inside such a wait.
static INSIDE: AtomicUsize = AtomicUsize::new(0);

impl ContextWait {
    pub(crate) fn begin(driver: &Arc<Driver>, context: u64) -> ContextWait {
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
        ContextWait(told)
    }

    /// None: it has not come to an end in this time.
    pub(crate) fn end(&self, patience: Duration) -> Option<Result<(), Failure>> {
        match self.0.recv_timeout(patience) {
            Ok(waited) => Some(waited),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => Some(Err(Failure { name: "pthread_create", code: None })),
        }
    }
}

/// Whether a wait that was given up is still inside the driver, which the end of the process would then wait
/// for.
pub fn is_left_behind() -> bool {
    INSIDE.load(SeqCst) > 0
}

/// Runs `work` in a mode in which a capture elsewhere neither forbids it nor is broken by it.
pub(crate) fn relaxed<T>(driver: &Driver, work: impl FnOnce() -> T) -> T {
    let mut mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED.0;
    // A driver without capture modes needs no relaxing.
    let _ = driver.exchange_capture_mode(&mut mode);
    let done = work();
    let _ = driver.exchange_capture_mode(&mut mode);
    done
}

/// Has `work` done with this context current on this thread.
pub(crate) fn with_context<T>(driver: &Driver, context: u64, work: impl FnOnce() -> T) -> Result<T, Failure> {
    if driver.current_context() == context {
        return Ok(work());
    }
    driver.push_context(context)?;
    let done = work();
    driver.pop_context()?;
    Ok(done)
}
