//! The cvt instruction.

use super::float::{narrow, wide};
use super::inst::Rounding;
use super::types::{Kind, Type};

pub fn convert(to: Type, from: Type, rounding: Rounding, saturate: bool, a: u64) -> u64 {
    match (from.float(), to.float()) {
        (false, false) => to_integer(to, from.extend(a), saturate),
        (false, true) => from_integer(to, from.extend(a), rounding),
        (true, false) => float_to_integer(to, wide(from, a), rounding),
        (true, true) => between_floats(to, from, rounding, saturate, a),
    }
}

/// The range of an integer type.
fn range(ty: Type) -> (i128, i128) {
    let bits = u32::from(ty.bits);
    if ty.signed() { (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) } else { (0, (1 << bits) - 1) }
}

fn to_integer(to: Type, value: i128, saturate: bool) -> u64 {
    let (low, high) = range(to);
    let value = if saturate { value.clamp(low, high) } else { value };
    to.truncate(value as u64)
}

fn integral(value: f64, rounding: Rounding) -> f64 {
    match rounding {
        Rounding::IntegerNearest | Rounding::Nearest => value.round_ties_even(),
        Rounding::IntegerDown | Rounding::Down => value.floor(),
        Rounding::IntegerUp | Rounding::Up => value.ceil(),
        Rounding::IntegerZero | Rounding::Zero | Rounding::None => value.trunc(),
    }
}

/// Out of range saturates; not-a-number gives zero for 32 bits, the highest bit for 64.
fn float_to_integer(to: Type, value: f64, rounding: Rounding) -> u64 {
    if value.is_nan() {
        return if to.bits == 64 { 1 << 63 } else { 0 };
    }
    let (low, high) = range(to);
    to.truncate((integral(value, rounding) as i128).clamp(low, high) as u64)
}

fn from_integer(to: Type, value: i128, rounding: Rounding) -> u64 {
    let nearest = if to.bits == 32 && to.kind == Kind::Float {
        // Straight to binary32: by way of binary64 it would be rounded twice.
        u64::from((value as f32).to_bits())
    } else {
        narrow(to, value as f64)
    };
    let exact = wide(to, nearest);
    if exact.is_infinite() {
        return nearest;
    }
    directed(to, nearest, (exact as i128).cmp(&value), rounding, value < 0)
}

fn between_floats(to: Type, from: Type, rounding: Rounding, saturate: bool, a: u64) -> u64 {
    let mut value = wide(from, a);
    let to_integral = matches!(
        rounding,
        Rounding::IntegerNearest | Rounding::IntegerZero | Rounding::IntegerDown | Rounding::IntegerUp
    );
    if to_integral {
        value = integral(value, rounding);
    }
    if saturate {
        value = if value.is_nan() { 0.0 } else { value.clamp(0.0, 1.0) };
    }
    let nearest = narrow(to, value);
    match wide(to, nearest).partial_cmp(&value) {
        Some(order) if !to_integral => directed(to, nearest, order, rounding, value < 0.0),
        _ => nearest,
    }
}

/// Moves the nearest value one step where the rounding is directed. `order` is how the nearest compares with
/// the exact.
fn directed(to: Type, nearest: u64, order: std::cmp::Ordering, rounding: Rounding, negative: bool) -> u64 {
    let down = match rounding {
        Rounding::Down => true,
        Rounding::Zero => !negative,
        Rounding::Up => false,
        _ => return nearest,
    };
    let up = match rounding {
        Rounding::Up => true,
        Rounding::Zero => negative,
        _ => false,
    };
    // Neighbouring values of one sign have neighbouring bits, growing with the magnitude.
    let sign = 1u64 << (to.bits - 1);
    let step = |larger: bool| {
        let magnitude = nearest & !sign;
        let moved = if larger { magnitude + 1 } else { magnitude.wrapping_sub(1) };
        nearest & sign | moved
    };
    let is_negative = nearest & sign != 0;
    if down && order.is_gt() {
        step(is_negative)
    } else if up && order.is_lt() {
        step(!is_negative)
    } else {
        nearest
    }
}
