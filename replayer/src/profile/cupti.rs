//! CUPTI as a source of times: activity records, matched with calls by the correlation ids that CUPTI gives
//! the replay's own driver calls.
//!
//! CUPTI's callback reports the id of a call, on the calling thread. Callbacks are enabled only for functions
//! that submit work, so that all other calls cost the same as without CUPTI.
//!
//! CUPTI returns whole buffers, from its own threads or from within a flush. A record may arrive before the
//! replay has noted the id: then it is kept until the end.

use crate::driver::{id, result};
use crate::profile::kernels::Kernels;
use crate::profile::work_description::{StartedCall, launched};
use crate::profile::{Collector, Submitted, now};
use crate::session::Session;
use parking_lot::Mutex;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ffi::{CStr, c_void};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicPtr, AtomicU64};
use trace::api::by_name;
use trace::cupti::library::DRIVER_API;
use trace::cupti::{Activity, Compared, Library, Record, activity, release, request};
use trace::file::record::{Timed, timed};
use trace::show::launch::shape;

/// Readings that CUPTI's clock is compared by.
const TRIES: usize = 32;
/// Records that stay in memory until their call is known, before they are looked up again.
const WAITING: usize = 1 << 12;

thread_local! {
    /// Whether the thread makes a call of the trace, and the ids of what it has called so far.
    static ATTENDS: Cell<bool> = const { Cell::new(false) };
    static IDS: RefCell<Vec<u32>> = const { RefCell::new(Vec::new()) };
}

/// CUPTI's callbacks get no word of the user's: the subscription that was begun last. None is ever freed.
static SUBSCRIPTION: AtomicPtr<Subscription> = AtomicPtr::new(std::ptr::null_mut());

fn subscription() -> Option<&'static Subscription> {
    // SAFETY: null, or leaked by `start`.
    unsafe { SUBSCRIPTION.load(Acquire).as_ref() }
}

struct Subscription {
    library: Library,
    collector: Arc<Collector>,
    /// What is to be added to CUPTI's time to make it CLOCK_MONOTONIC.
    offset: i64,
    calls: Mutex<HashMap<u32, Submitted>>,
    waiting: Mutex<Vec<UnmatchedRecord>>,
    /// Records of calls that are not the trace's.
    foreign: AtomicU64,
}

/// A record whose call was not known yet when it came.
struct UnmatchedRecord {
    correlation: u32,
    timed: Timed,
    kernel: Option<String>,
    /// It has been looked up in vain since.
    late: bool,
}

pub(super) struct Cupti {
    subscription: &'static Subscription,
    subscriber: *const c_void,
    version: u32,
    /// How far apart the two readings were that `offset` stands on.
    apart: u64,
}

// SAFETY: the subscriber is a handle that CUPTI takes on any thread.
unsafe impl Sync for Cupti {}
// SAFETY: as above.
unsafe impl Send for Cupti {}

impl Cupti {
    /// Says why it cannot be used.
    pub(super) fn start(path: &Path, collector: Arc<Collector>) -> Result<Cupti, String> {
        let library = open(path)?;
        let shown = path.display();
        let version = library.known_version(&shown.to_string())?;
        let Compared { offset, apart, .. } = library.compare(TRIES, now)?;
        let (calls, waiting) = (Mutex::default(), Mutex::default());
        let subscription = Box::leak(Box::new(Subscription {
            library,
            collector,
            offset,
            calls,
            waiting,
            foreign: AtomicU64::new(0),
        }));
        SUBSCRIPTION.store(subscription, Release);
        let subscription: &'static Subscription = subscription;
        let library = &subscription.library;
        let mut subscriber = std::ptr::null();
        // SAFETY: an output word, a function with the signature that CUPTI calls, and no user data.
        let subscribed = unsafe { (library.subscribe)(&raw mut subscriber, called, std::ptr::null()) };
        library
            .check(&format!("{shown}: cuptiSubscribe (does another tool use CUPTI in this process?)"), subscribed)?;
        let cupti = Cupti { subscription, subscriber, version, apart };
        let enabled = cupti.enable();
        if enabled.is_err() {
            cupti.end();
        }
        enabled.map(|()| cupti).map_err(|why| format!("{shown}: {why}"))
    }

    fn enable(&self) -> Result<(), String> {
        let library = &self.subscription.library;
        let concerned = |name: &str| by_name(name).is_some_and(|function| function.is_timed());
        let mut enabled = Err("CUPTI names no known driver function".to_owned());
        for id in library.callbacks(concerned) {
            // SAFETY: our own subscriber.
            let done = unsafe { (library.enable_callback)(1, self.subscriber, DRIVER_API, id) };
            // A function that has no callback is not timed; the others are.
            enabled = library.check("cuptiEnableCallback", done).or(enabled);
        }
        enabled?;
        // SAFETY: functions with the signatures that CUPTI calls.
        library.check("cuptiActivityRegisterCallbacks", unsafe { (library.register)(request, complete) })?;
        activity::KINDS.iter().try_for_each(|kind| {
            // SAFETY: no pointers.
            library.check("cuptiActivityEnable", unsafe { (library.enable)(*kind) })
        })
    }

    /// Makes a call of the trace.
    ///
    /// # Safety
    /// As for [`Driver::call`](crate::driver::Driver::call).
    pub(super) unsafe fn call(
        &self,
        session: &Session,
        kernels: &Kernels,
        StartedCall { call, live, words, .. }: StartedCall,
    ) -> u32 {
        IDS.with_borrow_mut(Vec::clear);
        ATTENDS.set(true);
        let begin = self.subscription.collector.begins(session.trace, call);
        // SAFETY: forwarded from the caller.
        let result = unsafe { session.driver.call(id(live), words) };
        let end = now();
        ATTENDS.set(false);
        if result == result::SUCCESS {
            let occupancy =
                launched(live, words).zip(shape(call)).map_or(timed::UNKNOWN_OCCUPANCY, |(function, shape)| {
                    kernels.facts(session.driver, function, shape.block.iter().product(), shape.shared).occupancy
                });
            let submitted = Submitted { thread: call.thread, call: call.sequence, begin, end, occupancy };
            let mut calls = self.subscription.calls.lock();
            IDS.with_borrow(|ids| calls.extend(ids.iter().map(|id| (*id, submitted))));
        }
        result
    }

    /// Has CUPTI hand out what is complete.
    pub(super) fn flush(&self) {
        // SAFETY: no pointers.
        unsafe { (self.subscription.library.flush)(0) };
    }

    /// The version, and by how many nanoseconds times may be off.
    pub(super) fn finish(self) -> (u32, u64) {
        const FORCED: u32 = 1;
        let subscription = self.subscription;
        // SAFETY: no pointers.
        let flushed = unsafe { (subscription.library.flush)(FORCED) };
        if let Err(why) = subscription.library.check("cuptiActivityFlushAll", flushed) {
            subscription.collector.untimed(&format!("CUPTI did not return all records: {why}"), 1);
        }
        let drift =
            subscription.library.compare(TRIES, now).map_or(0, |again| again.offset.abs_diff(subscription.offset));
        self.end();
        subscription.match_up();
        let foreign = subscription.foreign.load(Relaxed) + subscription.waiting.lock().drain(..).count() as u64;
        if subscription.collector.counts.lock().works == 0 {
            subscription.collector.untimed("CUPTI's record matches no call of the trace", foreign);
        }
        (self.version, self.apart + drift)
    }

    fn end(&self) {
        let library = &self.subscription.library;
        for kind in activity::KINDS {
            // SAFETY: no pointers.
            unsafe { (library.disable)(kind) };
        }
        // SAFETY: our own subscriber, not used any more.
        unsafe { (library.unsubscribe)(self.subscriber) };
    }
}

impl Subscription {
    fn record(&self, activity: Activity) {
        let mut timed = activity.timed;
        if timed.start == 0 || timed.end < timed.start {
            return self.collector.untimed("CUPTI has no times for it", 1);
        }
        timed.start = timed.start.saturating_add(self.offset);
        timed.end = timed.end.saturating_add(self.offset);
        let (correlation, kernel) = (activity.correlation, activity.kernel.map(|name| name.to_string_lossy()));
        let submitted = self.calls.lock().get(&correlation).copied();
        if let Some(submitted) = submitted {
            return self.collector.record(submitted.owns(timed), kernel.as_deref());
        }
        let kernel = kernel.map(|name| name.into_owned());
        let mut waiting = self.waiting.lock();
        waiting.push(UnmatchedRecord { correlation, timed, kernel, late: false });
        if waiting.len() >= WAITING {
            drop(waiting);
            self.match_up();
        }
    }

    /// Hands on what has waited for its call. What is looked up in vain twice is not the trace's: the replay
    /// fills memory, too.
    fn match_up(&self) {
        let waiting = std::mem::take(&mut *self.waiting.lock());
        for record in waiting {
            let submitted = self.calls.lock().get(&record.correlation).copied();
            match submitted {
                Some(submitted) => self.collector.record(submitted.owns(record.timed), record.kernel.as_deref()),
                None if record.late => _ = self.foreign.fetch_add(1, Relaxed),
                None => self.waiting.lock().push(UnmatchedRecord { late: true, ..record }),
            }
        }
    }
}

impl Submitted {
    fn owns(&self, timed: Timed) -> Timed {
        let occupancy = if timed.what == timed::KERNEL && timed.node == 0 { self.occupancy } else { timed.occupancy };
        let Submitted { thread, call, begin: submitted, end: returned, .. } = *self;
        Timed { thread, call, submitted, returned, occupancy, ..timed }
    }
}

/// CUpti_CallbackData, as far as it is read: the site is its first word, the correlation id lies at 64.
extern "C" fn called(_: *const c_void, _: u32, _: u32, data: *const u8) {
    const ENTER: u32 = 0;
    const CORRELATION_AT: usize = 64;
    if !ATTENDS.get() {
        return;
    }
    // SAFETY: CUPTI hands out a CUpti_CallbackData for callbacks of the driver's functions.
    let (site, correlation) =
        unsafe { (data.cast::<u32>().read_unaligned(), data.add(CORRELATION_AT).cast::<u32>().read_unaligned()) };
    if site == ENTER {
        IDS.with_borrow_mut(|ids| ids.push(correlation));
    }
}

extern "C" fn complete(context: *const c_void, stream: u32, buffer: *mut u8, _: usize, valid: usize) {
    if let Some(subscription) = subscription() {
        let see = |record: Record| {
            if let Record::Work(activity) = record {
                subscription.record(activity);
            }
        };
        // SAFETY: what CUPTI has just handed in, of a version that was found to be known.
        let dropped = unsafe { subscription.library.read((context, stream), (buffer, valid), see) };
        subscription.collector.untimed("CUPTI dropped its record", dropped);
    }
    // SAFETY: CUPTI gives it back.
    unsafe { release(buffer) };
}

/// Loads it for good: its threads outlive any use.
fn open(path: &Path) -> Result<Library, String> {
    // SAFETY: the user's own tools load the same library; its constructors set up its own state.
    let library = unsafe { libloading::Library::new(path) }.map_err(|error| error.to_string())?;
    let library = std::mem::ManuallyDrop::new(library);
    let find = |name: &CStr| {
        // SAFETY: only the address is taken.
        let found = unsafe { library.get::<*const c_void>(name.to_bytes_with_nul()) };
        found.map_or(std::ptr::null(), |symbol| *symbol)
    };
    // SAFETY: a library of that name, which stays loaded.
    unsafe { Library::resolve(find) }.map_err(|why| format!("{}: {why}", path.display()))
}
