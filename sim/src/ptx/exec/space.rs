//! Memory as a thread sees it. Every access must lie in a live device range, the block's shared memory or the
//! thread's own stack.

use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering::Relaxed};

use super::print::Fifo;
use super::thread::Thread;
use super::{Fault, Grid, Result};
use crate::memory::pinned::as_device;
use crate::memory::table::{Ranges, Span};
use crate::ptx::program::{Kernel, Program};
use crate::ptx::types::Space;

/// Where shared memory begins in the generic space: an address that no process has.
pub(super) const SHARED_WINDOW: u64 = 0x0F01_0000_0000_0000;
/// The same for the stack of a thread, which holds its local memory and parameters.
pub(super) const LOCAL_WINDOW: u64 = 0x0F02_0000_0000_0000;
const WINDOW_MASK: u64 = 0xFFFF_0000_0000_0000;

/// The state that the threads of one block share while it runs.
pub(super) struct Env<'a> {
    pub grid: &'a Grid,
    pub program: &'a Program,
    pub kernel: &'a Kernel,
    pub block: [u32; 3],
    pub shared: &'a mut [u8],
    /// Threads that came to a barrier without waiting there.
    pub arrived: &'a mut [u32; 16],
    pub memory: &'a Ranges<'a>,
    /// The device range last hit; no range can go away while `memory` is held.
    pub last: Span,
    /// From its addresses to where the device reaches them.
    pub shift: u64,
    pub printed: &'a mut Fifo,
}

#[derive(Clone, Copy)]
pub(super) enum Place {
    /// In a live device range, aligned.
    Device(u64),
    Shared(usize),
    Stack(usize),
}

impl Env<'_> {
    fn device(&mut self, address: u64, size: usize, write: bool) -> Result<Place> {
        let end = address.checked_add(size as u64).ok_or(Fault::IllegalAddress)?;
        if address < self.last.start || end > self.last.end {
            self.last = self.memory.span(address).ok_or(Fault::IllegalAddress)?;
            self.shift = as_device(self.last.start).wrapping_sub(self.last.start);
            if end > self.last.end {
                return Err(Fault::IllegalAddress);
            }
        }
        if write && !self.last.writable {
            return Err(Fault::IllegalAddress);
        }
        Ok(Place::Device(address.wrapping_add(self.shift)))
    }
}

impl Thread {
    pub(super) fn place(
        &self,
        env: &mut Env<'_>,
        space: Space,
        address: u64,
        size: usize,
        write: bool,
    ) -> Result<Place> {
        if !address.is_multiple_of(size.next_power_of_two() as u64) {
            return Err(Fault::Misaligned);
        }
        match space {
            Space::Global | Space::Const => env.device(address, size, write),
            Space::Shared => check_bounds(address & 0xffff_ffff, size, env.shared.len()).map(Place::Shared),
            Space::Local | Space::Param => {
                check_bounds(address & !WINDOW_MASK, size, self.stack.len()).map(Place::Stack)
            }
            Space::Generic => match address & WINDOW_MASK {
                SHARED_WINDOW => check_bounds(address & !WINDOW_MASK, size, env.shared.len()).map(Place::Shared),
                LOCAL_WINDOW => check_bounds(address & !WINDOW_MASK, size, self.stack.len()).map(Place::Stack),
                _ => env.device(address, size, write),
            },
        }
    }

    pub(super) fn load(&self, env: &Env<'_>, place: Place, size: usize) -> u64 {
        match place {
            // SAFETY: `place` found the address inside a live range, aligned, and the range cannot go while
            // the table's read guard is held; other threads may write it, hence atomics.
            Place::Device(address) => unsafe {
                match size {
                    1 => u64::from(AtomicU8::from_ptr(address as *mut u8).load(Relaxed)),
                    2 => u64::from(AtomicU16::from_ptr(address as *mut u16).load(Relaxed)),
                    4 => u64::from(AtomicU32::from_ptr(address as *mut u32).load(Relaxed)),
                    _ => AtomicU64::from_ptr(address as *mut u64).load(Relaxed),
                }
            },
            Place::Shared(at) => little(&env.shared[at..at + size]),
            Place::Stack(at) => little(&self.stack[at..at + size]),
        }
    }

    pub(super) fn store(&mut self, env: &mut Env<'_>, place: Place, size: usize, value: u64) {
        match place {
            // SAFETY: as for `load`, and the range may be written.
            Place::Device(address) => unsafe {
                match size {
                    1 => AtomicU8::from_ptr(address as *mut u8).store(value as u8, Relaxed),
                    2 => AtomicU16::from_ptr(address as *mut u16).store(value as u16, Relaxed),
                    4 => AtomicU32::from_ptr(address as *mut u32).store(value as u32, Relaxed),
                    _ => AtomicU64::from_ptr(address as *mut u64).store(value, Relaxed),
                }
            },
            Place::Shared(at) => env.shared[at..at + size].copy_from_slice(&value.to_le_bytes()[..size]),
            Place::Stack(at) => self.stack[at..at + size].copy_from_slice(&value.to_le_bytes()[..size]),
        }
    }
}

fn check_bounds(offset: u64, size: usize, length: usize) -> Result<usize> {
    match usize::try_from(offset) {
        Ok(at) if at.saturating_add(size) <= length => Ok(at),
        _ => Err(Fault::IllegalAddress),
    }
}

fn little(bytes: &[u8]) -> u64 {
    let mut all = [0; 8];
    all[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(all)
}

impl Place {
    /// The place `bytes` further on, within the same access.
    pub(super) fn advance(self, bytes: usize) -> Self {
        match self {
            Place::Device(address) => Place::Device(address + bytes as u64),
            Place::Shared(at) => Place::Shared(at + bytes),
            Place::Stack(at) => Place::Stack(at + bytes),
        }
    }
}
