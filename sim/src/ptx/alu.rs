//! Integer arithmetic and logic on register values.

use super::inst::{Alu, Carry, Compare, Condition, Join, Permutation};
use super::types::{Kind, Type};
use super::{float, half};

pub(super) fn alu(f: Alu, ty: Type, a: u64, b: u64, c: u64) -> u64 {
    let (x, y) = (ty.extend(a), ty.extend(b));
    let bits = u32::from(ty.bits);
    let result = match f {
        Alu::Copy => a,
        Alu::Add => a.wrapping_add(b),
        Alu::Sub => a.wrapping_sub(b),
        Alu::MulLow => a.wrapping_mul(b),
        Alu::MulHigh => (x.wrapping_mul(y) >> bits) as u64,
        Alu::MadLow => a.wrapping_mul(b).wrapping_add(c),
        Alu::MadHigh => ((x.wrapping_mul(y) >> bits) as u64).wrapping_add(c),
        Alu::MulWide | Alu::MadWide => {
            let wide = Type::new(ty.kind, ty.bits * 2);
            return wide.truncate((x.wrapping_mul(y) as u64).wrapping_add(c));
        }
        Alu::AddSaturate => saturate(ty, x + y),
        Alu::SubSaturate => saturate(ty, x - y),
        Alu::MadHighSaturate => saturate(ty, (x.wrapping_mul(y) >> bits) + ty.extend(c)),
        Alu::MinRelu => x.min(y).max(0) as u64,
        Alu::MaxRelu => x.max(y).max(0) as u64,
        Alu::Mul24 => product24(ty, a, b) as u64,
        // Bits 16 to 47 of the product.
        Alu::Mul24High => (product24(ty, a, b) >> 16) as u64,
        Alu::Mad24 => (product24(ty, a, b) as u64).wrapping_add(c),
        Alu::Mad24High => ((product24(ty, a, b) >> 16) as u64).wrapping_add(c),
        Alu::Mad24HighSaturate => {
            let high = i128::from((product24(ty, a, b) >> 16) as i32);
            saturate(ty, high + ty.extend(c))
        }
        Alu::AbsDifference => (x.abs_diff(y) as u64).wrapping_add(c),
        // Division by zero yields ones, as on the hardware.
        Alu::Div | Alu::Rem if y == 0 => u64::MAX,
        Alu::Div => x.checked_div(y).map_or(u64::MAX, |q| q as u64),
        Alu::Rem => x.checked_rem(y).unwrap_or(0) as u64,
        Alu::Min => x.min(y) as u64,
        Alu::Max => x.max(y) as u64,
        Alu::And => a & b,
        Alu::Or => a | b,
        Alu::Xor => a ^ b,
        Alu::ShiftLeft => {
            let by = b as u32;
            if by >= bits { 0 } else { a << by }
        }
        Alu::ShiftRight => (x >> (b as u32).min(bits)) as u64,
        Alu::Neg => (-x) as u64,
        Alu::Abs => x.unsigned_abs() as u64,
        Alu::Not => !a,
        Alu::LogicalNot => u64::from(ty.truncate(a) == 0),
        Alu::CountOnes => u64::from(ty.truncate(a).count_ones()),
        Alu::LeadingZeros => u64::from(ty.truncate(a).leading_zeros() - (64 - bits)),
        Alu::Reverse => a.reverse_bits() >> (64 - bits),
        Alu::FindBit | Alu::FindBitShift => return find_bit(x, ty, f == Alu::FindBitShift),
        Alu::ExtractBits => extract_bits(ty, a, b as u32 & 0xff, c as u32 & 0xff),
        Alu::Permute(how) => permute(a as u32, b as u32, selector(how, c as u32)),
        Alu::FunnelLeft { wrap } => {
            let by = funnel_amount(c as u32, wrap);
            (u64::from(b as u32) << 32 | u64::from(a as u32)) << by >> 32
        }
        Alu::FunnelRight { wrap } => {
            let by = funnel_amount(c as u32, wrap);
            (u64::from(b as u32) << 32 | u64::from(a as u32)) >> by
        }
        Alu::Table(table) => lookup(table, a as u32, b as u32, c as u32),
        Alu::DotBytes { signed_a, signed_b } => {
            let byte = |word: u64, at: u32, signed: bool| {
                let byte = (word >> (8 * at)) as u8;
                if signed { i64::from(byte as i8) } else { i64::from(byte) }
            };
            (0..4).map(|i| byte(a, i, signed_a) * byte(b, i, signed_b)).sum::<i64>().wrapping_add(c as i64) as u64
        }
        Alu::SelectSign { single, flush } => {
            let c = if flush { float::flush(Type::F32, c) } else { c };
            // Not-a-number selects the second, negative zero the first.
            let first = if single { f32::from_bits(c as u32) >= 0.0 } else { c as i32 >= 0 };
            return ty.truncate(if first { a } else { b });
        }
    };
    ty.truncate(result)
}

fn saturate(ty: Type, value: i128) -> u64 {
    let (low, high) = ty.range();
    value.clamp(low, high) as u64
}

fn product24(ty: Type, a: u64, b: u64) -> i64 {
    low24(ty, a).wrapping_mul(low24(ty, b))
}

fn low24(ty: Type, value: u64) -> i64 {
    if ty.signed() { i64::from((value as i32) << 8 >> 8) } else { (value & 0xff_ffff) as i64 }
}

fn funnel_amount(amount: u32, wrap: bool) -> u32 {
    if wrap { amount & 31 } else { amount.min(32) }
}

fn find_bit(x: i128, ty: Type, shift: bool) -> u64 {
    let magnitude = if x < 0 { ty.truncate(!x as u64) } else { x as u64 };
    if magnitude == 0 {
        return u64::from(u32::MAX);
    }
    let at = 63 - magnitude.leading_zeros();
    u64::from(if shift { u32::from(ty.bits) - 1 - at } else { at })
}

fn extract_bits(ty: Type, a: u64, at: u32, length: u32) -> u64 {
    let bits = u32::from(ty.bits);
    let a = ty.truncate(a);
    if length == 0 {
        return 0;
    }
    let field = if at >= 64 { 0 } else { a >> at };
    let kept = if length >= 64 { field } else { field & ((1 << length) - 1) };
    let sign_at = (at + length - 1).min(bits - 1);
    if ty.signed() && a >> sign_at & 1 == 1 {
        let width = sign_at.saturating_sub(at) + 1;
        return if at > sign_at { u64::MAX } else { kept | u64::MAX.checked_shl(width).unwrap_or(0) };
    }
    kept
}

/// bfi: `a`'s low bits put into `b`.
pub(super) fn insert_bits(ty: Type, a: u64, b: u64, at: u64, length: u64) -> u64 {
    let (at, length) = (at as u32 & 0xff, length as u32 & 0xff);
    if at >= u32::from(ty.bits) || length == 0 {
        return ty.truncate(b);
    }
    let mask = if length >= 64 { u64::MAX } else { (1 << length) - 1 };
    ty.truncate(b & !(mask << at) | (a & mask) << at)
}

/// The selector of the default mode that picks what another mode picks.
fn selector(how: Permutation, c: u32) -> u32 {
    let at = (c & 3) as usize;
    match how {
        Permutation::Default => c,
        Permutation::Forward4 => [0x3210, 0x4321, 0x5432, 0x6543][at],
        Permutation::Backward4 => [0x5670, 0x6701, 0x7012, 0x0123][at],
        Permutation::Replicate8 => [0x0000, 0x1111, 0x2222, 0x3333][at],
        Permutation::EdgeLeft => [0x3210, 0x3211, 0x3222, 0x3333][at],
        Permutation::EdgeRight => [0x0000, 0x1110, 0x2210, 0x3210][at],
        Permutation::Replicate16 => [0x1010, 0x3232, 0x1010, 0x3232][at],
    }
}

fn permute(a: u32, b: u32, selector: u32) -> u64 {
    let bytes = (u64::from(b) << 32 | u64::from(a)).to_le_bytes();
    let pick = |i: u32| {
        let nibble = selector >> (4 * i);
        let byte = bytes[(nibble & 7) as usize];
        let spread = if byte & 0x80 != 0 { 0xff } else { 0 };
        u64::from(if nibble & 8 != 0 { spread } else { byte }) << (8 * i)
    };
    (0..4).map(pick).fold(0, |word, byte| word | byte)
}

fn lookup(table: u8, a: u32, b: u32, c: u32) -> u64 {
    let mut out = 0u32;
    for row in (0..8).filter(|row| table >> row & 1 == 1) {
        let side = |word: u32, bit: u32| if row >> bit & 1 == 1 { word } else { !word };
        out |= side(a, 2) & side(b, 1) & side(c, 0);
    }
    u64::from(out)
}

/// The sum or difference with the carry flag: the result and the flag after it. A difference is the sum with
/// the complement, so its flag is set where nothing was borrowed; the compiler's 128-bit division relies on
/// that.
pub(super) fn carry(f: Carry, ty: Type, flag: bool, [a, b, c]: [u64; 3]) -> (u64, bool) {
    let (x, y, z) = (u128::from(ty.truncate(a)), u128::from(ty.truncate(b)), u128::from(ty.truncate(c)));
    let bits = u32::from(ty.bits);
    let wide = match f {
        Carry::Add => x + y + u128::from(flag),
        Carry::Sub => x + u128::from(ty.truncate(!b)) + u128::from(flag),
        Carry::MadLow => ((x * y) & ((1 << bits) - 1)) + z + u128::from(flag),
        Carry::MadHigh if ty.signed() => {
            let high = (ty.extend(a).wrapping_mul(ty.extend(b)) >> bits) as u64;
            u128::from(ty.truncate(high)) + z + u128::from(flag)
        }
        Carry::MadHigh => ((x * y) >> bits) + z + u128::from(flag),
    };
    (ty.truncate(wide as u64), wide >> bits & 1 == 1)
}

pub(super) fn compare(condition: Condition, a: u64, b: u64) -> bool {
    let ty = condition.ty;
    let order = if ty.float() {
        let (a, b) = if condition.flush { (float::flush(ty, a), float::flush(ty, b)) } else { (a, b) };
        let (x, y) = (float::wide(ty, a), float::wide(ty, b));
        match condition.compare {
            Compare::Numbers => return !x.is_nan() && !y.is_nan(),
            Compare::Nan => return x.is_nan() || y.is_nan(),
            _ => {}
        }
        match x.partial_cmp(&y) {
            Some(order) => order,
            None => return condition.unordered,
        }
    } else {
        ty.extend(a).cmp(&ty.extend(b))
    };
    match condition.compare {
        Compare::Equal => order.is_eq(),
        Compare::NotEqual => order.is_ne(),
        Compare::Less => order.is_lt(),
        Compare::LessEqual => order.is_le(),
        Compare::Greater => order.is_gt(),
        Compare::GreaterEqual => order.is_ge(),
        Compare::Numbers | Compare::Nan => false,
    }
}

/// What `set` stores for a truth value.
pub(super) fn flag_value(result: Type, flag: bool) -> u64 {
    match (flag, result.kind) {
        (false, _) => 0,
        (true, Kind::Float) if result.bits == 16 => u64::from(half::from_f32(1.0)),
        (true, Kind::Brain) => u64::from(half::brain_from_f32(1.0)),
        (true, Kind::Float) => u64::from(1f32.to_bits()),
        (true, _) => result.truncate(u64::MAX),
    }
}

pub(super) fn join(with: Option<Join>, flag: bool, other: bool) -> bool {
    match with {
        None => flag,
        Some(Join::And) => flag && other,
        Some(Join::Or) => flag || other,
        Some(Join::Xor) => flag ^ other,
    }
}
