//! Device times while recording (`--gpu-times`): CUPTI's activity records of each kernel, copy and fill,
//! written beside the lanes as `replay --profile` writes them.
//!
//! CUPTI is used as a second guest. There is no subscription: the one slot for callbacks stays free. A call
//! that submits work passes its place in the trace as CUPTI's external correlation id, and the records report
//! which correlation id got it. When the program turns out to use CUPTI itself, this stops before the
//! program's call reaches CUPTI (`client`).
//!
//! CUPTI returns whole buffers, on its own thread or within a flush; their records go to the end of the file
//! at once. The recorder thread flushes complete buffers, so that a process that is killed loses only the
//! last moments. CUPTI's own queries bypass the wrappers on their way to the driver: its lookups are not
//! substituted.

mod client;
mod library;
mod written;

pub(crate) use client::{looked_up, watched};

use crate::os::clock;
use crate::os::generation;
use crate::os::guard::guarded;
use crate::os::log::tell;
use crate::os::transparency::unseen;
use crate::recording::range;
use crate::recording::recorder::Recorder;
use library::{BY_NAME, candidates, open};
use std::cell::Cell;
use std::ffi::{CStr, c_void};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering::*};
use std::time::Duration;
use trace::api::by_name;
use trace::cupti::{Compared, Library, Record, activity, release, request};
use written::Written;

/// How often what is complete is taken from CUPTI.
const PERIOD: Duration = Duration::from_millis(200);
/// CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM2: PyTorch's profiler has the two before it.
const OUR_KIND: u32 = 5;
/// CUPTI_ACTIVITY_FLAG_FLUSH_FORCED
const FORCED: u32 = 1;

/// One use of CUPTI. Never freed: its threads may come at any time.
struct Session {
    library: Library,
    /// Of the recording that it belongs to.
    generation: u64,
    pid: u32,
    /// Kinds and functions that were enabled one by one.
    by_function: Vec<u32>,
    stopped: AtomicBool,
    /// The process ends: the recorder thread leaves CUPTI alone, which is about to be taken down.
    ending: AtomicBool,
    /// The recorder thread is in a flush.
    flushing: AtomicBool,
    flushed: AtomicU64,
    written: Written,
}

static SESSION: AtomicPtr<Session> = AtomicPtr::new(std::ptr::null_mut());
/// The process in which CUPTI was begun; outlives a fork, as what CUPTI has set up does.
static BEGUN_IN: AtomicU32 = AtomicU32::new(0);
/// The process in which a thread is beginning or stopping; 0 if none is. A child does not wait for its
/// parent's threads.
static CHANGING: AtomicU32 = AtomicU32::new(0);

/// The right to begin or to stop. Whoever comes meanwhile waits, so that what is enabled and registered here
/// does not take the place of what the program does next; but not for ever, as it may hold the loader's lock,
/// which beginning takes.
struct Turn {
    is_ours: bool,
}

impl Turn {
    fn take() -> Turn {
        const TRIES: usize = 5000;
        let pid = std::process::id();
        for _ in 0..TRIES {
            let taken = CHANGING.fetch_update(SeqCst, SeqCst, |by| (by != pid).then_some(pid));
            if taken.is_ok() {
                return Turn { is_ours: true };
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Turn { is_ours: false }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if self.is_ours {
            CHANGING.store(0, SeqCst);
        }
    }
}

thread_local! {
    /// The thread is inside CUPTI because of us.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// The session of this very recording, if it has not stopped.
fn running() -> Option<&'static Session> {
    let session = session()?;
    (!session.stopped.load(Acquire)).then_some(session)
}

/// The session of this recording.
fn session() -> Option<&'static Session> {
    // SAFETY: null, or leaked by `begin`.
    let session = unsafe { SESSION.load(Acquire).as_ref() }?;
    (session.generation == generation::generation()).then_some(session)
}

/// Makes a call of CUPTI. What it asks the driver is not the program's.
fn call_cupti<T>(work: impl FnOnce() -> T) -> T {
    let before = INSIDE.replace(true);
    let done = work();
    INSIDE.set(before);
    done
}

/// Whether a lookup is CUPTI's that we have loaded: on a thread of ours, or from an address in it.
pub(crate) fn is_cuptis(caller: *const c_void) -> bool {
    INSIDE.get() || library::holds(caller)
}

/// CLOCK_MONOTONIC_RAW, as the trace's clock pairs have it.
fn now() -> i64 {
    clock::pair().ns as i64
}

/// A recording has begun that is to have device times. Nobody waits for this, whatever lock of the loader's
/// it takes.
#[cold]
pub(crate) fn start(recorder: &'static Recorder, origin: i64) {
    guarded(|| {
        if let Err(why) = begin(recorder, origin) {
            tell(&format!("no device times are recorded: {why}"));
            written::none(&recorder.around.file, &why);
        }
    });
}

fn begin(recorder: &'static Recorder, origin: i64) -> Result<(), String> {
    let pid = std::process::id();
    match BEGUN_IN.load(Acquire) {
        0 => {}
        before if before == pid => return Err("an earlier recording of this process used CUPTI".into()),
        _ => {
            return Err("this process was forked from one that uses CUPTI, which does not work in a child".into());
        }
    }
    if let Some(tool) = std::env::var_os("CUDA_INJECTION64_PATH").filter(|tool| !tool.is_empty()) {
        return Err(format!("CUDA_INJECTION64_PATH is {}: another tool uses CUPTI", Path::new(&tool).display()));
    }
    let _turn = Turn::take();
    // Who uses it from here on waits for the turn.
    if let Some(name) = client::used() {
        return Err(format!("the program uses CUPTI itself ({name})"));
    }
    BEGUN_IN.store(pid, Release);
    let mut failures = Vec::new();
    let (names, listed) = candidates();
    for name in &names {
        match call_cupti(|| attempt(name, recorder, origin, pid)) {
            Ok(()) => {
                at_exit();
                range::take_times(true);
                return Ok(());
            }
            Err(why) => failures.push(why),
        }
    }
    if !listed && names.len() == BY_NAME.len() {
        return Err("there is no libcupti.so.12 or .13 in LD_LIBRARY_PATH, /usr/local/cuda* or Python packages \
                    (set CUTRACE_CUPTI to its path, or install the nvidia-cuda-cupti wheel)"
            .into());
    }
    Err(failures.join("; "))
}

/// Begins a session with this library.
fn attempt(name: &CStr, recorder: &'static Recorder, origin: i64, pid: u32) -> Result<(), String> {
    let shown = name.to_string_lossy();
    let (library, version) = open(name)?;
    let first = library.compare(written::TRIES, now).map_err(|why| format!("{shown}: {why}"))?;
    let written = Written::new(recorder.around.file.clone(), version, origin, first);
    let generation = generation::generation();
    let [stopped, ending, flushing] = [const { AtomicBool::new(false) }; 3];
    let (flushed, by_function) = (AtomicU64::new(now() as u64), Vec::new());
    let mut session = Session { library, generation, pid, by_function, stopped, ending, flushing, flushed, written };
    session.by_function = session.functions();
    let session: &'static Session = Box::leak(Box::new(session));
    SESSION.store(std::ptr::from_ref(session).cast_mut(), Release);
    session.enable().map_err(|why| {
        session.stopped.store(true, Release);
        session.disable();
        format!("{shown}: {why}")
    })
}

/// The place of a call in the trace, for CUPTI: its thread, from 1 on, and its number there.
fn number(thread: u32, call: u32) -> u64 {
    (u64::from(thread) + 1) << 32 | u64::from(call)
}

/// The calling thread is about to give a device work.
#[cold]
#[inline(never)]
pub(crate) fn begins(thread: u32, call: u32) {
    if let Some(session) = running() {
        // SAFETY: no pointers. Without a subscriber there is nobody whom CUPTI calls back.
        unseen(|| call_cupti(|| unsafe { (session.library.push)(OUR_KIND, number(thread, call)) }));
    }
}

/// It has.
#[cold]
#[inline(never)]
pub(crate) fn ends() {
    if let Some(session) = running() {
        let mut last = 0;
        // SAFETY: an output word.
        unseen(|| call_cupti(|| unsafe { (session.library.pop)(OUR_KIND, &raw mut last) }));
    }
}

/// A context is about to end, with it what CUPTI has of it.
#[cold]
pub(crate) fn context_ends() {
    if let Some(session) = running() {
        guarded(|| session.flush(0));
    }
}

/// One turn of the recorder thread: how long until the next is due.
pub(crate) fn tend() -> Duration {
    let Some(session) = running() else { return Duration::MAX };
    let (now, last) = (now() as u64, session.flushed.load(Relaxed));
    match PERIOD.checked_sub(Duration::from_nanos(now.saturating_sub(last))).filter(|left| !left.is_zero()) {
        Some(left) => left,
        None => {
            session.flushed.store(now, Relaxed);
            session.flushing.store(true, SeqCst);
            if !session.ending.load(SeqCst) {
                guarded(|| session.flush(0));
            }
            session.flushing.store(false, SeqCst);
            PERIOD
        }
    }
}

/// The recorder thread ends, because recording has. CUPTI has no more to do for us.
pub(crate) fn recording_ended() {
    // SAFETY: null, or leaked by `begin`.
    let session = unsafe { SESSION.load(Acquire).as_ref() };
    if let Some(session) = session.filter(|session| session.pid == std::process::id()) {
        let _turn = Turn::take();
        if !session.stopped.swap(true, AcqRel) {
            range::take_times(false);
            guarded(|| call_cupti(|| session.disable()));
        }
    }
}

/// The program is about to use CUPTI itself.
#[cold]
fn stand_aside(name: &str) {
    let _turn = Turn::take();
    let Some(session) = session() else { return };
    if session.stopped.swap(true, AcqRel) {
        return;
    }
    range::take_times(false);
    guarded(|| {
        let why = format!("the program uses CUPTI itself ({name})");
        session.flush(FORCED);
        call_cupti(|| session.disable());
        session.written.stops(&why);
        tell(&format!("no more device times are recorded: {why}"));
    });
}

/// What is registered last runs first: once when there is a session, and when CUPTI first wants a buffer,
/// which is when the driver has set up its own end.
fn at_exit() {
    // SAFETY: a plain function. If it cannot be registered, the last moments are lost.
    let _lost = unsafe { libc::atexit(at_end) };
}

extern "C" fn at_end() {
    if let Some(session) = running().filter(|session| session.pid == std::process::id()) {
        guarded(|| {
            session.ending.store(true, SeqCst);
            // A flush takes some milliseconds; one that hangs must not hang the end.
            for _ in 0..2000 {
                if !session.flushing.load(SeqCst) {
                    break;
                }
                std::thread::sleep(Duration::from_millis(1));
            }
            session.flush(FORCED);
            session.written.close();
        });
    }
}

impl Session {
    /// The driver's functions that give devices work, as CUPTI numbers them; none if it cannot record single
    /// ones.
    fn functions(&self) -> Vec<u32> {
        match self.library.enable_driver_api {
            Some(_) => {
                call_cupti(|| self.library.callbacks(|name| by_name(name).is_some_and(|function| function.is_timed())))
            }
            None => Vec::new(),
        }
    }

    fn enable(&self) -> Result<(), String> {
        let library = &self.library;
        // SAFETY: functions with the signatures that CUPTI calls.
        library.check("cuptiActivityRegisterCallbacks", unsafe { (library.register)(request_buffer, complete) })?;
        for kind in activity::KINDS.into_iter().chain([activity::EXTERNAL_CORRELATION]) {
            // SAFETY: no pointers.
            library.check("cuptiActivityEnable", unsafe { (library.enable)(kind) })?;
        }
        // There is a record of a number only where there is one of the call.
        let single = self.by_function.iter().filter(|id| {
            // SAFETY: no pointers.
            library.enable_driver_api.is_some_and(|enable| unsafe { enable(**id, 1) } == 0)
        });
        if single.count() > 0 {
            return Ok(());
        }
        // SAFETY: no pointers.
        library.check("cuptiActivityEnable", unsafe { (library.enable)(activity::DRIVER) })
    }

    fn disable(&self) {
        let library = &self.library;
        for id in &self.by_function {
            // SAFETY: no pointers.
            library.enable_driver_api.inspect(|enable| _ = unsafe { enable(*id, 0) });
        }
        for kind in activity::KINDS.into_iter().chain([activity::EXTERNAL_CORRELATION, activity::DRIVER]) {
            // SAFETY: no pointers.
            unsafe { (library.disable)(kind) };
        }
    }

    /// Has CUPTI hand out what is complete, or everything.
    fn flush(&self, flag: u32) {
        // SAFETY: no pointers.
        let flushed = call_cupti(|| unsafe { (self.library.flush)(flag) });
        if flag == FORCED
            && let Err(why) = self.library.check("cuptiActivityFlushAll", flushed)
        {
            self.written.untimed(&format!("CUPTI did not return all records: {why}"), 1);
        }
    }

    fn clocks(&self) -> Option<Compared> {
        call_cupti(|| self.library.compare(written::TRIES, now)).ok()
    }
}

extern "C" fn request_buffer(buffer: *mut *mut u8, size: *mut usize, most: *mut usize) {
    static FIRST: AtomicBool = AtomicBool::new(true);
    if FIRST.swap(false, Relaxed) {
        at_exit();
    }
    // SAFETY: as CUPTI has handed them in.
    unsafe { request(buffer, size, most) };
}

extern "C" fn complete(context: *const c_void, stream: u32, buffer: *mut u8, _: usize, valid: usize) {
    guarded(|| {
        let Some(session) = session().filter(|session| session.pid == std::process::id()) else { return };
        if let Some(clocks) = session.clocks() {
            session.written.compared(clocks);
        }
        let see = |record: Record| match record {
            Record::Numbered { correlation, kind: OUR_KIND, number } => session.written.numbered(correlation, number),
            Record::Numbered { .. } => {}
            Record::Work(activity) => session.written.add(&activity),
        };
        // SAFETY: what CUPTI has just handed in, of a version that was found to be known.
        let dropped = call_cupti(|| unsafe { session.library.read((context, stream), (buffer, valid), see) });
        session.written.untimed("CUPTI dropped its record", dropped);
        session.written.flush();
    });
    // SAFETY: CUPTI gives it back.
    unsafe { release(buffer) };
}
