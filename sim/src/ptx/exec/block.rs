//! A block: its threads take turns, each to its next barrier.

use super::print::Fifo;
use super::space::Env;
use super::thread::{State, Thread};
use super::{Fault, Grid, Result, warp};
use crate::memory::table::{Ranges, Span};
use crate::ptx::inst::Warp;

/// Instructions a thread runs before the others get a turn: one may wait for another's store.
const TURN: u64 = 5_000;

pub(super) struct Block {
    index: [u32; 3],
    threads: Vec<Thread>,
    shared: Vec<u8>,
    /// By barrier: threads that came there without waiting.
    arrived: [u32; 16],
    /// The thread whose turn it is.
    next: usize,
    /// A thread has run since the threads were last all tried.
    progress: bool,
}

impl Block {
    pub(super) fn new(grid: &Grid) -> Self {
        let count = grid.threads.iter().product::<u32>();
        let threads = (0..count).map(|linear| Thread::new(linear, grid.threads)).collect();
        Self { index: [0; 3], threads, shared: Vec::new(), arrived: [0; 16], next: 0, progress: false }
    }

    /// Makes this the `linear`th block of the grid, at its start.
    pub(super) fn reset(&mut self, grid: &Grid, linear: u64) {
        let (x, y) = (u64::from(grid.blocks[0]), u64::from(grid.blocks[1]));
        self.index = [(linear % x) as u32, (linear / x % y) as u32, (linear / (x * y)) as u32];
        let kernel = &grid.program.kernels[grid.kernel];
        let code = &grid.program.code[kernel.entry as usize];
        for thread in &mut self.threads {
            thread.reset(kernel.entry, code.registers, code.frame, &grid.parameters);
        }
        self.shared.clear();
        self.shared.resize(kernel.static_shared.next_multiple_of(16) + grid.dynamic_shared as usize, 0);
        self.arrived = [0; 16];
        (self.next, self.progress) = (0, false);
    }

    /// Runs about `budget` instructions. True when all threads have ended.
    pub(super) fn turn(
        &mut self,
        grid: &Grid,
        memory: &Ranges<'_>,
        printed: &mut Fifo,
        mut budget: u64,
    ) -> Result<bool> {
        let mut env = Env {
            grid,
            program: &grid.program,
            kernel: &grid.program.kernels[grid.kernel],
            block: self.index,
            shared: &mut self.shared,
            arrived: &mut self.arrived,
            memory,
            last: Span::default(),
            shift: 0,
            printed,
        };
        let mut ended = false;
        while budget > 0 && !ended {
            let Some(thread) = self.threads.get_mut(self.next) else {
                self.next = 0;
                ended = self.threads.iter().all(|t| t.state == State::Done);
                if !ended && !std::mem::take(&mut self.progress) && !release(&mut self.threads, env.arrived) {
                    return Err(Fault::Trap);
                }
                continue;
            };
            self.next += 1;
            if thread.state == State::Running {
                let before = budget.min(TURN);
                let mut left = before;
                thread.run(&mut env, &mut left)?;
                budget -= before - left;
                self.progress |= thread.state == State::Running;
            }
        }
        Ok(ended)
    }
}

/// Lets threads go on that wait for a barrier or their warp. Called when none can run.
fn release(threads: &mut [Thread], arrived: &mut [u32; 16]) -> bool {
    let mut progress = false;
    for force in [false, true] {
        for warp in threads.chunks_mut(32) {
            progress |= warp::resolve(warp, force);
        }
        if progress {
            return true;
        }
        let alive = threads.iter().filter(|t| t.state != State::Done).count();
        for id in 0..16 {
            let at_barrier = |t: &Thread| matches!(t.state, State::Barrier { id: at, .. } if at == id);
            let waiting = threads.iter().filter(|t| at_barrier(t)).count();
            let asked = threads.iter().find(|t| at_barrier(t)).map_or(0, |t| match t.state {
                State::Barrier { threads, .. } => threads as usize,
                _ => 0,
            });
            let passed = arrived[id as usize] as usize;
            let needed = if asked == 0 || passed == 0 && asked > alive { alive } else { asked };
            if waiting > 0 && (waiting + passed >= needed || force) {
                // Whoever arrived beyond that counts for the barrier's next use.
                arrived[id as usize] = passed.saturating_sub(needed.saturating_sub(waiting)) as u32;
                pass(threads, at_barrier);
                progress = true;
            }
        }
        if progress {
            return true;
        }
    }
    false
}

fn pass(threads: &mut [Thread], at_barrier: impl Fn(&Thread) -> bool) {
    let votes = threads.iter().filter(|t| at_barrier(t)).filter_map(|t| t.offer.map(|o| o.a == 1));
    let (yes, all) = votes.fold((0u64, 0u64), |(yes, all), vote| (yes + u64::from(vote), all + 1));
    for thread in threads.iter_mut().filter(|t| at_barrier(t)) {
        if let Some(offer) = thread.offer.take()
            && let Some(d) = offer.d
        {
            let result = match offer.f {
                Warp::ReduceAdd => yes,
                Warp::All => u64::from(yes == all),
                _ => u64::from(yes > 0),
            };
            thread.set(d, result);
        }
        thread.state = State::Running;
    }
}
