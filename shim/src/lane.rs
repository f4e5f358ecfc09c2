//! The hot path: a thread's lane in the trace.
//!
//! A call costs two time stamps and two small records written into memory that is already there: no lock, no allocation,
//! no system call. Lanes are plain thread-local words without destructors, usable in the last instruction of a thread.

use crate::chunk::Chunk;
use crate::hooks::Hook;
use crate::kernels::Layout;
use crate::manners::{guarded, unseen};
use crate::memory::word_at;
use crate::shape::{Launch, Site};
use crate::start::{self, Recorder};
use crate::{ask, capture, clock, early, host, payload};
use std::cell::{Cell, UnsafeCell};
use std::ops::Range;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::*, compiler_fence};
use trace::record::{
    self, ATTACHMENT, Attachment, CONFIG, ENTRY_SIZE, Entry, HEAD, Head, INLINE, INNER, RETURN_SIZE, Return,
};

/// Calls that came while their own thread was writing a record: forwarded unrecorded. A signal handler's; or, after a jump out
/// of such a handler, all that follow.
pub static REENTRANT: AtomicU64 = AtomicU64::new(0);
/// Annotations that came so.
pub static INTERRUPTING: AtomicU64 = AtomicU64::new(0);

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

/// A call under way.
#[derive(Clone, Copy)]
pub struct Open {
    pub sequence: u32,
    /// The position of the next copy when the call began, if the call may wait for copies.
    pub position: u64,
}

/// Records the entry; `None` if the call is not recorded.
#[inline(always)]
pub fn enter<const N: usize>(site: Site, words: &[u64; N], frame: &Cell<u64>) -> Option<Open> {
    let Site { function, id, shape, hook } = site;
    let lane = lane();
    {
        if lane.generation.get() != start::generation() && !lane.join() {
            return None;
        }
        if lane.busy.replace(true) {
            REENTRANT.fetch_add(1, Relaxed);
            return None;
        }
        compiler_fence(SeqCst);
        let inner = lane.outer.get() != 0 && lane.is_inside(frame);
        if shape.calls_back && !inner {
            lane.mark(frame);
        }
        let position = if shape.waits || matches!(hook, Hook::EventRecord { .. } | Hook::HandsOver) {
            lane.recorder().pending.position()
        } else {
            0
        };
        if (shape.submits || shape.waits) && lane.recorder().reaches_host() {
            guarded(|| host::before(lane, site, words));
        }
        let open = Open { sequence: lane.sequence.get(), position };
        let flags = if inner { INNER } else { 0 };
        if shape.at_entry {
            capture::entry(lane, function, id, flags, words);
        } else {
            let size = ENTRY_SIZE + 8 * N;
            if lane.room() < size && !lane.refill(size) {
                lane.busy.set(false);
                return None;
            }
            let head = Head { size: size as u32, kind: record::ENTRY, flags, function: id };
            // SAFETY: `size` bytes from the cursor are in the chunk, and only this thread writes there.
            unsafe {
                let at = lane.cursor.get();
                put(at.add(ENTRY_SIZE), words);
                put(at, &Entry { head, begin: clock::entry() });
                lane.commit(size);
            }
        }
        lane.sequence.set(open.sequence.wrapping_add(1));
        lane.calls.set(lane.calls.get() + 1);
        compiler_fence(SeqCst);
        lane.busy.set(false);
        Some(open)
    }
}

/// Records the return.
#[inline(always)]
pub fn leave<const N: usize>(site: Site, words: &[u64; N], frame: &Cell<u64>, open: Open, result: u32) {
    let Site { function, id, shape, hook } = site;
    let end = clock::exit();
    let lane = lane();
    {
        if shape.calls_back && lane.outer.get() == frame.as_ptr() as usize {
            lane.outer.set(0);
        }
        // After fork the child's first return finds the parent's generation: that call is the parent's.
        if lane.generation.get() != start::generation() || lane.busy.replace(true) {
            return;
        }
        compiler_fence(SeqCst);
        let launched = match shape.launch {
            Some(launch) if result == 0 => launched(lane, launch, id, words, open.sequence, end),
            _ => false,
        };
        if !launched && (shape.at_return || result != 0) {
            capture::leave(lane, function, id, words, open.sequence, result, end);
        } else if !launched {
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
                            put(at, &Attachment { form: INLINE, field: word, zero: 0, len: bytes.into() });
                            at = put_padded(at.add(ATTACHMENT), address as *const u8, bytes as usize);
                        }
                    }
                    lane.commit(size);
                }
            }
        }
        if shape.waits && result == 0 {
            payload::waited(lane, function, words, open.position);
        }
        if matches!(hook, Hook::Init) && result == 0 {
            guarded(|| ask::describe_devices(lane));
        }
        compiler_fence(SeqCst);
        lane.busy.set(false);
    }
}

/// Lets an annotation be written. Returns whether this process records: an annotation is no reason to begin.
#[inline]
pub fn annotate(work: impl FnOnce(&Lane)) -> bool {
    let lane = lane();
    if lane.generation.get() != start::generation() && !(start::recording() && lane.join()) {
        return false;
    }
    if lane.busy.replace(true) {
        INTERRUPTING.fetch_add(1, Relaxed);
        return true;
    }
    compiler_fence(SeqCst);
    work(lane);
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
        put(at.add(RETURN_SIZE), &Attachment { form: record::ARGUMENTS, field: launch.arguments, zero: 0, len });
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

/// Encodes with bincode at `at`.
///
/// # Safety
/// The encoding of `value` must fit there.
#[inline(always)]
pub unsafe fn put<T: bincode::Encode>(at: *mut u8, value: &T) {
    // SAFETY: the caller promises room; every record type encodes to exactly its size in memory.
    let room = unsafe { std::slice::from_raw_parts_mut(at, size_of::<T>()) };
    let written = bincode::encode_into_slice(value, room, CONFIG);
    debug_assert!(matches!(written, Ok(n) if n == size_of::<T>()));
}

/// Copies bytes and pads them with zeros to 8; where the next ones go.
///
/// # Safety
/// Both places must be as long as that.
#[inline(always)]
unsafe fn put_padded(at: *mut u8, from: *const u8, len: usize) -> *mut u8 {
    let padded = len.div_ceil(8) * 8;
    // SAFETY: the caller's promise; the last word lies within the padded length.
    unsafe {
        if padded != len {
            at.add(padded - 8).cast::<u64>().write(0);
        }
        std::ptr::copy_nonoverlapping(from, at, len);
        at.add(padded)
    }
}

impl Lane {
    #[inline(always)]
    pub fn room(&self) -> usize {
        self.limit.get() as usize - self.cursor.get() as usize
    }

    /// Makes `size` bytes from the cursor part of the trace.
    ///
    /// # Safety
    /// They must have been written, and lie in the chunk.
    #[inline(always)]
    pub unsafe fn commit(&self, size: usize) {
        // SAFETY: the caller's promise; the length word belongs to the same chunk.
        unsafe {
            let next = self.cursor.get().add(size);
            self.cursor.set(next);
            (*self.length.get()).store(next as u64 - self.start.get() as u64, Release);
        }
    }

    /// Where the next record goes.
    pub fn cursor(&self) -> *mut u8 {
        self.cursor.get()
    }

    pub fn recorder(&self) -> &'static Recorder {
        start::recorder()
    }

    pub fn index(&self) -> u32 {
        self.index.get()
    }

    pub fn sequence(&self) -> u32 {
        self.sequence.get()
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
        let (layout, new) = self.recorder().kernels.of(function);
        new.iter().for_each(|kernel| self.append(&record::with_body(record::KERNEL, kernel)));
        layout
    }

    /// The addresses of the calling thread's stack.
    pub fn stack(&self) -> Option<Range<u64>> {
        if self.stack.get().0 == 0 {
            self.stack.set(stack_of_thread().unwrap_or((1, 1)));
        }
        let (from, to) = self.stack.get();
        (to > 1).then_some(from..to)
    }

    /// First call of a thread, or of a process, or after a fork. Returns whether this thread records now.
    #[cold]
    #[inline(never)]
    fn join(&self) -> bool {
        // A signal handler in the middle of this would wait for locks that its own thread holds.
        if self.joining.replace(true) {
            REENTRANT.fetch_add(1, Relaxed);
            return false;
        }
        let joined = unseen(|| self.join_now());
        self.joining.set(false);
        joined
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

    fn join_now(&self) -> bool {
        if !start::begin() {
            return false;
        }
        let (recorder, generation) = (start::recorder(), start::generation());
        if self.generation.get() == generation {
            return true;
        }
        // The chunk of a former generation is the parent's: not mapped here, and not ours to seal.
        // SAFETY: only this thread touches its lane, and nothing of it is borrowed.
        unsafe { *self.chunk.get() = None };
        self.cursor.set(std::ptr::null_mut());
        self.limit.set(std::ptr::null_mut());
        self.sequence.set(0);
        self.calls.set(0);
        self.ordinal.set(0);
        self.outer.set(0);
        // Until the lane is whole: a signal handler on this thread has to leave it alone.
        self.busy.set(true);
        self.index.set(recorder.threads.fetch_add(1, Relaxed));
        let mut name = [0u8; 16];
        // SAFETY: PR_GET_NAME writes at most 16 bytes; gettid takes nothing.
        let os_id = unsafe {
            libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr());
            libc::syscall(libc::SYS_gettid) as u32
        };
        let name = name.split(|b| *b == 0).next().unwrap_or_default();
        let name = String::from_utf8_lossy(name).into_owned();
        self.append(&record::with_body(record::THREAD, &record::Thread { os_id, name }));
        if self.index.get() == 0 {
            ask::forget_devices();
        }
        early::bring(self);
        self.generation.set(generation);
        self.busy.set(false);
        generation == start::generation()
    }

    /// Gives the lane a chunk with room for `size` more bytes; false, and recording off, if there is none to be had.
    #[cold]
    #[inline(never)]
    pub fn refill(&self, size: usize) -> bool {
        self.refill_keeping(size, 0)
    }

    /// As `refill`, moving `keep` uncommitted bytes at the cursor along.
    #[cold]
    pub fn refill_keeping(&self, size: usize, keep: usize) -> bool {
        unseen(|| self.refill_now(size, keep))
    }

    fn refill_now(&self, size: usize, keep: usize) -> bool {
        let recorder = self.recorder();
        let first = self.ordinal.get() == 0;
        // Chunks grow once: a thread that filled its first one will fill more.
        let least = if first { 0 } else { crate::chunk::LARGE - trace::segment::HEADER };
        if self.ordinal.get() == 1 {
            recorder.supply.expect_more();
        }
        let chunk = match recorder.supply.take(&recorder.file, (size + keep).max(least)) {
            Ok(chunk) => chunk,
            Err(error) => {
                start::off(&format!("{}: {error}", recorder.file.path.display()));
                return false;
            }
        };
        chunk.assign(self.index.get(), self.ordinal.get(), self.calls.get());
        self.ordinal.set(self.ordinal.get() + 1);
        if keep > 0 {
            // SAFETY: the bytes were written at the old cursor; the new chunk has room for them.
            unsafe { std::ptr::copy_nonoverlapping(self.cursor.get(), chunk.start(), keep) };
        }
        self.start.set(chunk.start());
        self.cursor.set(chunk.start());
        self.limit.set(chunk.end());
        self.length.set(chunk.length());
        // SAFETY: only this thread touches its lane, and nothing of it is borrowed.
        let full = unsafe { (*self.chunk.get()).replace(chunk) };
        if let Some(full) = full {
            recorder.supply.retire(full);
        } else {
            exit::watch();
        }
        true
    }

    /// Appends a whole record made elsewhere.
    #[cold]
    pub fn append(&self, bytes: &[u8]) {
        if self.room() < bytes.len() && !self.refill(bytes.len()) {
            return;
        }
        // SAFETY: there is room, and only this thread writes there.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.cursor.get(), bytes.len());
            self.commit(bytes.len());
        }
    }
}

fn stack_of_thread() -> Option<(u64, u64)> {
    // SAFETY: the attributes are filled by the first call and freed by the last.
    unsafe {
        let mut attributes: libc::pthread_attr_t = std::mem::zeroed();
        if libc::pthread_getattr_np(libc::pthread_self(), &mut attributes) != 0 {
            return None;
        }
        let (mut start, mut len) = (std::ptr::null_mut(), 0);
        let known = libc::pthread_attr_getstack(&attributes, &mut start, &mut len) == 0;
        libc::pthread_attr_destroy(&mut attributes);
        known.then_some((start as u64, start as u64 + len as u64))
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
    if lane.generation.get() == start::generation() && !lane.busy.replace(true) {
        guarded(|| result = work(lane));
        lane.busy.set(false);
    }
    result
}

/// As [`with_lane`], on a thread that may not have made a call yet.
#[cold]
pub fn with_any_lane(work: impl FnOnce(&Lane)) {
    let lane = lane();
    if lane.generation.get() == start::generation() || lane.join() {
        with_lane(work);
    }
}

/// What happens when a thread ends: its chunk goes back. A key's destructor, because a thread-local with Drop could not be
/// used by calls that come later still; if one comes, the key is set anew and its destructor runs again.
mod exit {
    use super::*;

    /// 0: not made yet; otherwise the key plus one.
    static KEY: AtomicU32 = AtomicU32::new(0);

    pub fn watch() {
        let mut key = KEY.load(Acquire);
        if key == 0 {
            let mut made = 0;
            // SAFETY: the destructor is a plain function of the right type.
            if unsafe { libc::pthread_key_create(&mut made, Some(ended)) } != 0 {
                return;
            }
            key = match KEY.compare_exchange(0, made + 1, AcqRel, Acquire) {
                Ok(_) => made + 1,
                Err(other) => other,
            };
        }
        // SAFETY: the key exists. The value only has to be non-null.
        unsafe { libc::pthread_setspecific(key - 1, std::ptr::dangling()) };
    }

    extern "C" fn ended(_: *mut libc::c_void) {
        LANE.with(|lane| {
            if lane.generation.get() != start::generation() || lane.busy.replace(true) {
                return;
            }
            // SAFETY: only this thread touches its lane, and nothing of it is borrowed.
            let chunk = unsafe { (*lane.chunk.get()).take() };
            if let Some(chunk) = chunk {
                lane.recorder().supply.retire(chunk);
            }
            lane.cursor.set(std::ptr::null_mut());
            lane.limit.set(std::ptr::null_mut());
            lane.busy.set(false);
        });
    }
}
