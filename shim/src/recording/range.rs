//! Capture ranges: when all calls are recorded, and when only those that any replay needs.
//!
//! Calls that make, change or end something are always recorded. The others (work, waits, queries) are
//! recorded while the range is open; omitted calls are counted in the file, at their place (`lane::gap`). One
//! word holds the reason why the range is not open. In a recording without ranges it stays 0, and reading it
//! is all that a call pays.

use crate::os::clock::now;
use crate::os::config::{RangeRequest, Trigger};
use crate::os::generation;
use crate::os::lock::Lock;
use crate::os::log::tell;
use crate::recording::nvtx_registry;
use std::cell::Cell;
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering::*};
use std::time::Duration;
use trace::file::control::Answer;
use trace::file::record::{Annotation, annotated};
use trace::read::annotation::Wanted;

/// The capture range of one recording.
#[derive(Default)]
pub(crate) struct Range {
    asked: RangeRequest,
    started: u64,
    /// Ids of NVTX ranges of the name that began and have not ended.
    ids: Lock<Vec<u64>>,
    /// How many are open, those of threads' stacks as well.
    open: AtomicU32,
}

/// Why the range is closed.
const NOT_BEGUN: u32 = 1;
const EARLY: u32 = 2;
const OVER: u32 = 4;
const SPENT: u32 = 8;
const PAUSED: u32 = 128;
const CLOSED: u32 = NOT_BEGUN | EARLY | OVER | SPENT | PAUSED;
/// Calls are counted.
const COUNTED: u32 = 16;
/// Annotations are looked at.
const BY_NAME: u32 = 32;
/// No range: device times are taken. It stands here because calls that give devices work look at this word.
const TIMES: u32 = 64;

/// Static, because a signal handler has to find them.
static STATE: AtomicU32 = AtomicU32::new(0);
/// When the range was first open, in nanoseconds; 0 if it has not been.
static OPENED: AtomicU64 = AtomicU64::new(0);
static LEFT: AtomicI64 = AtomicI64::new(0);
/// Captures under way: what is put on a stream then becomes part of a graph.
static CAPTURES: AtomicU32 = AtomicU32::new(0);

/// Whether a range was asked for.
#[inline(always)]
pub(crate) fn applies() -> bool {
    STATE.load(Relaxed) & !TIMES != 0
}

/// Whether device times are taken.
#[inline(always)]
pub(crate) fn takes_times() -> bool {
    STATE.load(Relaxed) & TIMES != 0
}

pub(crate) fn take_times(takes: bool) {
    match takes {
        true => STATE.fetch_or(TIMES, AcqRel),
        false => STATE.fetch_and(!TIMES, AcqRel),
    };
}

#[inline(always)]
pub(crate) fn by_name() -> bool {
    STATE.load(Relaxed) & BY_NAME != 0
}

/// Whether a call is recorded that a range may leave out. `is_awaited`: whether it may tell that copies have
/// arrived.
#[inline]
pub(crate) fn admits(is_awaited: impl FnOnce() -> bool) -> bool {
    if CAPTURES.load(Relaxed) > 0 {
        return true;
    }
    let state = STATE.load(Relaxed);
    let is_open = match state & COUNTED {
        _ if state & CLOSED != 0 => false,
        0 => true,
        _ => {
            let left = LEFT.fetch_sub(1, Relaxed);
            if left <= 1 {
                STATE.fetch_or(SPENT, Relaxed);
            }
            left > 0
        }
    };
    // Copies of the range may be under way: what tells that they have arrived belongs to it.
    is_open || is_awaited()
}

/// A recording begins.
pub(crate) fn begin(asked: &RangeRequest) -> Range {
    let range = Range { asked: asked.clone(), started: now(), ..Range::default() };
    let mut state = 0;
    match &asked.trigger {
        Trigger::None => {}
        Trigger::Profiler => state |= NOT_BEGUN,
        Trigger::Nvtx(_) => state |= NOT_BEGUN | BY_NAME,
        Trigger::Signals => match take_signals() {
            Ok(()) => state |= NOT_BEGUN,
            Err(signal) => {
                tell(&format!("the program handles {signal} itself: recording without waiting for signals"));
            }
        },
    }
    // Without a delay the first call is in the range: it does not wait for the recorder thread to open it.
    if asked.delay.is_some_and(|delay| !delay.is_zero()) {
        state |= EARLY;
    }
    if asked.paused {
        state |= PAUSED;
    }
    if let Some(calls) = asked.calls {
        LEFT.store(calls.min(i64::MAX as u64) as i64, Relaxed);
        state |= COUNTED;
    }
    CAPTURES.store(0, Relaxed);
    OPENED.store(if state & CLOSED == 0 { now() } else { 0 }, Relaxed);
    STATE.store(state, Relaxed);
    range
}

/// In words, for the trace; none without a range.
pub(crate) fn in_words(asked: &RangeRequest) -> Option<String> {
    let mut words = Vec::new();
    match &asked.trigger {
        Trigger::None => {}
        Trigger::Profiler => words.push("from cuProfilerStart to cuProfilerStop".into()),
        Trigger::Nvtx(Wanted { name, domain: None }) => words.push(format!("NVTX ranges {name:?}")),
        Trigger::Nvtx(Wanted { name, domain: Some(of) }) => {
            words.push(format!("NVTX ranges {name:?} of domain {of:?}"))
        }
        Trigger::Signals => words.push("from SIGUSR1 to SIGUSR2".into()),
    }
    if asked.paused {
        words.push("from cutrace on to cutrace off".into());
    }
    words.extend(asked.delay.map(|delay| format!("after {} s", delay.as_secs_f64())));
    words.extend(asked.duration.map(|duration| format!("for {} s", duration.as_secs_f64())));
    words.extend(asked.calls.map(|calls| format!("the first {calls} calls")));
    (!words.is_empty()).then(|| words.join(", "))
}

fn opens(why: u32) {
    let before = STATE.fetch_and(!why, AcqRel);
    if before & CLOSED & !why == 0 {
        // Only the first time counts.
        let _ = OPENED.compare_exchange(0, now(), AcqRel, Relaxed);
    }
}

fn closes(why: u32) {
    STATE.fetch_or(why, AcqRel);
}

/// From outside. Calls in between pay what they pay for a range.
pub(crate) fn switch(is_on: bool) -> Answer {
    let state = STATE.load(Acquire);
    match is_on {
        true if state & PAUSED == 0 => return Answer::Already,
        false if state & PAUSED != 0 => return Answer::Already,
        true => opens(PAUSED),
        false => closes(PAUSED),
    }
    if is_on && state & CLOSED & !PAUSED != 0 { Answer::Closed } else { Answer::Done }
}

pub(crate) fn profiler(range: &Range, starts: bool) {
    match range.asked.trigger == Trigger::Profiler {
        true if starts => opens(NOT_BEGUN),
        true => closes(NOT_BEGUN),
        false => {}
    }
}

pub(crate) fn capture_begins() {
    CAPTURES.fetch_add(1, Relaxed);
}

pub(crate) fn capture_ends() {
    let _ = CAPTURES.fetch_update(Relaxed, Relaxed, |captures| captures.checked_sub(1));
}

/// An annotation is about to be written. `within`: of the range that has opened this one, its domain, and how
/// many pushes deep the thread is in it. `text`: its message.
#[cold]
pub(crate) fn annotated(
    range: &Range,
    within: &Cell<(u32, u32)>,
    about: &Annotation,
    text: impl Fn() -> Option<Vec<u8>>,
) {
    let Trigger::Nvtx(wanted) = &range.asked.trigger else { return };
    let of = || nvtx_registry::find(about.domain.into()).map(|domain| &*domain.text);
    let is_it = || wanted.matches(text().as_deref(), of());
    let (domain, depth) = within.get();
    match about.what {
        annotated::PUSH if depth > 0 && domain == about.domain => within.set((domain, depth + 1)),
        annotated::PUSH if depth == 0 && is_it() => {
            within.set((about.domain, 1));
            range.one_begins();
        }
        annotated::POP if depth > 0 && domain == about.domain => {
            within.set((domain, depth - 1));
            if depth == 1 {
                range.one_ends();
            }
        }
        annotated::START if is_it() => {
            range.ids.lock().push(about.subject);
            range.one_begins();
        }
        annotated::END => {
            let mut ids = range.ids.lock();
            if let Some(at) = ids.iter().position(|id| *id == about.subject) {
                ids.swap_remove(at);
                range.one_ends();
            }
        }
        _ => {}
    }
}

impl Range {
    fn one_begins(&self) {
        if self.open.fetch_add(1, AcqRel) == 0 {
            opens(NOT_BEGUN);
        }
    }

    fn one_ends(&self) {
        if self.open.fetch_sub(1, AcqRel) == 1 {
            closes(NOT_BEGUN);
        }
    }

    /// One turn of the recorder thread: how long until the next is due.
    pub(crate) fn tend(&self) -> Duration {
        const SELDOM: Duration = Duration::from_secs(1);
        /// The range may be opened at any time, and its duration then counts.
        const OFTEN: Duration = Duration::from_millis(5);
        let now = now();
        if let Some(delay) = self.asked.delay.filter(|_| STATE.load(Relaxed) & EARLY != 0) {
            match left(self.started, delay, now) {
                Some(left) => return left.min(SELDOM),
                None => opens(EARLY),
            }
        }
        let Some(duration) = self.asked.duration.filter(|_| STATE.load(Relaxed) & OVER == 0) else { return SELDOM };
        match OPENED.load(Acquire) {
            0 => OFTEN,
            opened => match left(opened, duration, now) {
                Some(left) => left.min(SELDOM),
                None => {
                    closes(OVER);
                    SELDOM
                }
            },
        }
    }

    /// There is no recorder thread.
    pub(crate) fn untended(&self) {
        if self.asked.delay.is_some() || self.asked.duration.is_some() || self.asked.paused {
            opens(EARLY | PAUSED);
            tell("cannot start a thread: --delay, --duration and --paused are ignored");
        }
    }
}

fn left(since: u64, wanted: Duration, now: u64) -> Option<Duration> {
    wanted.checked_sub(Duration::from_nanos(now.saturating_sub(since))).filter(|left| !left.is_zero())
}

/// Begins and ends a range by signals, if they would have ended the program: whoever handles or ignores them
/// needs them.
fn take_signals() -> Result<(), &'static str> {
    const BOTH: [(libc::c_int, &str); 2] = [(libc::SIGUSR1, "SIGUSR1"), (libc::SIGUSR2, "SIGUSR2")];
    for (signal, name) in BOTH {
        // SAFETY: only asks.
        let found = unsafe {
            let mut found: libc::sigaction = std::mem::zeroed();
            libc::sigaction(signal, std::ptr::null(), &mut found);
            found.sa_sigaction
        };
        if found != libc::SIG_DFL && found != signalled as *const () as usize {
            return Err(name);
        }
    }
    for (signal, _) in BOTH {
        // SAFETY: the handler only touches atomics and asks the time.
        unsafe {
            let mut ours: libc::sigaction = std::mem::zeroed();
            ours.sa_sigaction = signalled as *const () as usize;
            ours.sa_flags = libc::SA_RESTART;
            libc::sigaction(signal, &ours, std::ptr::null_mut());
        }
    }
    Ok(())
}

extern "C" fn signalled(signal: libc::c_int) {
    if !generation::recording() {
        // A child that never called the driver, or a recording that is off: as if we had never been here.
        // SAFETY: both may be called by a signal handler; the signal comes when this returns.
        unsafe {
            libc::signal(signal, libc::SIG_DFL);
            libc::raise(signal);
        }
        return;
    }
    match signal {
        libc::SIGUSR1 => opens(NOT_BEGUN),
        _ => closes(NOT_BEGUN),
    }
}
