//! Types and state spaces of PTX.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Pred,
    Bits,
    Unsigned,
    Signed,
    Float,
    /// The short exponent of binary32 with seven bits of fraction.
    Brain,
    /// Two halves in one word.
    HalfPair,
    BrainPair,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Type {
    pub kind: Kind,
    pub bits: u8,
}

impl Type {
    pub(super) const PRED: Type = Type::new(Kind::Pred, 1);
    pub(super) const B32: Type = Type::new(Kind::Bits, 32);
    pub(super) const B64: Type = Type::new(Kind::Bits, 64);
    pub(super) const U32: Type = Type::new(Kind::Unsigned, 32);
    pub(super) const F32: Type = Type::new(Kind::Float, 32);

    pub(super) const fn new(kind: Kind, bits: u8) -> Self {
        Self { kind, bits }
    }

    /// The type named by an opcode's suffix or a declaration, without its dot.
    pub(super) fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "pred" => Type::PRED,
            "b8" => Type::new(Kind::Bits, 8),
            "b16" => Type::new(Kind::Bits, 16),
            "b32" => Type::B32,
            "b64" => Type::B64,
            "b128" => Type::new(Kind::Bits, 128),
            "u8" => Type::new(Kind::Unsigned, 8),
            "u16" => Type::new(Kind::Unsigned, 16),
            "u32" => Type::U32,
            "u64" => Type::new(Kind::Unsigned, 64),
            "s8" => Type::new(Kind::Signed, 8),
            "s16" => Type::new(Kind::Signed, 16),
            "s32" => Type::new(Kind::Signed, 32),
            "s64" => Type::new(Kind::Signed, 64),
            "f16" => Type::new(Kind::Float, 16),
            "bf16" => Type::new(Kind::Brain, 16),
            "f16x2" => Type::new(Kind::HalfPair, 32),
            "bf16x2" => Type::new(Kind::BrainPair, 32),
            "f32" => Type::F32,
            "f64" => Type::new(Kind::Float, 64),
            _ => return None,
        })
    }

    /// Bytes in memory.
    pub(super) fn size(self) -> usize {
        usize::from(self.bits).div_ceil(8)
    }

    pub(super) fn signed(self) -> bool {
        self.kind == Kind::Signed
    }

    pub(super) fn float(self) -> bool {
        !matches!(self.kind, Kind::Pred | Kind::Bits | Kind::Unsigned | Kind::Signed)
    }

    /// The value cut to this width, upper bits zero.
    pub(super) fn truncate(self, value: u64) -> u64 {
        if self.bits >= 64 { value } else { value & ((1 << self.bits) - 1) }
    }

    /// The least and the greatest value of an integer type.
    pub(super) fn range(self) -> (i128, i128) {
        let bits = u32::from(self.bits);
        if self.signed() { (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) } else { (0, (1 << bits) - 1) }
    }

    /// The type of the halves of a pair.
    pub(super) fn element(self) -> Option<Self> {
        match self.kind {
            Kind::HalfPair => Some(Type::new(Kind::Float, 16)),
            Kind::BrainPair => Some(Type::new(Kind::Brain, 16)),
            _ => None,
        }
    }

    /// The value as a signed number if the type is signed, else as it is.
    pub(super) fn extend(self, value: u64) -> i128 {
        let value = self.truncate(value);
        if self.signed() && self.bits <= 64 {
            let unused = 64 - u32::from(self.bits);
            i128::from(((value << unused) as i64) >> unused)
        } else {
            i128::from(value)
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Space {
    Generic,
    Global,
    Const,
    Shared,
    Local,
    Param,
}

impl Space {
    pub(super) fn parse(name: &str) -> Option<Self> {
        Some(match name.split("::").next().unwrap_or(name) {
            "global" => Space::Global,
            "const" => Space::Const,
            "shared" => Space::Shared,
            "local" => Space::Local,
            "param" => Space::Param,
            _ => return None,
        })
    }
}
