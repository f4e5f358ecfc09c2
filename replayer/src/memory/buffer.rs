//! Memory of the replayer's own.

use crate::base::parallel;
use crate::driver::guard;
use crate::memory::arguments::Loan;
use crate::memory::long_buffers::{LONG, LongBuffer};
use parking_lot::Mutex;
use std::alloc::Layout;
use std::ops::Deref;
use std::sync::Arc;
use trace::base::bytes::u64_at;

/// The reason why a call cannot be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal(pub String);

/// Memory of the replayer's own, 16-byte aligned, that the driver may read and write by its address.
pub(crate) struct HostBuffer {
    start: *mut u8,
    keeper: Keeper,
    len: usize,
}

enum Keeper {
    Own(Layout),
    Long {
        _keeps: LongBuffer,
    },
    Arena {
        _keeps: Arc<Arena>,
    },
    /// Of arguments of launches.
    Arguments {
        _keeps: Loan,
    },
}

/// Memory of many calls, in the order of their requests.
#[derive(Default)]
pub(crate) struct Arena {
    blocks: Mutex<Vec<(HostBuffer, usize)>>,
}

const BLOCK: usize = 1 << 20;
/// What is larger is not for a arena.
const MOST: usize = 4096;

impl Arena {
    pub(crate) fn give(arena: &Arc<Arena>, len: usize) -> Result<HostBuffer, Refusal> {
        if len > MOST {
            return HostBuffer::zeroed(len);
        }
        let taken = len.max(1).next_multiple_of(16);
        let mut blocks = arena.blocks.lock();
        if blocks.last().is_none_or(|(_, used)| used + taken > BLOCK) {
            blocks.push((HostBuffer::zeroed(BLOCK)?, 0));
        }
        let (block, used) = blocks.last_mut().expect("one has room");
        // SAFETY: within the block; nobody else is given these bytes.
        let start = unsafe { block.start.add(*used) };
        *used += taken;
        Ok(HostBuffer { start, keeper: Keeper::Arena { _keeps: arena.clone() }, len })
    }
}

// SAFETY: owned memory; the address is only shared with the driver.
unsafe impl Send for HostBuffer {}

impl HostBuffer {
    pub(crate) fn zeroed(len: usize) -> Result<HostBuffer, Refusal> {
        let too_much = || Refusal(format!("needs {len} bytes of host memory"));
        let layout = Layout::from_size_align(len.max(1), 16).map_err(|_| too_much())?;
        // SAFETY: the size is not zero.
        let start = unsafe { std::alloc::alloc_zeroed(layout) };
        if start.is_null() {
            return Err(too_much());
        }
        guard::tell(start, layout.size());
        Ok(HostBuffer { start, keeper: Keeper::Own(layout), len })
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<HostBuffer, Refusal> {
        let mut memory = HostBuffer::zeroed(bytes.len())?;
        memory.write(0, bytes);
        Ok(memory)
    }

    /// For bytes of which all are written before one is looked at. It may hold what the same memory held before
    /// it was given back, but not all of it: who compares it notices if nothing is written.
    pub(crate) fn unwritten(len: usize) -> Result<HostBuffer, Refusal> {
        const STEP: usize = 64 << 10;
        if len < LONG {
            return HostBuffer::zeroed(len);
        }
        let mut memory = HostBuffer::long(len)?;
        for at in (0..len).step_by(STEP) {
            let changed = !memory.bytes()[at];
            memory.write(at, &[changed]);
        }
        Ok(memory)
    }

    /// Pieces, one behind the other.
    pub(crate) fn joined(pieces: &[&[u8]]) -> Result<HostBuffer, Refusal> {
        let len = pieces.iter().map(|piece| piece.len()).sum();
        let memory = if len < LONG { HostBuffer::zeroed(len) } else { HostBuffer::long(len) }?;
        let starts = pieces.iter().scan(memory.address(), |next, piece| {
            let start = *next;
            *next += piece.len() as u64;
            Some((start, *piece))
        });
        parallel::each(&starts.collect::<Vec<_>>(), len, |(start, piece)| {
            // SAFETY: each goes to a part of its own of memory that is as long as all.
            unsafe { std::ptr::copy_nonoverlapping(piece.as_ptr(), *start as *mut u8, piece.len()) }
        });
        Ok(memory)
    }

    fn long(len: usize) -> Result<HostBuffer, Refusal> {
        let buffer = LongBuffer::allocate(len).ok_or_else(|| Refusal(format!("needs {len} bytes of host memory")))?;
        let start = buffer.start();
        guard::tell(start, len);
        Ok(HostBuffer { start, keeper: Keeper::Long { _keeps: buffer }, len })
    }

    /// # Safety
    /// Nobody else is given these bytes as long as the loan is there.
    pub(crate) unsafe fn of_arguments(address: u64, len: usize, loan: Loan) -> HostBuffer {
        HostBuffer { start: address as *mut u8, keeper: Keeper::Arguments { _keeps: loan }, len }
    }

    /// Whether it holds arguments of a launch, which the driver has read when the call returns.
    pub(crate) fn holds_arguments(&self) -> bool {
        matches!(self.keeper, Keeper::Arguments { .. })
    }

    pub(crate) fn shorten(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    pub(crate) fn address(&self) -> u64 {
        self.start as u64
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: `start` is valid for `len` initialised bytes as long as self is; a room outlives what it
        // gave.
        unsafe { std::slice::from_raw_parts(self.start, self.len) }
    }

    /// Writes what fits.
    pub(crate) fn write(&mut self, offset: usize, bytes: &[u8]) {
        // SAFETY: as in `bytes`, and self is borrowed for writing.
        let all: &mut [u8] = unsafe { std::slice::from_raw_parts_mut(self.start, self.len) };
        if let Some(to) = all.get_mut(offset..offset.saturating_add(bytes.len())) {
            to.copy_from_slice(bytes);
        }
    }

    pub(crate) fn words(&self) -> Vec<u64> {
        self.bytes().chunks_exact(8).map(|word| u64_at(word, 0)).collect()
    }
}

impl Drop for HostBuffer {
    fn drop(&mut self) {
        match self.keeper {
            Keeper::Own(layout) => {
                guard::tell(self.start, 0);
                // SAFETY: allocated with this layout.
                unsafe { std::alloc::dealloc(self.start, layout) };
            }
            Keeper::Long { .. } => guard::tell(self.start, 0),
            Keeper::Arena { .. } | Keeper::Arguments { .. } => {}
        }
    }
}

/// Bytes for the driver to read: in the trace itself, or in memory of the replayer's own.
pub(crate) enum Payload<'t> {
    Borrowed(&'t [u8]),
    Own(HostBuffer),
}

impl<'t> Payload<'t> {
    pub(crate) fn joined(pieces: &[&'t [u8]]) -> Result<Payload<'t>, Refusal> {
        match pieces {
            [all] => Ok(Payload::Borrowed(all)),
            pieces => HostBuffer::joined(pieces).map(Payload::Own),
        }
    }

    /// With other words at these offsets.
    pub(crate) fn with_words(self, words: &[(usize, u64)]) -> Result<Payload<'t>, Refusal> {
        if words.is_empty() {
            return Ok(self);
        }
        let mut memory = match self {
            Payload::Borrowed(bytes) => HostBuffer::joined(&[bytes])?,
            Payload::Own(memory) => memory,
        };
        words.iter().for_each(|(at, word)| memory.write(*at, &word.to_le_bytes()));
        Ok(Payload::Own(memory))
    }
}

impl Deref for Payload<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Payload::Borrowed(bytes) => bytes,
            Payload::Own(memory) => memory.bytes(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_lie_one_behind_the_other() {
        let bytes: Vec<u8> = (0..LONG as u32 * 9).map(|n| ((n * 7) >> 5) as u8).collect();
        for len in [0, 5, LONG - 1, LONG, bytes.len()] {
            let pieces: Vec<&[u8]> = bytes[..len].chunks(300_007).collect();
            assert!(HostBuffer::joined(&pieces).expect("memory").bytes() == &bytes[..len], "{len}");
        }
    }

    #[test]
    fn memory_that_nobody_writes_is_not_what_was_there_before() {
        let held = || HostBuffer::unwritten(3 * LONG).expect("memory");
        let mut memory = held();
        memory.write(0, &vec![7; 3 * LONG]);
        let before = memory.bytes().to_vec();
        drop(memory);
        let again = held();
        let differs = before.chunks(LONG / 4).zip(again.bytes().chunks(LONG / 4)).all(|(was, is)| was != is);
        assert!(differs, "in each piece that a hash may cover");
    }

    #[test]
    fn a_payload_stays_where_it_is_unless_words_change() {
        let bytes = [1u8; 32];
        let same = Payload::Borrowed(&bytes).with_words(&[]).expect("memory");
        assert_eq!(same.as_ptr(), bytes.as_ptr());
        let other = Payload::Borrowed(&bytes).with_words(&[(8, 2)]).expect("memory");
        assert_eq!((&other[..8], &other[8..16], &other[16..]), (&bytes[..8], &2u64.to_le_bytes()[..], &bytes[16..]));
    }

    #[test]
    fn what_a_room_gives_lies_in_order() {
        let arena = Arc::default();
        let give = |len| Arena::give(&arena, len).unwrap();
        let (mut one, other) = (give(20), give(MOST));
        one.write(0, &[7; 20]);
        assert_eq!((one.bytes(), other.address() - one.address()), (&[7; 20][..], 32));
        one.write(16, &[8; 4]);
        one.write(17, &[9; 4]);
        assert_eq!((&one.bytes()[16..], other.bytes()), (&[8; 4][..], &[0; MOST][..]));
        // Beyond a block, and what is too large for any.
        let more: Vec<HostBuffer> = (0..BLOCK / MOST + 2).map(|_| give(MOST)).collect();
        let mut starts: Vec<u64> = more.iter().map(HostBuffer::address).collect();
        starts.sort_unstable();
        assert!(starts.windows(2).all(|pair| pair[1] - pair[0] >= MOST as u64));
        assert_eq!(give(MOST + 1).bytes().len(), MOST + 1);
        drop(arena);
        assert_eq!(other.bytes(), [0; MOST]);
    }
}
