//! The hot path: a thread's lane in the trace.
//!
//! A call costs two time stamps and two small records written into memory that is already there: no lock, no allocation,
//! no system call. Lanes are plain thread-local words without destructors, usable in the last instruction of a thread.

use crate::chunk::Chunk;
use crate::hooks::{self, Hook};
use crate::start::{self, Recorder};
use crate::{capture, clock};
use std::cell::{Cell, UnsafeCell};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::*, compiler_fence};
use trace::Function;
use trace::api::roles::{Class, Extent, Role};
use trace::api::table::is_flat;
use trace::api::types::Form;
use trace::record::{
    self, ATTACHMENT, Attachment, CONFIG, ENTRY_SIZE, Entry, HEAD, Head, INLINE, INNER, NESTED, RETURN_SIZE, Return,
};

/// Calls that came while their own thread was writing a record (a signal handler's): forwarded unrecorded.
pub static REENTRANT: AtomicU64 = AtomicU64::new(0);

pub struct Lane {
    generation: Cell<u64>,
    cursor: Cell<*mut u8>,
    limit: Cell<*mut u8>,
    start: Cell<*mut u8>,
    length: Cell<*const AtomicU64>,
    sequence: Cell<u32>,
    busy: Cell<bool>,
    /// Stack address of the outermost call under way; 0 if none.
    outer: Cell<usize>,
    index: Cell<u32>,
    ordinal: Cell<u64>,
    calls: Cell<u64>,
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
            outer: Cell::new(0),
            index: Cell::new(0),
            ordinal: Cell::new(0),
            calls: Cell::new(0),
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

/// What a wrapper must do beyond its words, worked out from the table at compile time.
#[derive(Clone, Copy)]
pub struct Shape {
    /// Some parameter has to be read before the call.
    pub at_entry: bool,
    /// Some parameter needs more than a fixed number of bytes read after it.
    pub at_return: bool,
    /// Outputs of fixed size: argument word and bytes.
    pub outputs: [(u8, u8); 4],
    pub waits: bool,
}

pub const fn shape(function: &Function) -> Shape {
    let mut shape = Shape { at_entry: false, at_return: false, outputs: [(0, 0); 4], waits: false };
    let mut count = 0;
    let mut i = 0;
    while i < function.params.len() {
        let field = &function.params[i];
        match field.role {
            Role::Arguments(_) | Role::Extra => shape.at_entry = true,
            Role::InOut(_) | Role::Source(_) | Role::CopyHost(_) => {
                shape.at_entry = true;
                shape.at_return = true;
            }
            Role::In(_) if has_launch_arguments(field.ty.form) => {
                shape.at_entry = true;
                shape.at_return = true;
            }
            Role::Out(Extent::One) | Role::Create(Extent::One) | Role::Volatile(Extent::One) if is_flat(field) => {
                if let Form::Pointer(to) = field.ty.form
                    && count < 4
                {
                    shape.outputs[count] = ((field.offset / 8) as u8, to.size as u8);
                    count += 1;
                } else {
                    shape.at_return = true;
                }
            }
            _ => {
                if !is_flat(field) {
                    shape.at_return = true;
                }
            }
        }
        i += 1;
    }
    shape.waits = matches!(function.class, Class::synchronize | Class::poll | Class::copy);
    shape
}

/// Structs that carry kernel arguments are read before the call, like the arguments of a plain launch.
const fn has_launch_arguments(form: Form) -> bool {
    let Form::Pointer(to) = form else { return false };
    let Form::Struct(fields) = to.form else { return false };
    let mut i = 0;
    while i < fields.len() {
        if matches!(fields[i].role, Role::Arguments(_) | Role::CopyHost(_)) {
            return true;
        }
        i += 1;
    }
    false
}

/// A call under way.
#[derive(Clone, Copy)]
pub struct Open {
    pub sequence: u32,
    outermost: bool,
}

/// Records the entry; `None` if the call is not recorded.
#[inline(always)]
pub fn enter<const N: usize>(function: &'static Function, id: u16, shape: Shape, words: &[u64; N]) -> Option<Open> {
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
        let mark = 0u8;
        let stack = std::ptr::addr_of!(mark) as usize;
        let outer = lane.outer.get();
        // A longjmp may have left an outer call behind: its frame would lie below ours.
        let inner = outer != 0 && stack < outer;
        if !inner {
            lane.outer.set(stack);
        }
        let open = Open { sequence: lane.sequence.get(), outermost: !inner };
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
pub fn leave<const N: usize>(
    function: &'static Function,
    id: u16,
    shape: Shape,
    hook: Hook,
    words: &[u64; N],
    open: Open,
    result: u32,
) {
    let end = clock::exit();
    let lane = lane();
    {
        if open.outermost {
            lane.outer.set(0);
        }
        // After fork the child's first return finds the parent's generation: that call is the parent's.
        if lane.generation.get() != start::generation() || lane.busy.replace(true) {
            return;
        }
        compiler_fence(SeqCst);
        if shape.at_return || result != 0 {
            capture::leave(lane, function, id, words, open.sequence, result, end);
        } else {
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
                            at = at.add(ATTACHMENT);
                            std::ptr::copy_nonoverlapping(address as *const u8, at, bytes as usize);
                            at = at.add(bytes.div_ceil(8) as usize * 8);
                        }
                    }
                    lane.commit(size);
                }
            }
        }
        if shape.waits && result == 0 {
            capture::waited(lane, function, words);
        }
        if matches!(hook, Hook::Init) && result == 0 {
            hooks::describe_devices(lane);
        }
        compiler_fence(SeqCst);
        lane.busy.set(false);
    }
}

/// Encodes with bincode at `at`.
///
/// # Safety
/// The encoding of `value` must fit there.
#[inline(always)]
unsafe fn put<T: bincode::Encode>(at: *mut u8, value: &T) {
    // SAFETY: the caller promises room; every record type encodes to exactly its size in memory.
    let room = unsafe { std::slice::from_raw_parts_mut(at, size_of::<T>()) };
    let written = bincode::encode_into_slice(value, room, CONFIG);
    debug_assert!(matches!(written, Ok(n) if n == size_of::<T>()));
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

    pub fn recorder(&self) -> &'static Recorder {
        start::recorder()
    }

    pub fn index(&self) -> u32 {
        self.index.get()
    }

    pub fn sequence(&self) -> u32 {
        self.sequence.get()
    }

    /// First call of a thread, or of a process, or after a fork. Returns whether this thread records now.
    #[cold]
    #[inline(never)]
    fn join(&self) -> bool {
        if !start::begin() {
            return false;
        }
        let recorder = start::recorder();
        if self.generation.get() == start::generation() {
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
        self.busy.set(false);
        self.index.set(recorder.threads.fetch_add(1, Relaxed));
        self.generation.set(start::generation());
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
            hooks::forget_devices();
        }
        self.generation.get() == start::generation()
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

/// A record of unknown length, written in place. Moves to a new chunk when it outgrows this one.
pub struct Draft<'a> {
    lane: &'a Lane,
    written: usize,
    failed: bool,
}

impl<'a> Draft<'a> {
    /// Leaves room for `head` bytes to be filled in at the end.
    pub fn new(lane: &'a Lane, head: usize) -> Draft<'a> {
        let mut draft = Draft { lane, written: 0, failed: false };
        draft.skip(head);
        draft
    }

    fn skip(&mut self, size: usize) -> Option<*mut u8> {
        if self.failed {
            return None;
        }
        let lane = self.lane;
        if lane.room() < self.written + size && !lane.refill_keeping(size, self.written) {
            self.failed = true;
            return None;
        }
        // SAFETY: within the chunk, as just made sure.
        let at = unsafe { lane.cursor.get().add(self.written) };
        self.written += size;
        Some(at)
    }

    pub fn value<T: bincode::Encode>(&mut self, value: &T) {
        if let Some(at) = self.skip(size_of::<T>()) {
            // SAFETY: `skip` made room.
            unsafe { put(at, value) };
        }
    }

    /// Bytes, padded to 8.
    pub fn bytes(&mut self, bytes: &[u8]) {
        let padded = bytes.len().div_ceil(8) * 8;
        if let Some(at) = self.skip(padded) {
            // SAFETY: `skip` made room for the padded length.
            unsafe {
                std::ptr::copy_nonoverlapping(bytes.as_ptr(), at, bytes.len());
                std::ptr::write_bytes(at.add(bytes.len()), 0, padded - bytes.len());
            }
        }
    }

    /// An attachment of `len` bytes of memory at `address`, stood for by `data`.
    pub fn attach(&mut self, form: u8, address: u64, len: u32, data: &[u8]) {
        self.value(&Attachment { form, field: NESTED, zero: 0, len });
        self.value(&address);
        self.bytes(data);
    }

    /// Fills in the head and commits. `head` gets the size of the whole record.
    pub fn finish<T: bincode::Encode>(self, head: impl FnOnce(u32) -> T) {
        if self.failed {
            return;
        }
        let value = head(self.written as u32);
        // SAFETY: `new` left room for the head at the cursor; everything up to `written` has been written.
        unsafe {
            put(self.lane.cursor.get(), &value);
            self.lane.commit(self.written);
        }
    }
}

const _: () = assert!(size_of::<Entry>() == ENTRY_SIZE && size_of::<Return>() == RETURN_SIZE);
const _: () = assert!(size_of::<Head>() == HEAD && size_of::<Attachment>() == ATTACHMENT);

/// Runs `work` with the calling thread's lane, if it records and is not in the middle of a record.
pub fn with_lane(work: impl FnOnce(&Lane)) {
    LANE.with(|lane| {
        let ready = lane.generation.get() == start::generation() && lane.generation.get() != 0;
        if ready && !lane.busy.replace(true) {
            work(lane);
            lane.busy.set(false);
        }
    });
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
            if lane.generation.get() != start::generation() || lane.generation.get() == 0 || lane.busy.get() {
                return;
            }
            // SAFETY: only this thread touches its lane, and nothing of it is borrowed.
            let chunk = unsafe { (*lane.chunk.get()).take() };
            if let Some(chunk) = chunk {
                lane.recorder().supply.retire(chunk);
            }
            lane.cursor.set(std::ptr::null_mut());
            lane.limit.set(std::ptr::null_mut());
        });
    }
}
