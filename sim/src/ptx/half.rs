//! The two 16-bit floating-point types, computed through binary32.

pub(crate) fn to_f32(bits: u16) -> f32 {
    let sign = u32::from(bits & 0x8000) << 16;
    let exponent = u32::from(bits >> 10 & 0x1f);
    let fraction = u32::from(bits & 0x3ff);
    let magnitude = match exponent {
        0 => return f32::from_bits(sign | (fraction as f32 * 2f32.powi(-24)).to_bits()),
        31 => 0x7f80_0000 | fraction << 13,
        _ => (exponent + 112) << 23 | fraction << 13,
    };
    f32::from_bits(sign | magnitude)
}

/// Rounded to nearest, ties to even.
pub(super) fn from_f32(value: f32) -> u16 {
    let bits = value.to_bits();
    let sign = (bits >> 16 & 0x8000) as u16;
    let magnitude = bits & 0x7fff_ffff;
    if magnitude > 0x7f80_0000 {
        return sign | 0x7fff;
    }
    if magnitude >= 0x477f_f000 {
        return sign | 0x7c00;
    }
    if magnitude < 0x3880_0000 {
        // Below the smallest normal: count steps of 2^-24.
        let steps = (f32::from_bits(magnitude) * 2f32.powi(24)).round_ties_even();
        return sign | steps as u16;
    }
    let rounded = magnitude + 0xfff + (magnitude >> 13 & 1);
    sign | ((rounded >> 13) - (112 << 10)) as u16
}

pub(super) fn brain_to_f32(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// Rounded to nearest, ties to even.
pub(super) fn brain_from_f32(value: f32) -> u16 {
    let bits = value.to_bits();
    if value.is_nan() {
        return 0x7fff;
    }
    ((bits + 0x7fff + (bits >> 16 & 1)) >> 16) as u16
}
