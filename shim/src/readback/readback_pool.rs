//! The recorder's own pinned memory, to which devices copy results of collectives and contents of imported
//! memory.
//!
//! It is allocated in large pieces when communicators begin, before their kernels run. Later would be too
//! late: pinning may wait for the device, and a kernel there may wait for the next launch of the same thread.
//! The memory is the recorder's, and only pinned by the driver. It loses its pinning when its context ends,
//! but must stay readable after that; such a piece is not used again.

use crate::driver::calls;
use crate::driver::queries;
use crate::os::lock::Lock;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::*};

/// Bytes of a piece, which is the most that an operation may deliver, and of all together.
const PIECE: u64 = 512 << 20;
const MOST: u64 = 1 << 30;
/// The mark in front of the bytes.
const MARK: u64 = 256;
/// CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP
const FLAGS: u32 = 3;

#[derive(Default)]
pub(crate) struct Staging {
    pieces: Lock<Vec<Piece>>,
    /// A context may have ended since somebody asked whether they are pinned.
    are_doubtful: AtomicBool,
    /// No memory could be pinned.
    is_refused: AtomicBool,
}

struct Piece {
    start: u64,
    len: u64,
    /// Where the device has it.
    device: u64,
    is_gone: bool,
    /// By their starts, from that of the piece.
    free: BTreeMap<u64, u64>,
}

/// Space for bytes, with a mark for their completion.
pub(crate) struct Room {
    start: u64,
    device: u64,
    pub bytes: u64,
}

/// The reason why there is no space.
pub(crate) enum NoRoom {
    /// Some may be given back.
    Yet,
    /// No piece is as long.
    Never,
}

impl Room {
    pub(crate) fn address(&self) -> u64 {
        self.start + MARK
    }

    /// Where the device writes the mark, and where the bytes.
    pub(crate) fn on_device(&self) -> (u64, u64) {
        (self.device, self.device + MARK)
    }

    fn mark(&self) -> &AtomicU32 {
        // SAFETY: within memory of ours that is never given back to Linux, and aligned.
        unsafe { &*(self.start as *const AtomicU32) }
    }

    /// The device has written the bytes, and then the mark.
    pub(crate) fn is_filled(&self) -> bool {
        self.mark().load(Acquire) != 0
    }

    /// What the device has written.
    pub(crate) fn content(&self) -> &'static [u8] {
        // SAFETY: as above; the device is done with it, and it is given back when it has been looked at.
        unsafe { std::slice::from_raw_parts(self.address() as *const u8, self.bytes as usize) }
    }
}

impl Staging {
    /// A context may have ended, and what was pinned in it is pinned no more.
    pub(crate) fn context_ends(&self) {
        self.are_doubtful.store(true, Relaxed);
    }

    fn mark_unpinned(&self) {
        if self.are_doubtful.swap(false, Relaxed) {
            let starts: Vec<u64> = self.pieces.lock().iter().map(|piece| piece.start).collect();
            let gone: Vec<u64> = starts.into_iter().filter(|start| queries::is_not_pinned(*start)).collect();
            self.pieces.lock().iter_mut().for_each(|piece| piece.is_gone |= gone.contains(&piece.start));
        }
    }

    /// Some more, before it is needed: a communicator begins. What could not be pinned is not tried again.
    pub(crate) fn prepare(&self) {
        self.mark_unpinned();
        if !self.is_refused.load(Relaxed) && self.pinned() + PIECE <= MOST && !self.grow() {
            self.is_refused.store(true, Relaxed);
        }
    }

    /// The same, if there is none yet.
    pub(crate) fn prepare_once(&self) {
        self.mark_unpinned();
        if self.pinned() == 0 {
            self.prepare();
        }
    }

    pub(crate) fn take(&self, bytes: u64) -> Result<Room, NoRoom> {
        let len = bytes.saturating_add(2 * MARK - 1) / MARK * MARK;
        self.mark_unpinned();
        let is_too_long = || self.pieces.lock().iter().all(|piece| piece.is_gone || piece.len < len);
        self.find(len, bytes).ok_or_else(|| if is_too_long() { NoRoom::Never } else { NoRoom::Yet })
    }

    /// So many bytes of it, for a copy that is told where to before it runs.
    pub(crate) fn anywhere(&self, bytes: u64) -> Option<u64> {
        self.mark_unpinned();
        let pieces = self.pieces.lock();
        let piece = pieces.iter().find(|piece| !piece.is_gone && bytes <= piece.len.saturating_sub(MARK));
        piece.map(|piece| piece.device + MARK)
    }

    /// Bytes that are pinned, for all that is known.
    fn pinned(&self) -> u64 {
        self.pieces.lock().iter().filter(|piece| !piece.is_gone).map(|piece| piece.len).sum()
    }

    fn find(&self, len: u64, bytes: u64) -> Option<Room> {
        let mut pieces = self.pieces.lock();
        for piece in pieces.iter_mut().filter(|piece| !piece.is_gone) {
            let Some((at, all)) = piece.free.iter().find(|(_, all)| **all >= len).map(|(at, all)| (*at, *all)) else {
                continue;
            };
            piece.free.remove(&at);
            if all > len {
                piece.free.insert(at + len, all - len);
            }
            let room = Room { start: piece.start + at, device: piece.device + at, bytes };
            room.mark().store(0, Relaxed);
            return Some(room);
        }
        None
    }

    pub(crate) fn give_back(&self, room: &Room) {
        let len = (room.bytes + MARK).next_multiple_of(MARK);
        let mut pieces = self.pieces.lock();
        let of = |piece: &&mut Piece| (piece.start..piece.start + piece.len).contains(&room.start);
        let Some(piece) = pieces.iter_mut().find(of) else { return };
        let (mut at, mut len) = (room.start - piece.start, len);
        if let Some(behind) = piece.free.remove(&(at + len)) {
            len += behind;
        }
        if let Some((before, its)) = piece.free.range(..at).next_back().map(|(before, its)| (*before, *its))
            && before + its == at
        {
            (at, len) = (before, its + len);
        }
        piece.free.insert(at, len);
    }

    /// One more piece, if it is to be had; the driver is called with no lock held.
    fn grow(&self) -> bool {
        // SAFETY: new memory, of which nobody else knows.
        let start = unsafe {
            let access = libc::PROT_READ | libc::PROT_WRITE;
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let start = libc::mmap(std::ptr::null_mut(), PIECE as usize, access, flags, -1, 0);
            // A child that copies what the device still writes would take the pages from the device.
            if start != libc::MAP_FAILED {
                libc::madvise(start, PIECE as usize, libc::MADV_DONTFORK);
            }
            start
        };
        if start == libc::MAP_FAILED {
            return false;
        }
        let (start, mut device) = (start as u64, 0);
        // SAFETY: the memory was just made; the output is valid.
        if unsafe { calls::pin(start, PIECE as usize, FLAGS) } != Some(0) {
            // SAFETY: nobody knows of it.
            unsafe { libc::munmap(start as *mut libc::c_void, PIECE as usize) };
            return false;
        }
        // SAFETY: as above. Memory that is pinned stays: mapped anew, it would be refused to the program.
        let is_found = unsafe { calls::device_address(&mut device, start, 0) } == Some(0);
        if is_found {
            let free = BTreeMap::from([(0, PIECE)]);
            self.pieces.lock().push(Piece { start, len: PIECE, device, is_gone: false, free });
        }
        is_found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn staging(len: u64) -> (Staging, Vec<u64>) {
        let memory = vec![0u64; len as usize / 8];
        let start = memory.as_ptr() as u64;
        let staging = Staging::default();
        staging.pieces.lock().push(Piece {
            start,
            len,
            device: 0x1000,
            is_gone: false,
            free: BTreeMap::from([(0, len)]),
        });
        (staging, memory)
    }

    #[test]
    fn what_fits_into_no_piece_is_not_waited_for() {
        let (staging, _memory) = staging(4 * MARK);
        let room = staging.take(3 * MARK).ok().expect("room");
        assert!(matches!(staging.take(1), Err(NoRoom::Yet)) && matches!(staging.take(4 * MARK), Err(NoRoom::Never)));
        staging.give_back(&room);
        assert!(staging.take(1).is_ok());
    }

    #[test]
    fn what_is_given_back_is_had_again() {
        let (staging, memory) = staging(4 * MARK);
        let room = |bytes: u64| staging.find((bytes + MARK).next_multiple_of(MARK), bytes);
        let (one, other) = (room(5).expect("room"), room(7).expect("room"));
        assert!(room(1).is_none() && !one.is_filled());
        assert_eq!((one.address(), one.on_device()), (memory.as_ptr() as u64 + MARK, (0x1000, 0x1000 + MARK)));
        assert_eq!(other.on_device(), (0x1000 + 2 * MARK, 0x1000 + 3 * MARK));
        staging.give_back(&one);
        assert!(room(2 * MARK).is_none());
        staging.give_back(&other);
        assert!(room(3 * MARK).is_some());
    }
}
