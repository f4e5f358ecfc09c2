//! The hot path: a thread's lane in the trace.
//!
//! A call costs two time stamps and two small records written into memory that is already there: no lock, no allocation,
//! no system call. Lanes are plain thread-local words without destructors, usable in the last instruction of a thread.

mod exit;
mod gap;
mod join;
mod repeats;
mod room;

use repeats::Run;
pub use room::put;
use room::put_padded;

use crate::chunk::Chunk;
use crate::counters;
use crate::finds::Finds;
use crate::generation;
use crate::guard::guarded;
use crate::hook::Hook;
use crate::kernels::Layout;
use crate::memory::word_at;
use crate::overlap::{self, Early};
use crate::recorder;
use crate::recorder::Recorder;
use crate::shape::{Launch, Site};
use crate::{arrived, capture, clock, devices, host, host_functions, range, times};
use std::cell::{Cell, UnsafeCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering::*, compiler_fence};
use trace::record::{
    self, ATTACHMENT, Attachment, ENTRY_SIZE, Entry, HEAD, Head, INLINE, INNER, MEANWHILE, RETURN_SIZE, Return, Written,
};

pub struct Lane {
    generation: Cell<u64>,
    cursor: Cell<*mut u8>,
    limit: Cell<*mut u8>,
    start: Cell<*mut u8>,
    length: Cell<*const AtomicU64>,
    sequence: Cell<u32>,
    busy: Cell<bool>,
    joining: Cell<bool>,
    /// Where, on its stack, the outermost call that may call back keeps its mark; 0 if none is under way.
    outer: Cell<usize>,
    /// That mark.
    mark: Cell<u64>,
    index: Cell<u32>,
    ordinal: Cell<u64>,
    calls: Cell<u64>,
    /// The thread's stack: its lowest address and its end; 0 if not asked yet, 1 if nobody knows.
    stack: Cell<(u64, u64)>,
    chunk: UnsafeCell<Option<Chunk>>,
    /// The last record, if it counts what a capture range leaves out.
    gap: Cell<*mut u8>,
    /// The last call, if it is a poll.
    run: Cell<Run>,
    /// The NVTX range that has opened it: domain and depth.
    within: Cell<(u32, u32)>,
}

thread_local! {
    static LANE: Lane = const {
        Lane {
            generation: Cell::new(u64::MAX),
            cursor: Cell::new(std::ptr::null_mut()),
            limit: Cell::new(std::ptr::null_mut()),
            start: Cell::new(std::ptr::null_mut()),
            length: Cell::new(std::ptr::null()),
            sequence: Cell::new(0),
            busy: Cell::new(false),
            joining: Cell::new(false),
            outer: Cell::new(0),
            mark: Cell::new(0),
            index: Cell::new(0),
            ordinal: Cell::new(0),
            calls: Cell::new(0),
            stack: Cell::new((0, 0)),
            chunk: UnsafeCell::new(None),
            gap: Cell::new(std::ptr::null_mut()),
            run: Cell::new(Run::NONE),
            within: Cell::new((0, 0)),
        }
    };
}
const _: () = assert!(!std::mem::needs_drop::<Lane>());

/// The calling thread's lane. Usable to the thread's last instruction: it has no destructor.
#[inline(always)]
fn lane() -> &'static Lane {
    // SAFETY: the lane lives as long as the thread, and the reference never leaves it: a lane is not Sync.
    LANE.with(|lane| unsafe { &*std::ptr::from_ref(lane) })
}

/// Calls that were recorded of the calling thread; a forked child finds those of the thread that forked, until it records.
pub fn calls_of_thread() -> u64 {
    lane().calls.get()
}

/// A call under way.
#[derive(Clone, Copy)]
pub struct Open {
    pub sequence: u32,
    /// The position of the next copy when the call began, if the call may wait for copies.
    pub position: u64,
    /// Null if nothing was read before the call. The return frees it; a call that is left by a jump keeps it for ever.
    early: *mut Early,
    /// It may be one more of a run of polls, which is known when it has returned.
    repeats: bool,
}

impl Open {
    #[inline(always)]
    fn new(lane: &Lane, position: u64) -> Open {
        Open { sequence: lane.sequence.get(), position, early: std::ptr::null_mut(), repeats: false }
    }
}

/// Records the entry; `None` if the call is not recorded.
#[inline(always)]
pub fn enter<const N: usize>(site: Site, words: &[u64; N], frame: &Cell<u64>) -> Option<Open> {
    let Site { function, id, shape, hook } = site;
    let lane = lane();
    {
        if lane.generation.get() != generation::generation() && !lane.join() {
            return None;
        }
        if lane.busy.replace(true) {
            counters::REENTRANT.fetch_add(1, Relaxed);
            return None;
        }
        compiler_fence(SeqCst);
        let tells = shape.waits || matches!(hook, Hook::StreamWait { .. });
        if shape.may_be_left_out && range::applies() && !range::admits(lane.recorder(), tells) {
            lane.leave_out(shape.submits);
            lane.busy.set(false);
            return None;
        }
        let inner = lane.outer.get() != 0 && lane.is_inside(frame);
        if shape.calls_back && !inner {
            lane.mark(frame);
        }
        let may_wait = shape.waits || shape.submits && shape.launch.is_none();
        let position = if may_wait || matches!(hook, Hook::EventRecord { .. } | Hook::ContextRecord { .. }) {
            lane.recorder().around.pending.position()
        } else {
            0
        };
        let calls_back = || shape.runs_graph && host_functions::any_of_nodes();
        if (shape.submits || shape.waits) && (lane.recorder().reaches_host() || calls_back()) {
            host::before(lane, function, shape.launch, words);
        }
        if shape.repeats && lane.polls_again(id, words[0]) {
            lane.busy.set(false);
            return Some(Open { repeats: true, ..Open::new(lane, position) });
        }
        let mut early = 0;
        if shape.may_overlap {
            early = overlap::overwritten(lane, function, words);
        }
        let mut open = Open::new(lane, position);
        let flags = if inner { INNER } else { 0 };
        let mut deferred = Vec::new();
        if shape.at_entry || early != 0 {
            let read;
            (deferred, read) = capture::entry(lane, function, id, flags, words, early);
            if early != 0 {
                open.early = Box::into_raw(Box::new(read));
            }
            lane.has_entered();
        } else if !lane.put_entry(id, flags, words, clock::entry) {
            lane.busy.set(false);
            return None;
        }
        if (shape.at_entry || shape.may_overlap) && !deferred.is_empty() {
            guarded(|| deferred.iter().for_each(|record| lane.append(record)));
        }
        if shape.submits {
            lane.recorder().around.pending.entered(lane.index.get());
        }
        compiler_fence(SeqCst);
        lane.busy.set(false);
        if shape.timed && range::takes_times() {
            times::begins(lane.index.get(), open.sequence);
        }
        Some(open)
    }
}

/// Records the return.
#[inline(always)]
pub fn leave<const N: usize>(site: Site, words: &[u64; N], frame: &Cell<u64>, mut open: Open, result: u32) {
    let Site { function, id, shape, hook } = site;
    let end = clock::exit();
    let lane = lane();
    {
        if shape.calls_back && lane.outer.get() == frame.as_ptr() as usize {
            lane.outer.set(0);
        }
        if shape.timed && range::takes_times() {
            times::ends();
        }
        // After fork the child's first return finds the parent's generation: that call is the parent's.
        if lane.generation.get() != generation::generation() || lane.busy.replace(true) {
            return;
        }
        compiler_fence(SeqCst);
        // SAFETY: `enter` has made it, and its call returns once.
        let early = (!open.early.is_null()).then(|| unsafe { Box::from_raw(open.early) });
        let is_counted = shape.repeats && open.repeats && lane.counts(id, words[0], result, end);
        if shape.repeats && open.repeats && !is_counted {
            let Some(entered) = lane.enters_late(id, words[0], end, open) else {
                lane.busy.set(false);
                return;
            };
            open = entered;
        }
        let launched = match shape.launch {
            Some(launch) if shape.is_plain && result == 0 => launched(lane, launch, id, words, open.sequence, end),
            _ => false,
        };
        let mut has_waited = false;
        let is_written = launched || is_counted;
        if !is_written && (shape.at_return || result != 0) {
            let early = early.map_or_else(Early::default, |early| *early);
            has_waited = capture::leave(lane, (function, id), words, open.sequence, early, result, end);
        } else if !is_written {
            let mut size = RETURN_SIZE;
            for (word, bytes) in shape.outputs {
                if bytes != 0 && words[word as usize] != 0 {
                    size += ATTACHMENT + bytes.div_ceil(8) as usize * 8;
                }
            }
            if lane.room() >= size || lane.refill(size) {
                let head = Head { size: size as u32, kind: record::RETURN, flags: 0, function: id };
                // SAFETY: `size` bytes from the cursor are in the chunk; the driver has just written the outputs.
                unsafe {
                    let mut at = lane.cursor.get();
                    put(at, &Return { head, end, call: open.sequence, result });
                    at = at.add(RETURN_SIZE);
                    for (word, bytes) in shape.outputs {
                        let address = if bytes == 0 { 0 } else { words[word as usize] };
                        if address != 0 {
                            put(at, &Attachment { form: INLINE, field: word, option: 0, len: bytes.into() });
                            at = put_padded(at.add(ATTACHMENT), address as *const u8, bytes as usize);
                        }
                    }
                    lane.commit(size);
                }
            }
        }
        if shape.repeats && !is_counted {
            lane.polled(id, words[0], result);
        }
        if (shape.waits || has_waited) && result == 0 {
            arrived::waited(lane, function, words, open.position, has_waited);
        }
        if shape.submits && result != 0 && lane.recorder().around.pending.any() {
            guarded(|| lane.recorder().around.pending.refused(lane.index.get(), open.sequence));
        }
        if shape.submits && result != 0 && host_functions::any_of_nodes() {
            guarded(|| lane.recorder().node_runs.refused((lane.index.get(), open.sequence)));
        }
        if shape.submits {
            lane.recorder().around.pending.came(lane.index.get());
            lane.recorder().around.pending.is_put(lane.index.get(), shape.reads_at_once);
        }
        if shape.launches && result == 0 && lane.recorder().launches_wait {
            arrived::launch_ended(lane, function, words);
        }
        if matches!(hook, Hook::Init) && result == 0 {
            guarded(|| {
                devices::undescribed()
                    .iter()
                    .for_each(|device| lane.append(&record::with_body(record::DEVICE, device)));
            });
        }
        compiler_fence(SeqCst);
        lane.busy.set(false);
    }
}

/// Lets an annotation be written. Returns whether this process records: an annotation is no reason to begin.
#[inline]
pub fn annotate(work: impl FnOnce(&Lane)) -> bool {
    let lane = lane();
    if lane.generation.get() != generation::generation() && !(generation::recording() && lane.join()) {
        return false;
    }
    if lane.busy.replace(true) {
        counters::INTERRUPTING.fetch_add(1, Relaxed);
        return true;
    }
    compiler_fence(SeqCst);
    if catch_unwind(AssertUnwindSafe(|| work(lane))).is_err() {
        generation::off("an internal error");
    }
    compiler_fence(SeqCst);
    lane.busy.set(false);
    true
}

/// The return of a plain launch whose kernel was launched before; false if it is not that simple.
#[inline]
fn launched(lane: &Lane, launch: Launch, id: u16, words: &[u64], call: u32, end: u64) -> bool {
    let (arguments, extra) = (words[launch.arguments as usize], words[launch.extra as usize]);
    if arguments == 0 || extra != 0 {
        return false;
    }
    let Some(layout) = lane.recorder().kernels.known(words[launch.function as usize]) else { return false };
    let Some(sizes) = &layout.sizes else { return false };
    const FIXED: usize = RETURN_SIZE + ATTACHMENT + 8;
    let size = FIXED + layout.packed;
    if lane.room() < size && !lane.refill(size) {
        return true;
    }
    let head = Head { size: size as u32, kind: record::RETURN, flags: 0, function: id };
    let len = (8 + layout.packed) as u32;
    // SAFETY: `size` bytes from the cursor are in the chunk. The driver has just read as many pointers as the kernel has
    // parameters, and as many bytes behind each as the parameter takes.
    unsafe {
        let mut at = lane.cursor.get();
        put(at, &Return { head, end, call, result: 0 });
        put(at.add(RETURN_SIZE), &Attachment { form: record::ARGUMENTS, field: launch.arguments, option: 0, len });
        put(at.add(RETURN_SIZE + ATTACHMENT), &(layout.id, sizes.len() as u32));
        at = at.add(FIXED);
        for (i, size) in sizes.iter().enumerate() {
            let argument = *(arguments as *const *const u8).add(i);
            at = put_padded(at, argument, *size as usize);
        }
        lane.commit(size);
    }
    true
}

impl Lane {
    pub fn recorder(&self) -> &'static Recorder {
        recorder::recorder()
    }

    pub fn index(&self) -> u32 {
        self.index.get()
    }

    pub fn sequence(&self) -> u32 {
        self.sequence.get()
    }

    /// Writes an entry without attachments; false if there is no room to be had.
    #[inline(always)]
    fn put_entry<const N: usize>(&self, id: u16, flags: u8, words: &[u64; N], begin: impl FnOnce() -> u64) -> bool {
        let size = ENTRY_SIZE + 8 * N;
        if self.room() < size && !self.refill(size) {
            return false;
        }
        let head = Head { size: size as u32, kind: record::ENTRY, flags, function: id };
        // SAFETY: `size` bytes from the cursor are in the chunk, and only this thread writes there.
        unsafe {
            let at = self.cursor.get();
            put(at.add(ENTRY_SIZE), words);
            put(at, &Entry { head, begin: begin() });
            self.commit(size);
        }
        self.has_entered();
        true
    }

    /// The call has a number of its own.
    #[inline(always)]
    fn has_entered(&self) {
        self.sequence.set(self.sequence.get().wrapping_add(1));
        self.calls.set(self.calls.get() + 1);
    }

    /// What is found before this call of the lane's.
    pub fn finds_before(&self, call: u32) -> Finds {
        let now = clock::exit();
        let about = Written { begin: now, end: now, thread: self.index(), call, run: 0, seen: 0 };
        Finds::at(about, &self.recorder().around)
    }

    /// What is found when the lane's latest call, a wait, has returned.
    pub fn finds_meanwhile(&self) -> Finds {
        let now = clock::exit();
        let call = self.sequence().wrapping_sub(1);
        let about = Written { begin: now, end: now, thread: self.index(), call, run: 0, seen: MEANWHILE };
        Finds::at(about, &self.recorder().around)
    }

    pub fn add(&self, finds: Finds) {
        finds.into_records().iter().for_each(|record| self.append(record));
    }

    /// Counts something that is not in the trace, and says so there.
    #[cold]
    pub fn lose(&self, what: &'static str) {
        let count = self.recorder().around.lose(what);
        self.append(&record::with_body(record::LOSS, &record::Loss { what: what.into(), count }));
    }

    /// How the parameters of a function lie that is about to be launched; none if its handle may be anything.
    pub fn layout_before_launch(&self, function: u64) -> Option<&'static Layout> {
        let kernels = &self.recorder().kernels;
        if let Some(layout) = kernels.known(function) {
            return Some(layout);
        }
        if !kernels.is_given(function) {
            return None;
        }
        Some(self.introduce(function))
    }

    /// How the parameters of a function lie; the file learns who it is.
    pub fn introduce(&self, function: u64) -> &'static Layout {
        let recorder = self.recorder();
        let (layout, new) = recorder.kernels.of(function, &recorder.images, &recorder.around.file);
        new.iter().for_each(|kernel| self.append(&record::with_body(record::KERNEL, kernel)));
        layout
    }

    /// Notes that calls from here on may be the driver's callbacks.
    #[cold]
    fn mark(&self, frame: &Cell<u64>) {
        self.mark.set(self.mark.get().wrapping_add(0x9e37_79b9_7f4a_7c15) | 1);
        frame.set(self.mark.get());
        self.outer.set(frame.as_ptr() as usize);
    }

    /// Whether the marked call is still under way: a longjmp or an exception may have left it behind. Its frame then lies
    /// below ours, or has been written over.
    #[cold]
    fn is_inside(&self, frame: &Cell<u64>) -> bool {
        let outer = self.outer.get();
        // Carefully: what was left behind may have been another stack, which is gone.
        let inside = (frame.as_ptr() as usize) < outer && word_at(outer as u64, 8, true) == Some(self.mark.get());
        if !inside {
            self.outer.set(0);
        }
        inside
    }
}

const _: () = assert!(size_of::<Entry>() == ENTRY_SIZE && size_of::<Return>() == RETURN_SIZE);
const _: () = assert!(size_of::<Head>() == HEAD && size_of::<Attachment>() == ATTACHMENT);

/// Runs `work` with the calling thread's lane, if it records and is not in the middle of a record. A signal handler that
/// calls the driver meanwhile finds the lane busy, and does not wait for a lock that its own thread holds.
#[cold]
pub fn with_lane<T: Default>(work: impl FnOnce(&Lane) -> T) -> T {
    let lane = lane();
    let mut result = T::default();
    if lane.generation.get() == generation::generation() && !lane.busy.replace(true) {
        guarded(|| result = work(lane));
        lane.busy.set(false);
    }
    result
}

/// As [`with_lane`], on a thread that may not have made a call yet.
#[cold]
pub fn with_any_lane(work: impl FnOnce(&Lane)) {
    let lane = lane();
    if lane.generation.get() == generation::generation() || lane.join() {
        with_lane(work);
    }
}
