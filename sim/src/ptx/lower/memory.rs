//! Loads, stores, atomics, textures.

use super::Lower;
use crate::ptx::Result;
use crate::ptx::ast::Operand;
use crate::ptx::inst::{Address, Atomic, Op, Value};
use crate::ptx::types::{Kind, Space, Type};

impl Lower<'_> {
    pub(super) fn memory(&self) -> Result<Option<Op>> {
        Ok(Some(match self.root {
            "ld" | "ldu" => {
                let ty = self.ty()?;
                let d = match (ty.bits, self.operand(0)?) {
                    (128, Operand::Register(low)) => Box::new([Some(*low), Some(low + 1)]),
                    _ => self.registers(0)?,
                };
                Op::Load { ty: if ty.bits == 128 { Type::B64 } else { ty }, d, address: self.address(1, self.space())? }
            }
            "st" => {
                let ty = self.ty()?;
                let values = match self.operand(1)? {
                    Operand::Register(low) if ty.bits == 128 => {
                        Box::new([Value::Register(*low), Value::Register(low + 1)]) as Box<[Value]>
                    }
                    Operand::Vector(parts) => parts.iter().map(|part| self.read(part, ty)).collect::<Result<_>>()?,
                    one => Box::new([self.read(one, ty)?]) as Box<[Value]>,
                };
                Op::Store {
                    ty: if ty.bits == 128 { Type::B64 } else { ty },
                    values,
                    address: self.address(0, self.space())?,
                }
            }
            "atom" | "red" => self.atomic()?,
            "tex" => self.texture()?,
            "prefetch" | "prefetchu" | "discard" | "applypriority" | "createpolicy" => Op::Nothing,
            _ => return Ok(None),
        }))
    }

    fn registers(&self, index: usize) -> Result<Box<[Option<u32>]>> {
        match self.operand(index)? {
            Operand::Vector(parts) => parts.iter().map(|part| self.destination_or_sink(part)).collect(),
            one => Ok(Box::new([self.destination_or_sink(one)?])),
        }
    }

    fn address(&self, index: usize, space: Space) -> Result<Address> {
        match self.operand(index)? {
            Operand::Address(base, offset) => {
                let ty = if space == Space::Shared { Type::B32 } else { Type::B64 };
                let base = match &**base {
                    Operand::Integer(value) => Value::Constant(*value),
                    base => self.read(base, ty)?,
                };
                Ok(Address { space, base, offset: *offset })
            }
            _ => self.mismatch(),
        }
    }

    fn atomic(&self) -> Result<Op> {
        let ty = self.ty()?;
        let f = self.modifiers.iter().find_map(|m| {
            Some(match *m {
                "add" => Atomic::Add,
                "min" => Atomic::Min,
                "max" => Atomic::Max,
                "and" => Atomic::And,
                "or" => Atomic::Or,
                "xor" => Atomic::Xor,
                "exch" => Atomic::Exchange,
                "cas" => Atomic::CompareSwap,
                "inc" => Atomic::Increment,
                "dec" => Atomic::Decrement,
                _ => return None,
            })
        });
        let Some(f) = f else { return self.mismatch() };
        let first = usize::from(self.root == "atom");
        let d = if first == 1 { self.destination_or_sink(self.operand(0)?)? } else { None };
        let b = if f == Atomic::CompareSwap { self.value(first + 2, ty)? } else { Value::Constant(0) };
        Ok(Op::Atomic { f, ty, d, address: self.address(first, self.space())?, a: self.value(first + 1, ty)?, b })
    }

    fn texture(&self) -> Result<Op> {
        let dimensions = match self.modifiers.first().copied() {
            Some("1d") => 1,
            Some("2d") => 2,
            Some("3d") => 3,
            other => return self.error(format!("Unsupported texture geometry '.{}'", other.unwrap_or(""))),
        };
        let mut types = self.types();
        let (Some(ty), Some(coordinate)) = (types.next(), types.next()) else { return self.mismatch() };
        let Operand::Texture(object, at) = self.operand(1)? else { return self.mismatch() };
        let coordinate = if coordinate.float() { coordinate } else { Type::new(Kind::Signed, 32) };
        Ok(Op::Texture {
            dimensions,
            ty,
            coordinate,
            d: self.registers(0)?,
            object: self.read(object, Type::B64)?,
            at: at.iter().map(|c| self.read(c, coordinate)).collect::<Result<_>>()?,
        })
    }
}
