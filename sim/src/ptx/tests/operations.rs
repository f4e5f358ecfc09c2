//! Modifiers of integers, bytes, conversions, memory and barriers: expected bits from the PTX specification.

use super::{Buffer, Loaded, check, compute};

#[test]
fn integers() {
    check(&[
        ("add.sat.s32 %r0, %r1, %r2;", "r0", [0x7fff_ffff, 1, 0], 0x7fff_ffff),
        ("sub.sat.s32 %r0, %r1, %r2;", "r0", [0x8000_0000, 1, 0], 0x8000_0000),
        ("mad.hi.sat.s32 %r0, %r1, %r2, %r3;", "r0", [0x4000_0000, 4, 0x7fff_ffff], 0x7fff_ffff),
        ("mul24.hi.u32 %r0, %r1, %r2;", "r0", [0xff_ffff, 0xff_ffff, 0], 0xffff_fe00),
        ("mul24.hi.s32 %r0, %r1, %r2;", "r0", [0xff_ffff, 2, 0], 0xffff_ffff),
        ("mul24.lo.s32 %r0, %r1, %r2;", "r0", [0xff_ffff, 2, 0], 0xffff_fffe),
        ("mad24.hi.u32 %r0, %r1, %r2, %r3;", "r0", [0x80_0000, 0x80_0000, 1], 0x4000_0001),
        ("mad24.hi.sat.s32 %r0, %r1, %r2, %r3;", "r0", [0x40_0000, 0x40_0000, 0x7fff_ffff], 0x7fff_ffff),
        ("slct.b32.f32 %r0, %r1, %r2, %r3;", "r0", [5, 6, 0x8000_0000], 5),
        ("slct.b32.f32 %r0, %r1, %r2, %r3;", "r0", [5, 6, 0x7fc0_0000], 6),
        ("slct.ftz.b32.f32 %r0, %r1, %r2, %r3;", "r0", [5, 6, 0x8000_0001], 5),
        ("slct.b64.s32 %d0, %d1, %d2, %r3;", "d0", [5 << 32, 6 << 32, 0xffff_ffff], 6 << 32),
    ]);
}

#[test]
fn bytes() {
    let words = [0x0302_0100, 0x0706_0504];
    let modes: [(&str, [u64; 4]); 7] = [
        ("", [0x0000_0000, 0x0000_0001, 0x0000_0002, 0x0000_0003]),
        (".f4e", [0x0302_0100, 0x0403_0201, 0x0504_0302, 0x0605_0403]),
        (".b4e", [0x0506_0700, 0x0607_0001, 0x0700_0102, 0x0001_0203]),
        (".rc8", [0x0000_0000, 0x0101_0101, 0x0202_0202, 0x0303_0303]),
        (".ecl", [0x0302_0100, 0x0302_0101, 0x0302_0202, 0x0303_0303]),
        (".ecr", [0x0000_0000, 0x0101_0100, 0x0202_0100, 0x0302_0100]),
        (".rc16", [0x0100_0100, 0x0302_0302, 0x0100_0100, 0x0302_0302]),
    ];
    for (mode, expected) in modes {
        for (selector, expected) in (0..).zip(expected) {
            let operation = format!("prmt.b32{mode} %r0, %r1, %r2, %r3;");
            assert_eq!(compute(&operation, "r0", [words[0], words[1], selector]), Ok(expected), "{mode} {selector}");
        }
    }
    check(&[
        ("cvt.pack.sat.s16.s32 %r0, %r1, %r2;", "r0", [0x0001_0000, 0xfffe_0000, 0], 0x7fff_8000),
        ("cvt.pack.sat.u8.s32.b32 %r0, %r1, %r2, %r3;", "r0", [300, 0xffff_ffff, 0xaaaa_1234], 0x1234_ff00),
    ]);
}

#[test]
fn conversions() {
    check(&[
        ("cvt.s16.s8 %r0, %r1;", "r0", [0x80, 0, 0], 0xffff_ff80),
        ("cvt.s16.s8 %d0, %r1;", "d0", [0x80, 0, 0], 0xffff_ffff_ffff_ff80),
        ("cvt.u16.u8 %r0, %r1;", "r0", [0xff80, 0, 0], 0x80),
        ("cvt.rzi.s32.f64 %r0, %d1;", "r0", [0x7ff8_0000_0000_0000, 0, 0], 0x8000_0000),
        ("cvt.rzi.s32.f32 %r0, %r1;", "r0", [0x7fc0_0000, 0, 0], 0),
        ("cvt.rzi.u64.f32 %d0, %r1;", "d0", [0x7fc0_0000, 0, 0], 1 << 63),
        ("cvt.rz.f16.s32 %h0, %r1;", "h0", [100_000, 0, 0], 0x7bff),
        ("cvt.rm.f16.s32 %h0, %r1;", "h0", [100_000, 0, 0], 0x7bff),
        ("cvt.rp.f16.s32 %h0, %r1;", "h0", [(-100_000i32) as u32 as u64, 0, 0], 0xfbff),
        ("cvt.rp.f16.s32 %h0, %r1;", "h0", [100_000, 0, 0], 0x7c00),
        ("cvt.rn.f16.s32 %h0, %r1;", "h0", [2049, 0, 0], 0x6800),
    ]);
}

#[test]
fn comparisons_of_pairs() {
    check(&[
        ("set.eq.bf16.bf16 %h0, %h1, %h2;", "h0", [0x3f80, 0x3f80, 0], 0x3f80),
        ("set.lt.f16x2.f16x2 %r0, %r1, %r2;", "r0", [0x3c00_4000, 0x4000_3c00, 0], 0x3c00_0000),
        ("set.lt.u32.bf16x2 %r0, %r1, %r2;", "r0", [0x3f80_4000, 0x4000_3f80, 0], 0xffff_0000),
        ("setp.lt.f16x2 %p0|%p1, %r1, %r2;", "p", [0x3c00_4000, 0x4000_3c00, 0], 0b10),
        ("setp.eq.bf16x2 %p0|%p1, %r1, %r2;", "p", [0x3f80_4000, 0x4000_4000, 0], 0b01),
    ]);
}

#[test]
fn words_of_128_bits() {
    let operations = "mov.b128 %q0, {%d1, %d2}; st.global.b128 [%d4], %q0; ld.global.b128 %q1, [%d4]; \
                      mov.b128 %q2, %q1; mov.b128 {%d1, %d0}, %q2; xor.b64 %d0, %d0, %d1;";
    assert_eq!(compute(operations, "d0", [5, 3 << 40, 0]), Ok(5 ^ 3 << 40));
}

/// Two warps: one computes, the other reads it, twice, with a barrier for each direction.
#[test]
fn arriving_at_a_barrier_counts() {
    let loaded = Loaded::new(&[".version 8.0\n.target sm_75\n.address_size 64\n\
        .visible .entry k(.param .u64 out) { .reg .b64 %d<2>; .reg .b32 %r<5>; .reg .pred %p<3>; .shared .u32 cell;\n\
        ld.param.u64 %d1, [out]; mov.u32 %r1, %tid.x; setp.ge.u32 %p1, %r1, 32; mov.u32 %r2, 0; mov.u32 %r4, 0;\n\
        @%p1 bra consume;\n\
        produce: add.u32 %r2, %r2, 1; st.shared.u32 [cell], %r2; bar.arrive 1, 64; bar.sync 2, 64;\n\
        setp.lt.u32 %p2, %r2, 4; @%p2 bra produce; ret;\n\
        consume: bar.sync 1, 64; ld.shared.u32 %r3, [cell]; mad.lo.u32 %r4, %r4, 10, %r3; bar.arrive 2, 64;\n\
        add.u32 %r2, %r2, 1; setp.lt.u32 %p2, %r2, 4; @%p2 bra consume; st.global.u32 [%d1], %r4; ret; }"]);
    let out = Buffer::from_values(&[0u32]);
    loaded.run("k", [1; 3], [64, 1, 1], 0, &[&out]).unwrap();
    assert_eq!(out.get(), [1234]);
}

#[test]
fn nested_lists_are_filled_up() {
    let loaded = Loaded::new(&[".version 8.0\n.target sm_75\n.address_size 64\n\
        .visible .global .u32 rows[2][2] = {{1}, {3, 4}};\n.visible .global .u32 open[][2] = {{1}, {3}};\n\
        .visible .global .u32 flat[2][2] = {1, 2, 3};\n.visible .entry k() { ret; }"]);
    assert_eq!(loaded.variable::<u32>("rows").get(), [1, 0, 3, 4]);
    assert_eq!(loaded.variable::<u32>("open").get(), [1, 0, 3, 0]);
    assert_eq!(loaded.variable::<u32>("flat").get(), [1, 2, 3, 0]);
}

#[test]
fn local_variables_of_a_callee_are_aligned() {
    let loaded = Loaded::new(&[".version 8.0\n.target sm_75\n.address_size 64\n\
        .func (.reg .u64 %at) inner() { .local .align 64 .b8 there[64]; .reg .b64 %d<2>; mov.u64 %d1, there;\n\
        cvta.local.u64 %at, %d1; ret; }\n\
        .visible .entry k(.param .u64 out) { .local .align 4 .b8 own[20]; .reg .b64 %d<3>;\n\
        ld.param.u64 %d1, [out]; call (%d2), inner, (); and.b64 %d2, %d2, 63; st.global.u64 [%d1], %d2; ret; }"]);
    let out = Buffer::from_values(&[9u64]);
    loaded.run("k", [1; 3], [1; 3], 0, &[&out]).unwrap();
    assert_eq!(out.get(), [0]);
}
