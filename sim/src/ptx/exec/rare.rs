//! Rare instructions.

use super::space::Env;
use super::step::is_space;
use super::thread::{Offer, State, Thread};
use super::{Fault, Result};
use crate::ptx::alu::{compare, flag_value, join};
use crate::ptx::convert::{self, convert};
use crate::ptx::float::wide;
use crate::ptx::inst::{Condition, Op};

impl Thread {
    pub(super) fn rare(&mut self, env: &mut Env<'_>, op: &Op) -> Result<()> {
        match *op {
            Op::IsSpace { space, d, a } => {
                let a = self.value(env, a);
                self.set(d, u64::from(is_space(space, a)));
            }
            Op::Barrier { id, threads, waits } => {
                let (id, threads) = (self.value(env, id) as u32, self.value(env, threads) as u32);
                if waits {
                    self.state = State::Barrier { id, threads };
                } else if let Some(arrived) = env.arrived.get_mut(id as usize) {
                    *arrived += 1;
                }
            }
            Op::BarrierReduce { id, threads, f, d, a } => {
                let (id, threads) = (self.value(env, id) as u32, self.value(env, threads) as u32);
                let a = self.value(env, a) & 1;
                self.offer = Some(Offer { f, d: Some(d), flag: None, a, b: 0, clamp: 0, mask: 0 });
                self.state = State::Barrier { id, threads };
            }
            Op::Warp { f, d, flag, a, b, clamp, mask } => self.offer(env, f, [d, flag], [a, b, clamp, mask]),
            // The lanes known to run together: this one alone is always a right answer.
            Op::ActiveMask { d } => self.set(d, 1 << (self.linear % 32)),
            Op::Texture { dimensions, ty, coordinate, ref d, object, ref at } => {
                let object = self.value(env, object);
                let mut point = [0.0; 3];
                for (axis, value) in point.iter_mut().zip(at.iter().take(usize::from(dimensions))) {
                    let bits = self.value(env, *value);
                    *axis = if coordinate.float() { wide(coordinate, bits) } else { f64::from(bits as i32) + 0.5 };
                }
                let texel =
                    (env.grid.fetch)(env.memory, env.grid.context, object, point).ok_or(Fault::IllegalAddress)?;
                for (part, value) in d.iter().zip(texel) {
                    if let Some(part) = part {
                        self.set(*part, ty.truncate(value));
                    }
                }
            }
            Op::ClusterBarrier(_) if env.grid.cluster == [1; 3] => {}
            Op::Refused(ref what) | Op::ClusterBarrier(ref what) => {
                eprintln!("simulated driver: cannot execute {what}");
                return Err(Fault::NotSimulated);
            }
            _ => self.words(env, op)?,
        }
        Ok(())
    }

    /// Words made of parts, and taken apart.
    fn words(&mut self, env: &mut Env<'_>, op: &Op) -> Result<()> {
        match *op {
            Op::Pack { element, d, ref parts } => {
                let mut word = 0;
                for (i, part) in parts.iter().enumerate() {
                    word |= element.truncate(self.value(env, *part)) << (i * usize::from(element.bits));
                }
                self.set(d, word);
            }
            Op::MoveWide { ref d, ref parts } => {
                let halves: Vec<u64> = parts.iter().map(|part| self.value(env, *part)).collect();
                for (d, half) in d.iter().zip(halves) {
                    if let Some(d) = *d {
                        self.set(d, half);
                    }
                }
            }
            Op::Unpack { element, ref d, a } => {
                let word = self.value(env, a);
                for (i, part) in d.iter().enumerate() {
                    if let Some(part) = part {
                        self.set(*part, element.truncate(word >> (i * usize::from(element.bits))));
                    }
                }
            }
            Op::ConvertPair { how, d, a, b } => {
                let (high, low) = (convert(how, self.value(env, a)), convert(how, self.value(env, b)));
                self.set(d, high << 16 | low);
            }
            Op::ConvertPack { to, d, a, b, c } => {
                let [a, b, c] = [a, b, c].map(|v| self.value(env, v));
                self.set(d, convert::pack(to, a, b, c));
            }
            Op::ComparePair { condition, element, result, d, other, a, b, with } => {
                let (a, b) = (self.value(env, a), self.value(env, b));
                let with = self.value(env, with) & 1 == 1;
                let [low, high] = [0, 16].map(|at| {
                    let flag = compare(Condition { ty: element, ..condition }, a >> at & 0xffff, b >> at & 0xffff);
                    join(condition.join, flag, with)
                });
                match result {
                    None => {
                        if let Some(d) = d {
                            self.set(d, u64::from(low));
                        }
                        if let Some(other) = other {
                            self.set(other, u64::from(high));
                        }
                    }
                    Some(half) => {
                        let word = flag_value(half, high) << 16 | flag_value(half, low);
                        self.set(d.unwrap_or_default(), word);
                    }
                }
            }
            _ => return Err(Fault::Trap),
        }
        Ok(())
    }
}
