//! Reads and writes of device memory on a stream of the replay's own, as the recorded CPU accessed managed
//! memory: a kernel in flight may be waiting for these very bytes, or for the program's next action.

use crate::driver::Failure;
use crate::driver::guard;
use crate::driver::stream::{Queue, with_context};
use crate::session::Session;
use parking_lot::Mutex;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use trace::model::stream::StreamHandle;

/// For work that may still bring what the CPU saw. A kernel that waits for the CPU takes longer than any time
/// given to it.
const FOR_WORK: Duration = Duration::from_secs(1);
/// Once that was in vain.
const FOR_MORE_WORK: Duration = Duration::from_millis(10);
const BETWEEN_LOOKS: Duration = Duration::from_micros(200);

pub(crate) struct SideStream {
    /// Whether the CPU touched memory that is the device's here.
    needed: bool,
    /// By context: a stream that waits for no other.
    streams: Mutex<HashMap<u64, StreamHandle>>,
    /// Where work was put that is not known to have finished.
    busy: Mutex<HashSet<Queue>>,
    in_vain: AtomicBool,
}

impl SideStream {
    pub(crate) fn new(needed: bool) -> SideStream {
        SideStream { needed, streams: Mutex::default(), busy: Mutex::default(), in_vain: AtomicBool::new(false) }
    }

    /// Work is about to be put here.
    pub(crate) fn submits(&self, queue: impl FnOnce() -> Queue) {
        if self.needed {
            self.busy.lock().insert(queue());
        }
    }

    /// Before the stream is destroyed: it may not be asked afterwards.
    pub(crate) fn destroys_stream(&self, stream: u64) {
        self.busy.lock().retain(|queue| queue.stream != stream);
    }

    /// Before the context may end.
    pub(crate) fn context_ends(&self, session: &Session, context: u64) {
        self.busy.lock().retain(|queue| queue.context != context);
        if let Some(stream) = self.streams.lock().remove(&context) {
            let _ = with_context(session.driver, context, || session.driver.destroy_stream(stream));
        }
    }

    /// Has these bytes in device memory; whether they were there already, or came there. None if the driver
    /// will not. `in_use`: work was still under way when they were written.
    pub(crate) fn have(
        &self,
        session: &Session,
        thread: u32,
        live: u64,
        bytes: &[u8],
        in_use: &mut u64,
    ) -> Option<bool> {
        let mut found = vec![0u8; bytes.len()];
        let mut until = None;
        loop {
            let is_busy = self.is_busy(session, thread);
            self.fetch(session, live, &mut found)?;
            if found == bytes {
                return Some(true);
            }
            let wait = if self.in_vain.load(Relaxed) { FOR_MORE_WORK } else { FOR_WORK };
            if !is_busy {
                break;
            }
            if Instant::now() > *until.get_or_insert_with(|| Instant::now() + wait) {
                self.in_vain.store(true, Relaxed);
                *in_use += 1;
                break;
            }
            std::thread::sleep(BETWEEN_LOOKS);
        }
        // SAFETY: the stream is waited for while the bytes are borrowed.
        self.copy_aside(session, |stream| unsafe { session.driver.write_ordered(live, bytes, stream) }).map(|()| false)
    }

    fn is_busy(&self, session: &Session, thread: u32) -> bool {
        let driver = session.driver;
        let _held = session.placement.captures.hold();
        let mut busy = self.busy.lock();
        // To ask a stream that is captured would end that.
        let is_finished = |queue: &Queue| queue.is_captured(driver) || queue.is_finished(driver, queue.context, thread);
        busy.retain(|queue| {
            let ask = || with_context(driver, queue.context, || is_finished(queue));
            !queue.has_name(thread) || !session.placement.relaxed(ask).unwrap_or(true)
        });
        busy.iter().any(|queue| queue.has_name(thread))
    }

    /// What device memory holds now.
    pub(crate) fn fetch(&self, session: &Session, live: u64, into: &mut [u8]) -> Option<()> {
        guard::tell(into.as_ptr(), into.len());
        let (start, len) = (into.as_mut_ptr(), into.len() as u64);
        // SAFETY: the stream is waited for before the buffer is used again.
        let done = self.copy_aside(session, |stream| unsafe { session.driver.read_ordered(start, live, len, stream) });
        guard::tell(into.as_ptr(), 0);
        done
    }

    /// Has a copy made on a stream of our own, and waits for it.
    fn copy_aside(&self, session: &Session, copy: impl FnOnce(StreamHandle) -> Result<(), Failure>) -> Option<()> {
        let driver = session.driver;
        let context = match driver.current_context() {
            0 => session.contexts.lock().first().copied()?,
            context => context,
        };
        let work = || {
            let stream = self.stream(session, context)?;
            copy(stream).and_then(|()| driver.synchronize_stream(stream)).ok()
        };
        session.placement.relaxed(|| with_context(driver, context, work)).ok().flatten()
    }

    /// In the current context.
    fn stream(&self, session: &Session, context: u64) -> Option<StreamHandle> {
        let mut streams = self.streams.lock();
        if let Some(stream) = streams.get(&context) {
            return Some(*stream);
        }
        let stream = session.driver.create_stream().ok()?;
        streams.insert(context, stream);
        Some(stream)
    }
}
