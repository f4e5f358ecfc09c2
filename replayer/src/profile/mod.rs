//! Device times of submitted work: from CUPTI's activity records, or from events around each submission.
//!
//! Measurements go to their receiver at once ([`Times`]), so that memory grows only with the work in flight,
//! not with the trace. There is no wait that the recorded program did not make.
//!
//! Imports `check/` and the layers below.

mod cupti;
mod events;
mod kernels;
pub mod timed_trace;
mod work_description;

use crate::session::Session;
use cupti::Cupti;
use events::Events;
use kernels::Kernels;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use trace::file::record::{Timed, timed};
use trace::{Call, Trace};
pub(crate) use work_description::StartedCall;

/// The receiver of measurements. Called from threads of the replay and of CUPTI.
pub trait Times: Send {
    /// One kernel, copy or fill, with the kernel's name.
    fn record(&mut self, timed: Timed, kernel: Option<&str>);
}

/// The source of the times, and their receiver.
#[derive(Clone)]
pub struct Measure {
    /// Libraries to try in this order, or why events are used.
    pub cupti: Result<Vec<PathBuf>, String>,
    /// Do not use events if CUPTI cannot be used.
    pub only_cupti: bool,
    /// Receiver of the device times.
    pub to: Arc<Mutex<dyn Times>>,
}

impl std::fmt::Debug for Measure {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.debug_struct("Measure").field("cupti", &self.cupti).finish_non_exhaustive()
    }
}

/// The way of measurement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Measurement {
    /// As in TIMED records.
    pub source: u8,
    /// CUPTI's own version; 0 for events.
    pub version: u32,
    /// Why it is not CUPTI.
    pub why: String,
    /// What was added to the replay's times (CLOCK_MONOTONIC, ns).
    pub offset: i64,
    /// By how many nanoseconds device times may be off against times of calls.
    pub uncertainty: u64,
    /// Submissions that were timed.
    pub works: u64,
    /// Work of recorded calls that was not timed: why, and how often.
    pub untimed: Vec<(String, u64)>,
    /// As cuDriverGetVersion tells it; 0 if it does not.
    pub driver_version: i32,
    /// Ordinal and name.
    pub devices: Vec<(u32, String)>,
}

pub(crate) struct Profiler<'t> {
    collector: Arc<Collector>,
    source: Source<'t>,
    kernels: Kernels,
    why: String,
}

enum Source<'t> {
    Cupti(Cupti),
    Events(Events<'t>),
}

/// The state that both sources share, including CUPTI's threads.
pub(crate) struct Collector {
    to: Arc<Mutex<dyn Times>>,
    offset: OnceLock<i64>,
    counts: Mutex<Counts>,
}

#[derive(Default)]
struct Counts {
    works: u64,
    untimed: BTreeMap<String, u64>,
}

/// A call of the replay that submitted work.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Submitted {
    /// As in TIMED records.
    pub thread: u32,
    pub call: u32,
    /// CLOCK_MONOTONIC, ns.
    pub begin: i64,
    pub end: i64,
    pub occupancy: u16,
}

/// Nanoseconds of CLOCK_MONOTONIC.
pub fn now() -> i64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: fills the struct.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

impl Collector {
    /// The call is about to be made. The replay's clock is fixed to the trace's by the first that gives a
    /// device work.
    pub(crate) fn begins(&self, trace: &Trace, call: &Call) -> i64 {
        let begin = now();
        self.offset.get_or_init(|| trace.nanoseconds(call.begin) - trace.first_clock() - begin);
        begin
    }

    /// With the times of the device and of the call on CLOCK_MONOTONIC; puts them on the trace's clock.
    pub(crate) fn record(&self, mut timed: Timed, kernel: Option<&str>) {
        let offset = self.offset.get().copied().unwrap_or(0);
        for time in [&mut timed.start, &mut timed.end, &mut timed.submitted, &mut timed.returned] {
            *time = time.saturating_add(offset);
        }
        self.counts.lock().works += 1;
        self.to.lock().record(timed, kernel);
    }

    pub(crate) fn untimed(&self, why: &str, count: u64) {
        if count > 0 {
            let mut counts = self.counts.lock();
            match counts.untimed.get_mut(why) {
                Some(known) => *known += count,
                None => _ = counts.untimed.insert(why.to_owned(), count),
            }
        }
    }
}

impl<'t> Profiler<'t> {
    /// To be called before cuInit: CUPTI wants to see it.
    pub(crate) fn start(measure: &Measure) -> Profiler<'t> {
        let to = measure.to.clone();
        let collector = Arc::new(Collector { to, offset: OnceLock::new(), counts: Mutex::default() });
        let (mut why, libraries) = match &measure.cupti {
            Ok(libraries) => (Vec::new(), &libraries[..]),
            Err(why) => (vec![why.clone()], &[][..]),
        };
        let mut started = None;
        for library in libraries {
            match Cupti::start(library, collector.clone()) {
                Ok(cupti) => started = Some(cupti),
                Err(failure) => why.push(failure),
            }
            if started.is_some() {
                why.clear();
                break;
            }
        }
        let source = started.map_or_else(|| Source::Events(Events::default()), Source::Cupti);
        Profiler { collector, source, kernels: Kernels::default(), why: why.join("; ") }
    }

    /// Why events are used; empty if they are not.
    pub(crate) fn why(&self) -> &str {
        &self.why
    }

    /// Makes a call in the place of [`Driver::call`](crate::driver::Driver::call).
    ///
    /// # Safety
    /// As for that.
    pub(crate) unsafe fn call(&self, session: &Session<'t>, made: StartedCall<'_, 't>) -> u32 {
        match &self.source {
            // SAFETY: forwarded from the caller.
            Source::Cupti(cupti) => unsafe { cupti.call(session, &self.kernels, made) },
            // SAFETY: as above.
            Source::Events(events) => unsafe { events.call(session, &self.collector, &self.kernels, made) },
        }
    }

    /// Something has been waited for, or asked about, and has finished.
    pub(crate) fn waited(&self, session: &Session) {
        if let Source::Events(events) = &self.source {
            events.reap(session, &self.collector, None);
        }
    }

    /// The context is at rest, and may be ended.
    pub(crate) fn context_ends(&self, session: &Session, context: u64) {
        match &self.source {
            Source::Cupti(cupti) => cupti.flush(),
            Source::Events(events) => events.reap(session, &self.collector, Some(context)),
        }
    }

    /// Everything is at rest: nothing more comes.
    pub(crate) fn finish(self, session: &Session) -> Measurement {
        let (source, version, uncertainty) = match self.source {
            Source::Cupti(cupti) => {
                let (version, uncertainty) = cupti.finish();
                (timed::CUPTI, version, uncertainty)
            }
            Source::Events(events) => (timed::EVENTS, 0, events.finish(session, &self.collector)),
        };
        let counts = std::mem::take(&mut *self.collector.counts.lock());
        Measurement {
            source,
            version,
            why: self.why,
            offset: self.collector.offset.get().copied().unwrap_or(0),
            uncertainty,
            works: counts.works,
            untimed: counts.untimed.into_iter().collect(),
            driver_version: session.driver.version().unwrap_or(0),
            devices: devices(session),
        }
    }
}

fn devices(session: &Session) -> Vec<(u32, String)> {
    let live: BTreeSet<i32> =
        session.plan.devices.used.iter().map(|recorded| session.objects.device(*recorded)).collect();
    live.into_iter().filter_map(|device| Some((device as u32, session.driver.device_name(device).ok()?))).collect()
}
