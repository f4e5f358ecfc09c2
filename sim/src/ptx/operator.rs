//! The operators of instructions, with the variants that their modifiers select.

use super::types::Type;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Alu {
    Copy,
    Add,
    Sub,
    MulLow,
    MulHigh,
    MulWide,
    Mul24,
    Mul24High,
    AddSaturate,
    SubSaturate,
    MadHighSaturate,
    Mad24High,
    Mad24HighSaturate,
    MinRelu,
    MaxRelu,
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
    Permute(Permutation),
    FunnelLeft { wrap: bool },
    FunnelRight { wrap: bool },
    Table(u8),
    DotBytes { signed_a: bool, signed_b: bool },
    SelectSign { single: bool, flush: bool },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Float {
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
pub(super) enum Compare {
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
pub(super) enum Join {
    And,
    Or,
    Xor,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Condition {
    pub compare: Compare,
    /// Also true where an operand is not a number.
    pub unordered: bool,
    pub ty: Type,
    pub join: Option<Join>,
    /// Subnormal operands count as zero.
    pub flush: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rounding {
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

/// The modifiers of a floating-point operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mode {
    pub rounding: Rounding,
    /// Subnormal operands and results become zeros of their sign.
    pub flush: bool,
    /// To 0 .. 1, not-a-number to 0.
    pub saturate: bool,
    /// Not-a-number wins over numbers.
    pub nan: bool,
    pub absolute: bool,
    /// The sign of the result is the product of the operands'.
    pub sign_product: bool,
    /// Negative results become 0.
    pub relu: bool,
    /// The third operand of a minimum or maximum counts.
    pub three: bool,
    /// An approximation, whose result PTX fixes for some operands only.
    pub approximate: bool,
    /// The type of all operands but the last, where it is not that of the result.
    pub narrow: Option<Type>,
}

impl Mode {
    pub(super) const PLAIN: Mode = Mode {
        rounding: Rounding::Nearest,
        flush: false,
        saturate: false,
        nan: false,
        absolute: false,
        sign_product: false,
        relu: false,
        three: false,
        approximate: false,
        narrow: None,
    };
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Conversion {
    pub to: Type,
    pub from: Type,
    pub rounding: Rounding,
    pub flush: bool,
    pub saturate: bool,
    /// Beyond the largest number comes the largest number.
    pub finite: bool,
    pub relu: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Permutation {
    Default,
    Forward4,
    Backward4,
    Replicate8,
    EdgeLeft,
    EdgeRight,
    Replicate16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Atomic {
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
pub(super) enum Carry {
    Add,
    Sub,
    MadLow,
    MadHigh,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Warp {
    Up,
    Down,
    Butterfly,
    Index,
    All,
    Any,
    Uniform,
    Ballot,
    MatchAny(Type),
    MatchAll(Type),
    Sync,
    ReduceAdd,
    ReduceMin,
    ReduceMax,
    ReduceAnd,
    ReduceOr,
    ReduceXor,
}
