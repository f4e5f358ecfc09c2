use super::{Buffer, Loaded, numbers, ptx};
use crate::ptx::alu::{alu, carry, compare};
use crate::ptx::convert::convert;
use crate::ptx::half;
use crate::ptx::inst::{Alu, Carry, Compare, Condition, Conversion, Rounding};
use crate::ptx::types::Type;

fn ty(name: &str) -> Type {
    Type::parse(name).unwrap()
}

#[test]
fn integers() {
    let loaded = Loaded::new(&[ptx!("arithmetic")]);
    let count = 200;
    let edges = [0, 1, -1, i32::MIN, i32::MAX];
    let a: Vec<i32> = edges.into_iter().chain(numbers(count).map(|v| v as i32)).take(count).collect();
    let b: Vec<i32> = a.iter().rev().copied().collect();
    let (da, db, out) =
        (Buffer::from_values(&a), Buffer::from_values(&b), Buffer::from_values(&vec![0i64; 16 * count]));
    loaded.run("integers", [7, 1, 1], [32, 1, 1], 0, &[&da, &db, &out, &(count as i32)]).unwrap();
    for (i, row) in out.get().chunks(16).enumerate() {
        let (x, y) = (a[i], b[i]);
        let (u, v) = (x as u32, y as u32);
        let permuted = [u as u8, v as u8, (u >> 8) as u8, (v >> 8) as u8];
        let expected: [i64; 16] = [
            i64::from(x).wrapping_mul(i64::from(y)),
            (i64::from(x) * i64::from(y)) >> 32,
            ((u64::from(u) * u64::from(v)) >> 32) as i64,
            i64::from(x.wrapping_div(y | 1)),
            i64::from(u % (v | 1)),
            i64::from(x.min(y)),
            i64::from(u.max(v)),
            i64::from((x.wrapping_abs() as u32).wrapping_sub((x >> (y & 15)) as u32).wrapping_add(u << (v & 7))),
            i64::from(u.count_ones() + v.leading_zeros() + if v == 0 { 0 } else { v.trailing_zeros() + 1 }),
            i64::from(u.reverse_bits()),
            i64::from(i32::from(x as i8) + i32::from(y as i16)),
            ((u64::from(u) << 32 | u64::from(v)) / 10) as i64,
            i64::from(u >> 5 & 0x3ff | v << 20),
            i64::from(u32::from_le_bytes([permuted[0], permuted[1], permuted[2], permuted[3]])) & 0xffff_ffff,
            i64::from(v << 7 | u >> 25),
            i64::from(!x ^ y),
        ];
        // Selector 0x5140 takes byte 0 of u, byte 0 of v, byte 1 of u, byte 1 of v.
        assert_eq!(row, expected, "for {x} and {y}");
    }
}

#[test]
fn floats() {
    let loaded = Loaded::new(&[ptx!("arithmetic")]);
    let a: Vec<f32> = (-20..20).map(|i| i as f32 * 0.75 + 0.1).collect();
    let b: Vec<f64> = (0..40).map(|i| f64::from(i) * 1.3 - 9.0).collect();
    let (da, db, out) = (Buffer::from_values(&a), Buffer::from_values(&b), Buffer::from_values(&[0f64; 640]));
    loaded.run("floats", [2, 1, 1], [32, 1, 1], 0, &[&da, &db, &out, &40i32]).unwrap();
    for (i, row) in out.get().chunks(16).enumerate() {
        let (x, y) = (a[i], b[i]);
        let expected = [
            f64::from(x) + y,
            f64::from(x.mul_add(2.5, -1.0)),
            y.mul_add(3.0, f64::from(x)),
            f64::from(x.abs().sqrt()),
            y.abs().sqrt(),
            f64::from(x / 3.0),
            y / 7.0,
            f64::from(x.sin() + x.cos()),
            f64::from(x.exp2()),
            f64::from(x as i32),
            f64::from(y.abs() as u32 as u8),
            f64::from(x.floor() + x.ceil() + x.round_ties_even()),
            f64::from(x.min(1.0)) + y.max(2.0),
            f64::from(1.0 / (x.abs() + 1.0).sqrt()),
            f64::from(if x > 0.0 { x.log2() } else { -x }),
            f64::from((y * 1000.0) as i64 as f32),
        ];
        for (k, (got, wanted)) in row.iter().zip(expected).enumerate() {
            assert!(
                (got - wanted).abs() <= 1e-6 * wanted.abs().max(1.0),
                "expression {k} of {x}, {y}: {got}, not {wanted}"
            );
        }
    }
}

#[test]
fn conversions() {
    let how = |to: &str, from: &str, rounding, saturate| {
        let (to, from) = (ty(to), ty(from));
        Conversion { to, from, rounding, flush: false, saturate, finite: false, relu: false }
    };
    let cvt = |to: &str, from: &str, rounding, value| convert(how(to, from, rounding, false), value);
    let single = |v: f32| u64::from(v.to_bits());
    assert_eq!(cvt("s32", "f32", Rounding::IntegerZero, single(-2.7)) as u32, 0xffff_fffe);
    assert_eq!(cvt("s32", "f32", Rounding::IntegerDown, single(-2.2)) as u32, 0xffff_fffd);
    assert_eq!(cvt("u32", "f32", Rounding::IntegerZero, single(-5.0)), 0);
    assert_eq!(cvt("s32", "f32", Rounding::IntegerZero, single(f32::NAN)), 0);
    assert_eq!(cvt("u8", "f32", Rounding::IntegerZero, single(300.0)), 255);
    assert_eq!(cvt("s64", "s32", Rounding::None, 0xffff_ffff), u64::MAX);
    assert_eq!(cvt("u16", "s32", Rounding::None, 0x1_2345), 0x2345);
    assert_eq!(convert(how("u8", "s32", Rounding::None, true), 0xffff_fff0), 0);
    assert_eq!(cvt("f32", "u64", Rounding::Nearest, u64::MAX), single(u64::MAX as f32));
    assert_eq!(cvt("f32", "s32", Rounding::Zero, 16_777_219), single(16_777_218.0));
    assert_eq!(cvt("f32", "s32", Rounding::Up, 16_777_217), single(16_777_218.0));
    assert_eq!(cvt("f32", "f64", Rounding::Down, 0.1f64.to_bits()), single(0.1f32.next_down()));
    assert_eq!(cvt("f32", "f64", Rounding::Up, 0.1f64.to_bits()), single(0.1f32));
    assert_eq!(cvt("f32", "f32", Rounding::IntegerNearest, single(2.5)), single(2.0));
}

#[test]
fn halves_round_to_nearest() {
    for (value, bits) in
        [(1.0, 0x3c00), (65504.0, 0x7bff), (65520.0, 0x7c00), (-2.0, 0xc000), (6.0e-8, 1), (1.0 + 1.0 / 1024.0, 0x3c01)]
    {
        assert_eq!(half::from_f32(value), bits, "{value}");
    }
    for bits in (0..=u16::MAX).filter(|b| b & 0x7fff <= 0x7c00) {
        assert_eq!(half::from_f32(half::to_f32(bits)), bits);
    }
}

#[test]
fn wide_products_and_shifts() {
    assert_eq!(alu(Alu::MulHigh, ty("s64"), u64::MAX, 3, 0), u64::MAX);
    assert_eq!(alu(Alu::MulHigh, ty("u64"), u64::MAX, u64::MAX, 0), u64::MAX - 1);
    assert_eq!(alu(Alu::MadWide, ty("s32"), 0xffff_ffff, 5, 10), 5);
    assert_eq!(alu(Alu::ShiftRight, ty("s32"), 0x8000_0000, 40, 0), 0xffff_ffff);
    assert_eq!(alu(Alu::ShiftLeft, ty("b32"), 1, 32, 0), 0);
    assert_eq!(alu(Alu::ExtractBits, ty("s32"), 0x0000_0f00, 8, 4), 0xffff_ffff);
    assert_eq!(alu(Alu::ExtractBits, ty("u32"), 0xdead_beef, 8, 8), 0xbe);
    assert_eq!(alu(Alu::Table(0x96), ty("b32"), 0xff00, 0x0ff0, 0x00ff), 0xff00 ^ 0x0ff0 ^ 0x00ff);
}

/// Two words of 32 bits each, chained by the flag, are one of 64.
#[test]
fn carries_chain_words() {
    let halves = |v: u64| [v & 0xffff_ffff, v >> 32];
    for (a, b) in [(5u64, 7u64), (7, 5), (u64::MAX, 1), (1 << 32, 1), (0, u64::MAX)] {
        for (f, expected) in [(Carry::Add, a.wrapping_add(b)), (Carry::Sub, a.wrapping_sub(b))] {
            let ([a0, a1], [b0, b1]) = (halves(a), halves(b));
            let (low, flag) = carry(f, ty("u32"), f == Carry::Sub, [a0, b0, 0]);
            let (high, _) = carry(f, ty("u32"), flag, [a1, b1, 0]);
            assert_eq!(high << 32 | low, expected, "{f:?} of {a} and {b}");
        }
    }
}

#[test]
fn comparisons_with_nan() {
    let nan = u64::from(f32::NAN.to_bits());
    let test = |compare_as, unordered| {
        let condition = Condition { compare: compare_as, unordered, ty: ty("f32"), join: None, flush: false };
        compare(condition, nan, 0)
    };
    assert!(!test(Compare::NotEqual, false));
    assert!(test(Compare::NotEqual, true));
    assert!(test(Compare::Less, true));
    assert!(test(Compare::Nan, false));
}
