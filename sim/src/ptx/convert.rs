//! The cvt instruction.

use super::float::{flush, narrow, relu, saturate, wide};
use super::inst::{Conversion, Rounding};
use super::soft;
use super::types::{Kind, Type};

pub(super) fn convert(how: Conversion, a: u64) -> u64 {
    let Conversion { to, from, rounding, .. } = how;
    match (from.float(), to.float()) {
        (false, false) => to_integer(to, from.extend(a), how.saturate),
        (false, true) => {
            let result = match (i64::try_from(from.extend(a)), rounding) {
                (Ok(value), Rounding::Nearest) if to == Type::F32 => u64::from((value as f32).to_bits()),
                (Ok(value), Rounding::Nearest) if to.bits == 64 => (value as f64).to_bits(),
                _ => soft::from_integer(to, rounding, from.extend(a)),
            };
            if how.saturate { saturate(to, result) } else { result }
        }
        (true, false) => {
            let a = if how.flush && from == Type::F32 { flush(from, a) } else { a };
            float_to_integer(how, wide(from, a))
        }
        (true, true) => between_floats(how, a),
    }
}

/// A signed result fills a wider register with its sign.
fn to_integer(to: Type, value: i128, saturate: bool) -> u64 {
    let (low, high) = to.range();
    let value = if saturate { value.clamp(low, high) } else { value };
    to.extend(value as u64) as u64
}

fn integral(value: f64, rounding: Rounding) -> f64 {
    match rounding {
        Rounding::IntegerNearest | Rounding::Nearest => value.round_ties_even(),
        Rounding::IntegerDown | Rounding::Down => value.floor(),
        Rounding::IntegerUp | Rounding::Up => value.ceil(),
        Rounding::IntegerZero | Rounding::Zero | Rounding::None => value.trunc(),
    }
}

/// Out of range saturates; not-a-number gives the highest bit if 64 bits are on either side, else zero.
fn float_to_integer(how: Conversion, value: f64) -> u64 {
    let to = how.to;
    if value.is_nan() {
        let number = if to.bits == 64 || how.from.bits == 64 { 1 << (to.bits - 1) } else { 0 };
        return to.extend(number) as u64;
    }
    to_integer(to, integral(value, how.rounding) as i128, true)
}

fn between_floats(how: Conversion, a: u64) -> u64 {
    let Conversion { to, from, rounding, .. } = how;
    let a = if how.flush && from == Type::F32 { flush(from, a) } else { a };
    let to_integral = matches!(
        rounding,
        Rounding::IntegerNearest | Rounding::IntegerZero | Rounding::IntegerDown | Rounding::IntegerUp
    );
    let mut result = match () {
        () if to_integral => narrow(to, integral(wide(from, a), rounding)),
        () if to.bits == 64 => wide(from, a).to_bits(),
        () if to == Type::F32 && from.bits == 64 && rounding == Rounding::Nearest => {
            u64::from((f64::from_bits(a) as f32).to_bits())
        }
        () => soft::convert(to, from, rounding, a),
    };
    if to.bits < 64 && soft::is_nan(to, result) {
        result = match (from.bits, from.kind) {
            // From these the upper bits of the fraction stay, as an H200 has it.
            (64, _) => soft::upper_nan(to, from, a),
            (_, Kind::Brain) if to == Type::F32 => a << 16,
            _ => soft::nan(to),
        };
    }
    if how.finite && result & (soft::sign(to) - 1) == soft::infinity(to) {
        result -= 1;
    }
    if how.flush && to == Type::F32 {
        result = flush(to, result);
    }
    if how.relu {
        result = relu(to, result);
    }
    if how.saturate { saturate(to, result) } else { result }
}

/// cvt.pack
pub(super) fn pack(to: Type, a: u64, b: u64, c: u64) -> u64 {
    let part = |v: u64| to.truncate(to_integer(to, Type::new(Kind::Signed, 32).extend(v), true));
    let bits = u32::from(to.bits);
    (c << (2 * bits) | part(a) << bits | part(b)) & 0xffff_ffff
}
