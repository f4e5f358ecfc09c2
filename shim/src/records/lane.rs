//! A thread's lane in the trace: the buffer for its records.
//!
//! Lanes are plain thread-local words without destructors, usable until the last instruction of a thread.

mod exit;
mod gap;
mod repeats;
mod room;
mod stack;

use repeats::RecentQueries;
pub(crate) use repeats::{MOST_ASKED, Question, Repeat, RepeatedCall};
pub(crate) use room::{copy_padded, encode_at};

use crate::host_memory::host_writes::HostWrites;
use crate::host_memory::read_pages::ReadPages;
use crate::kernels::parameters::Layout;
use crate::os::clock;
use crate::os::counters;
use crate::os::generation;
use crate::os::guard::guarded;
use crate::os::probe::word_at;
use crate::recording::recorder::{self, Recorder};
use crate::trace_file::chunk::Chunk;
use std::arch::{asm, global_asm};
use std::cell::{Cell, UnsafeCell};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use trace::file::record::{
    self, ATTACHMENT, Attachment, EITHER, ENTRY_SIZE, Entry, HEAD, Head, MEANWHILE, RETURN_SIZE, Return, Written,
};

/// A thread's lane. The fields that every call needs come first, in a cache line or two: between two calls of
/// a program the caches have often been used for something else.
#[repr(C, align(64))]
pub(crate) struct Lane {
    pub(crate) generation: Cell<u64>,
    cursor: Cell<*mut u8>,
    limit: Cell<*mut u8>,
    length: Cell<*const AtomicU64>,
    start: Cell<*mut u8>,
    /// Where, on its stack, the outermost call that may call back keeps its mark; 0 if none is under way.
    pub(crate) outer: Cell<usize>,
    calls: Cell<u64>,
    sequence: Cell<u32>,
    pub(crate) busy: Cell<bool>,
    pub(crate) joining: Cell<bool>,
    /// The last calls, if they are polls or queries.
    asked: RecentQueries,
    /// The mark that `outer` keeps.
    mark: Cell<u64>,
    index: Cell<u32>,
    ordinal: Cell<u64>,
    /// The thread's stack: its lowest address and its end; 0 if not asked yet, 1 if nobody knows.
    stack: Cell<(u64, u64)>,
    pub(crate) read_pages: ReadPages,
    chunk: UnsafeCell<Option<Chunk>>,
    /// The last record, if it counts what a capture range leaves out.
    gap: Cell<*mut u8>,
    /// The NVTX range that has opened it: domain and depth.
    within: Cell<(u32, u32)>,
    /// The last call that gave a device work, if it launched a kernel of NCCL's, and its stream. Followed
    /// where what collectives deliver is kept.
    pub(crate) launched: Cell<Option<(u32, u64)>>,
    /// Calls that came when recording had ended, since the thread last counted them among all.
    afterwards: Cell<u64>,
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
            read_pages: ReadPages::none(),
            chunk: UnsafeCell::new(None),
            gap: Cell::new(std::ptr::null_mut()),
            asked: RecentQueries::nothing(),
            within: Cell::new((0, 0)),
            launched: Cell::new(None),
            afterwards: Cell::new(0),
        }
    };
}
const _: () = assert!(!std::mem::needs_drop::<Lane>());
// Of what glibc keeps free for libraries that are opened late.
const _: () = assert!(size_of::<Lane>() <= 1152);

// The address of the thread's lane, once it is known, in a word whose place the loader decides when it opens
// the library (the model initial-exec). To find a `thread_local` is a call of the loader's, which was a tenth
// of what recording PyTorch cost. If the library is opened late, all that threads have of it (1.2 kB) lies
// where glibc keeps some room for such libraries (1.6 kB).
global_asm!(
    ".pushsection .tbss.cutrace_lane,\"awT\",@nobits",
    ".balign 8",
    ".hidden cutrace_lane",
    ".globl cutrace_lane",
    ".type cutrace_lane,@tls_object",
    ".size cutrace_lane,8",
    "cutrace_lane:",
    ".zero 8",
    ".popsection",
);

/// The calling thread's lane. Usable to the thread's last instruction: it has no destructor.
#[inline(always)]
pub(crate) fn current() -> &'static Lane {
    let known: *const Lane;
    // SAFETY: reads a word of the thread's own.
    unsafe {
        asm!("mov {0}, qword ptr [rip + cutrace_lane@GOTTPOFF]", "mov {0}, qword ptr fs:[{0}]", out(reg) known,
            options(nostack, readonly, preserves_flags));
    }
    // SAFETY: the lane lives as long as the thread, and the reference never leaves it: a lane is not Sync.
    unsafe { known.as_ref() }.unwrap_or_else(first)
}

/// The lane of a thread that asks for the first time.
#[cold]
#[inline(never)]
fn first() -> &'static Lane {
    let lane = LANE.with(std::ptr::from_ref);
    // SAFETY: writes a word of the thread's own; and as in `current`.
    unsafe {
        asm!("mov {0}, qword ptr [rip + cutrace_lane@GOTTPOFF]", "mov qword ptr fs:[{0}], {1}", out(reg) _, in(reg) lane,
            options(nostack, preserves_flags));
        &*lane
    }
}

/// Calls that were recorded of the calling thread; a forked child finds those of the thread that forked,
/// until it records.
pub(crate) fn calls_of_thread() -> u64 {
    current().calls.get()
}

impl Lane {
    pub(crate) fn recorder(&self) -> &'static Recorder {
        recorder::recorder()
    }

    pub(crate) fn index(&self) -> u32 {
        self.index.get()
    }

    pub(crate) fn sequence(&self) -> u32 {
        self.sequence.get()
    }

    /// A call comes when recording has ended.
    pub(crate) fn comes_afterwards(&self) {
        const TOGETHER: u64 = 1024;
        self.afterwards.set(self.afterwards.get() + 1);
        if self.afterwards.get() == TOGETHER {
            self.counts_afterwards();
        }
    }

    pub(crate) fn counts_afterwards(&self) {
        counters::AFTERWARDS.fetch_add(self.afterwards.replace(0), Relaxed);
    }

    /// Writes an entry without attachments; false if there is no room to be had.
    #[inline(always)]
    pub(crate) fn put_entry<const N: usize>(
        &self,
        id: u16,
        flags: u8,
        words: &[u64; N],
        begin: impl FnOnce() -> u64,
    ) -> bool {
        let size = ENTRY_SIZE + 8 * N;
        if self.room() < size && !self.refill(size) {
            return false;
        }
        let head = Head { size: size as u32, kind: record::ENTRY, flags, function: id };
        // SAFETY: `size` bytes from the cursor are in the chunk, and only this thread writes there.
        unsafe {
            let at = self.cursor.get();
            encode_at(at.add(ENTRY_SIZE), words);
            encode_at(at, &Entry { head, begin: begin() });
            self.commit(size);
        }
        self.has_entered();
        true
    }

    /// The call has a number of its own.
    #[inline(always)]
    pub(crate) fn has_entered(&self) {
        self.sequence.set(self.sequence.get().wrapping_add(1));
        self.calls.set(self.calls.get() + 1);
    }

    /// What is found before this call of the lane's.
    pub(crate) fn writes_before(&self, call: u32) -> HostWrites {
        let now = clock::exit();
        let about = Written { begin: now, end: now, thread: self.index(), call, run: 0, seen: 0 };
        let mut writes = HostWrites::new(about, &self.recorder().around);
        writes.stack = self.stack();
        writes
    }

    /// What is found when the lane's latest call, a wait, has returned.
    pub(crate) fn writes_during_wait(&self) -> HostWrites {
        self.writes_when_returned(MEANWHILE)
    }

    fn writes_when_returned(&self, seen: u32) -> HostWrites {
        let now = clock::exit();
        let call = self.sequence().wrapping_sub(1);
        let about = Written { begin: now, end: now, thread: self.index(), call, run: 0, seen };
        HostWrites::new(about, &self.recorder().around)
    }

    /// The same, if kernels have not written it themselves.
    pub(crate) fn writes_or_results(&self) -> HostWrites {
        self.writes_when_returned(EITHER)
    }

    pub(crate) fn add(&self, writes: HostWrites) {
        writes.into_records().iter().for_each(|record| self.append(record));
    }

    /// Makes it a lane of the current recording. It is busy until it `has_joined`: a signal handler has to
    /// leave it alone meanwhile.
    pub(crate) fn renew(&self, index: u32) {
        // The chunk of a former generation is the parent's: not mapped here, and not ours to seal.
        // SAFETY: only this thread touches its lane, and nothing of it is borrowed.
        unsafe { *self.chunk.get() = None };
        self.cursor.set(std::ptr::null_mut());
        self.limit.set(std::ptr::null_mut());
        self.sequence.set(0);
        self.calls.set(0);
        self.afterwards.set(0);
        self.ordinal.set(0);
        self.outer.set(0);
        self.gap.set(std::ptr::null_mut());
        self.asked.forget();
        self.within.set((0, 0));
        self.launched.set(None);
        self.busy.set(true);
        self.index.set(index);
    }

    pub(crate) fn has_joined(&self, generation: u64) {
        self.generation.set(generation);
        self.busy.set(false);
    }

    /// Counts something that is not in the trace, and says so there.
    #[cold]
    pub(crate) fn lose(&self, what: &'static str) {
        let count = self.recorder().around.lose(what);
        self.append(&record::with_body(record::LOSS, &record::Loss { what: what.into(), count }));
    }

    /// How the parameters of a function lie that is about to be launched; none if its handle may be anything.
    pub(crate) fn layout_before_launch(&self, function: u64) -> Option<&'static Layout> {
        let kernels = &self.recorder().kernels;
        if let Some(layout) = kernels.known_layout(function) {
            return Some(layout);
        }
        if !kernels.is_handed_out(function) {
            return None;
        }
        Some(self.introduce(function))
    }

    /// How the parameters of a function lie; the file learns who it is.
    pub(crate) fn introduce(&self, function: u64) -> &'static Layout {
        let recorder = self.recorder();
        let (layout, new) = recorder.kernels.layout_of(function, &recorder.images, &recorder.around.file);
        new.iter().for_each(|kernel| self.append(&record::with_body(record::KERNEL, kernel)));
        layout
    }

    /// Notes that calls from here on may be the driver's callbacks.
    #[cold]
    pub(crate) fn mark(&self, frame: &Cell<u64>) {
        self.mark.set(self.mark.get().wrapping_add(0x9e37_79b9_7f4a_7c15) | 1);
        frame.set(self.mark.get());
        self.outer.set(frame.as_ptr() as usize);
    }

    /// Whether the marked call is still under way: a longjmp or an exception may have left it behind. Its
    /// frame then lies below ours, or has been written over.
    #[cold]
    pub(crate) fn is_inside(&self, frame: &Cell<u64>) -> bool {
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

/// Runs `work` with the calling thread's lane, if it records and is not in the middle of a record. A signal
/// handler that calls the driver meanwhile finds the lane busy, and does not wait for a lock that its own
/// thread holds.
#[cold]
pub(crate) fn with_lane<T: Default>(work: impl FnOnce(&Lane) -> T) -> T {
    let lane = current();
    let mut result = T::default();
    if lane.generation.get() == generation::generation() && !lane.busy.replace(true) {
        guarded(|| result = work(lane));
        lane.busy.set(false);
    }
    result
}
