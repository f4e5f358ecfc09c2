//! The live memory of one call.

use crate::driver::guard;
use crate::run::sinks::Sink;
use parking_lot::Mutex;
use std::alloc::Layout;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use trace::api::Function;
use trace::api::types::Type;
use trace::walk::Direction;

/// Why a call cannot be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal(pub String);

/// Memory of the replayer's own, 16-byte aligned, that the driver may read and write by its address.
pub struct Memory {
    start: *mut u8,
    keeper: Keeper,
    len: usize,
}

enum Keeper {
    Own(Layout),
    Room { _keeps: Arc<Room> },
}

/// Memory of many calls, which lies in the order in which it was asked for.
#[derive(Default)]
pub struct Room {
    blocks: Mutex<Vec<(Memory, usize)>>,
}

const BLOCK: usize = 1 << 20;
/// What is larger is not for a room.
const MOST: usize = 4096;

impl Room {
    fn give(room: &Arc<Room>, len: usize) -> Result<Memory, Refusal> {
        let taken = len.max(1).next_multiple_of(16);
        let mut blocks = room.blocks.lock();
        if blocks.last().is_none_or(|(_, used)| used + taken > BLOCK) {
            blocks.push((Memory::zeroed(BLOCK)?, 0));
        }
        let (block, used) = blocks.last_mut().expect("one has room");
        // SAFETY: within the block; nobody else is given these bytes.
        let start = unsafe { block.start.add(*used) };
        *used += taken;
        Ok(Memory { start, keeper: Keeper::Room { _keeps: room.clone() }, len })
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

    pub fn address(&self) -> u64 {
        self.start as u64
    }

    pub fn bytes(&self) -> &[u8] {
        // SAFETY: `start` is valid for `len` initialised bytes as long as self is; a room outlives what it gave.
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
        self.bytes().chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().expect("8 bytes"))).collect()
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if let Keeper::Own(layout) = self.keeper {
            guard::tell(self.start, 0);
            // SAFETY: allocated with this layout.
            unsafe { std::alloc::dealloc(self.start, layout) };
        }
    }
}

/// Something the call hands out.
pub enum Output {
    /// Elements in buffer `memory`, recorded at `address`.
    Values { name: &'static str, memory: usize, address: u64, element: &'static Type, count: u64, direction: Direction },
    /// Text in the buffer.
    Text { name: &'static str, memory: usize, address: u64, volatile: bool },
    /// A pointer in the buffer to text of the driver's.
    TextOut { name: &'static str, memory: usize, address: u64 },
    /// A pointer in the buffer to elements of the driver's; how many, the live words tell.
    Owned { name: &'static str, index: usize, memory: usize, address: u64, element: &'static Type },
}

/// All memory of one call.
#[derive(Default)]
pub struct Frame<'t> {
    /// The first one holds the argument words.
    pub memory: Vec<Memory>,
    pub outputs: Vec<Output>,
    pub sinks: Vec<Sink<'t>>,
    pub files: Vec<OwnedFd>,
    /// Placed host ranges that the call reads.
    pub sources: Vec<std::ops::Range<u64>>,
    /// Memory of our own that the call's copies read.
    pub lent: Vec<Memory>,
    /// What is called instead, with the same arguments.
    pub instead: Option<&'static Function>,
    /// The driver may use the memory after the call.
    pub retain: bool,
    /// Where small memory of the call is to lie, instead of anywhere.
    pub room: Option<Arc<Room>>,
}

impl Frame<'_> {
    pub fn zeroed(&self, len: usize) -> Result<Memory, Refusal> {
        match &self.room {
            Some(room) if len <= MOST => Room::give(room, len),
            _ => Memory::zeroed(len),
        }
    }

    pub fn holding(&self, bytes: &[u8]) -> Result<Memory, Refusal> {
        let mut memory = self.zeroed(bytes.len())?;
        memory.put(0, bytes);
        Ok(memory)
    }

    pub fn words(&self) -> Vec<u64> {
        self.memory[0].words()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_room_gives_lies_in_order() {
        let frame = Frame { room: Some(Arc::default()), ..Frame::default() };
        let (mut one, other) = (frame.holding(&[7; 20]).unwrap(), frame.zeroed(MOST).unwrap());
        assert_eq!((one.bytes(), other.address() - one.address()), (&[7; 20][..], 32));
        one.put(16, &[8; 4]);
        one.put(17, &[9; 4]);
        assert_eq!((&one.bytes()[16..], other.bytes()), (&[8; 4][..], &[0; MOST][..]));
        // Beyond a block, and what is too large for any.
        let more: Vec<Memory> = (0..BLOCK / MOST + 2).map(|_| frame.zeroed(MOST).unwrap()).collect();
        let mut starts: Vec<u64> = more.iter().map(Memory::address).collect();
        starts.sort_unstable();
        assert!(starts.windows(2).all(|pair| pair[1] - pair[0] >= MOST as u64));
        assert_eq!(frame.zeroed(MOST + 1).unwrap().bytes().len(), MOST + 1);
        drop(frame);
        assert_eq!(other.bytes(), [0; MOST]);
    }
}
