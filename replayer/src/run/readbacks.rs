//! Copies to the host in flight, and host memory that the replay's own copies still use.

use crate::call::readback::{Readback, meet};
use crate::driver::Driver;
use crate::driver::stream::{GONE, Queue};
use crate::memory::buffer::HostBuffer;
use crate::run::copy_events::{Arrival, Arrivals};
use parking_lot::{Mutex, MutexGuard};
use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

pub(crate) struct Pending<'t> {
    pub call: u64,
    pub readback: Readback<'t>,
    pub queue: Queue,
    /// When the recorder looked at what it had brought; `u64::MAX` if never.
    pub seen: u64,
    /// Tells that it has arrived, if the stream may be asked to.
    pub arrival: Option<Arrival>,
    /// How many there had been before it.
    pub number: u64,
}

/// A pinned range that asynchronous copies read, and their streams.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Source {
    pub range: Range<u64>,
    pub queue: Queue,
    /// A kernel was given it, rather than a copy.
    pub is_launch: bool,
    /// When recorded it began later than this: behind a callback that ended then.
    pub not_before: u64,
}

pub(crate) struct Readbacks<'t> {
    pending: Mutex<Vec<Pending<'t>>>,
    /// How many there have been.
    count: AtomicU64,
    /// None of them was seen before this time.
    earliest: AtomicU64,
    pub arrivals: Arrivals,
    /// And when the last of them was put there, when recorded.
    sources: Mutex<HashMap<Source, u64>>,
    /// Memory of the replay's own that asynchronous copies read.
    lent: Mutex<LentBuffers>,
}

/// By queue, so that each is asked once, and how many bytes it is.
#[derive(Default)]
struct LentBuffers {
    of: HashMap<Queue, Vec<HostBuffer>>,
    bytes: usize,
}

impl LentBuffers {
    fn give_back(&mut self, mut is_finished: impl FnMut(Queue) -> bool) {
        for (_, memory) in self.of.extract_if(|queue, _| is_finished(*queue)) {
            self.bytes -= memory.iter().map(|memory| memory.bytes().len()).sum::<usize>();
        }
    }
}

impl Default for Readbacks<'_> {
    fn default() -> Self {
        Readbacks {
            pending: Mutex::default(),
            count: AtomicU64::new(0),
            earliest: AtomicU64::new(u64::MAX),
            arrivals: Arrivals::default(),
            sources: Mutex::default(),
            lent: Mutex::default(),
        }
    }
}

impl<'t> Readbacks<'t> {
    /// After its call: the copy is under way.
    pub(crate) fn add(&self, pending: Pending<'t>) {
        let mut all = self.pending.lock();
        self.earliest.fetch_min(pending.seen, Relaxed);
        all.push(Pending { number: self.count.fetch_add(1, Relaxed), ..pending });
    }

    /// How many copies are under way by now, or were.
    pub(crate) fn count(&self) -> u64 {
        self.count.load(Relaxed)
    }

    /// After a synchronisation: copies that have finished, as far as this thread can ask. `whole`: the
    /// context that was waited for as a whole.
    pub(crate) fn synchronized(&self, driver: &Driver, thread: u32, whole: Option<u64>) -> Vec<Pending<'t>> {
        let (pending, mut sources, mut lent) = (self.pending.lock(), self.sources.lock(), self.lent.lock());
        if pending.is_empty() && sources.is_empty() && lent.of.is_empty() {
            return Vec::new();
        }
        let context = driver.current_context();
        let mut asked: Vec<(Queue, bool)> = Vec::new();
        let mut finished = |queue: Queue| match asked.iter().find(|(known, _)| *known == queue) {
            Some((_, finished)) => *finished,
            None => {
                let finished = whole == Some(queue.context) || queue.is_finished(driver, context, thread);
                asked.push((queue, finished));
                finished
            }
        };
        sources.retain(|source, _| !finished(source.queue));
        lent.give_back(&mut finished);
        self.remove(pending, |pending| finished(pending.queue))
    }

    /// Copies on this queue among the first so many. Which of calls that overlapped came first their numbers
    /// do not tell.
    pub(crate) fn of_queue(&self, queue: Queue, count: u64) -> Vec<Pending<'t>> {
        self.remove(self.pending.lock(), |pending| pending.queue == queue && pending.number < count)
    }

    /// Copies put on any stream of this context.
    pub(crate) fn of_context(&self, context: u64) -> Vec<Pending<'t>> {
        self.sources.lock().retain(|source, _| source.queue.context != context);
        self.remove(self.pending.lock(), |pending| pending.queue.context == context)
    }

    /// A stream is about to be destroyed: from now on its handle must not be asked about.
    pub(crate) fn destroys_stream(&self, stream: u64) {
        for pending in self.pending.lock().iter_mut().filter(|pending| pending.queue.stream == stream) {
            (pending.queue.stream, pending.seen) = (GONE, u64::MAX);
        }
        let mut sources = self.sources.lock();
        let there: Vec<(Source, u64)> = sources.extract_if(|source, _| source.queue.stream == stream).collect();
        let gone =
            |(source, put): (Source, u64)| (Source { queue: Queue { stream: GONE, ..source.queue }, ..source }, put);
        sources.extend(there.into_iter().map(gone));
        let mut lent = self.lent.lock();
        let there: Vec<_> = lent.of.extract_if(|queue, _| queue.stream == stream).collect();
        for (queue, memory) in there {
            lent.of.entry(Queue { stream: GONE, ..queue }).or_default().extend(memory);
        }
    }

    #[inline]
    pub(crate) fn any_seen_before(&self, time: u64) -> bool {
        self.earliest.load(Relaxed) < time
    }

    /// Copies that had been looked at before that time when recorded, if here they have finished, too.
    pub(crate) fn seen_before(&self, time: u64, finished: impl Fn(&Pending) -> bool) -> Vec<Pending<'t>> {
        let seen = self.remove(self.pending.lock(), |pending| pending.seen < time && finished(pending));
        let pending = self.pending.lock();
        let earliest = pending.iter().map(|pending| pending.seen).min().unwrap_or(u64::MAX);
        self.earliest.store(earliest, Relaxed);
        seen
    }

    /// What tells of copies that had been looked at before that time that they have arrived here, too.
    pub(crate) fn arrivals_before(&self, time: u64) -> Vec<Arrival> {
        let pending = self.pending.lock();
        pending.iter().filter(|pending| pending.seen < time).filter_map(|pending| pending.arrival).collect()
    }

    pub(crate) fn is_awaited(&self, arrival: Arrival) -> bool {
        self.pending.lock().iter().any(|pending| pending.arrival == Some(arrival))
    }

    /// It does not come when it came when recorded: it is looked at when it can be.
    pub(crate) fn give_up(&self, arrival: Arrival) {
        let mut pending = self.pending.lock();
        pending.iter_mut().filter(|pending| pending.arrival == Some(arrival)).for_each(|late| late.seen = u64::MAX);
    }

    fn remove(
        &self,
        mut pending: MutexGuard<Vec<Pending<'t>>>,
        mut which: impl FnMut(&Pending<'t>) -> bool,
    ) -> Vec<Pending<'t>> {
        let taken: Vec<Pending> = pending.extract_if(.., |pending| which(pending)).collect();
        taken.iter().filter_map(|pending| pending.arrival).for_each(|arrival| self.arrivals.give_back(arrival));
        taken
    }

    /// Pending copies into a placed or translated host range.
    pub(crate) fn landing_in(&self, range: &Range<u64>) -> Vec<Pending<'t>> {
        self.landed_in(range, |_| true)
    }

    /// Those of them that `finished` tells to have.
    pub(crate) fn landed_in(&self, range: &Range<u64>, finished: impl Fn(&Pending) -> bool) -> Vec<Pending<'t>> {
        self.remove(self.pending.lock(), |pending| pending.readback.lands_in(range) && finished(pending))
    }

    pub(crate) fn is_landing_in(&self, range: &Range<u64>) -> bool {
        self.pending.lock().iter().any(|pending| pending.readback.lands_in(range))
    }

    /// Whether some of them tell by an event of their own when they have come.
    pub(crate) fn is_awaited_in(&self, range: &Range<u64>) -> bool {
        self.pending.lock().iter().any(|pending| pending.arrival.is_some() && pending.readback.lands_in(range))
    }

    /// Everything that is left.
    pub(crate) fn drain(&self) -> (Vec<Pending<'t>>, Vec<(HostBuffer, Queue)>) {
        let lent = std::mem::take(&mut *self.lent.lock()).of.into_iter();
        let lent = lent.flat_map(|(queue, all)| all.into_iter().map(move |memory| (memory, queue)));
        (std::mem::take(&mut *self.pending.lock()), lent.collect())
    }

    /// Put there at that time when recorded.
    pub(crate) fn use_source(&self, source: Source, put: u64) {
        self.sources.lock().insert(source, put);
    }

    /// A copy of this queue reads the memory, which is given back when it has finished.
    pub(crate) fn lend(&self, memory: impl Iterator<Item = HostBuffer>, queue: Queue) {
        let memory: Vec<HostBuffer> = memory.collect();
        if memory.is_empty() {
            return;
        }
        let mut lent = self.lent.lock();
        lent.bytes += memory.iter().map(|memory| memory.bytes().len()).sum::<usize>();
        lent.of.entry(queue).or_default().extend(memory);
    }

    /// Gives back what finished copies have read, if much is lent: a program may put copies on a stream for as
    /// long as it likes without a wait.
    pub(crate) fn reclaim(&self, is_finished: impl Fn(Queue) -> bool) {
        const MUCH: usize = 1 << 30;
        let mut lent = self.lent.lock();
        if lent.bytes > MUCH {
            lent.give_back(is_finished);
        }
    }

    /// Nothing runs in this context any more.
    pub(crate) fn give_back(&self, context: u64) {
        self.lent.lock().give_back(|queue| queue.context == context);
    }

    /// Where launches were put that may still be reading this host range.
    pub(crate) fn launches_at(&self, range: &Range<u64>) -> HashSet<Queue> {
        let sources = self.sources.lock();
        let reading = sources.keys().filter(|source| source.is_launch && meet(&source.range, range));
        reading.map(|source| source.queue).collect()
    }

    /// Where copies and launches were put that may still be reading this host range as it was by that time,
    /// whether it is a launch, and when the last was put there.
    pub(crate) fn take_readers(&self, range: &Range<u64>, time: u64) -> Vec<(Queue, bool, u64)> {
        let mut sources = self.sources.lock();
        let mut readers: HashMap<(Queue, bool), u64> = HashMap::new();
        for (source, put) in sources.extract_if(|source, _| source.not_before < time && meet(&source.range, range)) {
            let last = readers.entry((source.queue, source.is_launch)).or_default();
            *last = put.max(*last);
        }
        readers.into_iter().map(|((queue, is_launch), put)| (queue, is_launch, put)).collect()
    }
}
