//! The state of one thread: registers, stack, frames.

use super::space::{Env, LOCAL_WINDOW};
use super::{Fault, Result};
use crate::ptx::code;
use crate::ptx::inst::{Argument, Op, Special, Target, Value, Warp};

const DEEPEST: usize = 10_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Running,
    Barrier { id: u32, threads: u32 },
    Warp,
    Done,
}

/// A value that a thread offers to the others of its warp or block while it waits for them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Offer {
    pub f: Warp,
    pub d: Option<u32>,
    pub flag: Option<u32>,
    pub a: u64,
    pub b: u32,
    pub clamp: u32,
    pub mask: u32,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Frame {
    pub code: u32,
    pub pc: u32,
    /// First register and first byte of the stack.
    pub registers: usize,
    pub stack: usize,
}

#[derive(Debug)]
pub(super) struct Thread {
    pub index: [u32; 3],
    /// Number in the block.
    pub linear: u32,
    pub state: State,
    pub offer: Option<Offer>,
    pub carry: bool,
    pub registers: Vec<u64>,
    pub stack: Vec<u8>,
    pub frame: Frame,
    callers: Vec<Frame>,
}

impl Thread {
    pub(super) fn new(linear: u32, block: [u32; 3]) -> Self {
        let index = [linear % block[0], linear / block[0] % block[1], linear / (block[0] * block[1])];
        Self {
            index,
            linear,
            state: State::Done,
            offer: None,
            carry: false,
            registers: Vec::new(),
            stack: Vec::new(),
            frame: Frame::default(),
            callers: Vec::new(),
        }
    }

    /// Back to the start of the kernel.
    pub(super) fn reset(&mut self, entry: u32, registers: usize, frame: usize, parameters: &[u8]) {
        self.state = State::Running;
        self.offer = None;
        self.carry = false;
        self.callers.clear();
        self.frame = Frame { code: entry, ..Frame::default() };
        self.registers.clear();
        self.registers.resize(registers, 0);
        self.stack.clear();
        self.stack.resize(frame, 0);
        let length = parameters.len().min(frame);
        self.stack[..length].copy_from_slice(&parameters[..length]);
    }

    pub(super) fn get(&self, register: u32) -> u64 {
        self.registers[self.frame.registers + register as usize]
    }

    pub(super) fn set(&mut self, register: u32, value: u64) {
        self.registers[self.frame.registers + register as usize] = value;
    }

    pub(super) fn value(&self, env: &Env<'_>, value: Value) -> u64 {
        match value {
            Value::Register(register) => self.get(register),
            Value::Constant(constant) => constant,
            Value::Not(register) => u64::from(self.get(register) & 1 == 0),
            Value::Special(special) => self.special(env, special),
            Value::Shared(number, add) => u64::from(env.kernel.shared[number as usize].wrapping_add_signed(add)),
            Value::Frame(offset) => self.frame.stack as u64 + u64::from(offset),
        }
    }

    fn special(&self, env: &Env<'_>, special: Special) -> u64 {
        let lane = self.linear % 32;
        u64::from(match special {
            Special::ThreadIndex(axis) => self.index[usize::from(axis)],
            Special::BlockSize(axis) => env.grid.threads[usize::from(axis)],
            Special::BlockIndex(axis) => env.block[usize::from(axis)],
            Special::GridSize(axis) => env.grid.blocks[usize::from(axis)],
            Special::ClusterIndex(axis) => env.block[usize::from(axis)] / env.grid.cluster[usize::from(axis)],
            Special::Clusters(axis) => env.grid.blocks[usize::from(axis)] / env.grid.cluster[usize::from(axis)],
            Special::BlockInCluster(axis) => env.block[usize::from(axis)] % env.grid.cluster[usize::from(axis)],
            Special::ClusterSize(axis) => env.grid.cluster[usize::from(axis)],
            Special::ClusterRank => {
                let [x, y, z] = [0, 1, 2].map(|axis| env.block[axis] % env.grid.cluster[axis]);
                (z * env.grid.cluster[1] + y) * env.grid.cluster[0] + x
            }
            Special::ClusterBlocks => env.grid.cluster.iter().product(),
            Special::Lane => lane,
            Special::Warp => self.linear / 32,
            Special::Warps => env.grid.threads.iter().product::<u32>().div_ceil(32),
            Special::LaneMaskEqual => 1 << lane,
            Special::LaneMaskLess => (1 << lane) - 1,
            Special::LaneMaskLessEqual => u32::MAX >> (31 - lane),
            Special::LaneMaskGreater => (u32::MAX << lane) & !(1 << lane),
            Special::LaneMaskGreaterEqual => u32::MAX << lane,
            Special::Clock | Special::Nanoseconds => return crate::base::state::nanoseconds(),
            Special::GridId => return env.grid.id,
            Special::Workspace(1) => (env.grid.workspace.address() >> 32) as u32,
            Special::Workspace(_) => env.grid.workspace.address() as u32,
            Special::DynamicShared => env.grid.dynamic_shared,
            Special::TotalShared => env.shared.len() as u32,
            Special::Zero => 0,
            Special::One => 1,
        })
    }

    /// Enters a function; `frame.pc` is already past the call.
    pub(super) fn call(
        &mut self,
        env: &mut Env<'_>,
        target: &Target,
        arguments: &[Argument],
        results: &[Argument],
    ) -> Result<()> {
        let number = match target {
            Target::Function(number) => *number,
            Target::Pointer(pointer) => code::number(self.value(env, *pointer)).ok_or(Fault::InvalidPc)?,
            Target::Print => return super::print::vprintf(self, env, arguments, results),
        };
        let callee = env.program.code.get(number as usize).ok_or(Fault::InvalidPc)?;
        if self.callers.len() >= DEEPEST {
            return Err(Fault::Stack);
        }
        let caller = self.frame;
        let frame = &env.program.code[caller.code as usize];
        let next = Frame {
            code: number,
            pc: 0,
            registers: caller.registers + frame.registers,
            stack: (caller.stack + frame.frame).next_multiple_of(callee.align),
        };
        self.registers.truncate(next.registers);
        self.registers.resize(next.registers + callee.registers, 0);
        self.stack.truncate(next.stack);
        self.stack.resize(next.stack + callee.frame, 0);
        for (argument, formal) in arguments.iter().zip(&callee.formals) {
            let to = next.stack + formal.offset;
            match (*argument, formal.register) {
                (Argument::Frame(from), None) => {
                    let from = caller.stack + from as usize;
                    self.stack.copy_within(from..from + formal.size, to);
                }
                (Argument::Frame(_), Some(_)) => return Err(Fault::InvalidPc),
                (Argument::Value(value), Some(register)) => {
                    self.registers[next.registers + register as usize] = self.value(env, value);
                }
                (Argument::Value(value), None) => {
                    let size = formal.size.min(8);
                    let bytes = self.value(env, value).to_le_bytes();
                    self.stack[to..to + size].copy_from_slice(&bytes[..size]);
                }
            }
        }
        self.callers.push(caller);
        self.frame = next;
        Ok(())
    }

    /// Leaves a function, or ends the thread.
    pub(super) fn ret(&mut self, env: &Env<'_>) {
        let Some(caller) = self.callers.pop() else {
            self.state = State::Done;
            return;
        };
        let callee = std::mem::replace(&mut self.frame, caller);
        let returns = &env.program.code[callee.code as usize].returns;
        let call = &env.program.code[caller.code as usize].instructions[caller.pc as usize - 1].op;
        let Op::Call { results, .. } = call else { return };
        for (result, slot) in results.iter().zip(returns) {
            let from = callee.stack + slot.offset;
            match (*result, slot.register) {
                (Argument::Frame(to), None) => {
                    self.stack.copy_within(from..from + slot.size, caller.stack + to as usize);
                }
                (Argument::Value(Value::Register(to)), Some(register)) => {
                    let value = self.registers[callee.registers + register as usize];
                    self.set(to, value);
                }
                _ => {}
            }
        }
    }
}

/// A stack offset as a generic address.
pub(super) fn local_address(offset: u64) -> u64 {
    LOCAL_WINDOW | offset
}
