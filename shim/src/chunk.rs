//! Chunks: pieces of the trace file mapped into the process, made ahead of need by the recorder thread.
//!
//! A chunk belongs to one thread from the moment it is taken. Its committed length lies in the mapping itself, so what was
//! committed outlives the process whatever ends it.

use crate::file::TraceFile;
use parking_lot::{Condvar, Mutex};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering::*};
use std::time::Duration;
use trace::segment::{HEADER, Header, Kind, LENGTH_AT, PAGE, SEAL_AT};

/// The first chunk of a thread, so that many short threads cost little.
pub const SMALL: usize = 64 << 10;
/// Every further one.
pub const LARGE: usize = 1 << 20;
/// Less than this is not worth giving away when a thread ends.
const WORTH_KEEPING: usize = 16 << 10;

/// A mapped, backed, zeroed piece of the file.
pub struct Chunk {
    base: *mut u8,
    size: usize,
}

// SAFETY: a chunk is owned by one thread at a time; the pointer is to shared memory valid in all of them.
unsafe impl Send for Chunk {}

impl Chunk {
    fn make(file: &TraceFile, size: usize) -> io::Result<Chunk> {
        let offset = file.reserve(size as u64)?;
        // SAFETY: a fresh mapping of our own file at a place the kernel chooses; the bytes behind it are reserved.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                size,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                file.fd(),
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

    /// Splits whole pages behind the committed ones off, if they are worth it.
    fn split_rest(&mut self) -> Option<Chunk> {
        let used = (HEADER + self.length().load(Relaxed) as usize).div_ceil(PAGE as usize) * PAGE as usize;
        let rest = self.size - used;
        if rest < WORTH_KEEPING {
            return None;
        }
        // SAFETY: within the mapping; nothing beyond the committed bytes is anyone's. A torn record may lie there.
        let base = unsafe { self.base.add(used) };
        self.size = used;
        // SAFETY: as above; a free chunk is all zeros so that readers do not mistake its content for records.
        unsafe { std::ptr::write_bytes(base, 0, rest) };
        Some(Chunk { base, size: rest })
    }

    /// Writes the checksum and lets go of the mapping.
    fn retire(self) {
        let length = self.length().load(Acquire) as usize;
        // SAFETY: committed bytes lie within the mapping and no longer change; the seal is an aligned word of the header.
        unsafe {
            let content = std::slice::from_raw_parts(self.start(), length);
            let seal = trace::hash::checksum(content);
            (*self.base.add(SEAL_AT).cast::<AtomicU64>()).store(seal, Release);
            libc::munmap(self.base.cast(), self.size);
        }
    }
}

/// Chunks ready to take, and chunks to be sealed.
#[derive(Default)]
pub struct Supply {
    state: Mutex<State>,
    wanted: Condvar,
}

#[derive(Default)]
struct State {
    small: Vec<Chunk>,
    large: Vec<Chunk>,
    retired: Vec<Chunk>,
    /// How many large chunks to keep ready: grows while takers find none.
    ahead: usize,
}

impl Supply {
    /// A chunk with room for `size` bytes of records for the calling thread; made on the spot if none is ready.
    pub fn take(&self, file: &TraceFile, size: usize) -> io::Result<Chunk> {
        let ready = {
            let mut state = self.state.lock();
            let ready = if size + HEADER <= SMALL {
                let fits = state.small.iter().position(|c| c.size >= size + HEADER);
                let found = fits.map(|at| state.small.swap_remove(at));
                if found.is_none() && state.ahead == 0 {
                    state.ahead = 1;
                }
                found
            } else if size + HEADER <= LARGE {
                let found = state.large.pop();
                if found.is_none() {
                    state.ahead = (state.ahead * 2).clamp(2, 16);
                }
                found
            } else {
                None
            };
            self.wanted.notify_one();
            ready
        };
        match ready {
            Some(chunk) => Ok(chunk),
            None => Chunk::make(file, (size + HEADER).max(SMALL).div_ceil(PAGE as usize) * PAGE as usize),
        }
    }

    /// A full chunk, to be sealed.
    pub fn retire(&self, chunk: Chunk) {
        self.state.lock().retired.push(chunk);
        self.wanted.notify_one();
    }

    /// The chunk of a thread that ends: what it did not use goes to others.
    pub fn give_back(&self, mut chunk: Chunk) {
        let rest = chunk.split_rest();
        let mut state = self.state.lock();
        state.small.extend(rest);
        state.retired.push(chunk);
        self.wanted.notify_one();
    }

    /// One turn of the recorder thread: seal what is retired, make what will be needed, wait.
    pub fn tend(&self, file: &TraceFile) -> io::Result<()> {
        let mut state = self.state.lock();
        let retired = std::mem::take(&mut state.retired);
        let want_large = state.large.len() < state.ahead;
        if retired.is_empty() && !want_large {
            self.wanted.wait_for(&mut state, Duration::from_secs(1));
            return Ok(());
        }
        drop(state);
        retired.into_iter().for_each(Chunk::retire);
        if want_large {
            let chunk = Chunk::make(file, LARGE)?;
            self.state.lock().large.push(chunk);
        }
        Ok(())
    }
}
