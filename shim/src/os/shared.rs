//! System V shared memory for chunks, which nobody can truncate and which outlives the process. It consists
//! of a few blocks, each twice as long as the previous one. (A mapping of the trace would raise SIGBUS when
//! somebody truncates the file, or the disk fails under it.)

use crate::os::clock;
use crate::os::lock::Lock;
use crate::os::log::tell;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering::*};
use trace::file::control::{self, Control};
use trace::file::segment::PAGE;
use trace::file::shared_memory::{self, Owner, PATH_AT, PRIVATE, Place};

/// The first block.
const LEAST: usize = 2 << 20;
/// No longer than some systems allow (kernel.shmmax).
const MOST: usize = 16 << 20;

pub(crate) struct Memory {
    owner: Owner,
    /// Of the trace.
    path: PathBuf,
    state: Lock<State>,
    /// None could be had: chunks are in memory of this process alone.
    pub is_private: AtomicBool,
    /// In the first block, where others find it; null if there is none.
    control: AtomicPtr<Control>,
    /// In its place.
    own_control: Control,
}

#[derive(Default)]
struct State {
    /// Ids of all blocks.
    blocks: Vec<i32>,
    /// The last one for common chunks.
    last: Option<Block>,
}

struct Block {
    id: i32,
    base: *mut u8,
    size: usize,
    used: usize,
}

// SAFETY: the pointer is to memory that is valid in all threads; pieces of it are handed out under a lock.
unsafe impl Send for Block {}

/// Memory for one chunk.
pub(crate) struct Piece {
    pub base: *mut u8,
    pub place: Place,
}

impl Memory {
    /// Of the trace with this device and inode, at this path.
    pub(crate) fn new((device, inode): (u64, u64), path: &Path) -> Memory {
        let seed = [clock::pair().ns, clock::entry(), std::process::id().into(), inode].map(u64::to_le_bytes).concat();
        let owner = Owner { token: trace::base::hash::checksum(&seed) | 1, device, inode };
        let (state, is_private, control, own_control) = Default::default();
        Memory { owner, path: path.to_path_buf(), state, is_private, control, own_control }
    }

    /// By which the recorder thread is woken, and others ask.
    pub(crate) fn control(&self) -> &Control {
        // SAFETY: null, or in the first page of a block that is never unmapped, where only atomics are.
        unsafe { self.control.load(Acquire).as_ref() }.unwrap_or(&self.own_control)
    }

    /// Whole pages that hold zeros.
    pub(crate) fn take(&self, size: usize) -> io::Result<Piece> {
        let mut state = self.state.lock();
        let room = |block: &Block| block.size - block.used;
        if state.last.as_ref().is_none_or(|last| room(last) < size) {
            let wanted = state.last.as_ref().map_or(LEAST, |last| MOST.min(2 * last.size));
            match self.block(wanted, &mut state.blocks) {
                Some(block) => state.last = Some(block),
                None => return self.private(size),
            }
        }
        match &mut state.last {
            Some(last) if room(last) >= size => Ok(self.piece(last, size)),
            _ => self.private(size),
        }
    }

    /// As `take`, in a block that can be given back.
    pub(crate) fn take_alone(&self, size: usize) -> io::Result<Piece> {
        let block = self.block(PAGE as usize + size, &mut self.state.lock().blocks);
        block.map_or_else(|| self.private(size), |mut block| Ok(self.piece(&mut block, size)))
    }

    /// Unmaps what `take_alone` has given.
    pub(crate) fn give_back(&self, piece: &Piece, size: usize) {
        // SAFETY: a mapping of our own, of either kind, in which nobody has an interest any more.
        unsafe {
            if piece.place.memory == PRIVATE {
                libc::munmap(piece.base.cast(), size);
                return;
            }
            self.state.lock().blocks.retain(|id| *id != piece.place.memory);
            libc::shmctl(piece.place.memory, libc::IPC_RMID, std::ptr::null_mut());
            libc::shmdt(piece.base.sub(PAGE as usize).cast());
        }
    }

    fn piece(&self, block: &mut Block, size: usize) -> Piece {
        let page = (block.used / PAGE as usize) as u32;
        // SAFETY: the caller has seen that there is room.
        let base = unsafe { block.base.add(block.used) };
        block.used += size;
        Piece { base, place: Place { memory: block.id, page, token: self.owner.token } }
    }

    /// Memory that does not outlive the process.
    fn private(&self, size: usize) -> io::Result<Piece> {
        let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
        // SAFETY: a fresh mapping at a place that Linux chooses.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), size, access, kind, -1, 0) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        not_for_children(base, size);
        Ok(Piece { base: base.cast(), place: Place { memory: PRIVATE, page: 0, token: self.owner.token } })
    }

    /// A new block with its first page written, if there is one to be had; if not, nobody asks again.
    fn block(&self, size: usize, all: &mut Vec<i32>) -> Option<Block> {
        if self.is_private.load(Relaxed) {
            return None;
        }
        let failed = |call: &str| {
            let why = io::Error::last_os_error();
            self.is_private.store(true, Relaxed);
            tell(&format!("no shared memory ({call}: {why}): if the process is killed, its last calls are lost"));
        };
        // SAFETY: plain system calls; the mapping is fresh, and its first page ours to write.
        unsafe {
            let id = libc::shmget(libc::IPC_PRIVATE, size, libc::IPC_CREAT | libc::SHM_NORESERVE | 0o600);
            if id < 0 {
                failed("shmget");
                return None;
            }
            let base = libc::shmat(id, std::ptr::null(), 0);
            if base as isize == -1 {
                failed("shmat");
                libc::shmctl(id, libc::IPC_RMID, std::ptr::null_mut());
                return None;
            }
            not_for_children(base, size);
            let first = self.owner.encode();
            std::ptr::copy_nonoverlapping(first.as_ptr(), base.cast(), first.len());
            let path = shared_memory::path_bytes(&self.path);
            std::ptr::copy_nonoverlapping(path.as_ptr(), base.byte_add(PATH_AT).cast(), path.len());
            if all.is_empty() {
                self.control.store(base.byte_add(control::AT).cast(), Release);
            }
            all.push(id);
            Some(Block { id, base: base.cast(), size, used: PAGE as usize })
        }
    }

    /// Nobody finds the memory any more, but for the blocks to keep; it lives as long as this process.
    pub(crate) fn remove(&self, kept: &[i32]) {
        self.is_private.store(true, Relaxed);
        let mut state = self.state.lock();
        state.last = None;
        for id in state.blocks.drain(..).filter(|id| !kept.contains(id)) {
            // SAFETY: a plain system call on a block of ours.
            unsafe { libc::shmctl(id, libc::IPC_RMID, std::ptr::null_mut()) };
        }
    }
}

/// A child must not write into the trace of its parent.
fn not_for_children(base: *mut libc::c_void, size: usize) {
    // SAFETY: the range was just mapped.
    unsafe { libc::madvise(base, size, libc::MADV_DONTFORK) };
}
