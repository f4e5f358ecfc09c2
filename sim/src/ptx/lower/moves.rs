//! Moves, selections and conversions.

use super::Lower;
use crate::ptx::Result;
use crate::ptx::ast::Operand;
use crate::ptx::inst::{Alu, Conversion, Op, Rounding, Value};
use crate::ptx::types::{Kind, Type};

impl Lower<'_> {
    pub(super) fn moves(&self) -> Result<Option<Op>> {
        Ok(Some(match self.root {
            "mov" => self.mov()?,
            "selp" => {
                let ty = self.ty()?;
                Op::Select {
                    d: self.destination(0)?,
                    a: self.value(1, ty)?,
                    b: self.value(2, ty)?,
                    by: self.value(3, Type::PRED)?,
                }
            }
            "cvt" => self.cvt()?,
            "cvta" => {
                let (space, d, a) = (self.space(), self.destination(0)?, self.value(1, Type::B64)?);
                if self.has("to") { Op::FromGeneric { space, d, a } } else { Op::ToGeneric { space, d, a } }
            }
            "isspacep" => Op::IsSpace { space: self.space(), d: self.destination(0)?, a: self.value(1, Type::B64)? },
            _ => return Ok(None),
        }))
    }

    fn mov(&self) -> Result<Op> {
        let ty = self.ty()?;
        if ty.bits == 128 {
            return self.wide_mov();
        }
        match (self.operand(0)?, self.operand(1)?) {
            (Operand::Vector(parts), _) => {
                let element = Type::new(Kind::Bits, ty.bits / parts.len().max(1) as u8);
                let d = parts.iter().map(|part| self.destination_or_sink(part)).collect::<Result<_>>()?;
                Ok(Op::Unpack { element, d, a: self.value(1, ty)? })
            }
            (_, Operand::Vector(parts)) => {
                let element = Type::new(Kind::Bits, ty.bits / parts.len().max(1) as u8);
                let parts = parts.iter().map(|part| self.read(part, element)).collect::<Result<_>>()?;
                Ok(Op::Pack { element, d: self.destination(0)?, parts })
            }
            _ => {
                let zero = Value::Constant(0);
                Ok(Op::Alu { f: Alu::Copy, ty, d: self.destination(0)?, a: self.value(1, ty)?, b: zero, c: zero })
            }
        }
    }

    fn cvt(&self) -> Result<Op> {
        let mut types = self.types();
        let (Some(to), Some(from)) = (types.next(), types.next()) else { return self.mismatch() };
        let d = self.destination(0)?;
        if self.has("pack") {
            let c = if self.count() > 3 { self.value(3, Type::B32)? } else { Value::Constant(0) };
            return Ok(Op::ConvertPack { to, d, a: self.value(1, from)?, b: self.value(2, from)?, c });
        }
        let how = Conversion {
            to: to.element().unwrap_or(to),
            from,
            rounding: self.rounding().unwrap_or(Rounding::None),
            flush: self.has("ftz"),
            saturate: self.has("sat"),
            finite: self.has("satfinite"),
            relu: self.has("relu"),
        };
        if to.element().is_some() {
            return Ok(Op::ConvertPair { how, d, a: self.value(1, from)?, b: self.value(2, from)? });
        }
        Ok(Op::Convert { how, d, a: self.value(1, from)? })
    }

    pub(super) fn rounding(&self) -> Option<Rounding> {
        self.modifiers.iter().find_map(|m| {
            Some(match *m {
                "rn" => Rounding::Nearest,
                "rz" => Rounding::Zero,
                "rm" => Rounding::Down,
                "rp" => Rounding::Up,
                "rni" => Rounding::IntegerNearest,
                "rzi" => Rounding::IntegerZero,
                "rmi" => Rounding::IntegerDown,
                "rpi" => Rounding::IntegerUp,
                _ => return None,
            })
        })
    }

    /// A .b128 register is two: what is 128 bits wide moves by halves.
    fn wide_mov(&self) -> Result<Op> {
        let halves = |operand: &Operand| -> Result<Box<[Value]>> {
            match operand {
                Operand::Register(low) => Ok(Box::new([Value::Register(*low), Value::Register(low + 1)])),
                Operand::Vector(parts) if parts.len() == 2 => {
                    parts.iter().map(|part| self.read(part, Type::B64)).collect()
                }
                _ => self.mismatch(),
            }
        };
        let d: Box<[Option<u32>]> = match self.operand(0)? {
            Operand::Register(low) => Box::new([Some(*low), Some(low + 1)]),
            Operand::Vector(parts) if parts.len() == 2 => {
                parts.iter().map(|part| self.destination_or_sink(part)).collect::<Result<_>>()?
            }
            _ => return self.mismatch(),
        };
        Ok(Op::MoveWide { d, parts: halves(self.operand(1)?)? })
    }
}
