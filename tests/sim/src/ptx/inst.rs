//! Decoded instructions.

pub use super::special::Special;
use super::types::{Space, Type};

#[derive(Clone, Copy, Debug)]
pub enum Value {
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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alu {
    Copy,
    Add,
    Sub,
    MulLow,
    MulHigh,
    MulWide,
    Mul24,
    Div,
    Rem,
    Min,
    Max,
    And,
    Or,
    Xor,
    ShiftLeft,
    ShiftRight,
    Neg,
    Abs,
    Not,
    LogicalNot,
    CountOnes,
    LeadingZeros,
    Reverse,
    FindBit,
    FindBitShift,
    MadLow,
    MadHigh,
    MadWide,
    Mad24,
    AbsDifference,
    ExtractBits,
    Permute,
    FunnelLeft { wrap: bool },
    FunnelRight { wrap: bool },
    Table(u8),
    DotBytes { signed_a: bool, signed_b: bool },
    SelectSign,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Float {
    Add,
    Sub,
    Mul,
    Div,
    Fma,
    Min,
    Max,
    Neg,
    Abs,
    Sqrt,
    Reciprocal,
    ReciprocalSqrt,
    Sine,
    Cosine,
    Exp2,
    Log2,
    Tanh,
    CopySign,
    IsFinite,
    IsInfinite,
    IsNan,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compare {
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    /// Both are numbers.
    Numbers,
    /// One is not a number.
    Nan,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Join {
    And,
    Or,
    Xor,
}

#[derive(Clone, Copy, Debug)]
pub struct Condition {
    pub compare: Compare,
    /// Also true where an operand is not a number.
    pub unordered: bool,
    pub ty: Type,
    pub join: Option<Join>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounding {
    Nearest,
    Zero,
    Down,
    Up,
    /// To an integral value of a floating type, as above.
    IntegerNearest,
    IntegerZero,
    IntegerDown,
    IntegerUp,
    None,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Atomic {
    Add,
    Min,
    Max,
    And,
    Or,
    Xor,
    Exchange,
    CompareSwap,
    Increment,
    Decrement,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carry {
    Add,
    Sub,
    MadLow,
    MadHigh,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Warp {
    Up,
    Down,
    Butterfly,
    Index,
    All,
    Any,
    Uniform,
    Ballot,
    MatchAny,
    MatchAll,
    Sync,
    ReduceAdd,
    ReduceMin,
    ReduceMax,
    ReduceAnd,
    ReduceOr,
    ReduceXor,
}

#[derive(Clone, Copy, Debug)]
pub struct Address {
    pub space: Space,
    pub base: Value,
    pub offset: i64,
}

#[derive(Clone, Debug)]
pub enum Target {
    Function(u32),
    Pointer(Value),
    /// vprintf
    Print,
}

#[derive(Clone, Copy, Debug)]
pub enum Argument {
    /// The frame offset; the callee knows the size.
    Frame(u32),
    Value(Value),
}

#[derive(Clone, Debug)]
pub enum Op {
    Alu {
        f: Alu,
        ty: Type,
        d: u32,
        a: Value,
        b: Value,
        c: Value,
    },
    Float {
        f: Float,
        ty: Type,
        saturate: bool,
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
    Select {
        d: u32,
        a: Value,
        b: Value,
        by: Value,
    },
    Convert {
        to: Type,
        from: Type,
        rounding: Rounding,
        saturate: bool,
        d: u32,
        a: Value,
    },
    ConvertPair {
        to: Type,
        d: u32,
        a: Value,
        b: Value,
    },
    Pack {
        element: Type,
        d: u32,
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
}

#[derive(Clone, Debug)]
pub struct Instruction {
    pub guard: Option<(u32, bool)>,
    pub op: Op,
}
