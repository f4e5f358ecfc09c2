//! Execution of instructions: a grid's blocks, their threads, and the memory that they see.

mod atomic;
mod block;
mod print;
mod rare;
mod space;
mod step;
mod thread;
mod warp;

use std::collections::VecDeque;
use std::sync::Arc;

pub(crate) use super::half::to_f32 as half_to_f32;
pub(crate) use print::Fifo;

use super::Program;
use crate::memory::table::{self, Kind, Ranges};
use crate::memory::{allocate, pages};
use block::Block;

/// Instructions that a block runs before the table of device ranges is given free for changes.
const SLICE: u64 = 20_000;
/// Instructions that blocks may run without one of them ending before another block joins them: it may be the
/// one that they wait for.
const PATIENCE: u64 = 1_000_000;
/// Blocks in flight at once, at most.
const RESIDENT: usize = 4096;

/// The reason why a kernel failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    IllegalAddress,
    Misaligned,
    /// A trap instruction, or threads that wait for each other for ever.
    Trap,
    /// A call through a pointer that is none.
    InvalidPc,
    Stack,
    /// An operation that is not simulated was reached; a line on standard error names it.
    NotSimulated,
}

pub(crate) type Result<T> = std::result::Result<T, Fault>;

/// Reads a point of a texture: the context's id, the texture's number, the coordinates. Four channels as register
/// values, or none where it leads out of memory.
pub(crate) type Fetch = fn(&Ranges<'_>, u64, u64, [f64; 3]) -> Option<[u64; 4]>;

/// All values that a launch fixes.
#[derive(Debug)]
pub(crate) struct Grid {
    pub program: Arc<Program>,
    /// Index in `program.kernels`.
    pub kernel: usize,
    pub blocks: [u32; 3],
    /// Blocks a cluster.
    pub cluster: [u32; 3],
    pub threads: [u32; 3],
    pub dynamic_shared: u32,
    /// The parameter buffer.
    pub parameters: Vec<u8>,
    pub id: u64,
    /// Where a cooperative grid's blocks meet.
    pub workspace: Workspace,
    /// The id of the context whose textures it sees.
    pub context: u64,
    pub fetch: Fetch,
    /// Whose access to memory counts.
    pub device: i32,
    /// The CUfunction, for graph nodes.
    pub function: crate::abi::Handle,
}

/// Two words of device memory that belong to a cooperative grid: the size of the workspace, and the barrier
/// of all blocks. The kernel finds their address in %envreg1 and %envreg2.
#[derive(Debug, Default)]
pub(crate) struct Workspace(Option<u64>);

impl Workspace {
    const BYTES: u64 = 16;

    pub(crate) fn new(device: i32) -> crate::abi::code::Result<Self> {
        let at = allocate::allocate(Self::BYTES, Kind::Module { managed: false }, device, 0)?;
        pages::write(at, &[0; Self::BYTES as usize]);
        Ok(Self(Some(at)))
    }

    fn address(&self) -> u64 {
        self.0.unwrap_or(0)
    }
}

impl Drop for Workspace {
    fn drop(&mut self) {
        if let Some(range) = self.0.and_then(|at| table::remove(at, |_| true)) {
            allocate::release(range);
        }
    }
}

/// Runs a grid to its end, or until `stop` says that nobody waits for it any more. What it prints goes to
/// `printed`.
pub(crate) fn run(grid: &Grid, printed: &mut Fifo, stop: &dyn Fn() -> bool) -> Result<()> {
    let total = grid.blocks.iter().map(|&n| u64::from(n)).product::<u64>();
    let mut resident: VecDeque<Block> = VecDeque::new();
    let mut spare: Vec<Block> = Vec::new();
    let (mut next, mut spent) = (0, 0);
    loop {
        if next < total && (resident.is_empty() || spent > PATIENCE && resident.len() < RESIDENT) {
            let mut block = spare.pop().unwrap_or_else(|| Block::new(grid));
            block.reset(grid, next);
            resident.push_back(block);
            next += 1;
            spent = 0;
        }
        let Some(mut block) = resident.pop_front() else { return Ok(()) };
        let ended = {
            let memory = table::read_on(grid.device);
            block.turn(grid, &memory, printed, SLICE)?
        };
        if ended {
            spare.push(block);
            spent = 0;
        } else {
            resident.push_back(block);
            spent += SLICE;
            if stop() {
                return Ok(());
            }
        }
    }
}
