//! Floating point arithmetic on register values.

use super::half;
use super::inst::Float;
use super::types::{Kind, Type};

/// The value of a scalar floating type.
pub fn wide(ty: Type, bits: u64) -> f64 {
    match (ty.kind, ty.bits) {
        (Kind::Float, 64) => f64::from_bits(bits),
        (Kind::Float, 16) => f64::from(half::to_f32(bits as u16)),
        (Kind::Brain, _) => f64::from(half::brain_to_f32(bits as u16)),
        _ => f64::from(f32::from_bits(bits as u32)),
    }
}

/// The bits of `value` in a scalar floating type.
pub fn narrow(ty: Type, value: f64) -> u64 {
    match (ty.kind, ty.bits) {
        (Kind::Float, 64) => value.to_bits(),
        (Kind::Float, 16) => u64::from(half::from_f32(value as f32)),
        (Kind::Brain, _) => u64::from(half::brain_from_f32(value as f32)),
        _ => u64::from((value as f32).to_bits()),
    }
}

pub fn float(f: Float, ty: Type, saturate: bool, a: u64, b: u64, c: u64) -> u64 {
    match (ty.kind, ty.bits) {
        (Kind::HalfPair | Kind::BrainPair, _) => {
            let kind = if ty.kind == Kind::HalfPair { Kind::Float } else { Kind::Brain };
            let element = Type::new(kind, 16);
            let low = float(f, element, saturate, a & 0xffff, b & 0xffff, c & 0xffff);
            let high = float(f, element, saturate, a >> 16 & 0xffff, b >> 16 & 0xffff, c >> 16 & 0xffff);
            high << 16 | low
        }
        (Kind::Float, 64) => double(f, saturate, f64::from_bits(a), f64::from_bits(b), f64::from_bits(c)),
        (Kind::Float, 32) => single(f, saturate, a as u32, b as u32, c as u32),
        _ => {
            let bits = |v: u64| (wide(ty, v) as f32).to_bits();
            let result = single(f, saturate, bits(a), bits(b), bits(c));
            if is_test(f) { result } else { narrow(ty, f64::from(f32::from_bits(result as u32))) }
        }
    }
}

fn is_test(f: Float) -> bool {
    matches!(f, Float::IsFinite | Float::IsInfinite | Float::IsNan)
}

fn single(f: Float, saturate: bool, a: u32, b: u32, c: u32) -> u64 {
    let (x, y, z) = (f32::from_bits(a), f32::from_bits(b), f32::from_bits(c));
    let result = match f {
        Float::Add => x + y,
        Float::Sub => x - y,
        Float::Mul => x * y,
        Float::Div => x / y,
        Float::Fma => x.mul_add(y, z),
        Float::Min => x.min(y),
        Float::Max => x.max(y),
        Float::Neg => -x,
        Float::Abs => x.abs(),
        Float::Sqrt => x.sqrt(),
        Float::Reciprocal => x.recip(),
        Float::ReciprocalSqrt => (1.0 / f64::from(x).sqrt()) as f32,
        Float::Sine => x.sin(),
        Float::Cosine => x.cos(),
        Float::Exp2 => x.exp2(),
        Float::Log2 => x.log2(),
        Float::Tanh => x.tanh(),
        // The sign is that of the first operand.
        Float::CopySign => y.copysign(x),
        Float::IsFinite => return u64::from(x.is_finite()),
        Float::IsInfinite => return u64::from(x.is_infinite()),
        Float::IsNan => return u64::from(x.is_nan()),
    };
    let result = match (saturate, result.is_nan()) {
        (true, true) => 0.0,
        (true, false) => result.clamp(0.0, 1.0),
        (false, true) if !matches!(f, Float::Neg | Float::Abs) => f32::from_bits(0x7fff_ffff),
        _ => result,
    };
    u64::from(result.to_bits())
}

fn double(f: Float, saturate: bool, x: f64, y: f64, z: f64) -> u64 {
    let result = match f {
        Float::Add => x + y,
        Float::Sub => x - y,
        Float::Mul => x * y,
        Float::Div => x / y,
        Float::Fma => x.mul_add(y, z),
        Float::Min => x.min(y),
        Float::Max => x.max(y),
        Float::Neg => -x,
        Float::Abs => x.abs(),
        Float::Sqrt => x.sqrt(),
        Float::Reciprocal => x.recip(),
        Float::ReciprocalSqrt => x.sqrt().recip(),
        Float::Sine => x.sin(),
        Float::Cosine => x.cos(),
        Float::Exp2 => x.exp2(),
        Float::Log2 => x.log2(),
        Float::Tanh => x.tanh(),
        Float::CopySign => y.copysign(x),
        Float::IsFinite => return u64::from(x.is_finite()),
        Float::IsInfinite => return u64::from(x.is_infinite()),
        Float::IsNan => return u64::from(x.is_nan()),
    };
    if saturate && result.is_nan() {
        0
    } else if saturate {
        result.clamp(0.0, 1.0).to_bits()
    } else {
        result.to_bits()
    }
}
