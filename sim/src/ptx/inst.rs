//! Decoded instructions.

pub(super) use super::operator::{
    Alu, Atomic, Carry, Compare, Condition, Conversion, Float, Join, Mode, Permutation, Rounding, Warp,
};
pub(super) use super::special::Special;
use super::types::{Space, Type};

#[derive(Clone, Copy, Debug)]
pub(super) enum Value {
    Register(u32),
    /// The other truth value of a predicate register.
    Not(u32),
    Constant(u64),
    Special(Special),
    /// A shared variable by number, plus a displacement; its place depends on the kernel.
    Shared(u32, i32),
    /// An address in the current frame.
    Frame(u32),
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Address {
    pub space: Space,
    pub base: Value,
    pub offset: i64,
}

#[derive(Clone, Debug)]
pub(super) enum Target {
    Function(u32),
    Pointer(Value),
    /// vprintf
    Print,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Argument {
    /// The frame offset; the callee knows the size.
    Frame(u32),
    Value(Value),
}

#[derive(Clone, Debug)]
pub(super) enum Op {
    Alu {
        f: Alu,
        ty: Type,
        d: u32,
        a: Value,
        b: Value,
        c: Value,
    },
    /// To nearest, without any modifier.
    Float {
        f: Float,
        ty: Type,
        d: u32,
        a: Value,
        b: Value,
        c: Value,
    },
    ModalFloat {
        f: Float,
        ty: Type,
        mode: Mode,
        d: u32,
        a: Value,
        b: Value,
        c: Value,
    },
    InsertBits {
        ty: Type,
        d: u32,
        a: Value,
        b: Value,
        at: Value,
        length: Value,
    },
    Carry {
        f: Carry,
        ty: Type,
        carry_in: bool,
        carry_out: bool,
        d: u32,
        a: Value,
        b: Value,
        c: Value,
    },
    Compare {
        condition: Condition,
        d: Option<u32>,
        other: Option<u32>,
        a: Value,
        b: Value,
        with: Value,
    },
    /// set: a number instead of a predicate.
    Set {
        condition: Condition,
        result: Type,
        d: u32,
        a: Value,
        b: Value,
        with: Value,
    },
    /// setp and set of two halves: each into a predicate, or, with `result`, into its half of a word.
    ComparePair {
        condition: Condition,
        element: Type,
        result: Option<Type>,
        d: Option<u32>,
        other: Option<u32>,
        a: Value,
        b: Value,
        with: Value,
    },
    Select {
        d: u32,
        a: Value,
        b: Value,
        by: Value,
    },
    Convert {
        how: Conversion,
        d: u32,
        a: Value,
    },
    /// Two numbers into the halves of a word, the first into the upper one.
    ConvertPair {
        how: Conversion,
        d: u32,
        a: Value,
        b: Value,
    },
    /// cvt.pack: the low bits of `c`, then `a`, then `b`, each of the last two saturated.
    ConvertPack {
        to: Type,
        d: u32,
        a: Value,
        b: Value,
        c: Value,
    },
    Pack {
        element: Type,
        d: u32,
        parts: Box<[Value]>,
    },
    /// 128 bits, by halves.
    MoveWide {
        d: Box<[Option<u32>]>,
        parts: Box<[Value]>,
    },
    Unpack {
        element: Type,
        d: Box<[Option<u32>]>,
        a: Value,
    },
    Load {
        ty: Type,
        d: Box<[Option<u32>]>,
        address: Address,
    },
    Store {
        ty: Type,
        values: Box<[Value]>,
        address: Address,
    },
    Atomic {
        f: Atomic,
        ty: Type,
        d: Option<u32>,
        address: Address,
        a: Value,
        b: Value,
    },
    ToGeneric {
        space: Space,
        d: u32,
        a: Value,
    },
    FromGeneric {
        space: Space,
        d: u32,
        a: Value,
    },
    IsSpace {
        space: Space,
        d: u32,
        a: Value,
    },
    Branch {
        to: u32,
    },
    BranchTable {
        to: Box<[u32]>,
        index: Value,
    },
    Call {
        target: Target,
        results: Box<[Argument]>,
        arguments: Box<[Argument]>,
    },
    Return,
    Exit,
    Trap,
    Barrier {
        id: Value,
        threads: Value,
        waits: bool,
    },
    /// A barrier of a cluster, by its text: of a cluster of one block nobody waits for another.
    ClusterBarrier(Box<str>),
    BarrierReduce {
        id: Value,
        threads: Value,
        f: Warp,
        d: u32,
        a: Value,
    },
    Warp {
        f: Warp,
        d: Option<u32>,
        flag: Option<u32>,
        a: Value,
        b: Value,
        clamp: Value,
        mask: Value,
    },
    ActiveMask {
        d: u32,
    },
    Texture {
        dimensions: u8,
        ty: Type,
        coordinate: Type,
        d: Box<[Option<u32>]>,
        object: Value,
        at: Box<[Value]>,
    },
    Nothing,
    /// An operation that is not simulated, as its text has it, with its line.
    Refused(Box<str>),
}

#[derive(Clone, Debug)]
pub(super) struct Instruction {
    pub guard: Option<(u32, bool)>,
    pub op: Op,
}
