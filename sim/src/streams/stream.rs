//! Streams: queues of work, each with a thread of its own while it has work.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::thread::ThreadId;
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::abi::code::{Code, Result};
use crate::abi::{Handle, NullStream};
use crate::base::registry::{Registry, handle_of};
use crate::base::state::knobs;
use crate::cupti::activities::Origin;
use crate::graphs::capture::{self, Part};
use crate::graphs::node::Kind;
use crate::memory::table::Submission;
use crate::streams::context::{self, Context};
use crate::streams::work::Work;

/// How long a stream's thread waits for more work before it ends.
const IDLE: Duration = Duration::from_millis(100);

pub(crate) const NON_BLOCKING: u32 = 1;

/// The progress of a stream. It outlives the stream, because events refer to it.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    done: AtomicU64,
    lock: Mutex<()>,
    advanced: Condvar,
}

/// A place in a stream's order: all work up to it.
#[derive(Clone, Debug)]
pub(crate) struct Point {
    progress: Arc<Progress>,
    number: u64,
}

impl Point {
    pub(crate) fn reached(&self) -> bool {
        self.progress.done.load(Ordering::Acquire) >= self.number
    }

    pub(crate) fn wait(&self) {
        if self.reached() {
            return;
        }
        let mut guard = self.progress.lock.lock();
        while !self.reached() {
            self.progress.advanced.wait(&mut guard);
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    Legacy,
    PerThread,
    Created,
}

pub(crate) struct Stream {
    context: Weak<Context>,
    pub context_handle: Handle,
    pub device: i32,
    pub lane: Lane,
    pub flags: u32,
    pub priority: i32,
    pub id: u64,
    queue: Mutex<Queue>,
    more: Condvar,
    progress: Arc<Progress>,
    /// Set while a capture takes the stream's work.
    pub part: Mutex<Option<Part>>,
    /// What cuStreamSetAttribute has set: hints, kept to be told again.
    pub attributes: Mutex<BTreeMap<u32, [u32; 16]>>,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<(Work, Origin, Vec<Point>)>,
    submitted: u64,
    /// A thread serves this stream.
    served: bool,
    /// Something is being performed.
    busy: bool,
}

/// The streams of a context and the rules between them.
pub(crate) struct Lanes {
    legacy: OnceLock<Arc<Stream>>,
    per_thread: Mutex<HashMap<ThreadId, Arc<Stream>>>,
    order: Mutex<Order>,
}

#[derive(Default)]
struct Order {
    submitted: Latest,
    /// Of blocking streams, since the legacy stream's last work: that came after what was before.
    blocking: Latest,
    /// The last that the legacy stream was given.
    legacy: Option<Point>,
}

/// The last that each stream was given, by the stream's id. A list of all streams would make each wait as long
/// as there are streams.
#[derive(Default)]
struct Latest {
    points: BTreeMap<u64, Point>,
    /// With more than these it is looked through for what has been reached.
    room: usize,
}

impl Latest {
    fn insert(&mut self, stream: u64, point: Point) {
        if self.points.len() >= self.room {
            self.points.retain(|_, point| !point.reached());
            self.room = 2 * self.points.len() + 64;
        }
        self.points.insert(stream, point);
    }

    fn under_way(&mut self) -> Vec<Point> {
        self.points.retain(|_, point| !point.reached());
        self.points.values().cloned().collect()
    }
}

static STREAMS: Registry<Stream> = Registry::new();

fn make(context: &Arc<Context>, lane: Lane, flags: u32, priority: i32) -> Arc<Stream> {
    static IDS: AtomicU64 = AtomicU64::new(1);
    Arc::new(Stream {
        context: Arc::downgrade(context),
        context_handle: handle_of(context),
        device: context.device,
        lane,
        flags,
        priority,
        id: IDS.fetch_add(1, Ordering::Relaxed),
        queue: Mutex::default(),
        more: Condvar::new(),
        progress: Arc::default(),
        part: Mutex::default(),
        attributes: Mutex::default(),
    })
}

pub(crate) fn create(flags: u32, priority: i32) -> Result<Handle> {
    if flags & !NON_BLOCKING != 0 {
        return Err(Code::INVALID_VALUE);
    }
    create_in(&context::usable()?, flags, priority)
}

pub(crate) fn create_in(context: &Arc<Context>, flags: u32, priority: i32) -> Result<Handle> {
    Ok(STREAMS.insert(make(context, Lane::Created, flags, priority.clamp(-5, 0))))
}

/// Forgets the handle; what was submitted is still done.
pub(crate) fn destroy(handle: Handle) -> Result {
    STREAMS.remove(handle).map(drop)
}

pub(crate) fn close_all(context: &Context) {
    STREAMS.drain(|s| std::ptr::eq(s.context.as_ptr(), context));
}

/// The stream that a handle means to the calling thread.
pub(crate) fn find(handle: Handle, null: NullStream) -> Result<Arc<Stream>> {
    let lane = match (handle, null) {
        (0, NullStream::Legacy) | (1, _) => Lane::Legacy,
        (0, NullStream::PerThread) | (2, _) => Lane::PerThread,
        _ => Lane::Created,
    };
    match lane {
        Lane::Legacy => context::current()?.lanes.legacy.get().cloned().ok_or(Code::INVALID_CONTEXT),
        Lane::PerThread => {
            let context = context::current()?;
            let mut streams = context.lanes.per_thread.lock();
            let own = std::thread::current().id();
            Ok(streams.entry(own).or_insert_with(|| make(&context, Lane::PerThread, 0, 0)).clone())
        }
        Lane::Created => {
            context::permitted()?;
            STREAMS.get(handle).ok_or(Code::INVALID_HANDLE)
        }
    }
}

impl Lanes {
    pub(crate) fn new() -> Self {
        Self { legacy: OnceLock::new(), per_thread: Mutex::default(), order: Mutex::default() }
    }

    pub(crate) fn open(&self, context: &Arc<Context>) {
        self.legacy.get_or_init(|| make(context, Lane::Legacy, 0, 0));
    }

    pub(crate) fn legacy(&self) -> Option<Arc<Stream>> {
        self.legacy.get().cloned()
    }

    /// Where all streams of the context stand now.
    pub(crate) fn points(&self) -> Vec<Point> {
        self.order.lock().submitted.under_way()
    }

    /// What a wait for a stream waits for: for the legacy stream also what blocking streams have been given,
    /// even if nothing of its own is behind that (seen on driver 580).
    pub(crate) fn waited_for(&self, stream: &Stream) -> Vec<Point> {
        let is_legacy = stream.lane == Lane::Legacy;
        let blocking = if is_legacy { self.order.lock().blocking.under_way() } else { Vec::new() };
        blocking.into_iter().chain([stream.last()]).filter(|point| !point.reached()).collect()
    }

    pub(crate) fn wait_all(&self) {
        for point in self.points() {
            point.wait();
        }
    }
}

impl Stream {
    pub(crate) fn context(&self) -> Result<Arc<Context>> {
        self.context.upgrade().ok_or(Code::CONTEXT_IS_DESTROYED)
    }

    pub(crate) fn blocking(&self) -> bool {
        self.flags & NON_BLOCKING == 0
    }

    /// Whether a capture is going on, which takes the work instead.
    pub(crate) fn capturing(&self) -> bool {
        self.part.lock().is_some()
    }

    /// Where work submitted now goes.
    pub(crate) fn submission(&self) -> Submission {
        if self.capturing() { Submission::Node } else { Submission::Now }
    }

    /// Refuses a call that cannot be captured.
    pub(crate) fn capture_forbids(&self) -> Result {
        if self.lane == Lane::Legacy {
            return capture::check_legacy(self.context_handle);
        }
        match &*self.part.lock() {
            Some(part) => {
                part.capture.invalidate();
                Err(Code::STREAM_CAPTURE_UNSUPPORTED)
            }
            None => Ok(()),
        }
    }

    /// Everything submitted so far.
    pub(crate) fn last(&self) -> Point {
        Point { progress: self.progress.clone(), number: self.queue.lock().submitted }
    }

    /// Appends work that starts after `after` and after what the default streams' rules say.
    pub(crate) fn submit(self: &Arc<Self>, work: Work, after: Vec<Point>) -> Result<Point> {
        let context = self.context()?;
        if self.capture(&work)? {
            return Ok(self.last());
        }
        let mut order = context.lanes.order.lock();
        let mut queue = self.queue.lock();
        let (point, waits) = self.enter(&mut order, &mut queue, after);
        drop(order);
        let is_waited_for = knobs().launches_wait && matches!(work, Work::Kernel(_) | Work::Graph(_));
        queue.waiting.push_back((work, Origin::new(self.id, self.device), waits));
        if !queue.served {
            serve(self.clone())?;
            queue.served = true;
        }
        drop(queue);
        self.more.notify_one();
        if is_waited_for {
            point.wait();
        }
        Ok(point)
    }

    /// Whether a capture has taken the work.
    fn capture(&self, work: &Work) -> Result<bool> {
        if self.lane == Lane::Legacy {
            capture::check_legacy(self.context_handle)?;
        }
        match &mut *self.part.lock() {
            Some(part) => part.add(Kind::from_work(work.clone())?).map(|()| true),
            None => Ok(false),
        }
    }

    /// Does work and returns when it is done; on this thread, where nothing else is ahead of it.
    pub(crate) fn perform(self: &Arc<Self>, work: Work) -> Result {
        let context = self.context()?;
        let mut order = context.lanes.order.lock();
        let mut queue = self.queue.lock();
        if queue.busy || !queue.waiting.is_empty() {
            drop((queue, order));
            self.submit(work, Vec::new())?.wait();
            return Ok(());
        }
        let (point, waits) = self.enter(&mut order, &mut queue, Vec::new());
        queue.busy = true;
        drop((queue, order));
        for wait in &waits {
            wait.wait();
        }
        Origin::new(self.id, self.device).perform(|| work.perform(&context));
        self.finish(self.queue.lock(), point.number);
        Ok(())
    }

    /// Gives the next number, and what must come before by the rules of the default streams.
    fn enter(&self, order: &mut Order, queue: &mut Queue, mut waits: Vec<Point>) -> (Point, Vec<Point>) {
        queue.submitted += 1;
        let point = Point { progress: self.progress.clone(), number: queue.submitted };
        order.submitted.insert(self.id, point.clone());
        if self.lane == Lane::Legacy {
            waits.extend(std::mem::take(&mut order.blocking.points).into_values());
            order.legacy = Some(point.clone());
        } else if self.blocking() {
            order.blocking.insert(self.id, point.clone());
            waits.extend(order.legacy.clone());
        }
        waits.retain(|wait| !wait.reached());
        (point, waits)
    }

    fn finish(&self, mut queue: MutexGuard<'_, Queue>, number: u64) {
        queue.busy = false;
        self.progress.done.store(number, Ordering::Release);
        drop(queue);
        drop(self.progress.lock.lock());
        self.progress.advanced.notify_all();
        self.more.notify_one();
    }

    /// The life of a stream's thread.
    fn run(self: &Arc<Self>) {
        let mut queue = self.queue.lock();
        loop {
            if queue.busy || queue.waiting.is_empty() {
                let timed_out = self.more.wait_for(&mut queue, IDLE).timed_out();
                if timed_out && !queue.busy && queue.waiting.is_empty() {
                    queue.served = false;
                    return;
                }
                continue;
            }
            let Some((work, origin, waits)) = queue.waiting.pop_front() else { continue };
            let number = queue.submitted - queue.waiting.len() as u64;
            queue.busy = true;
            drop(queue);
            for wait in waits {
                wait.wait();
            }
            if let Some(context) = self.context.upgrade() {
                origin.perform(|| work.perform(&context));
            }
            drop(work);
            self.finish(self.queue.lock(), number);
            queue = self.queue.lock();
        }
    }
}

/// Starts a thread for the stream, which takes none of the application's signals.
fn serve(stream: Arc<Stream>) -> Result {
    let mut before = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: both sets are locals; the calling thread's mask is put back below.
    let blocked = unsafe {
        let mut all = std::mem::MaybeUninit::uninit();
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr()) == 0
    };
    let name = format!("sim-stream-{}", stream.id);
    let started = std::thread::Builder::new().name(name).spawn(move || stream.run());
    if blocked {
        // SAFETY: `before` was filled in by the successful call above.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), std::ptr::null_mut()) };
    }
    started.map(drop).map_err(|_| Code::OUT_OF_MEMORY)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thread_seconds() -> f64 {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: fills a local.
        unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
        time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
    }

    /// What so many streams take of this thread, each with work, and waits for it in all ways there are.
    fn seconds(streams: usize) -> f64 {
        let context = context::usable().expect("it is current");
        let legacy = context.legacy().expect("each context has one");
        let started = thread_seconds();
        let made: Vec<Handle> = (0..streams)
            .map(|_| {
                let handle = create(0, 0).expect("a stream");
                let stream = STREAMS.get(handle).expect("it was made");
                stream.perform(Work::Nothing).expect("done");
                assert!(context.lanes.waited_for(&stream).is_empty() && context.lanes.waited_for(&legacy).is_empty());
                legacy.perform(Work::Nothing).expect("done");
                context.synchronize().expect("done");
                handle
            })
            .collect();
        made.into_iter().for_each(|handle| destroy(handle).expect("it was made"));
        thread_seconds() - started
    }

    #[test]
    fn eight_times_as_many_streams_do_not_take_sixty_four_times_as_long() {
        context::create(0, 0, 3020).expect("a context");
        let (few, many) = (seconds(2_000), seconds(16_000));
        assert!(many < 24.0 * few, "{few} s, {many} s");
    }
}
