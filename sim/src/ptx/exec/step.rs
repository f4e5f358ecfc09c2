//! Execution of one instruction after another.

use super::atomic;
use super::space::{Env, Place, SHARED_WINDOW};
use super::thread::{Offer, State, Thread, local_address};
use super::{Fault, Result};
use crate::ptx::alu::{alu, carry, compare, flag_value, insert_bits, join};
use crate::ptx::convert::convert;
use crate::ptx::float::{float, modal};
use crate::ptx::inst::{Address, Carry, Op, Value, Warp};
use crate::ptx::types::{Space, Type};

impl Thread {
    /// Runs until the thread waits or ends, or the budget is used up.
    pub(super) fn run(&mut self, env: &mut Env<'_>, budget: &mut u64) -> Result<()> {
        let program = env.program;
        while self.state == State::Running && *budget > 0 {
            *budget -= 1;
            let code = &program.code[self.frame.code as usize];
            let Some(instruction) = code.instructions.get(self.frame.pc as usize) else {
                self.ret(env);
                continue;
            };
            self.frame.pc += 1;
            if let Some((guard, negated)) = instruction.guard
                && (self.get(guard) & 1 == 1) == negated
            {
                continue;
            }
            self.step(env, &instruction.op)?;
        }
        Ok(())
    }

    fn step(&mut self, env: &mut Env<'_>, op: &Op) -> Result<()> {
        match *op {
            Op::Alu { f, ty, d, a, b, c } => {
                let result = alu(f, ty, self.value(env, a), self.value(env, b), self.value(env, c));
                self.set(d, result);
            }
            Op::Float { f, ty, d, a, b, c } => {
                let result = float(f, ty, self.value(env, a), self.value(env, b), self.value(env, c));
                self.set(d, result);
            }
            Op::ModalFloat { f, ty, mode, d, a, b, c } => {
                let result = modal(f, ty, mode, self.value(env, a), self.value(env, b), self.value(env, c));
                self.set(d, result);
            }
            Op::Load { ty, ref d, address } => self.load_all(env, ty, d, address)?,
            Op::Store { ty, ref values, address } => self.store_all(env, ty, values, address)?,
            Op::Branch { to } => self.frame.pc = to,
            Op::Compare { condition, d, other, a, b, with } => {
                let flag = compare(condition, self.value(env, a), self.value(env, b));
                let with = self.value(env, with) & 1 == 1;
                if let Some(d) = d {
                    self.set(d, u64::from(join(condition.join, flag, with)));
                }
                if let Some(other) = other {
                    self.set(other, u64::from(join(condition.join, !flag, with)));
                }
            }
            Op::Set { condition, result, d, a, b, with } => {
                let flag = compare(condition, self.value(env, a), self.value(env, b));
                let flag = join(condition.join, flag, self.value(env, with) & 1 == 1);
                self.set(d, flag_value(result, flag));
            }
            Op::Select { d, a, b, by } => {
                let chosen = if self.value(env, by) & 1 == 1 { a } else { b };
                self.set(d, self.value(env, chosen));
            }
            Op::Convert { how, d, a } => self.set(d, convert(how, self.value(env, a))),
            Op::InsertBits { ty, d, a, b, at, length } => {
                let [a, b, at, length] = [a, b, at, length].map(|v| self.value(env, v));
                self.set(d, insert_bits(ty, a, b, at, length));
            }
            Op::Carry { f, ty, carry_in, carry_out, d, a, b, c } => {
                let operands = [a, b, c].map(|v| self.value(env, v));
                let (result, flag) = carry(f, ty, if carry_in { self.carry } else { f == Carry::Sub }, operands);
                self.carry = if carry_out { flag } else { self.carry };
                self.set(d, result);
            }
            Op::ToGeneric { space, d, a } => {
                let a = self.value(env, a);
                self.set(d, to_generic(space, a));
            }
            Op::FromGeneric { space, d, a } => {
                let a = self.value(env, a);
                let inner =
                    if matches!(space, Space::Shared | Space::Local | Space::Param) { a & 0xffff_ffff_ffff } else { a };
                self.set(d, inner);
            }
            Op::Atomic { f, ty, d, address, a, b } => {
                let (a, b) = (self.value(env, a), self.value(env, b));
                let place = self.resolve(env, address, ty.size(), true)?;
                let before = atomic::update(self, env, place, f, ty, a, b);
                if let Some(d) = d {
                    self.set(d, before);
                }
            }
            Op::Call { ref target, ref results, ref arguments } => self.call(env, target, arguments, results)?,
            Op::Return => self.ret(env),
            Op::Exit => self.state = State::Done,
            Op::Trap => return Err(Fault::Trap),
            Op::BranchTable { ref to, index } => {
                let index = self.value(env, index) as u32 as usize;
                self.frame.pc = *to.get(index).ok_or(Fault::InvalidPc)?;
            }
            Op::Nothing => {}
            _ => self.rare(env, op)?,
        }
        Ok(())
    }

    pub(super) fn offer(&mut self, env: &Env<'_>, f: Warp, [d, flag]: [Option<u32>; 2], operands: [Value; 4]) {
        let [a, b, clamp, mask] = operands.map(|v| self.value(env, v));
        self.offer = Some(Offer { f, d, flag, a, b: b as u32, clamp: clamp as u32, mask: mask as u32 });
        self.state = State::Warp;
    }

    fn resolve(&self, env: &mut Env<'_>, address: Address, size: usize, write: bool) -> Result<Place> {
        let at = self.value(env, address.base).wrapping_add_signed(address.offset);
        self.place(env, address.space, at, size, write)
    }

    fn load_all(&mut self, env: &mut Env<'_>, ty: Type, d: &[Option<u32>], address: Address) -> Result<()> {
        let size = ty.size();
        let place = self.resolve(env, address, size * d.len(), false)?;
        for (i, register) in d.iter().enumerate() {
            if let Some(register) = register {
                let value = self.load(env, place.advance(i * size), size);
                self.set(*register, ty.extend(value) as u64);
            }
        }
        Ok(())
    }

    fn store_all(&mut self, env: &mut Env<'_>, ty: Type, values: &[Value], address: Address) -> Result<()> {
        let size = ty.size();
        let place = self.resolve(env, address, size * values.len(), true)?;
        for (i, value) in values.iter().enumerate() {
            let value = self.value(env, *value);
            self.store(env, place.advance(i * size), size, value);
        }
        Ok(())
    }
}

fn to_generic(space: Space, inner: u64) -> u64 {
    match space {
        Space::Shared => SHARED_WINDOW | inner & 0xffff_ffff,
        Space::Local | Space::Param => local_address(inner),
        Space::Generic | Space::Global | Space::Const => inner,
    }
}

pub(super) fn is_space(space: Space, address: u64) -> bool {
    let window = address & 0xFFFF_0000_0000_0000;
    match space {
        Space::Shared => window == SHARED_WINDOW,
        Space::Local | Space::Param => window == local_address(0),
        Space::Generic => true,
        Space::Global | Space::Const => window != SHARED_WINDOW && window != local_address(0),
    }
}
