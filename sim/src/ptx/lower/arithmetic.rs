//! Integer, logic and floating point arithmetic, comparisons.

use super::Lower;
use crate::ptx::Result;
use crate::ptx::ast::Operand;
use crate::ptx::inst::{Alu, Carry, Compare, Condition, Float, Join, Mode, Op, Permutation, Rounding, Value};
use crate::ptx::types::{Kind, Type};

const NONE: Value = Value::Constant(0);

impl Lower<'_> {
    pub(super) fn arithmetic(&self) -> Result<Option<Op>> {
        let op = match self.root {
            "add" | "sub" if self.has("cc") => self.carry(if self.root == "add" { Carry::Add } else { Carry::Sub })?,
            "addc" => self.carry(Carry::Add)?,
            "subc" => self.carry(Carry::Sub)?,
            "mad" | "madc" if self.has("cc") || self.root == "madc" => {
                self.carry(if self.has("hi") { Carry::MadHigh } else { Carry::MadLow })?
            }
            "setp" => self.setp()?,
            "set" => self.set()?,
            "bfi" => {
                let ty = self.ty()?;
                Op::InsertBits {
                    ty,
                    d: self.destination(0)?,
                    a: self.value(1, ty)?,
                    b: self.value(2, ty)?,
                    at: self.value(3, Type::U32)?,
                    length: self.value(4, Type::U32)?,
                }
            }
            "lop3" => {
                let Operand::Integer(table) = self.operand(4)? else { return self.mismatch() };
                self.alu(Alu::Table(*table as u8), Type::B32, 3)?
            }
            "dp4a" => {
                let mut types = self.types();
                let (a, b) = (types.next(), types.next());
                let signed = |ty: Option<Type>| ty.is_some_and(Type::signed);
                self.alu(Alu::DotBytes { signed_a: signed(a), signed_b: signed(b) }, Type::B32, 3)?
            }
            "testp" => self.float_test()?,
            _ => return self.plain(),
        };
        Ok(Some(op))
    }

    fn plain(&self) -> Result<Option<Op>> {
        let Some(ty) = self.types().last() else { return Ok(None) };
        if let (true, Some((f, operands))) = (ty.float() && self.root != "slct", float(self.root)) {
            return self.float(f, operands, ty).map(Some);
        }
        let sat = self.has("sat");
        let wide = self.has("wide");
        let (f, operands) = match self.root {
            "add" if sat => (Alu::AddSaturate, 2),
            "add" => (Alu::Add, 2),
            "sub" if sat => (Alu::SubSaturate, 2),
            "sub" => (Alu::Sub, 2),
            "mul" if wide => (Alu::MulWide, 2),
            "mul" if self.has("hi") => (Alu::MulHigh, 2),
            "mul" => (Alu::MulLow, 2),
            "mul24" if self.has("hi") => (Alu::Mul24High, 2),
            "mul24" => (Alu::Mul24, 2),
            "mad" if wide => (Alu::MadWide, 3),
            "mad" if sat => (Alu::MadHighSaturate, 3),
            "mad" if self.has("hi") => (Alu::MadHigh, 3),
            "mad" => (Alu::MadLow, 3),
            "mad24" if sat => (Alu::Mad24HighSaturate, 3),
            "mad24" if self.has("hi") => (Alu::Mad24High, 3),
            "mad24" => (Alu::Mad24, 3),
            "sad" => (Alu::AbsDifference, 3),
            "div" => (Alu::Div, 2),
            "rem" => (Alu::Rem, 2),
            "min" if self.has("relu") => (Alu::MinRelu, 2),
            "min" => (Alu::Min, 2),
            "max" if self.has("relu") => (Alu::MaxRelu, 2),
            "max" => (Alu::Max, 2),
            "and" => (Alu::And, 2),
            "or" => (Alu::Or, 2),
            "xor" => (Alu::Xor, 2),
            "shl" => (Alu::ShiftLeft, 2),
            "shr" => (Alu::ShiftRight, 2),
            "neg" => (Alu::Neg, 1),
            "abs" => (Alu::Abs, 1),
            "not" => (Alu::Not, 1),
            "cnot" => (Alu::LogicalNot, 1),
            "popc" => (Alu::CountOnes, 1),
            "clz" => (Alu::LeadingZeros, 1),
            "brev" => (Alu::Reverse, 1),
            "bfind" if self.has("shiftamt") => (Alu::FindBitShift, 1),
            "bfind" => (Alu::FindBit, 1),
            "bfe" => (Alu::ExtractBits, 3),
            "prmt" => (Alu::Permute(self.permutation()), 3),
            "shf" if self.has("l") => (Alu::FunnelLeft { wrap: self.has("wrap") }, 3),
            "shf" => (Alu::FunnelRight { wrap: self.has("wrap") }, 3),
            "slct" => return self.select_sign().map(Some),
            _ => return Ok(None),
        };
        self.alu(f, ty, operands).map(Some)
    }

    fn alu(&self, f: Alu, ty: Type, operands: usize) -> Result<Op> {
        let wide = Type::new(ty.kind, ty.bits.saturating_mul(2));
        let read = |i: usize| match f {
            _ if i > operands => Ok(NONE),
            Alu::MadWide if i == 3 => self.value(i, wide),
            Alu::ShiftLeft | Alu::ShiftRight if i == 2 => self.value(i, Type::U32),
            Alu::ExtractBits if i > 1 => self.value(i, Type::U32),
            _ => self.value(i, ty),
        };
        if self.count() < operands + 1 {
            return self.mismatch();
        }
        Ok(Op::Alu { f, ty, d: self.destination(0)?, a: read(1)?, b: read(2)?, c: read(3)? })
    }

    fn float(&self, f: Float, operands: usize, last: Type) -> Result<Op> {
        let first = self.types().next().unwrap_or(last);
        let ty = if first == Type::F32 { first } else { last };
        let extreme = matches!(f, Float::Min | Float::Max);
        let mode = Mode {
            rounding: self.rounding().unwrap_or(Rounding::Nearest),
            flush: self.has("ftz"),
            saturate: self.has("sat"),
            nan: self.has("NaN"),
            absolute: self.has("abs"),
            sign_product: self.has("xorsign"),
            relu: self.has("relu"),
            three: extreme && self.count() > 3,
            approximate: self.has("approx") && matches!(self.root, "div" | "rcp"),
            narrow: (ty != last).then_some(last),
        };
        let operands = if mode.three { 3 } else { operands };
        if self.count() < operands + 1 {
            return self.mismatch();
        }
        let read = |i: usize| match mode.narrow {
            _ if i > operands => Ok(NONE),
            Some(narrow) if i < operands => self.value(i, narrow),
            _ => self.value(i, ty),
        };
        let (d, a, b, c) = (self.destination(0)?, read(1)?, read(2)?, read(3)?);
        Ok(match mode == Mode::PLAIN {
            true => Op::Float { f, ty, d, a, b, c },
            false => Op::ModalFloat { f, ty, mode, d, a, b, c },
        })
    }

    fn permutation(&self) -> Permutation {
        match self.modifiers.get(1).copied() {
            Some("f4e") => Permutation::Forward4,
            Some("b4e") => Permutation::Backward4,
            Some("rc8") => Permutation::Replicate8,
            Some("ecl") => Permutation::EdgeLeft,
            Some("ecr") => Permutation::EdgeRight,
            Some("rc16") => Permutation::Replicate16,
            _ => Permutation::Default,
        }
    }

    /// slct names the type of what is selected first, that of the selector last.
    fn select_sign(&self) -> Result<Op> {
        let mut types = self.types();
        let (Some(ty), Some(by)) = (types.next(), types.next()) else { return self.mismatch() };
        let f = Alu::SelectSign { single: by.float(), flush: self.has("ftz") };
        let (a, b, c) = (self.value(1, ty)?, self.value(2, ty)?, self.value(3, by)?);
        Ok(Op::Alu { f, ty, d: self.destination(0)?, a, b, c })
    }

    fn carry(&self, f: Carry) -> Result<Op> {
        let ty = self.ty()?;
        let third = matches!(f, Carry::MadLow | Carry::MadHigh);
        Ok(Op::Carry {
            f,
            ty,
            carry_in: self.root.ends_with('c'),
            carry_out: self.has("cc"),
            d: self.destination(0)?,
            a: self.value(1, ty)?,
            b: self.value(2, ty)?,
            c: if third { self.value(3, ty)? } else { NONE },
        })
    }

    fn condition(&self) -> Result<Condition> {
        let name = self.modifiers.first().copied().unwrap_or("");
        let ty = self.ty()?;
        let (name, unordered) = match name.strip_suffix('u') {
            Some(base) if matches!(base, "eq" | "ne" | "lt" | "le" | "gt" | "ge") => (base, true),
            _ => (name, false),
        };
        let compare = match name {
            "eq" => Compare::Equal,
            "ne" => Compare::NotEqual,
            "lt" | "lo" => Compare::Less,
            "le" | "ls" => Compare::LessEqual,
            "gt" | "hi" => Compare::Greater,
            "ge" | "hs" => Compare::GreaterEqual,
            "num" => Compare::Numbers,
            "nan" => Compare::Nan,
            _ => return self.error(format!("Unknown modifier '.{name}'")),
        };
        let join = self.modifiers.iter().find_map(|m| match *m {
            "and" => Some(Join::And),
            "or" => Some(Join::Or),
            "xor" => Some(Join::Xor),
            _ => None,
        });
        Ok(Condition { compare, unordered, ty, join, flush: self.has("ftz") && ty.bits != 64 && ty.float() })
    }

    fn setp(&self) -> Result<Op> {
        let condition = self.condition()?;
        let (d, other) = match self.operand(0)? {
            Operand::Pair(d, other) => (self.destination_or_sink(d)?, self.destination_or_sink(other)?),
            operand => (self.destination_or_sink(operand)?, None),
        };
        let with = if condition.join.is_some() { self.value(3, Type::PRED)? } else { NONE };
        let (a, b) = (self.value(1, condition.ty)?, self.value(2, condition.ty)?);
        if let Some(element) = condition.ty.element() {
            return Ok(Op::ComparePair { condition, element, result: None, d, other, a, b, with });
        }
        Ok(Op::Compare { condition, d, other, a, b, with })
    }

    fn set(&self) -> Result<Op> {
        let condition = self.condition()?;
        let Some(result) = self.types().next() else { return self.mismatch() };
        let with = if condition.join.is_some() { self.value(3, Type::PRED)? } else { NONE };
        let (a, b) = (self.value(1, condition.ty)?, self.value(2, condition.ty)?);
        if let Some(element) = condition.ty.element() {
            let half = result.element().unwrap_or(Type::new(Kind::Bits, 16));
            let (d, other) = (Some(self.destination(0)?), None);
            return Ok(Op::ComparePair { condition, element, result: Some(half), d, other, a, b, with });
        }
        Ok(Op::Set { condition, result, d: self.destination(0)?, a, b, with })
    }

    fn float_test(&self) -> Result<Op> {
        let ty = self.ty()?;
        let f = match self.modifiers.first().copied() {
            Some("finite") => Float::IsFinite,
            Some("infinite") => Float::IsInfinite,
            Some("notanumber") => Float::IsNan,
            other => return self.error(format!("Unknown modifier '.{}'", other.unwrap_or(""))),
        };
        let (d, a) = (self.destination(0)?, self.value(1, ty)?);
        Ok(Op::Float { f, ty, d, a, b: NONE, c: NONE })
    }
}

fn float(root: &str) -> Option<(Float, usize)> {
    Some(match root {
        "add" => (Float::Add, 2),
        "sub" => (Float::Sub, 2),
        "mul" => (Float::Mul, 2),
        "div" => (Float::Div, 2),
        "fma" | "mad" => (Float::Fma, 3),
        "min" => (Float::Min, 2),
        "max" => (Float::Max, 2),
        "neg" => (Float::Neg, 1),
        "abs" => (Float::Abs, 1),
        "sqrt" => (Float::Sqrt, 1),
        "rcp" => (Float::Reciprocal, 1),
        "rsqrt" => (Float::ReciprocalSqrt, 1),
        "sin" => (Float::Sine, 1),
        "cos" => (Float::Cosine, 1),
        "ex2" => (Float::Exp2, 1),
        "lg2" => (Float::Log2, 1),
        "tanh" => (Float::Tanh, 1),
        "copysign" => (Float::CopySign, 2),
        _ => return None,
    })
}
