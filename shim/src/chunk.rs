//! Chunks: pieces of the trace file mapped into the process, few, and used over and over.
//!
//! A chunk belongs to one thread from the moment it is taken. Its committed length lies in the mapping itself, so what was
//! committed outlives the process whatever ends it. A full chunk is copied to the end of the file by one write and becomes
//! free again: its pages stay present, and the mapping never changes while threads run. (Mapping fresh pages for every
//! chunk cost 648 ns a call with 16 threads on the H200 machine, in page faults and TLB shootdowns.) Only a record that fits
//! into none gets a longer one, which is closed where it stands when it is full.

use crate::file::TraceFile;
use crate::lock::Lock;
use std::collections::VecDeque;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::Condvar;
use std::sync::atomic::{AtomicU64, Ordering::*};
use std::time::Duration;
use trace::segment::{HEADER, Header, Kind, LENGTH_AT, SEAL_AT, round_up};

/// The first chunk of a thread, so that many short threads cost little.
pub const SMALL: usize = 64 << 10;
/// Every further one.
pub const LARGE: usize = 512 << 10;

/// A mapped, backed, zeroed piece of the file.
pub struct Chunk {
    base: *mut u8,
    size: usize,
}

// SAFETY: a chunk is owned by one thread at a time; the pointer is to shared memory valid in all of them.
unsafe impl Send for Chunk {}
// SAFETY: the shared methods hand out addresses and an atomic; who writes through them says why that is sound.
unsafe impl Sync for Chunk {}

impl Chunk {
    pub fn make(file: &TraceFile, size: usize) -> io::Result<Chunk> {
        let offset = file.reserve(size as u64)?;
        let open = file.file()?;
        // SAFETY: a fresh mapping of our own file at a place the kernel chooses; the bytes behind it are reserved.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                size,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                open.as_raw_fd(),
                offset as i64,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the range was just mapped. A child must not write into its parent's trace. Populating is a favour:
        // without it (before Linux 5.14) the first touch of each page costs a fault.
        unsafe {
            libc::madvise(base, size, libc::MADV_DONTFORK);
            libc::madvise(base, size, libc::MADV_POPULATE_WRITE);
        }
        Ok(Chunk { base: base.cast(), size })
    }

    /// Makes the chunk this thread's: from here on readers find it.
    pub fn assign(&self, thread: u32, ordinal: u64, first_call: u64) {
        let id = u128::from(ordinal) << 64 | u128::from(first_call);
        let header = Header { thread, id, ..Header::new(Kind::Chunk, self.size as u64) }.encode();
        // SAFETY: the mapping is at least a page long and ours alone.
        unsafe { std::ptr::copy_nonoverlapping(header.as_ptr(), self.base, HEADER) };
    }

    pub fn start(&self) -> *mut u8 {
        // SAFETY: within the mapping.
        unsafe { self.base.add(HEADER) }
    }

    pub fn end(&self) -> *mut u8 {
        // SAFETY: one past the mapping.
        unsafe { self.base.add(self.size) }
    }

    pub fn length(&self) -> &AtomicU64 {
        // SAFETY: 8-aligned, within the mapping, and only ever accessed atomically after `assign`.
        unsafe { &*self.base.add(LENGTH_AT).cast::<AtomicU64>() }
    }

    /// Copies the committed records to the end of the file as a sealed chunk, and frees this one for reuse.
    ///
    /// Until the copy is whole both stand in the file; readers take one chunk of each thread and ordinal.
    fn drain(&self, file: &TraceFile) -> io::Result<()> {
        let length = self.length().load(Acquire) as usize;
        // SAFETY: header and committed bytes lie within the mapping and no longer change.
        let (header, content) = unsafe {
            (std::slice::from_raw_parts(self.base, HEADER), std::slice::from_raw_parts(self.start(), length))
        };
        if let Some(header) = Header::decode(header).filter(|_| length > 0) {
            file.append(Kind::Chunk, header.thread, header.id, content)?;
        }
        self.free();
        Ok(())
    }

    /// Seals the committed records where they stand, gives what lies behind them back to the file system, and unmaps the chunk. For one
    /// that is longer than others: nobody would use it again.
    fn close(self) {
        let length = self.length().load(Acquire) as usize;
        if length > 0 {
            // SAFETY: the committed bytes lie within the mapping and no longer change.
            let content = unsafe { std::slice::from_raw_parts(self.start(), length) };
            // SAFETY: 8-aligned, within the mapping; readers take the chunk as open or as sealed, both with all of its records.
            let seal = unsafe { &*self.base.add(SEAL_AT).cast::<AtomicU64>() };
            seal.store(trace::hash::checksum(content), Release);
        } else {
            self.free();
        }
        let used = round_up((HEADER + length) as u64) as usize;
        // SAFETY: our own mapping, which ends with `self`. A file system that cannot take the blocks back keeps them.
        unsafe {
            if used < self.size {
                libc::madvise(self.base.add(used).cast(), self.size - used, libc::MADV_REMOVE);
            }
            libc::munmap(self.base.cast(), self.size);
        }
    }

    /// Says that nothing in it counts.
    pub fn free(&self) {
        let header = Header::new(Kind::Free, self.size as u64).encode();
        // SAFETY: the mapping is at least a page long, and nobody else writes to it.
        unsafe { std::ptr::copy_nonoverlapping(header.as_ptr(), self.base, HEADER) };
    }
}

/// Chunks to write to: free ones, and full ones on their way to the end of the file.
#[derive(Default)]
pub struct Supply {
    state: Lock<State>,
    wanted: Condvar,
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
    pub fn take(&self, file: &TraceFile, size: usize) -> io::Result<Chunk> {
        if size + HEADER <= SMALL {
            let free = self.state.lock().small.pop();
            return free.map_or_else(|| Chunk::make(file, SMALL), Ok);
        }
        if size + HEADER > LARGE {
            return Chunk::make(file, round_up((size + HEADER) as u64) as usize);
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

    /// One more thread writes for long.
    pub fn expect_more(&self) {
        self.state.lock().allowed += 2;
    }

    /// A full chunk, or the chunk of a thread that ends.
    pub fn retire(&self, chunk: Chunk) {
        self.state.lock().full.push_back(chunk);
        self.wanted.notify_one();
    }

    fn reuse(&self, file: &TraceFile, chunk: Chunk) -> io::Result<()> {
        if chunk.size > LARGE {
            chunk.close();
            return Ok(());
        }
        chunk.drain(file)?;
        let mut state = self.state.lock();
        if chunk.size == SMALL { &mut state.small } else { &mut state.large }.push(chunk);
        Ok(())
    }

    /// One turn of the recorder thread.
    pub fn tend(&self, file: &TraceFile, at_most: Duration) -> io::Result<()> {
        let mut state = self.state.lock();
        match state.full.pop_front() {
            Some(chunk) => {
                drop(state);
                self.reuse(file, chunk)
            }
            None => {
                // A wait that was in vain is only a turn.
                drop(self.wanted.wait_timeout(state, at_most));
                Ok(())
            }
        }
    }
}
