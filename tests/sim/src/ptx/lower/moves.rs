//! Moves, selections and conversions.

use super::Lower;
use crate::ptx::Result;
use crate::ptx::ast::Operand;
use crate::ptx::inst::{Alu, Op, Rounding, Value};
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
        if matches!(to.kind, Kind::HalfPair | Kind::BrainPair) {
            return Ok(Op::ConvertPair { to, d, a: self.value(1, from)?, b: self.value(2, from)? });
        }
        let rounding = self.modifiers.iter().find_map(|m| {
            Some(match *m {
                "rn" | "rna" => Rounding::Nearest,
                "rz" => Rounding::Zero,
                "rm" => Rounding::Down,
                "rp" => Rounding::Up,
                "rni" => Rounding::IntegerNearest,
                "rzi" => Rounding::IntegerZero,
                "rmi" => Rounding::IntegerDown,
                "rpi" => Rounding::IntegerUp,
                _ => return None,
            })
        });
        let rounding = rounding.unwrap_or(Rounding::None);
        Ok(Op::Convert { to, from, rounding, saturate: self.has("sat"), d, a: self.value(1, from)? })
    }
}
