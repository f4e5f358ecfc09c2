//! Branches, calls, barriers, exchanges within a warp.

use super::{Lower, Symbol};
use crate::ptx::Result;
use crate::ptx::ast::Operand;
use crate::ptx::inst::{Argument, Op, Target, Value, Warp};
use crate::ptx::types::Type;

const NONE: Value = Value::Constant(0);

impl Lower<'_> {
    pub(super) fn control(&self) -> Result<Option<Op>> {
        Ok(Some(match self.root {
            "bra" => match self.operand(0)? {
                Operand::Symbol(label, _) => Op::Branch { to: self.label(label)? },
                _ => return self.mismatch(),
            },
            "brx" => self.branch_table()?,
            "call" => self.call()?,
            "ret" => Op::Return,
            "exit" => Op::Exit,
            "trap" => Op::Trap,
            "bar" | "barrier" if self.modifiers.first() == Some(&"warp") => Op::Warp {
                f: Warp::Sync,
                d: None,
                flag: None,
                a: NONE,
                b: NONE,
                clamp: NONE,
                mask: self.value(0, Type::U32)?,
            },
            "bar" | "barrier" if self.has("cluster") => Op::ClusterBarrier(self.text()),
            "bar" | "barrier" if self.has("red") => self.barrier_reduce()?,
            "bar" | "barrier" => {
                let threads = if self.count() > 1 { self.value(1, Type::U32)? } else { NONE };
                Op::Barrier { id: self.value(0, Type::U32)?, threads, waits: !self.has("arrive") }
            }
            "shfl" => self.shuffle()?,
            "vote" => self.vote()?,
            "match" => {
                let ty = self.ty()?;
                self.warp(if self.has("all") { Warp::MatchAll(ty) } else { Warp::MatchAny(ty) }, ty)?
            }
            "redux" => self.redux()?,
            "activemask" => Op::ActiveMask { d: self.destination(0)? },
            "membar" | "fence" | "nanosleep" | "brkpt" | "pmevent" | "griddepcontrol" | "setmaxnreg" => Op::Nothing,
            _ => return Ok(None),
        }))
    }

    fn label(&self, name: &str) -> Result<u32> {
        match self.body.labels.get(name) {
            Some(at) => Ok(*at as u32),
            None => self.error(format!("Unknown symbol '{name}'")),
        }
    }

    fn branch_table(&self) -> Result<Op> {
        let Operand::Symbol(table, _) = self.operand(1)? else { return self.mismatch() };
        let Some(labels) = self.body.tables.get(table) else {
            return self.error(format!("Unknown symbol '{table}'"));
        };
        let to = labels.iter().map(|label| self.label(label)).collect::<Result<_>>()?;
        Ok(Op::BranchTable { to, index: self.value(0, Type::U32)? })
    }

    /// `call (results), function, (arguments)`, each list possibly absent; an indirect call names a prototype
    /// last.
    fn call(&self) -> Result<Op> {
        let mut operands = self.statement.operands.iter().peekable();
        let list = |all: &mut std::iter::Peekable<std::slice::Iter<'_, Operand>>| match all.peek() {
            Some(Operand::List(list)) => {
                let list = list.iter().map(|o| self.argument(o)).collect::<Result<Box<[_]>>>();
                all.next();
                list
            }
            _ => Ok(Box::default()),
        };
        let results = list(&mut operands)?;
        let target = match operands.next() {
            Some(Operand::Symbol(name, _)) => match (self.find)(name) {
                Some(Symbol::Function(number)) => Target::Function(number),
                Some(Symbol::Print) => Target::Print,
                _ => return self.error(format!("Unresolved extern function '{name}'")),
            },
            Some(register @ Operand::Register(_)) => Target::Pointer(self.read(register, Type::B64)?),
            _ => return self.mismatch(),
        };
        let arguments = list(&mut operands)?;
        Ok(Op::Call { target, results, arguments })
    }

    fn argument(&self, operand: &Operand) -> Result<Argument> {
        Ok(match operand {
            Operand::Frame(at) => Argument::Frame(*at as u32),
            other => Argument::Value(self.read(other, Type::B64)?),
        })
    }

    fn barrier_reduce(&self) -> Result<Op> {
        let f = match () {
            () if self.has("popc") => Warp::ReduceAdd,
            () if self.has("and") => Warp::All,
            () => Warp::Any,
        };
        let last = self.count() - 1;
        let threads = if last > 2 { self.value(2, Type::U32)? } else { NONE };
        let (id, d) = (self.value(1, Type::U32)?, self.destination(0)?);
        Ok(Op::BarrierReduce { id, threads, f, d, a: self.value(last, Type::PRED)? })
    }

    fn shuffle(&self) -> Result<Op> {
        let f = match () {
            () if self.has("up") => Warp::Up,
            () if self.has("down") => Warp::Down,
            () if self.has("bfly") => Warp::Butterfly,
            () => Warp::Index,
        };
        let (d, flag) = match self.operand(0)? {
            Operand::Pair(d, flag) => (self.destination_or_sink(d)?, self.destination_or_sink(flag)?),
            one => (self.destination_or_sink(one)?, None),
        };
        let mask = if self.has("sync") { self.value(4, Type::U32)? } else { Value::Constant(u64::from(u32::MAX)) };
        let (a, b) = (self.value(1, Type::B32)?, self.value(2, Type::U32)?);
        Ok(Op::Warp { f, d, flag, a, b, clamp: self.value(3, Type::U32)?, mask })
    }

    fn vote(&self) -> Result<Op> {
        let f = match () {
            () if self.has("all") => Warp::All,
            () if self.has("any") => Warp::Any,
            () if self.has("uni") => Warp::Uniform,
            () => Warp::Ballot,
        };
        self.warp(f, Type::PRED)
    }

    fn redux(&self) -> Result<Op> {
        let f = self.modifiers.iter().find_map(|m| {
            Some(match *m {
                "add" => Warp::ReduceAdd,
                "min" => Warp::ReduceMin,
                "max" => Warp::ReduceMax,
                "and" => Warp::ReduceAnd,
                "or" => Warp::ReduceOr,
                "xor" => Warp::ReduceXor,
                _ => return None,
            })
        });
        let Some(f) = f else { return self.mismatch() };
        let ty = self.ty()?;
        // The signed comparison is told by the clamp operand, which reductions do not have.
        match self.warp(f, ty)? {
            Op::Warp { f, d, flag, a, b, mask, .. } => {
                Ok(Op::Warp { f, d, flag, a, b, clamp: Value::Constant(u64::from(ty.signed())), mask })
            }
            op => Ok(op),
        }
    }

    fn warp(&self, f: Warp, ty: Type) -> Result<Op> {
        let (d, flag) = match self.operand(0)? {
            Operand::Pair(d, flag) => (self.destination_or_sink(d)?, self.destination_or_sink(flag)?),
            one => (self.destination_or_sink(one)?, None),
        };
        let mask = if self.count() > 2 { self.value(2, Type::U32)? } else { Value::Constant(u64::from(u32::MAX)) };
        Ok(Op::Warp { f, d, flag, a: self.value(1, ty)?, b: NONE, clamp: NONE, mask })
    }
}
