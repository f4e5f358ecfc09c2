//! Memory of the replayer's own.

use crate::driver::guard;
use crate::memory::arguments::Loan;
use parking_lot::Mutex;
use std::alloc::Layout;
use std::sync::Arc;
use trace::segment::u64_at;

/// Why a call cannot be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal(pub String);

/// Memory of the replayer's own, 16-byte aligned if it was not taken over, that the driver may read and
/// write by its address.
pub struct Memory {
    start: *mut u8,
    keeper: Keeper,
    len: usize,
}

enum Keeper {
    Own(Layout),
    Taken {
        _keeps: Vec<u8>,
    },
    Arena {
        _keeps: Arc<Arena>,
    },
    /// Of arguments of launches.
    Arguments {
        _keeps: Loan,
    },
}

/// Memory of many calls, which lies in the order in which it was asked for.
#[derive(Default)]
pub struct Arena {
    blocks: Mutex<Vec<(Memory, usize)>>,
}

const BLOCK: usize = 1 << 20;
/// What is larger is not for a arena.
const MOST: usize = 4096;

impl Arena {
    pub fn give(arena: &Arc<Arena>, len: usize) -> Result<Memory, Refusal> {
        if len > MOST {
            return Memory::zeroed(len);
        }
        let taken = len.max(1).next_multiple_of(16);
        let mut blocks = arena.blocks.lock();
        if blocks.last().is_none_or(|(_, used)| used + taken > BLOCK) {
            blocks.push((Memory::zeroed(BLOCK)?, 0));
        }
        let (block, used) = blocks.last_mut().expect("one has room");
        // SAFETY: within the block; nobody else is given these bytes.
        let start = unsafe { block.start.add(*used) };
        *used += taken;
        Ok(Memory { start, keeper: Keeper::Arena { _keeps: arena.clone() }, len })
    }
}

// SAFETY: owned memory; the address is only shared with the driver.
unsafe impl Send for Memory {}

impl Memory {
    pub fn zeroed(len: usize) -> Result<Memory, Refusal> {
        let too_much = || Refusal(format!("needs {len} bytes of host memory"));
        let layout = Layout::from_size_align(len.max(1), 16).map_err(|_| too_much())?;
        // SAFETY: the size is not zero.
        let start = unsafe { std::alloc::alloc_zeroed(layout) };
        if start.is_null() {
            return Err(too_much());
        }
        guard::tell(start, layout.size());
        Ok(Memory { start, keeper: Keeper::Own(layout), len })
    }

    pub fn of(bytes: &[u8]) -> Result<Memory, Refusal> {
        let mut memory = Memory::zeroed(bytes.len())?;
        memory.put(0, bytes);
        Ok(memory)
    }

    /// The bytes where they are, which may be aligned less.
    pub fn taken(mut bytes: Vec<u8>) -> Memory {
        let (start, len) = (bytes.as_mut_ptr(), bytes.len());
        guard::tell(start, len);
        Memory { start, keeper: Keeper::Taken { _keeps: bytes }, len }
    }

    /// # Safety
    /// Nobody else is given these bytes as long as the loan is there.
    pub(super) unsafe fn of_arguments(address: u64, len: usize, loan: Loan) -> Memory {
        Memory { start: address as *mut u8, keeper: Keeper::Arguments { _keeps: loan }, len }
    }

    /// Whether it holds arguments of a launch, which the driver has read when the call returns.
    pub fn holds_arguments(&self) -> bool {
        matches!(self.keeper, Keeper::Arguments { .. })
    }

    pub(super) fn shorten(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    pub fn address(&self) -> u64 {
        self.start as u64
    }

    pub fn bytes(&self) -> &[u8] {
        // SAFETY: `start` is valid for `len` initialised bytes as long as self is; a room outlives what it
        // gave.
        unsafe { std::slice::from_raw_parts(self.start, self.len) }
    }

    /// Writes what fits.
    pub fn put(&mut self, offset: usize, bytes: &[u8]) {
        // SAFETY: as in `bytes`, and self is borrowed for writing.
        let all: &mut [u8] = unsafe { std::slice::from_raw_parts_mut(self.start, self.len) };
        if let Some(to) = all.get_mut(offset..offset.saturating_add(bytes.len())) {
            to.copy_from_slice(bytes);
        }
    }

    pub fn words(&self) -> Vec<u64> {
        self.bytes().chunks_exact(8).map(|word| u64_at(word, 0)).collect()
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        match self.keeper {
            Keeper::Own(layout) => {
                guard::tell(self.start, 0);
                // SAFETY: allocated with this layout.
                unsafe { std::alloc::dealloc(self.start, layout) };
            }
            Keeper::Taken { .. } => guard::tell(self.start, 0),
            Keeper::Arena { .. } | Keeper::Arguments { .. } => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_room_gives_lies_in_order() {
        let arena = Arc::default();
        let give = |len| Arena::give(&arena, len).unwrap();
        let (mut one, other) = (give(20), give(MOST));
        one.put(0, &[7; 20]);
        assert_eq!((one.bytes(), other.address() - one.address()), (&[7; 20][..], 32));
        one.put(16, &[8; 4]);
        one.put(17, &[9; 4]);
        assert_eq!((&one.bytes()[16..], other.bytes()), (&[8; 4][..], &[0; MOST][..]));
        // Beyond a block, and what is too large for any.
        let more: Vec<Memory> = (0..BLOCK / MOST + 2).map(|_| give(MOST)).collect();
        let mut starts: Vec<u64> = more.iter().map(Memory::address).collect();
        starts.sort_unstable();
        assert!(starts.windows(2).all(|pair| pair[1] - pair[0] >= MOST as u64));
        assert_eq!(give(MOST + 1).bytes().len(), MOST + 1);
        drop(arena);
        assert_eq!(other.bytes(), [0; MOST]);
    }
}
