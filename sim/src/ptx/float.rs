//! Floating point arithmetic on register values.

use super::half;
use super::inst::{Float, Mode, Rounding};
use super::soft;
pub(super) use super::soft::flush;
use super::types::{Kind, Type};

/// The value of a scalar floating type.
pub(super) fn wide(ty: Type, bits: u64) -> f64 {
    match (ty.kind, ty.bits) {
        (Kind::Float, 64) => f64::from_bits(bits),
        (Kind::Float, 16) => f64::from(half::to_f32(bits as u16)),
        (Kind::Brain, _) => f64::from(half::brain_to_f32(bits as u16)),
        _ => f64::from(f32::from_bits(bits as u32)),
    }
}

/// The bits of `value` in a scalar floating type, to nearest.
pub(super) fn narrow(ty: Type, value: f64) -> u64 {
    match (ty.kind, ty.bits) {
        (Kind::Float, 64) => value.to_bits(),
        (Kind::Float, 32) => u64::from((value as f32).to_bits()),
        _ => soft::convert(ty, Type::new(Kind::Float, 64), Rounding::Nearest, value.to_bits()),
    }
}

/// An operation without modifiers, rounded to nearest.
pub(super) fn float(f: Float, ty: Type, a: u64, b: u64, c: u64) -> u64 {
    match (ty.kind, ty.bits) {
        (Kind::Float, 32) => single(f, a as u32, b as u32, c as u32),
        (Kind::Float, 64) => double(f, a, b, c),
        _ => modal(f, ty, Mode::PLAIN, a, b, c),
    }
}

/// An operation with modifiers, or of a type that the host does not have.
pub(super) fn modal(f: Float, ty: Type, mode: Mode, a: u64, b: u64, c: u64) -> u64 {
    if let Some(element) = ty.element() {
        let [low, high] = [0, 16].map(|at| {
            let [a, b, c] = [a, b, c].map(|v| v >> at & 0xffff);
            modal(f, element, mode, a, b, c)
        });
        return high << 16 | low;
    }
    let [mut a, mut b, mut c] = [a, b, c].map(|v| ty.truncate(v));
    if let Some(from) = mode.narrow {
        let widen = |v| soft::convert(ty, from, Rounding::Nearest, from.truncate(v));
        a = widen(a);
        b = if f == Float::Fma { widen(b) } else { b };
    }
    if mode.flush {
        [a, b, c] = [a, b, c].map(|v| flush(ty, v));
    }
    let mut result = match f {
        Float::Min | Float::Max => {
            let two = extreme(f, ty, mode, a, b);
            if mode.three { extreme(f, ty, mode, two, c) } else { two }
        }
        Float::Div if mode.approximate && huge(ty, b) => match wide(ty, a).is_infinite() || wide(ty, a).is_nan() {
            true => soft::nan(ty),
            false => (a ^ b) & soft::sign(ty),
        },
        Float::Reciprocal if mode.approximate && ty.bits == 64 => coarse(a, f64::recip),
        Float::ReciprocalSqrt if ty.bits == 64 && mode.flush => coarse(a, |v| v.sqrt().recip()),
        _ => rounded(f, ty, mode.rounding, [a, b, c]),
    };
    if is_test(f) {
        return result;
    }
    if mode.flush {
        result = flush(ty, result);
        // Whether a result is subnormal is asked before it is rounded.
        let smallest = 1 << soft::fraction(ty);
        if result & !soft::sign(ty) == smallest && is_arithmetic(f) {
            result &= rounded(f, ty, Rounding::Zero, [a, b, c]) & smallest | soft::sign(ty);
        }
    }
    if mode.relu {
        result = relu(ty, result);
    }
    if mode.saturate { saturate(ty, result) } else { result }
}

/// div.approx: the reciprocal of such a divisor is subnormal.
fn huge(ty: Type, b: u64) -> bool {
    let magnitude = f32::from_bits((b & 0x7fff_ffff) as u32);
    ty.bits == 32 && magnitude > 2f32.powi(126) && magnitude.is_finite()
}

/// The approximations of binary64 look at the upper word and leave the lower one zero.
fn coarse(a: u64, f: impl Fn(f64) -> f64) -> u64 {
    const UPPER: u64 = 0xffff_ffff_0000_0000;
    f(f64::from_bits(a & UPPER)).to_bits() & UPPER
}

/// To 0 if negative; not-a-number stays one.
pub(super) fn relu(ty: Type, bits: u64) -> u64 {
    match soft::is_nan(ty, bits) {
        true => soft::nan(ty),
        false if bits & soft::sign(ty) != 0 => 0,
        false => bits,
    }
}

/// To 0 .. 1, not-a-number to 0.
pub(super) fn saturate(ty: Type, bits: u64) -> u64 {
    let value = wide(ty, bits);
    if value.is_nan() || value <= 0.0 {
        0
    } else if value > 1.0 {
        narrow(ty, 1.0)
    } else {
        bits
    }
}

/// min and max: zeros have an order, too.
fn extreme(f: Float, ty: Type, mode: Mode, a: u64, b: u64) -> u64 {
    let sign = soft::sign(ty);
    let product = if mode.sign_product { (a ^ b) & sign } else { 0 };
    let (a, b) = if mode.absolute { (a & !sign, b & !sign) } else { (a, b) };
    let chosen = match (soft::is_nan(ty, a), soft::is_nan(ty, b)) {
        (true, true) => return soft::nan(ty),
        (true, _) | (_, true) if mode.nan => return soft::nan(ty),
        (true, false) => b,
        (false, true) => a,
        (false, false) => {
            let key = |v: u64| if v & sign != 0 { -((v ^ sign) as i64) - 1 } else { v as i64 };
            if (key(a) < key(b)) == (f == Float::Min) { a } else { b }
        }
    };
    if mode.sign_product { chosen & !sign | product } else { chosen }
}

fn is_test(f: Float) -> bool {
    matches!(f, Float::IsFinite | Float::IsInfinite | Float::IsNan)
}

fn is_arithmetic(f: Float) -> bool {
    matches!(f, Float::Add | Float::Sub | Float::Mul | Float::Fma | Float::Div)
}

fn rounded(f: Float, ty: Type, rounding: Rounding, [a, b, c]: [u64; 3]) -> u64 {
    match f {
        _ if rounding == Rounding::Nearest && ty.kind == Kind::Float && ty.bits != 16 => float(f, ty, a, b, c),
        Float::Add => soft::add(ty, rounding, a, b),
        Float::Sub if soft::is_nan(ty, b) => soft::nan(ty),
        Float::Sub => soft::add(ty, rounding, a, b ^ soft::sign(ty)),
        Float::Mul => soft::mul(ty, rounding, a, b),
        Float::Fma => soft::fma(ty, rounding, a, b, c),
        Float::Div => soft::div(ty, rounding, a, b),
        Float::Sqrt => soft::sqrt(ty, rounding, a),
        Float::Reciprocal => soft::div(ty, rounding, narrow(ty, 1.0), a),
        Float::Neg | Float::Abs if soft::is_nan(ty, a) => soft::nan(ty),
        Float::Neg => a ^ soft::sign(ty),
        Float::Abs => a & !soft::sign(ty),
        Float::CopySign => b & !soft::sign(ty) | a & soft::sign(ty),
        _ => {
            let result = single(f, (wide(ty, a) as f32).to_bits(), 0, 0);
            if is_test(f) { result } else { narrow(ty, f64::from(f32::from_bits(result as u32))) }
        }
    }
}

fn single(f: Float, a: u32, b: u32, c: u32) -> u64 {
    let (x, y, z) = (f32::from_bits(a), f32::from_bits(b), f32::from_bits(c));
    let result = match f {
        Float::Add => x + y,
        Float::Sub => x - y,
        Float::Mul => x * y,
        Float::Div => x / y,
        Float::Fma => x.mul_add(y, z),
        Float::Min | Float::Max => return extreme(f, Type::F32, Mode::PLAIN, u64::from(a), u64::from(b)),
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
        // The sign is that of the first operand; what is not a number stays what it was.
        Float::CopySign => return u64::from(b & !(1 << 31) | a & 1 << 31),
        Float::IsFinite => return u64::from(x.is_finite()),
        Float::IsInfinite => return u64::from(x.is_infinite()),
        Float::IsNan => return u64::from(x.is_nan()),
    };
    if result.is_nan() { soft::nan(Type::F32) } else { u64::from(result.to_bits()) }
}

fn double(f: Float, a: u64, b: u64, c: u64) -> u64 {
    let (x, y, z) = (f64::from_bits(a), f64::from_bits(b), f64::from_bits(c));
    let result = match f {
        Float::Add => x + y,
        Float::Sub => x - y,
        Float::Mul => x * y,
        Float::Div => x / y,
        Float::Fma => x.mul_add(y, z),
        Float::Min | Float::Max => return extreme(f, Type::new(Kind::Float, 64), Mode::PLAIN, a, b),
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
    result.to_bits()
}
