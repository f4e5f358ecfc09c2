//! Floating-point arithmetic with a single rounding in any direction, in every format of up to 64 bits.
//! `float` uses the host instead where its rounding is PTX's (binary32 and binary64, to nearest).

use super::inst::Rounding;
use super::types::{Kind, Type};

/// mantissa * 2^exponent; the lowest bit also stands for whatever lies below it.
#[derive(Clone, Copy)]
struct Number {
    negative: bool,
    mantissa: u128,
    exponent: i32,
}

#[derive(Clone, Copy)]
enum Parts {
    Nan,
    Infinite(bool),
    Finite(Number),
}

/// Bits of the fraction of a scalar floating type.
pub(super) fn fraction(ty: Type) -> u32 {
    match (ty.kind, ty.bits) {
        (Kind::Float, 64) => 52,
        (Kind::Float, 16) => 10,
        (Kind::Brain, _) => 7,
        _ => 23,
    }
}

fn width(ty: Type) -> u32 {
    if ty.bits == 64 { 64 } else { u32::from(ty.bits) }
}

pub(super) fn sign(ty: Type) -> u64 {
    1 << (width(ty) - 1)
}

/// The bits of positive infinity.
pub(super) fn infinity(ty: Type) -> u64 {
    sign(ty) - (1 << fraction(ty))
}

/// What an operation without a numeric result gives.
pub(super) fn nan(ty: Type) -> u64 {
    if ty.bits == 64 { 0xfff8_0000_0000_0000 } else { sign(ty) - 1 }
}

pub(super) fn is_nan(ty: Type, bits: u64) -> bool {
    bits & (sign(ty) - 1) > infinity(ty)
}

/// What is not a number in a wider format: its sign and the upper bits of its fraction, quiet.
pub(super) fn upper_nan(to: Type, from: Type, bits: u64) -> u64 {
    let signed = if bits & sign(from) != 0 { sign(to) } else { 0 };
    let upper = (bits & ((1 << fraction(from)) - 1)) >> (fraction(from) - fraction(to));
    signed | infinity(to) | 1 << (fraction(to) - 1) | upper
}

/// The value, a zero of its sign if it is subnormal.
pub(super) fn flush(ty: Type, bits: u64) -> u64 {
    if bits & infinity(ty) == 0 { bits & sign(ty) } else { bits }
}

fn bias(ty: Type) -> i32 {
    (1 << (width(ty) - 2 - fraction(ty))) - 1
}

fn unpack(ty: Type, bits: u64) -> Parts {
    let (negative, magnitude) = (bits & sign(ty) != 0, bits & (sign(ty) - 1));
    let place = (magnitude >> fraction(ty)) as i32;
    let rest = magnitude & ((1 << fraction(ty)) - 1);
    if magnitude > infinity(ty) {
        Parts::Nan
    } else if magnitude == infinity(ty) {
        Parts::Infinite(negative)
    } else {
        let mantissa = if place == 0 { rest } else { rest | 1 << fraction(ty) };
        let exponent = place.max(1) - bias(ty) - fraction(ty) as i32;
        Parts::Finite(Number { negative, mantissa: u128::from(mantissa), exponent })
    }
}

fn pack(ty: Type, rounding: Rounding, number: Number) -> u64 {
    let Number { negative, mantissa, exponent } = number;
    let signed = if negative { sign(ty) } else { 0 };
    if mantissa == 0 {
        return signed;
    }
    let top = exponent + 127 - mantissa.leading_zeros() as i32;
    let step = top.max(1 - bias(ty)) - fraction(ty) as i32;
    let shift = step - exponent;
    let (mut kept, rest, half) = match shift {
        ..=0 => (mantissa << -shift, 0, 1),
        // The mantissa has at most 127 bits.
        128.. => (0, 1, 2),
        _ => (mantissa >> shift, mantissa & ((1 << shift) - 1), 1u128 << (shift - 1)),
    };
    let away = match rounding {
        Rounding::Zero => false,
        Rounding::Down => negative && rest != 0,
        Rounding::Up => !negative && rest != 0,
        _ => rest > half || rest == half && kept & 1 == 1,
    };
    kept += u128::from(away);
    let place = step + fraction(ty) as i32 + bias(ty);
    let magnitude = ((place as u128 - 1) << fraction(ty)) + kept;
    if magnitude >= u128::from(infinity(ty)) {
        let largest = match rounding {
            Rounding::Zero => true,
            Rounding::Down => !negative,
            Rounding::Up => negative,
            _ => false,
        };
        return signed | (infinity(ty) - u64::from(largest));
    }
    signed | magnitude as u64
}

/// Shifted right; a bit that is lost sets the lowest.
fn jam(mantissa: u128, by: u32) -> u128 {
    match by {
        0 => mantissa,
        1..=127 => mantissa >> by | u128::from(mantissa & ((1 << by) - 1) != 0),
        _ => u128::from(mantissa != 0),
    }
}

/// The same number with its highest bit in place 125.
fn high(number: Number) -> Number {
    let by = number.mantissa.leading_zeros() - 2;
    Number { mantissa: number.mantissa << by, exponent: number.exponent - by as i32, ..number }
}

fn sum(rounding: Rounding, a: Number, b: Number) -> Number {
    match (a.mantissa, b.mantissa) {
        (0, 0) if a.negative != b.negative => return Number { negative: rounding == Rounding::Down, ..a },
        (_, 0) => return a,
        (0, _) => return b,
        _ => {}
    }
    let (a, b) = (high(a), high(b));
    let (a, b) = if a.exponent >= b.exponent { (a, b) } else { (b, a) };
    let other = jam(b.mantissa, (a.exponent - b.exponent) as u32);
    if a.negative == b.negative {
        return Number { mantissa: a.mantissa + other, ..a };
    }
    let negative = match a.mantissa.cmp(&other) {
        std::cmp::Ordering::Equal => rounding == Rounding::Down,
        std::cmp::Ordering::Greater => a.negative,
        std::cmp::Ordering::Less => b.negative,
    };
    Number { negative, mantissa: a.mantissa.abs_diff(other), exponent: a.exponent }
}

pub(super) fn add(ty: Type, rounding: Rounding, a: u64, b: u64) -> u64 {
    match (unpack(ty, a), unpack(ty, b)) {
        (Parts::Nan, _) | (_, Parts::Nan) => nan(ty),
        (Parts::Infinite(x), Parts::Infinite(y)) if x != y => nan(ty),
        (Parts::Infinite(_), _) => a,
        (_, Parts::Infinite(_)) => b,
        (Parts::Finite(x), Parts::Finite(y)) => pack(ty, rounding, sum(rounding, x, y)),
    }
}

fn product(a: Parts, b: Parts) -> Parts {
    match (a, b) {
        (Parts::Finite(x), Parts::Finite(y)) => Parts::Finite(Number {
            negative: x.negative != y.negative,
            mantissa: x.mantissa * y.mantissa,
            exponent: x.exponent + y.exponent,
        }),
        (Parts::Infinite(x), Parts::Infinite(y)) => Parts::Infinite(x != y),
        (Parts::Infinite(x), Parts::Finite(y)) | (Parts::Finite(y), Parts::Infinite(x)) if y.mantissa != 0 => {
            Parts::Infinite(x != y.negative)
        }
        _ => Parts::Nan,
    }
}

fn finish(ty: Type, rounding: Rounding, parts: Parts) -> u64 {
    match parts {
        Parts::Nan => nan(ty),
        Parts::Infinite(negative) => infinity(ty) | if negative { sign(ty) } else { 0 },
        Parts::Finite(number) => pack(ty, rounding, number),
    }
}

pub(super) fn mul(ty: Type, rounding: Rounding, a: u64, b: u64) -> u64 {
    finish(ty, rounding, product(unpack(ty, a), unpack(ty, b)))
}

pub(super) fn fma(ty: Type, rounding: Rounding, a: u64, b: u64, c: u64) -> u64 {
    let result = match (product(unpack(ty, a), unpack(ty, b)), unpack(ty, c)) {
        (Parts::Nan, _) | (_, Parts::Nan) => Parts::Nan,
        (Parts::Infinite(x), Parts::Infinite(y)) if x != y => Parts::Nan,
        (Parts::Infinite(x), _) | (_, Parts::Infinite(x)) => Parts::Infinite(x),
        (Parts::Finite(x), Parts::Finite(y)) => Parts::Finite(sum(rounding, x, y)),
    };
    finish(ty, rounding, result)
}

pub(super) fn div(ty: Type, rounding: Rounding, a: u64, b: u64) -> u64 {
    let result = match (unpack(ty, a), unpack(ty, b)) {
        (Parts::Nan, _) | (_, Parts::Nan) | (Parts::Infinite(_), Parts::Infinite(_)) => Parts::Nan,
        (Parts::Infinite(x), Parts::Finite(y)) => Parts::Infinite(x != y.negative),
        (Parts::Finite(x), Parts::Infinite(y)) => Parts::Finite(Number { negative: x.negative != y, mantissa: 0, ..x }),
        (Parts::Finite(x), Parts::Finite(y)) if y.mantissa == 0 => match x.mantissa {
            0 => Parts::Nan,
            _ => Parts::Infinite(x.negative != y.negative),
        },
        (Parts::Finite(x), Parts::Finite(y)) => {
            let negative = x.negative != y.negative;
            let x = if x.mantissa == 0 { x } else { high(x) };
            let inexact = !x.mantissa.is_multiple_of(y.mantissa);
            let mantissa = (x.mantissa / y.mantissa) | u128::from(inexact);
            Parts::Finite(Number { negative, mantissa, exponent: x.exponent - y.exponent })
        }
    };
    finish(ty, rounding, result)
}

pub(super) fn sqrt(ty: Type, rounding: Rounding, a: u64) -> u64 {
    let result = match unpack(ty, a) {
        Parts::Finite(x) if x.mantissa == 0 => Parts::Finite(x),
        Parts::Finite(x) if !x.negative => {
            let x = high(x);
            let odd = x.exponent & 1;
            let square = x.mantissa >> odd;
            let root = square.isqrt();
            let mantissa = root | u128::from(root * root != square);
            Parts::Finite(Number { mantissa, exponent: (x.exponent + odd) / 2, ..x })
        }
        Parts::Infinite(false) => Parts::Infinite(false),
        _ => Parts::Nan,
    };
    finish(ty, rounding, result)
}

pub(super) fn from_integer(ty: Type, rounding: Rounding, value: i128) -> u64 {
    pack(ty, rounding, Number { negative: value < 0, mantissa: value.unsigned_abs(), exponent: 0 })
}

/// From one format to another.
pub(super) fn convert(to: Type, from: Type, rounding: Rounding, bits: u64) -> u64 {
    match unpack(from, bits) {
        Parts::Nan if to.bits == 64 => f64::from(f32::from_bits(bits as u32)).to_bits(),
        parts => finish(to, rounding, parts),
    }
}
