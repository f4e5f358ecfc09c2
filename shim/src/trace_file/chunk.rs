//! Chunks: a few pieces of shared memory, used again and again, each with a slot in the trace file.
//!
//! A chunk belongs to one thread from the moment it is taken. Its committed length lies in the memory itself,
//! so committed records outlive the process, however it ends. A full chunk is copied to the end of the file
//! by one write and becomes free again: its pages stay present, and no mapping changes while threads run.
//! (Mapping fresh pages for every chunk cost 648 ns a call with 16 threads on the H200 machine, in page
//! faults and TLB shootdowns.) Only a record that fits into none gets a longer chunk, which is copied to its
//! slot when it is full.

use crate::os::lock::Lock;
use crate::os::shared::Piece;
use crate::trace_file::file::TraceFile;
use std::collections::VecDeque;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU64, Ordering::*, fence};
use std::time::Duration;
use trace::file::segment::{HEADER, Header, Kind, LENGTH_AT, round_up};
use trace::file::shared_memory::Place;

/// The first chunk of a thread, so that many short threads cost little.
pub(crate) const SMALL: usize = 64 << 10;
/// Every further one.
pub(crate) const LARGE: usize = 512 << 10;

/// Bytes of a chunk that are not for records: its header, and as many at its end (`trace::file::shared_memory`).
pub(crate) const FRAME: usize = 2 * HEADER;

/// Zeroed memory, with a slot reserved in the file.
pub(crate) struct Chunk {
    base: *mut u8,
    size: usize,
    place: Place,
    /// Where in the file.
    home: u64,
}

// SAFETY: a chunk is owned by one thread at a time; the pointer is to shared memory valid in all of them.
unsafe impl Send for Chunk {}
// SAFETY: the shared methods hand out addresses and an atomic; who writes through them says why that is
// sound.
unsafe impl Sync for Chunk {}

impl Chunk {
    pub(crate) fn make(file: &TraceFile, size: usize) -> io::Result<Chunk> {
        let piece = if size > LARGE { file.memory.take_alone(size) } else { file.memory.take(size) }?;
        let Piece { base, place } = piece;
        // SAFETY: the memory was just taken. Populating is a favour: without it (before Linux 5.14) the first
        // touch of each page costs a fault.
        unsafe { libc::madvise(base.cast(), size, libc::MADV_POPULATE_WRITE) };
        let chunk = Chunk { base, size, place, home: 0 };
        // Before a reader is told where it is.
        chunk.free();
        Ok(Chunk { home: file.home(size, place, base)?, ..chunk })
    }

    /// Makes the chunk this thread's: from here on readers find it.
    pub(crate) fn assign(&self, thread: u32, ordinal: u64, first_call: u64) {
        let id = u128::from(ordinal) << 64 | u128::from(first_call);
        let header = Header { thread, id, ..Header::new(Kind::Chunk, self.size as u64) }.encode();
        // SAFETY: the memory is at least a page long and ours alone.
        unsafe { std::ptr::copy_nonoverlapping(header.as_ptr(), self.base, HEADER) };
    }

    pub(crate) fn start(&self) -> *mut u8 {
        // SAFETY: within the mapping.
        unsafe { self.base.add(HEADER) }
    }

    /// Of the room for records.
    pub(crate) fn end(&self) -> *mut u8 {
        // SAFETY: within the mapping.
        unsafe { self.base.add(self.size - HEADER) }
    }

    pub(crate) fn length(&self) -> &AtomicU64 {
        // SAFETY: 8-aligned, within the mapping, and only ever accessed atomically after `assign`.
        unsafe { &*self.base.add(LENGTH_AT).cast::<AtomicU64>() }
    }

    /// Copies the committed records to the end of the file as a sealed chunk, and frees this one for reuse.
    ///
    /// Until the copy is whole both stand in the file; readers take one chunk of each thread and ordinal.
    fn drain(&self, file: &TraceFile) -> io::Result<()> {
        // SAFETY: the chunk's memory; what is committed no longer changes.
        let (header, content) = unsafe { (header(self.base), committed(self.base)) };
        if let Some(header) = header.filter(|_| !content.is_empty()) {
            file.append(Kind::Chunk, header.thread, header.id, content)?;
        }
        self.free();
        Ok(())
    }

    /// Puts the committed records into the chunk's place, gives what lies behind them back to the file
    /// system, and the memory too. For one that is longer than others: nobody would use it again.
    fn close(self, file: &TraceFile) -> io::Result<()> {
        // SAFETY: the chunk's memory; what is committed no longer changes.
        let (header, content) = unsafe { (header(self.base), committed(self.base)) };
        let header = match header.filter(|_| !content.is_empty()) {
            Some(header) => Header { seal: trace::base::hash::checksum(content), ..header },
            None => Header::new(Kind::Free, self.size as u64),
        };
        file.settle(self.home, header, content)?;
        let used = round_up((HEADER + content.len()) as u64);
        if used < self.size as u64 {
            let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
            let open = file.file()?;
            let (from, len) = ((self.home + used) as i64, (self.size as u64 - used) as i64);
            // SAFETY: a plain system call on our own descriptor. A file system that cannot take the blocks
            // back keeps them.
            let _unsupported = unsafe { libc::fallocate(open.as_raw_fd(), mode, from, len) };
        }
        file.memory.give_back(&Piece { base: self.base, place: self.place }, self.size);
        Ok(())
    }

    /// Says that nothing in it counts. First of all its length does, in one store: a process may be killed
    /// before the header is whole, and readers then see that no records were in it.
    pub(crate) fn free(&self) {
        self.length().store(0, Release);
        let header = Header::new(Kind::Free, self.size as u64).encode();
        // SAFETY: the mapping is at least a page long, and nobody else writes to it.
        unsafe { std::ptr::copy_nonoverlapping(header.as_ptr(), self.base, HEADER) };
    }
}

/// What the header of the chunk says that begins there; none while it is being written.
///
/// # Safety
/// There must be a chunk, readable for as long as this runs.
pub(crate) unsafe fn header(base: *const u8) -> Option<Header> {
    // SAFETY: the caller's promise. The length is stored by another thread, after the bytes that it covers.
    unsafe {
        let length = (*base.add(LENGTH_AT).cast::<AtomicU64>()).load(Acquire);
        let header = Header::decode(std::slice::from_raw_parts(base, HEADER))?;
        Some(Header { length: length.min(header.room()), ..header })
    }
}

/// The committed records of the chunk that begins there.
///
/// # Safety
/// There must be a chunk, which keeps what is committed for as long as the result is used.
pub(crate) unsafe fn committed<'a>(base: *const u8) -> &'a [u8] {
    // SAFETY: the caller's promise; committed bytes do not change.
    unsafe {
        let length = header(base).map_or(0, |header| header.length);
        std::slice::from_raw_parts(base.add(HEADER), length as usize)
    }
}

/// The chunk that begins there with its committed records, which were still its own once they had been
/// copied: meanwhile it may be freed, and used by another thread. None if it is another one each time.
///
/// # Safety
/// There must be a chunk, readable for as long as this runs.
pub(crate) unsafe fn settled(base: *const u8) -> Option<(Header, Vec<u8>)> {
    const TRIES: usize = 100;
    let attempt = |_| {
        // SAFETY: the caller's promise.
        let before = unsafe { header(base) }?;
        if before.kind != Kind::Chunk || before.length == 0 {
            return Some((Header::new(Kind::Free, before.size), Vec::new()));
        }
        let mut bytes = vec![0; before.length as usize];
        // SAFETY: the caller's promise; bytes that change meanwhile do not count.
        unsafe { std::ptr::copy_nonoverlapping(base.add(HEADER), bytes.as_mut_ptr(), bytes.len()) };
        fence(Acquire);
        // SAFETY: the caller's promise.
        let now = unsafe { header(base) }?;
        let is_same = (now.kind, now.thread, now.id) == (before.kind, before.thread, before.id);
        (is_same && now.length >= before.length).then_some((before, bytes))
    };
    (0..TRIES).find_map(attempt)
}

/// Chunks to write to: free ones, and full ones on their way to the end of the file.
#[derive(Default)]
pub(crate) struct Supply {
    state: Lock<State>,
}

#[derive(Default)]
struct State {
    small: Vec<Chunk>,
    large: Vec<Chunk>,
    full: VecDeque<Chunk>,
    /// Large chunks in existence.
    made: usize,
    /// Large chunks there may be: two for each thread that filled its first.
    allowed: usize,
}

impl Supply {
    /// A chunk with room for `size` bytes of records for the calling thread.
    pub(crate) fn take(&self, file: &TraceFile, size: usize) -> io::Result<Chunk> {
        if size + FRAME <= SMALL {
            return self.take_small(file);
        }
        if size + FRAME > LARGE {
            return Chunk::make(file, round_up((size + FRAME) as u64) as usize);
        }
        loop {
            let full = {
                let mut state = self.state.lock();
                if let Some(chunk) = state.large.pop() {
                    return Ok(chunk);
                }
                if state.made < state.allowed.max(2) {
                    state.made += 1;
                    None
                } else {
                    state.full.pop_front()
                }
            };
            match full {
                // The recorder thread does not keep up: this thread does the work it waits for.
                Some(chunk) => self.reuse(file, chunk)?,
                None => return Chunk::make(file, LARGE),
            }
        }
    }

    /// There are no more of them than threads at once: one that another thread has left is made free before a
    /// new one is made, if the recorder thread does not keep up.
    fn take_small(&self, file: &TraceFile) -> io::Result<Chunk> {
        loop {
            let mut state = self.state.lock();
            if let Some(chunk) = state.small.pop() {
                return Ok(chunk);
            }
            let left = state.full.iter().position(|chunk| chunk.size == SMALL).and_then(|at| state.full.remove(at));
            drop(state);
            match left {
                Some(chunk) => self.reuse(file, chunk)?,
                None => return Chunk::make(file, SMALL),
            }
        }
    }

    /// One more thread writes for long.
    pub(crate) fn expect_more(&self) {
        self.state.lock().allowed += 2;
    }

    /// A full chunk, or the chunk of a thread that ends.
    pub(crate) fn retire(&self, file: &TraceFile, chunk: Chunk) {
        self.state.lock().full.push_back(chunk);
        file.memory.control().ring();
    }

    fn reuse(&self, file: &TraceFile, chunk: Chunk) -> io::Result<()> {
        if chunk.size > LARGE {
            return chunk.close(file);
        }
        chunk.drain(file)?;
        let mut state = self.state.lock();
        if chunk.size == SMALL { &mut state.small } else { &mut state.large }.push(chunk);
        Ok(())
    }

    /// One turn of the recorder thread, which waits if nothing has come since it `heard`.
    pub(crate) fn tend(&self, file: &TraceFile, heard: u32, at_most: Duration) -> io::Result<()> {
        let full = self.state.lock().full.pop_front();
        match full {
            Some(chunk) => self.reuse(file, chunk),
            None => {
                file.memory.control().wait(heard, at_most);
                Ok(())
            }
        }
    }
}
