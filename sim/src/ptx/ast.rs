//! The syntax tree of a PTX text, with local names already resolved to registers and frame offsets.

use std::collections::HashMap;

use super::types::{Space, Type};

#[derive(Default, Debug)]
pub(super) struct Unit {
    pub variables: Vec<Variable>,
    pub functions: Vec<Function>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Linkage {
    Private,
    Visible,
    Weak,
    Extern,
}

/// A variable of the .global, .const or .shared space.
#[derive(Debug)]
pub(super) struct Variable {
    pub name: String,
    pub space: Space,
    pub align: usize,
    /// Bytes; 0 for the `extern .shared x[]` form, whose size the launch gives.
    pub size: usize,
    pub linkage: Linkage,
    pub managed: bool,
    pub bytes: Vec<u8>,
    pub relocations: Vec<Relocation>,
}

/// A symbol's address stored in an initialiser.
#[derive(Debug)]
pub(super) struct Relocation {
    pub at: usize,
    pub symbol: String,
    pub addend: i64,
}

#[derive(Debug)]
pub(super) struct Formal {
    pub size: usize,
    /// Within the frame, from its start.
    pub offset: usize,
    /// Set for the old `.reg` form.
    pub register: Option<u32>,
}

#[derive(Debug)]
pub(super) struct Function {
    pub name: String,
    pub line: u32,
    pub kernel: bool,
    pub linkage: Linkage,
    pub returns: Vec<Formal>,
    pub formals: Vec<Formal>,
    /// From .maxntid or .reqntid: threads a block.
    pub max_threads: Option<u32>,
    /// From .reqnctapercluster: blocks a cluster.
    pub clusters: Option<u32>,
    pub body: Option<Body>,
}

#[derive(Debug, Default)]
pub(super) struct Body {
    pub registers: u32,
    /// Bytes of parameters and local variables.
    pub frame: usize,
    /// Bytes of .local variables in the frame.
    pub local: usize,
    /// The strictest alignment of a variable in the frame.
    pub align: usize,
    pub statements: Vec<Statement>,
    pub labels: HashMap<String, usize>,
    /// Lists of labels for brx.idx.
    pub tables: HashMap<String, Vec<String>>,
}

#[derive(Debug)]
pub(super) struct Statement {
    pub line: u32,
    /// The predicate register, and whether it is negated.
    pub guard: Option<(u32, bool)>,
    pub opcode: String,
    pub operands: Vec<Operand>,
    /// The operands are written in a way that is not read.
    pub refused: bool,
}

#[derive(Clone, Debug)]
pub(super) enum Operand {
    Register(u32),
    /// `!%p`
    Negated(u32),
    Integer(u64),
    Single(u32),
    Double(u64),
    /// A name of the unit, a label, or a special register.
    Symbol(String, i64),
    /// The address of a parameter or local variable: frame offset.
    Frame(usize),
    /// `[base + offset]`
    Address(Box<Operand>, i64),
    /// `[texture, {coordinates}]`
    Texture(Box<Operand>, Vec<Operand>),
    /// `{a, b}`
    Vector(Vec<Operand>),
    /// `(a, b)`
    List(Vec<Operand>),
    /// `%p|%q`
    Pair(Box<Operand>, Box<Operand>),
    /// `_`
    Sink,
}

/// A declared type with its number of elements.
#[derive(Clone, Copy, Debug)]
pub(super) struct Declared {
    pub ty: Type,
    pub align: usize,
    pub count: usize,
}
