//! Rounding, subnormals, NaN: expected bits from the PTX specification.

use super::{check, numbers};
use crate::ptx::inst::{Float, Rounding};
use crate::ptx::types::{Kind, Type};
use crate::ptx::{float, soft};

const DOUBLE: Type = Type::new(Kind::Float, 64);

/// To nearest the host is the judge, for every kind of operand.
#[test]
fn to_nearest_as_the_host() {
    let edges = [0, 1, 0x7f_ffff, 0x80_0000, 0x3f80_0000, 0x7f7f_ffff, 0x7f80_0000, 0x7fc0_0000];
    let singles: Vec<u64> =
        edges.iter().flat_map(|&v| [v, v | 0x8000_0000]).chain(numbers(60).map(u64::from)).collect();
    let wide: Vec<u64> =
        [0, 1, 0x000f_ffff_ffff_ffff, 0x3ff0_0000_0000_0001, 0x7fef_ffff_ffff_ffff, 0x7ff0_0000_0000_0000]
            .into_iter()
            .chain(numbers(120).zip(numbers(121).skip(1)).map(|(high, low)| u64::from(high) << 32 | u64::from(low)))
            .collect();
    for (ty, values) in [(Type::F32, &singles), (DOUBLE, &wide)] {
        let near = Rounding::Nearest;
        let same = |f, found: u64, [a, b, c]: [u64; 3]| {
            let host = float::float(f, ty, a, b, c);
            let both_nan = soft::is_nan(ty, host) && soft::is_nan(ty, found);
            assert!(both_nan || host == found, "{f:?} {ty:?} of {a:x} {b:x} {c:x}: {found:x}, not {host:x}");
        };
        for (i, &a) in values.iter().enumerate() {
            same(Float::Sqrt, soft::sqrt(ty, near, a), [a, 0, 0]);
            for (j, &b) in values.iter().enumerate() {
                // Also what nearly cancels the product.
                let product = float::float(Float::Mul, ty, a, b, 0) ^ soft::sign(ty);
                same(Float::Add, soft::add(ty, near, a, b), [a, b, 0]);
                same(Float::Mul, soft::mul(ty, near, a, b), [a, b, 0]);
                same(Float::Div, soft::div(ty, near, a, b), [a, b, 0]);
                for c in [values[(i + 3 * j) % values.len()], product, product ^ 1] {
                    same(Float::Fma, soft::fma(ty, near, a, b, c), [a, b, c]);
                }
            }
        }
    }
}

#[test]
fn directed() {
    check(&[
        ("add.rz.f32 %r0, %r1, %r2;", "r0", [0x3f80_0000, 0x33c0_0000, 0], 0x3f80_0000),
        ("add.rn.f32 %r0, %r1, %r2;", "r0", [0x3f80_0000, 0x33c0_0000, 0], 0x3f80_0001),
        ("add.rp.f32 %r0, %r1, %r2;", "r0", [0x3f80_0000, 1, 0], 0x3f80_0001),
        ("sub.rm.f32 %r0, %r1, %r2;", "r0", [0x3f80_0000, 1, 0], 0x3f7f_ffff),
        ("sub.rm.f32 %r0, %r1, %r2;", "r0", [0x3f80_0000, 0x3f80_0000, 0], 0x8000_0000),
        ("mul.rp.f32 %r0, %r1, %r2;", "r0", [1, 1, 0], 1),
        ("mul.rz.f32 %r0, %r1, %r2;", "r0", [0x7f7f_ffff, 0x7f7f_ffff, 0], 0x7f7f_ffff),
        ("mul.rm.f32 %r0, %r1, %r2;", "r0", [0xff7f_ffff, 0x7f7f_ffff, 0], 0xff80_0000),
        ("div.rm.f32 %r0, %r1, %r2;", "r0", [0x3f80_0000, 0x4040_0000, 0], 0x3eaa_aaaa),
        ("div.rp.f32 %r0, %r1, %r2;", "r0", [0x3f80_0000, 0x4040_0000, 0], 0x3eaa_aaab),
        ("fma.rz.f32 %r0, %r1, %r2, %r3;", "r0", [0x3f80_0001, 0x3f80_0001, 0xb480_0000], 0x3f80_0000),
        ("sqrt.rm.f32 %r0, %r1;", "r0", [0x4000_0000, 0, 0], 0x3fb5_04f3),
        ("sqrt.rp.f32 %r0, %r1;", "r0", [0x4000_0000, 0, 0], 0x3fb5_04f4),
        ("rcp.rp.f32 %r0, %r1;", "r0", [0x4040_0000, 0, 0], 0x3eaa_aaab),
        ("rcp.rz.f32 %r0, %r1;", "r0", [0x4040_0000, 0, 0], 0x3eaa_aaaa),
        ("add.rp.f64 %d0, %d1, %d2;", "d0", [0x3ff0_0000_0000_0000, 1, 0], 0x3ff0_0000_0000_0001),
        ("mul.rm.f64 %d0, %d1, %d2;", "d0", [1, 0x8000_0000_0000_0001, 0], 0x8000_0000_0000_0001),
        ("div.rz.f64 %d0, %d1, %d2;", "d0", [0x4000_0000_0000_0000, 0x4008_0000_0000_0000, 0], 0x3fe5_5555_5555_5555),
        ("sqrt.rp.f64 %d0, %d1;", "d0", [0x4000_0000_0000_0000, 0, 0], 0x3ff6_a09e_667f_3bcd),
        ("sqrt.rm.f64 %d0, %d1;", "d0", [0x4000_0000_0000_0000, 0, 0], 0x3ff6_a09e_667f_3bcc),
        ("rcp.rm.f64 %d0, %d1;", "d0", [0x4008_0000_0000_0000, 0, 0], 0x3fd5_5555_5555_5555),
    ]);
}

#[test]
fn subnormals_are_flushed() {
    check(&[
        ("mul.ftz.f32 %r0, %r1, %r2;", "r0", [0x8080_0000, 0x3e80_0000, 0], 0x8000_0000),
        ("mul.f32 %r0, %r1, %r2;", "r0", [0x8080_0000, 0x3e80_0000, 0], 0x8020_0000),
        ("add.ftz.f32 %r0, %r1, %r2;", "r0", [0x8000_0001, 0x8000_0001, 0], 0x8000_0000),
        ("fma.rn.ftz.f32 %r0, %r1, %r2, %r3;", "r0", [0x3f80_0000, 0x3f80_0000, 0x7f_ffff], 0x3f80_0000),
        ("max.ftz.f32 %r0, %r1, %r2;", "r0", [1, 0, 0], 0),
        ("div.rn.ftz.f32 %r0, %r1, %r2;", "r0", [0x3f80_0000, 1, 0], 0x7f80_0000),
        ("sqrt.rn.ftz.f32 %r0, %r1;", "r0", [0x7f_ffff, 0, 0], 0),
        ("rsqrt.approx.ftz.f32 %r0, %r1;", "r0", [0x8000_0001, 0, 0], 0xff80_0000),
        ("ex2.approx.ftz.f32 %r0, %r1;", "r0", [0xc300_0000, 0, 0], 0),
        ("abs.ftz.f32 %r0, %r1;", "r0", [0x8000_0001, 0, 0], 0),
        ("cvt.ftz.f64.f32 %d0, %r1;", "d0", [0x8000_0001, 0, 0], 0x8000_0000_0000_0000),
        ("cvt.rn.ftz.f32.f64 %r0, %d1;", "r0", [0x3800_0000_0000_0000 - (1 << 52), 0, 0], 0),
        ("cvt.rpi.ftz.f32.f32 %r0, %r1;", "r0", [1, 0, 0], 0),
        ("setp.gt.ftz.f32 %p0, %r1, %r2;", "p", [1, 0, 0], 0),
        ("setp.gt.f32 %p0, %r1, %r2;", "p", [1, 0, 0], 1),
        ("add.ftz.f16 %h0, %h1, %h2;", "h0", [1, 0x8001, 0], 0),
        ("mul.rn.ftz.f16x2 %r0, %r1, %r2;", "r0", [0x0400_3c00, 0x3800_3c00, 0], 0x0000_3c00),
    ]);
}

#[test]
fn minima_and_maxima() {
    check(&[
        ("max.f32 %r0, %r1, %r2;", "r0", [0x7fc0_0001, 0x3f80_0000, 0], 0x3f80_0000),
        ("max.NaN.f32 %r0, %r1, %r2;", "r0", [0x7fc0_0001, 0x3f80_0000, 0], 0x7fff_ffff),
        ("max.f32 %r0, %r1, %r2;", "r0", [0x8000_0000, 0, 0], 0),
        ("min.f32 %r0, %r1, %r2;", "r0", [0, 0x8000_0000, 0], 0x8000_0000),
        ("min.f64 %d0, %d1, %d2;", "d0", [0, 1 << 63, 0], 1 << 63),
        ("max.xorsign.abs.f32 %r0, %r1, %r2;", "r0", [0xc000_0000, 0x3f80_0000, 0], 0xc000_0000),
        ("min.xorsign.abs.f32 %r0, %r1, %r2;", "r0", [0xc000_0000, 0xbf80_0000, 0], 0x3f80_0000),
        ("max.f32 %r0, %r1, %r2, %r3;", "r0", [0x3f80_0000, 0x4000_0000, 0x4040_0000], 0x4040_0000),
        ("min.f32 %r0, %r1, %r2, %r3;", "r0", [0x3f80_0000, 0x4000_0000, 0xbf80_0000], 0xbf80_0000),
        ("max.NaN.bf16x2 %r0, %r1, %r2;", "r0", [0x7fc0_3f80, 0x3f80_4000, 0], 0x7fff_4000),
        ("max.relu.s32 %r0, %r1, %r2;", "r0", [0xffff_fffe, 0xffff_fff0, 0], 0),
        ("min.relu.s32 %r0, %r1, %r2;", "r0", [5, 3, 0], 3),
    ]);
}

#[test]
fn halves_are_rounded_once() {
    check(&[
        // 1.0009765625 * 1.0009765625 + 2^-24 lies just above the middle between two halves.
        ("fma.rn.f16 %h0, %h1, %h2, %h3;", "h0", [0x3c01, 0x3e00, 0x0001], 0x3e02),
        ("fma.rn.relu.f16 %h0, %h1, %h2, %h3;", "h0", [0xbc00, 0x3c00, 0], 0),
        ("fma.rn.relu.bf16x2 %r0, %r1, %r2, %r3;", "r0", [0xbf80_3f80, 0x3f80_3f80, 0], 0x0000_3f80),
        ("add.sat.f16 %h0, %h1, %h2;", "h0", [0x3c00, 0x3c00, 0], 0x3c00),
        // 1 + 2^-11 + 2^-40: by way of binary32 it would fall on the middle.
        ("cvt.rn.f16.f64 %h0, %d1;", "h0", [0x3ff0_0200_0000_1000, 0, 0], 0x3c01),
        ("cvt.rz.f16x2.f32 %r0, %r1, %r2;", "r0", [0x3f80_3fff, 0xbf80_3fff, 0], 0x3c01_bc01),
        ("cvt.rz.bf16x2.f32 %r0, %r1, %r2;", "r0", [0x3f80_ffff, 0x3f80_8001, 0], 0x3f80_3f80),
        ("cvt.rn.relu.f16.f32 %h0, %r1;", "h0", [0xbf80_0000, 0, 0], 0),
        ("cvt.rn.satfinite.f16.f32 %h0, %r1;", "h0", [0x4f80_0000, 0, 0], 0x7bff),
        ("add.f32.bf16 %r0, %h1, %r2;", "r0", [0x3f80, 0x3400_0000, 0], 0x3f80_0001),
        ("fma.rn.f32.f16 %r0, %h1, %h2, %r3;", "r0", [0x4000, 0x4200, 0x3f80_0000], 0x40e0_0000),
    ]);
}
