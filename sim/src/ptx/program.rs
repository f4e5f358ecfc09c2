//! Linking of units: names are resolved, variables placed, functions decoded.

use std::collections::HashMap;

use super::ast::{Formal, Function, Linkage, Unit, Variable as Declaration};
use super::code;
use super::inst::{Instruction, Op, Target, Value};
use super::lower::{self, Symbol};
use super::types::Space;
use super::{Error, Result, parse};

/// A formal parameter of a kernel: bytes within the parameter buffer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parameter {
    pub offset: usize,
    pub size: usize,
}

#[derive(Clone, Debug)]
pub(crate) struct Variable {
    pub name: String,
    pub address: u64,
    pub size: usize,
    pub managed: bool,
}

#[derive(Debug)]
pub(super) struct Slot {
    pub offset: usize,
    pub size: usize,
    pub register: Option<u32>,
}

#[derive(Debug)]
pub(super) struct Code {
    pub instructions: Vec<Instruction>,
    pub registers: usize,
    pub frame: usize,
    /// What the frame's start is a multiple of.
    pub align: usize,
    pub formals: Vec<Slot>,
    pub returns: Vec<Slot>,
}

#[derive(Debug)]
pub(crate) struct Kernel {
    pub name: String,
    pub parameters: Vec<Parameter>,
    /// Bytes of the parameter buffer.
    pub parameter_bytes: usize,
    pub static_shared: usize,
    pub local: usize,
    pub registers: u32,
    pub max_threads: Option<u32>,
    pub(super) entry: u32,
    /// Offset of every shared variable that the kernel can reach, by number.
    pub(super) shared: Vec<u32>,
}

#[derive(Debug)]
pub(crate) struct Program {
    pub kernels: Vec<Kernel>,
    pub variables: Vec<Variable>,
    pub(super) code: Vec<Code>,
}

struct SharedVariable {
    size: usize,
    align: usize,
}

/// A program whose variables have no addresses yet.
pub(crate) struct Layout {
    units: Vec<Unit>,
    /// By unit and index in the unit: displacement in the block.
    places: HashMap<(usize, usize), usize>,
    pub size: usize,
}

impl Layout {
    /// Reads texts and checks that every name is defined once.
    pub(crate) fn new<'t>(texts: impl IntoIterator<Item = &'t str>) -> Result<Self> {
        let units = texts.into_iter().map(parse::parse).collect::<Result<Vec<_>>>()?;
        let mut layout = Layout { units, places: HashMap::new(), size: 0 };
        for (u, unit) in layout.units.iter().enumerate() {
            for (i, variable) in unit.variables.iter().enumerate() {
                let placed = matches!(variable.space, Space::Global | Space::Const);
                if placed && variable.linkage != Linkage::Extern {
                    let at = layout.size.next_multiple_of(variable.align.max(1));
                    layout.size = at + variable.size.max(1);
                    layout.places.insert((u, i), at);
                }
            }
        }
        layout.check_duplicates()?;
        Ok(layout)
    }

    fn check_duplicates(&self) -> Result<()> {
        let mut seen = HashMap::new();
        for unit in &self.units {
            let functions = unit.functions.iter().filter(|f| f.body.is_some()).map(|f| (&f.name, f.linkage));
            let variables = unit.variables.iter().filter(|v| v.space != Space::Shared).map(|v| (&v.name, v.linkage));
            for (name, linkage) in functions.chain(variables) {
                if linkage == Linkage::Visible && seen.insert(name, ()).is_some() {
                    return Err(Error::new(0, format!("Multiple definition of '{name}'")));
                }
            }
        }
        Ok(())
    }

    /// Whether some variable is to be the CPU's, too.
    pub(crate) fn managed(&self) -> bool {
        self.units.iter().any(|unit| unit.variables.iter().any(|variable| variable.managed))
    }

    /// The initial bytes of the block, for variables placed at `base`.
    pub(crate) fn image(&self, base: u64) -> Result<Vec<u8>> {
        let names = Names::new(self, base);
        let mut bytes = vec![0; self.size];
        for (&(u, i), &at) in &self.places {
            let variable = &self.units[u].variables[i];
            bytes[at..at + variable.bytes.len()].copy_from_slice(&variable.bytes);
            for relocation in &variable.relocations {
                let value = match names.find(u, &relocation.symbol) {
                    Some(Symbol::Global(address)) => address.wrapping_add_signed(relocation.addend),
                    Some(Symbol::Function(number)) => code::address(number),
                    _ => return Err(Error::new(0, format!("Unknown symbol '{}'", relocation.symbol))),
                };
                let at = at + relocation.at;
                bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
            }
        }
        Ok(bytes)
    }

    /// Decodes everything, for variables placed at `base`.
    pub(crate) fn program(&self, base: u64) -> Result<Program> {
        let names = Names::new(self, base);
        let mut code = Vec::new();
        for &(u, i) in &names.order {
            let function = &self.units[u].functions[i];
            code.push(decode(function, &|name| names.find(u, name))?);
        }
        let functions = names.order.iter().map(|&(u, i)| &self.units[u].functions[i]);
        let kernels = functions
            .enumerate()
            .filter(|(_, f)| f.kernel)
            .map(|(number, f)| kernel(f, number as u32, &code, &names.shared))
            .collect();
        let mut variables: Vec<_> = self
            .places
            .iter()
            .map(|(&(u, i), at)| {
                let Declaration { name, size, managed, .. } = &self.units[u].variables[i];
                Variable { name: name.clone(), address: base + *at as u64, size: *size, managed: *managed }
            })
            .collect();
        variables.sort_by_key(|v| v.address);
        Ok(Program { kernels, variables, code })
    }
}

/// Names of all units: each unit sees its own private ones first.
struct Names {
    private: Vec<HashMap<String, Symbol>>,
    public: HashMap<String, Symbol>,
    /// Unit and index of each numbered function.
    order: Vec<(usize, usize)>,
    shared: Vec<SharedVariable>,
}

impl Names {
    fn new(layout: &Layout, base: u64) -> Self {
        let mut names = Names { private: Vec::new(), public: HashMap::new(), order: Vec::new(), shared: Vec::new() };
        for (u, unit) in layout.units.iter().enumerate() {
            let mut own = HashMap::new();
            for (i, f) in unit.functions.iter().enumerate().filter(|(_, f)| f.body.is_some()) {
                let symbol = Symbol::Function(names.order.len() as u32);
                names.order.push((u, i));
                own.insert(f.name.clone(), symbol);
                if f.linkage != Linkage::Private {
                    names.public.entry(f.name.clone()).or_insert(symbol);
                }
            }
            for (i, v) in unit.variables.iter().enumerate() {
                let symbol = match (v.space, layout.places.get(&(u, i))) {
                    (_, Some(at)) => Symbol::Global(base + *at as u64),
                    (Space::Shared, None) => {
                        names.shared.push(SharedVariable { size: v.size, align: v.align });
                        Symbol::Shared(names.shared.len() as u32 - 1)
                    }
                    _ => continue,
                };
                own.insert(v.name.clone(), symbol);
                if v.linkage != Linkage::Private && v.space != Space::Shared {
                    names.public.entry(v.name.clone()).or_insert(symbol);
                }
            }
            names.private.push(own);
        }
        names
    }

    fn find(&self, unit: usize, name: &str) -> Option<Symbol> {
        let known = self.private[unit].get(name).or_else(|| self.public.get(name)).copied();
        known.or((name == "vprintf").then_some(Symbol::Print))
    }
}

fn slots(formals: &[Formal]) -> Vec<Slot> {
    formals.iter().map(|f| Slot { offset: f.offset, size: f.size, register: f.register }).collect()
}

fn decode(function: &Function, find: &dyn Fn(&str) -> Option<Symbol>) -> Result<Code> {
    let Some(body) = &function.body else {
        return Err(Error::new(function.line, format!("Unresolved extern function '{}'", function.name)));
    };
    let mut instructions = lower::body(body, find)?;
    if let (Some(blocks), Some(first)) = (function.clusters.filter(|blocks| *blocks > 1), instructions.first_mut()) {
        let what = format!(".reqnctapercluster of {blocks} blocks at line {}", function.line);
        *first = Instruction { guard: None, op: Op::Refused(what.into()) };
    }
    Ok(Code {
        instructions,
        registers: body.registers as usize,
        frame: body.frame,
        align: body.align.max(16),
        formals: slots(&function.formals),
        returns: slots(&function.returns),
    })
}

fn kernel(function: &Function, number: u32, code: &[Code], shared: &[SharedVariable]) -> Kernel {
    let parameters: Vec<_> = function.formals.iter().map(|f| Parameter { offset: f.offset, size: f.size }).collect();
    let parameter_bytes = parameters.last().map_or(0, |p| p.offset + p.size);
    let (places, static_shared) = place_shared(number, code, shared);
    let body = function.body.as_ref();
    Kernel {
        name: function.name.clone(),
        parameters,
        parameter_bytes,
        static_shared,
        local: body.map_or(0, |b| b.local),
        registers: body.map_or(0, |b| b.registers.clamp(8, 255)),
        max_threads: function.max_threads,
        entry: number,
        shared: places,
    }
}

/// Lays out the shared variables that a kernel reaches; those without a size begin where the others end.
fn place_shared(entry: u32, code: &[Code], shared: &[SharedVariable]) -> (Vec<u32>, usize) {
    let mut used = vec![false; shared.len()];
    let mut seen = vec![false; code.len()];
    let mut open = vec![entry];
    while let Some(number) = open.pop() {
        if std::mem::replace(&mut seen[number as usize], true) {
            continue;
        }
        for instruction in &code[number as usize].instructions {
            each_value(&instruction.op, &mut |value| match value {
                Value::Shared(index, _) => used[index as usize] = true,
                Value::Constant(c) => open.extend(code::number(c).filter(|number| (*number as usize) < code.len())),
                _ => {}
            });
            if let Op::Call { target: Target::Function(callee), .. } = instruction.op {
                open.push(callee);
            }
        }
    }
    let (mut places, mut size, mut dynamic_align) = (vec![0; shared.len()], 0usize, 1);
    for (index, variable) in shared.iter().enumerate().filter(|(index, _)| used[*index]) {
        if variable.size == 0 {
            dynamic_align = dynamic_align.max(variable.align);
        } else {
            let at = size.next_multiple_of(variable.align.max(1));
            places[index] = at as u32;
            size = at + variable.size;
        }
    }
    let end = size.next_multiple_of(dynamic_align);
    for (index, _) in shared.iter().enumerate().filter(|(index, v)| used[*index] && v.size == 0) {
        places[index] = end as u32;
    }
    (places, size)
}

/// Calls `see` with the operands of an instruction that can name a shared variable or a function.
fn each_value(op: &Op, see: &mut dyn FnMut(Value)) {
    match op {
        Op::Alu { a, b, c, .. } | Op::Carry { a, b, c, .. } | Op::ConvertPack { a, b, c, .. } => {
            [*a, *b, *c].into_iter().for_each(see)
        }
        Op::Select { a, b, .. } => [*a, *b].into_iter().for_each(see),
        Op::Load { address, .. } => see(address.base),
        Op::Store { address, values, .. } => values.iter().copied().chain([address.base]).for_each(see),
        Op::Atomic { address, a, b, .. } => [address.base, *a, *b].into_iter().for_each(see),
        Op::ToGeneric { a, .. } | Op::FromGeneric { a, .. } | Op::Convert { a, .. } => see(*a),
        Op::Pack { parts, .. } => parts.iter().copied().for_each(see),
        Op::Call { arguments, .. } => {
            for argument in arguments {
                if let super::inst::Argument::Value(value) = argument {
                    see(*value);
                }
            }
        }
        _ => {}
    }
}
