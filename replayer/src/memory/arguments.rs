//! Memory for launch arguments.
//!
//! For a launch the driver reads as much as the live function takes, which may be more than a trace holds. A
//! driver reveals that size only by failing a query for one parameter too many. So arguments lie in memory of
//! their own, with zeros behind them: values in front of zeros, arrays of pointers in front of pointers to
//! zeros.

use crate::memory::buffer::{HostBuffer, Refusal};
use parking_lot::Mutex;
use std::sync::Arc;

/// More than there can be: parameters of a function, and bytes of one. Code has 16 bits for either.
const MOST: usize = 1 << 16;
/// Bytes of as many pointers.
const HALF: usize = MOST * 8;
const ALIGNMENT: usize = 16;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RegionKind {
    Pointers,
    Values,
}

/// Given away from its middle to its beginning, so that what lies behind is of the same kind, or zeros:
///
/// ```text
/// 0 ..          arguments
/// HALF ..       zeros, or pointers to those that follow
/// 2 * HALF ..   zeros
/// ```
struct Region {
    memory: HostBuffer,
    /// Bytes not given away.
    free: usize,
}

impl Region {
    fn new(holds: RegionKind) -> Result<Region, Refusal> {
        let mut memory = HostBuffer::zeroed(2 * HALF + MOST)?;
        if holds == RegionKind::Pointers {
            let zeros = memory.address() + 2 * HALF as u64;
            memory.write(HALF, &zeros.to_le_bytes().repeat(MOST));
        }
        Ok(Region { memory, free: HALF })
    }

    fn allocate(&mut self, len: usize) -> Option<u64> {
        self.free = self.free.checked_sub(len)?;
        Some(self.memory.address() + self.free as u64)
    }

    /// What lies behind all arguments.
    fn padding(&self) -> [u8; 8] {
        self.memory.bytes()[HALF..][..8].try_into().expect("8 bytes")
    }
}

pub(crate) struct Pool {
    holds: RegionKind,
    /// Regions in which nothing is.
    #[allow(clippy::vec_box, reason = "a loan holds it in a box: it would contain itself")]
    unused: Mutex<Vec<Box<Region>>>,
    /// Those of arguments that stay, in the order in which they were filled.
    filled: Mutex<Vec<Region>>,
}

/// Keeps a region alive for the memory in it.
pub(crate) struct Loan {
    pool: Arc<Pool>,
    /// None if it is among those of the pool that are filled.
    region: Option<Box<Region>>,
}

impl Drop for Loan {
    fn drop(&mut self) {
        if let Some(mut region) = self.region.take() {
            region.free = HALF;
            self.pool.unused.lock().push(region);
        }
    }
}

impl Pool {
    fn new(holds: RegionKind) -> Arc<Pool> {
        Arc::new(Pool { holds, unused: Mutex::default(), filled: Mutex::default() })
    }

    /// In a region of its own, which is there for others once the memory has been dropped.
    fn lend(self: &Arc<Pool>, bytes: &[u8]) -> Result<HostBuffer, Refusal> {
        let unused = self.unused.lock().pop();
        let mut region = unused.map_or_else(|| Region::new(self.holds).map(Box::new), Ok)?;
        let at = region.allocate(room(bytes)?).expect("as much as a region has");
        let padding = region.padding();
        Ok(write(at, bytes, padding, Loan { pool: self.clone(), region: Some(region) }))
    }

    /// Right in front of what was given last, for as long as the pool is there.
    fn give(self: &Arc<Pool>, bytes: &[u8]) -> Result<HostBuffer, Refusal> {
        let room = room(bytes)?;
        let mut filled = self.filled.lock();
        if filled.last().is_none_or(|region| region.free < room) {
            filled.push(Region::new(self.holds)?);
        }
        let region = filled.last_mut().expect("one has room");
        let at = region.allocate(room).expect("it has room");
        Ok(write(at, bytes, region.padding(), Loan { pool: self.clone(), region: None }))
    }
}

/// Bytes taken for so many.
fn room(bytes: &[u8]) -> Result<usize, Refusal> {
    let too_many = || Refusal(format!("{} bytes of arguments exceed the limit of a kernel", bytes.len()));
    Some(bytes.len().next_multiple_of(ALIGNMENT)).filter(|room| *room <= HALF).ok_or_else(too_many)
}

fn write(at: u64, bytes: &[u8], padding: [u8; 8], loan: Loan) -> HostBuffer {
    let room = bytes.len().next_multiple_of(ALIGNMENT);
    // SAFETY: of a region that the loan keeps; nobody else is given these bytes.
    let mut memory = unsafe { HostBuffer::of_arguments(at, room, loan) };
    memory.write(0, bytes);
    // Pointers are whole words, and it matters of them alone where a word of padding begins.
    memory.write(bytes.len(), &padding.repeat(2)[..room - bytes.len()]);
    memory.shorten(bytes.len());
    memory
}

/// The memory of all launches.
pub(crate) struct LaunchMemory {
    pointers: Arc<Pool>,
    values: Arc<Pool>,
}

impl Default for LaunchMemory {
    fn default() -> LaunchMemory {
        LaunchMemory { pointers: Pool::new(RegionKind::Pointers), values: Pool::new(RegionKind::Values) }
    }
}

impl LaunchMemory {
    /// `stays`: for as long as this is there, with all others that stay. Else for one call.
    pub(crate) fn holding(&self, holds: RegionKind, bytes: &[u8], stays: bool) -> Result<HostBuffer, Refusal> {
        let pool = if holds == RegionKind::Pointers { &self.pointers } else { &self.values };
        if stays { pool.give(bytes) } else { pool.lend(bytes) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the driver finds behind an argument, as far as it can read.
    fn behind(memory: &HostBuffer, len: usize) -> Vec<u8> {
        let end = memory.address() + memory.bytes().len() as u64;
        // SAFETY: as far as that a region reaches, which is kept.
        unsafe { std::slice::from_raw_parts(end as *const u8, len) }.to_vec()
    }

    fn words(bytes: &[u8]) -> Vec<u64> {
        bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect()
    }

    #[test]
    fn zeros_follow_arguments_however_many_are_read() {
        let arguments = LaunchMemory::default();
        for count in [1, 2, 3, MOST] {
            let pointers = arguments.holding(RegionKind::Pointers, &vec![7; count * 8], false).unwrap();
            assert_eq!(pointers.bytes(), vec![7; count * 8]);
            let tail = words(&behind(&pointers, HALF));
            assert!(tail.iter().all(|zeros| *zeros == tail[0]));
            // SAFETY: the pointers lead there.
            let zeros = unsafe { std::slice::from_raw_parts(tail[0] as *const u8, MOST) };
            assert!(zeros.iter().all(|byte| *byte == 0));
        }
        for len in [1, 20, 16, HALF, 3] {
            let values = arguments.holding(RegionKind::Values, &vec![7; len], false).unwrap();
            assert_eq!((values.bytes(), behind(&values, MOST)), (&vec![7; len][..], vec![0; MOST]));
        }
        assert!(arguments.holding(RegionKind::Values, &vec![7; HALF + 1], false).is_err());
    }

    #[test]
    fn a_region_is_used_again_when_its_memory_is_gone() {
        let arguments = LaunchMemory::default();
        let lend = |bytes: &[u8]| arguments.holding(RegionKind::Values, bytes, false).unwrap();
        let (one, other) = (lend(&[1; 8]), lend(&[2; 8]));
        let at = one.address();
        assert_ne!(at, other.address());
        drop(one);
        assert_eq!(lend(&[3; 8]).address(), at);
    }

    #[test]
    fn what_stays_lies_in_front_of_its_kind() {
        let arguments = LaunchMemory::default();
        let give = |bytes: &[u8]| arguments.holding(RegionKind::Pointers, bytes, true).unwrap();
        let first = give(&[1; 16]);
        let second = give(&[2; 8]);
        let following = words(&behind(&second, 32));
        assert_eq!(&following[1..3], &words(first.bytes()));
        assert_eq!(following[0], following[3]);
        // Beyond a region.
        let more: Vec<HostBuffer> = (0..3).map(|_| give(&vec![3; HALF])).collect();
        assert!(more.iter().all(|memory| words(&behind(memory, HALF)).iter().all(|word| *word != 0)));
        assert_eq!(first.bytes(), [1; 16]);
    }
}
