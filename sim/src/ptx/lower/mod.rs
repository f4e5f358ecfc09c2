//! Lowering of statements to instructions: this folder decodes every opcode that the interpreter knows.

mod arithmetic;
mod control;
mod memory;
mod modifiers;
mod moves;

use super::ast::{Body, Operand, Statement};
use super::code;
use super::inst::{Instruction, Op, Special, Value};
use super::types::{Space, Type};
use super::{Error, Result};

/// The meaning of a name in the unit.
#[derive(Clone, Copy, Debug)]
pub(super) enum Symbol {
    /// A variable of the global or const space, at its address.
    Global(u64),
    Shared(u32),
    Function(u32),
    Print,
}

pub(super) fn body(body: &Body, find: &dyn Fn(&str) -> Option<Symbol>) -> Result<Vec<Instruction>> {
    body.statements
        .iter()
        .map(|statement| {
            let lower = Lower::new(statement, body, find);
            Ok(Instruction { guard: statement.guard, op: lower.op()? })
        })
        .collect()
}

struct Lower<'a> {
    statement: &'a Statement,
    root: &'a str,
    modifiers: Vec<&'a str>,
    body: &'a Body,
    find: &'a dyn Fn(&str) -> Option<Symbol>,
}

impl<'a> Lower<'a> {
    fn new(statement: &'a Statement, body: &'a Body, find: &'a dyn Fn(&str) -> Option<Symbol>) -> Self {
        let mut parts = statement.opcode.split('.');
        let root = parts.next().unwrap_or("");
        Self { statement, root, modifiers: parts.collect(), body, find }
    }

    fn op(&self) -> Result<Op> {
        if self.statement.refused || !modifiers::allowed(self.root, &self.modifiers) {
            return Ok(self.refusal());
        }
        for family in [Self::arithmetic, Self::moves, Self::memory, Self::control] {
            if let Some(op) = family(self)? {
                return Ok(op);
            }
        }
        Ok(self.refusal())
    }

    /// Fails the launch that reaches it; the rest of the module runs.
    fn refusal(&self) -> Op {
        Op::Refused(self.text())
    }

    /// The whole operation and where it stands.
    fn text(&self) -> Box<str> {
        format!("{} at line {}", self.statement.opcode, self.statement.line).into()
    }

    fn error<T>(&self, text: impl Into<String>) -> Result<T> {
        Err(Error::new(self.statement.line, text))
    }

    fn mismatch<T>(&self) -> Result<T> {
        self.error(format!("Arguments mismatch for instruction '{}'", self.statement.opcode))
    }

    fn has(&self, modifier: &str) -> bool {
        self.modifiers.contains(&modifier)
    }

    fn types(&self) -> impl Iterator<Item = Type> + '_ {
        self.modifiers.iter().filter_map(|m| Type::parse(m))
    }

    /// The instruction's (last named) type.
    fn ty(&self) -> Result<Type> {
        match self.types().last() {
            Some(ty) => Ok(ty),
            None => self.error(format!("Missing type for instruction '{}'", self.statement.opcode)),
        }
    }

    fn space(&self) -> Space {
        self.modifiers.iter().find_map(|m| Space::parse(m)).unwrap_or(Space::Generic)
    }

    fn operand(&self, index: usize) -> Result<&'a Operand> {
        match self.statement.operands.get(index) {
            Some(operand) => Ok(operand),
            None => self.mismatch(),
        }
    }

    fn count(&self) -> usize {
        self.statement.operands.len()
    }

    fn destination(&self, index: usize) -> Result<u32> {
        match self.operand(index)? {
            Operand::Register(register) => Ok(*register),
            _ => self.mismatch(),
        }
    }

    /// A register or `_`.
    fn destination_or_sink(&self, operand: &Operand) -> Result<Option<u32>> {
        match operand {
            Operand::Register(register) => Ok(Some(*register)),
            Operand::Sink => Ok(None),
            _ => self.mismatch(),
        }
    }

    fn value(&self, index: usize, ty: Type) -> Result<Value> {
        self.read(self.operand(index)?, ty)
    }

    fn read(&self, operand: &Operand, ty: Type) -> Result<Value> {
        Ok(match operand {
            Operand::Register(register) => Value::Register(*register),
            Operand::Negated(register) => Value::Not(*register),
            Operand::Integer(value) => Value::Constant(ty.truncate(*value)),
            Operand::Single(bits) => Value::Constant(match ty.bits {
                64 => f64::from(f32::from_bits(*bits)).to_bits(),
                _ => u64::from(*bits),
            }),
            Operand::Double(bits) => Value::Constant(match (ty.float(), ty.bits) {
                (true, 32) => u64::from((f64::from_bits(*bits) as f32).to_bits()),
                _ => *bits,
            }),
            Operand::Frame(at) => Value::Frame(*at as u32),
            Operand::Symbol(name, addend) => self.symbol(name, *addend)?,
            _ => return self.mismatch(),
        })
    }

    fn symbol(&self, name: &str, addend: i64) -> Result<Value> {
        if let Some(special) = Special::parse(name) {
            return Ok(Value::Special(special));
        }
        if name == "WARP_SZ" {
            return Ok(Value::Constant(32));
        }
        match (self.find)(name) {
            Some(Symbol::Global(address)) => Ok(Value::Constant(address.wrapping_add_signed(addend))),
            Some(Symbol::Shared(number)) => Ok(Value::Shared(number, addend as i32)),
            Some(Symbol::Function(number)) => Ok(Value::Constant(code::address(number))),
            Some(Symbol::Print) | None => self.error(format!("Unknown symbol '{name}'")),
        }
    }
}
