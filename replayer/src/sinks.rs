//! Copies to the host that are still under way, and host memory that copies of the replay itself still use.

use crate::driver::Driver;
use crate::frame::Memory;
use parking_lot::Mutex;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use trace::api::copies::Region;
use trace::call::Content;

/// Where a copy brings bytes, and what they were.
pub struct Sink<'t> {
    /// The parameter.
    pub name: &'static str,
    /// Live memory.
    pub region: Region,
    /// The replay's own buffer; none if the bytes go to placed host memory.
    pub memory: Option<Memory>,
    /// Recorded content by offset into the packed bytes; empty if there is none.
    pub expected: Vec<(u64, u64, Content<'t>)>,
}

impl Sink<'_> {
    fn range(&self) -> Range<u64> {
        self.region.address..self.region.address + self.region.span()
    }
}

/// What tells that a copy has finished: its stream, seen from where it was put there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Queue {
    pub context: u64,
    pub stream: u64,
    /// The thread, if the stream is its own default stream.
    pub thread: Option<u32>,
}

pub struct Pending<'t> {
    pub call: u64,
    pub sink: Sink<'t>,
    pub queue: Queue,
}

/// The stream was destroyed: only its whole context can be asked.
const GONE: u64 = u64::MAX;

/// A pinned range that asynchronous copies read, and the number of synchronisations when the last was submitted.
struct InUse {
    range: Range<u64>,
    syncs: u64,
}

#[derive(Default)]
pub struct Sinks<'t> {
    pending: Mutex<Vec<Pending<'t>>>,
    sources: Mutex<Vec<InUse>>,
    /// Synchronisations executed so far, by any thread.
    syncs: AtomicU64,
}

impl<'t> Sinks<'t> {
    pub fn add(&self, pending: Pending<'t>) {
        self.pending.lock().push(pending);
    }

    /// After a synchronisation: copies that have finished, as far as this thread can ask. `all`: the current context
    /// was waited for as a whole.
    pub fn synchronized(&self, driver: &Driver, thread: u32, all: bool) -> Vec<Pending<'t>> {
        self.syncs.fetch_add(1, SeqCst);
        let mut pending = self.pending.lock();
        if pending.is_empty() {
            return Vec::new();
        }
        let context = current_context(driver);
        let mut asked: Vec<(Queue, bool)> = Vec::new();
        let mut finished = |queue: Queue| match asked.iter().find(|(known, _)| *known == queue) {
            Some((_, finished)) => *finished,
            None => {
                let finished = is_finished(driver, queue, context, thread);
                asked.push((queue, finished));
                finished
            }
        };
        take(&mut pending, |pending| all && pending.queue.context == context || finished(pending.queue))
    }

    /// A context is about to be destroyed, which ends its work.
    pub fn destroys_context(&self, context: u64) {
        for pending in self.pending.lock().iter_mut().filter(|pending| pending.queue.context == context) {
            pending.queue = Queue { context: 0, stream: GONE, thread: None };
        }
    }

    /// A stream is about to be destroyed: from now on its handle must not be asked about.
    pub fn destroys_stream(&self, stream: u64) {
        for pending in self.pending.lock().iter_mut().filter(|pending| pending.queue.stream == stream) {
            pending.queue.stream = GONE;
        }
    }

    /// Before the program (or a copy for it) writes a placed host range: pending copies into it, each finished or not.
    /// That is not asked of the driver if it must not be.
    pub fn overwritten(
        &self,
        driver: &Driver,
        range: &Range<u64>,
        thread: u32,
        may_ask: bool,
    ) -> Vec<(Pending<'t>, bool)> {
        let mut pending = self.pending.lock();
        let hit = |p: &Pending| {
            let at = p.sink.range();
            p.sink.memory.is_none() && at.start < range.end && range.start < at.end
        };
        if !pending.iter().any(hit) {
            return Vec::new();
        }
        let context = current_context(driver);
        let finished = |p: &Pending| may_ask && is_finished(driver, p.queue, context, thread);
        take(&mut pending, hit).into_iter().map(|p| (finished(&p), p)).map(|(finished, p)| (p, finished)).collect()
    }

    pub fn drain(&self) -> Vec<Pending<'t>> {
        std::mem::take(&mut *self.pending.lock())
    }

    /// Whether a copy may still be reading this host range, as nothing was waited for since it was submitted.
    pub fn is_in_use(&self, range: &Range<u64>) -> bool {
        let syncs = self.syncs.load(SeqCst);
        let mut sources = self.sources.lock();
        sources.retain(|source| source.syncs == syncs);
        sources.iter().any(|source| source.range.start < range.end && range.start < source.range.end)
    }

    pub fn use_source(&self, range: Range<u64>) {
        self.sources.lock().push(InUse { range, syncs: self.syncs.load(SeqCst) });
    }
}

fn take<'t>(pending: &mut Vec<Pending<'t>>, mut which: impl FnMut(&Pending<'t>) -> bool) -> Vec<Pending<'t>> {
    pending.extract_if(.., |p| which(p)).collect()
}

pub fn current_context(driver: &Driver) -> u64 {
    let mut context = 0u64;
    // SAFETY: one output word.
    let _ = unsafe { driver.ask("cuCtxGetCurrent", &[&raw mut context as u64]) };
    context
}

fn is_finished(driver: &Driver, queue: Queue, context: u64, thread: u32) -> bool {
    if queue.context != context || queue.stream == GONE || queue.thread.is_some_and(|own| own != thread) {
        return false;
    }
    let query = if queue.thread.is_some() { "cuStreamQuery_ptsz" } else { "cuStreamQuery" };
    // SAFETY: no pointers; a stream that is gone is an error, hence not finished.
    unsafe { driver.ask(query, &[queue.stream]) }.is_ok()
}
