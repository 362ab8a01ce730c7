//! Arithmetic that no H100 can answer for: packed and mixed types of later chips, narrow formats, random rounding; and what is
//! refused or trapped.

#![expect(clippy::unwrap_used, reason = "a test that panics has failed")]

use emulator::{GlobalMemory, Launch, Law, Options, Stop, launch, load};

/// Runs a body on one warp; it leaves its answers in `o0` to `o3`, and lane 0's come back.
fn run(body: &str) -> Result<[u32; 4], Stop> {
    // sm_121a does not round at random.
    let target = if body.contains("cvt.rs") { "sm_100a" } else { "sm_121a" };
    let text = format!(
        ".version 9.2\n.target {target}\n.address_size 64\n.visible .entry k(.param .u64 p_out)\n{{\n\
         .reg .b64 out, d0, d1, d2; .reg .b32 o<4>, a, b, c; .reg .b16 h, g; .reg .b8 y; .reg .f32 f<4>; .reg .pred p;\n\
         ld.param.u64 out, [p_out];\nmov.b32 o0, 0; mov.b32 o1, 0; mov.b32 o2, 0; mov.b32 o3, 0;\n{body}\n\
         st.global.v4.b32 [out], {{o0, o1, o2, o3}};\nret;\n}}\n"
    );
    let program = load(&text)?;
    let mut memory = GlobalMemory::default();
    let out = memory.allocate(16);
    let how = Launch { grid: [1; 3], block: [1, 1, 1], shared_bytes: 0, params: out.to_le_bytes().to_vec() };
    launch(&program, program.kernel("k").unwrap(), &how, &mut memory, &Options::default())?;
    let bytes = memory.bytes(out).unwrap();
    Ok(std::array::from_fn(|i| u32::from_le_bytes(bytes[4 * i..4 * i + 4].try_into().unwrap())))
}

fn first(body: &str) -> u32 {
    run(body).unwrap()[0]
}

fn f(x: f32) -> u32 {
    x.to_bits()
}

#[test]
fn bytes_side_by_side() {
    for (form, want) in [
        ("add.u8x4", 0x7F00_80FF),
        ("add.sat.u8x4", 0x7FFF_80FF),
        ("add.sat.s8x4", 0x7F00_7FFF),
        ("sub.u8x4", 0x7FFE_7E01),
        ("sub.sat.u8x4", 0x7FFE_7E00),
        ("sub.sat.s8x4", 0x7FFE_7E01),
        ("min.u8x4", 0x0001_0100),
        ("min.s8x4", 0x00FF_01FF),
        ("max.u8x4", 0x7FFF_7FFF),
        ("max.s8x4", 0x7F01_7F00),
        ("max.relu.s8x4", 0x7F01_7F00),
        ("min.relu.s8x4", 0x0000_0100),
    ] {
        let body = format!("mov.b32 a, 0x7fff7f00; mov.b32 b, 0x000101ff; {form} o0, a, b;");
        assert_eq!(first(&body), want, "{form}");
    }
    assert_eq!(first("mov.b32 a, 0x80ff0001; neg.s8x4 o0, a;"), 0x8001_00FF);
    assert_eq!(first("mov.b32 a, 0xffff7fff; add.sat.u16x2 o0, a, a;"), 0xFFFF_FFFE);
    assert_eq!(first("mov.b32 a, 0x80007fff; add.sat.s16x2 o0, a, a;"), 0x8000_7FFF);
    assert_eq!(first("mov.b32 a, 0xfffffff0; add.sat.u32 o0, a, 0x20;"), 0xFFFF_FFFF);
}

#[test]
fn two_floats_side_by_side() {
    let pair = |low: f32, high: f32| format!("{{0f{:08X}, 0f{:08X}}}", f(low), f(high));
    let run = |form: &str, operands: &str| {
        let body = format!(
            "mov.b64 d0, {}; mov.b64 d1, {}; mov.b64 d2, {}; {form}.f32x2 d0, {operands}; mov.b64 {{o0, o1}}, d0;",
            pair(1.5, f32::MAX),
            pair(2.0, f32::MAX),
            pair(f32::from_bits(1), f32::NEG_INFINITY)
        );
        let [low, high, ..] = run(&body).unwrap();
        [low, high]
    };
    assert_eq!(run("add", "d0, d1"), [f(3.5), f(f32::INFINITY)]);
    assert_eq!(run("add.rz", "d0, d1"), [f(3.5), f(f32::MAX)]);
    assert_eq!(run("sub.rm", "d0, d1"), [f(-0.5), f(-0.0)]);
    assert_eq!(run("mul.ftz", "d0, d2"), [0, f(f32::NEG_INFINITY)]);
    assert_eq!(run("fma.rp", "d0, d1, d2"), [f(3.0) + 1, f(f32::NEG_INFINITY)]);
    assert_eq!(run("fma.rp.ftz", "d0, d1, d2"), [f(3.0), f(f32::NEG_INFINITY)]);
}

#[test]
fn floats_with_halves() {
    // 0x3C01 is 1 + 2^-10 in f16; 0x3F81 is 1 + 2^-7 in bf16.
    let set = "mov.b16 h, 0x3c01; mov.b16 g, 0x3f81; mov.f32 f0, 0f3F800000;";
    let at = |form: &str| first(&format!("{set} {form}; mov.b32 o0, f1;"));
    assert_eq!(at("add.f32.f16 f1, h, f0"), f(2.0 + 2f32.powi(-10)));
    assert_eq!(at("sub.rn.f32.bf16 f1, g, f0"), f(2f32.powi(-7)));
    assert_eq!(at("fma.rn.f32.f16 f1, h, h, f0"), f((1.0 + 2f32.powi(-10)).powi(2) + 1.0));
    assert_eq!(at("fma.rz.sat.f32.bf16 f1, g, g, f0"), f(1.0));
}

#[test]
fn three_sources() {
    let set = "mov.f32 f0, 0fC0000000; mov.f32 f1, 0f7FC00000; mov.f32 f2, 0f3F800000;";
    let at = |form: &str| first(&format!("{set} {form}.f32 f3, f0, f1, f2; mov.b32 o0, f3;"));
    assert_eq!(at("min"), f(-2.0));
    assert_eq!(at("max"), f(1.0));
    assert_eq!(at("max.abs"), f(2.0));
    assert_eq!(at("max.NaN"), 0x7FFF_FFFF);
    assert!(matches!(run("min.xorsign.abs.f32 f3, f0, f1, f2;"), Err(Stop::Unsupported(_))));
}

#[test]
fn narrow_formats_from_floats() {
    let at = |x: f32, y: f32, form: &str| {
        let (register, out) =
            if form.contains("e2m1") { ("y", "cvt.u32.u8 o0, y") } else { ("h", "cvt.u32.u16 o0, h") };
        let body = format!(
            "mov.f32 f0, 0f{:08X}; mov.f32 f1, 0f{:08X}; cvt.{form}.f32 {register}, f0, f1; {out};",
            f(x),
            f(y)
        );
        first(&body)
    };
    // The first source goes to the upper half. Ties go to even, a small negative number keeps its sign.
    assert_eq!(at(5.0, 0.25, "rn.satfinite.e2m1x2"), 0x60);
    assert_eq!(at(-0.1, f32::NAN, "rn.satfinite.e2m1x2"), 0x87);
    assert_eq!(at(-0.1, 100.0, "rn.satfinite.relu.e2m1x2"), 0x07);
    assert_eq!(at(7.75, -7.25, "rn.satfinite.e2m3x2"), 0x1F3E);
    assert_eq!(at(f32::NEG_INFINITY, 0.03125, "rn.satfinite.e3m2x2"), 0x3F00);
    assert_eq!(at(1.5, -3.0, "rz.ue8m0x2"), 0x7F80);
    assert_eq!(at(1.5, -3.0, "rp.ue8m0x2"), 0x8081);
    assert_eq!(at(f32::INFINITY, f32::MAX, "rp.ue8m0x2"), 0xFFFF);
    assert_eq!(at(f32::INFINITY, f32::MAX, "rp.satfinite.ue8m0x2"), 0xFEFE);
    assert_eq!(at(0.0, f32::from_bits(0x007F_FFFF), "rz.ue8m0x2"), 0x0000);
    assert_eq!(at(f32::NAN, f32::from_bits(0x007F_FFFF), "rp.satfinite.ue8m0x2"), 0xFF01);
}

#[test]
fn narrow_formats_to_halves() {
    let from_byte =
        |form: &str, code: u32| first(&format!("mov.b32 a, {code}; cvt.u8.u32 y, a; cvt.{form} o0, y;"));
    assert_eq!(from_byte("rn.f16x2.e2m1x2", 0x9E), 0xB800_C400);
    assert_eq!(from_byte("rn.relu.f16x2.e2m1x2", 0x97), 0x0000_4600);
    assert_eq!(from_byte("rn.bf16x2.e2m1x2", 0x71), 0x40C0_3F00);
    let from_pair = |form: &str, code: u32| first(&format!("mov.b16 h, {code}; cvt.{form} o0, h;"));
    // The upper two bits of a six-bit code's byte do not belong to it.
    assert_eq!(from_pair("rn.f16x2.e2m3x2", 0xDFA1), 0x4780_B000);
    assert_eq!(from_pair("rn.f16x2.e3m2x2", 0x1F01), 0x4F00_2C00);
    assert_eq!(from_pair("rn.bf16x2.ue8m0x2", 0x00FF), 0x0040_7FFF);
    assert_eq!(from_pair("rn.bf16x2.e4m3x2", 0x7F7E), 0x7FFF_43E0);
    assert_eq!(from_pair("rn.satfinite.bf16x2.e5m2x2", 0x7CFC), 0x7F7F_FF7F);
    let scaled = |code: u32, scale: u32| {
        first(&format!(
            "mov.b16 h, {code}; mov.b16 g, {scale}; cvt.rn.scaled::n2::ue8m0.bf16x2.e4m3x2 o0, h, g;"
        ))
    };
    assert_eq!(scaled(0x38B8, 0x8180), 0x4080_C000);
    assert_eq!(scaled(0x38B8, 0xFF00), 0x7FFF_8040);
    assert_eq!(scaled(0x7E7E, 0xFEFE), 0x7F80_7F80);
}

#[test]
fn random_rounding_takes_its_bits() {
    let set = "mov.f32 f0, 0f3F808000; mov.f32 f1, 0f3F807FFF;";
    // Half a unit of bf16, and a little less.
    let two = |bits: u32| first(&format!("{set} mov.b32 a, {bits}; cvt.rs.bf16x2.f32 o0, f0, f1, a;"));
    assert_eq!(two(0x8000_8000), 0x3F81_3F80);
    assert_eq!(two(0x7FFF_8001), 0x3F80_3F81);
    // Four values: 0.75 is half way between two of e2m1. The first of a pair takes the bits in reverse.
    let four = |bits: u32| {
        first(&format!(
            "mov.f32 f0, 0f3F400000; mov.b32 a, {bits}; cvt.rs.satfinite.e2m1x4.f32 h, {{f0, f0, f0, f0}}, a; cvt.u32.u16 o0, h;"
        ))
    };
    assert_eq!(four(0), 0x1111);
    assert_eq!(four(0xFFFF_FFFF), 0x2222);
    assert_eq!(four(0x8000_0000), 0x1211);
    assert_eq!(four(0x0000_0001), 0x1121);
    let bytes = |bits: u32| {
        first(&format!(
            "mov.f32 f0, 0f3F880000; mov.b32 a, {bits}; cvt.rs.satfinite.e4m3x4.f32 o0, {{f0, f0, f0, f0}}, a;"
        ))
    };
    assert_eq!(bytes(0x8000_0001), 0x3839_3938);
}

/// Definition and integer arithmetic, over all halves and many floats.
#[test]
fn fast_conversions_are_the_definition() {
    use numerics::convert::{f64_to, fast};
    use numerics::{Format, Rounding};
    for x in 0..=u16::MAX {
        assert_eq!(fast::f16_to_f32(x), Format::F16.decode(u32::from(x)).to_bits(), "{x:#x}");
    }
    let near = Rounding::NearestEven;
    // Every exponent, with fractions around the places where rounding turns.
    let fractions =
        (0..1 << 11).flat_map(|high: u32| [0, 1, 0x7FF, 0x800, 0x801, 0xFFF].map(|low| high << 12 | low));
    for fraction in fractions.filter(|f| f >> 23 == 0) {
        for top in 0..1 << 9 {
            let x = top << 23 | fraction;
            let wide = f64::from(f32::from_bits(x));
            assert_eq!(
                u32::from(fast::f32_to_f16(x)),
                f64_to(Format::F16, wide, near, false, false),
                "{x:#x}"
            );
            assert_eq!(
                u32::from(fast::f32_to_bf16(x)),
                f64_to(Format::Bf16, wide, near, false, false),
                "{x:#x}"
            );
            assert_eq!(
                u32::from(fast::f32_to_e4m3(x)),
                f64_to(Format::E4m3, wide, near, true, false),
                "{x:#x}"
            );
        }
    }
    // Doubles beside the middle between two halves, in every exponent that either format has and beyond.
    for top in 0x340..0x4C0u64 {
        for fraction in (0..1 << 13).map(|f: u64| f << 39) {
            for low in [0, 1, (1 << 39) - 1, 1 << 38] {
                let x = f64::from_bits(top << 52 | fraction | low);
                let odd = fast::f64_to_odd(x);
                let half = f64_to(Format::F16, x, near, false, false);
                assert_eq!(u32::from(fast::f32_to_f16(odd)), half, "{x:e}");
                assert_eq!(u32::from(fast::f64_to_f16(x)), half, "{x:e}");
                let brain = f64_to(Format::Bf16, x, near, false, false);
                assert_eq!(u32::from(fast::f32_to_bf16(odd)), brain, "{x:e}");
                assert_eq!(u32::from(fast::f64_to_bf16(x)), brain, "{x:e}");
            }
        }
    }
}

#[test]
fn undefined_operands_are_traps() {
    for body in [
        "mov.b32 a, 0; div.u32 o0, 1, a;",
        "mov.b32 a, 0; rem.s32 o0, 1, a;",
        "mov.b64 d0, 0; rem.u64 d1, d0, d0;",
        "mov.b32 a, 32; fns.b32 o0, 1, a, 1;",
    ] {
        match run(body) {
            Err(Stop::Trap(trap)) => assert_eq!(trap.law, Law::Operand, "{body}"),
            other => panic!("{body}: {other:?}"),
        }
    }
    // A lane that a guard keeps away does not divide.
    assert_eq!(first("mov.b32 a, 0; setp.ne.u32 p, a, 0; mov.b32 o0, 9; @p div.u32 o0, 1, a;"), 9);
}

#[test]
fn unknown_modifiers_are_refused() {
    for body in [
        "add.frob.u32 o0, 1, 2;",
        "add.sat.u64 d0, d0, d0;",
        "mul.u32 o0, 1, 2;",
        "div.f32 f0, f1, f2;",
        "ex2.approx.bf16 h, g;",
        "cvt.f16.f32 h, f0;",
        "cvt.rn.f32.f16 f0, h;",
        "cvt.rn.e4m3x2.f32 h, f0, f1;",
        "cvt.rn.satfinite.pzo.e4m3x2.f32 h, f0, f1;",
        "cvt.rz.satfinite.s2f6x2.f32 h, f0, f1;",
        "cvt.rn.s2f6x2.f32 h, f0, f1;",
        "vshl.u32.u32.u32.sat.clamp o0, a, b;",
        "vmad.s32.s32.s32 o0, -a, b, -c;",
        "setp.lo.f32 p, f0, f1;",
        "lop3.b32 o0, a, b, c, a;",
        "min.NaN.f64 d0, d0, d0;",
    ] {
        assert!(matches!(run(body), Err(Stop::Unsupported(_))), "{body}");
    }
}

#[test]
fn fixed_point_pairs() {
    let narrow = |form: &str, a: f32, b: f32| {
        let line = format!("mov.b32 f0, 0f{:08X}; mov.b32 f1, 0f{:08X}; mov.b16 g, 0x807e;", f(a), f(b));
        let scale = if form.contains("scaled") { ", g" } else { "" };
        first(&format!("{line} {form} h, f0, f1{scale}; cvt.u32.u16 o0, h;"))
    };
    const RN: &str = "cvt.rn.satfinite.s2f6x2.f32";
    for (a, b, want) in [
        (1.0, -2.0, 0x4080),
        // 1.5 and 0.5 sixty-fourths: ties to even.
        (3.0 / 128.0, 1.0 / 128.0, 0x0200),
        (-3.0 / 128.0, -1.0 / 128.0, 0xFE00),
        (1.984_375, 1.99, 0x7F7F),
        (2.0, -2.01, 0x7F80),
        (f32::INFINITY, f32::NEG_INFINITY, 0x7F80),
        (-0.0, f32::MIN_POSITIVE / 2.0, 0),
    ] {
        assert_eq!(narrow(RN, a, b), want, "{a} {b}");
    }
    assert_eq!(narrow("cvt.rn.satfinite.relu.s2f6x2.f32", -1.0, 0.75), 0x0030);
    // Over 2 and over 1/2.
    assert_eq!(narrow("cvt.rn.satfinite.scaled::n2::ue8m0.s2f6x2.f32", 3.0, 0.25), 0x6020);
    assert_eq!(
        first("mov.b32 a, 0x3f80bf00; cvt.rn.satfinite.s2f6x2.bf16x2 h, a; cvt.u32.u16 o0, h;"),
        0x40E0
    );
    let wide = |form: &str, code: u32| {
        let scale = if form.contains("scaled") { ", g" } else { "" };
        first(&format!("mov.b16 h, {code}; mov.b16 g, 0x807e; {form} o0, h{scale};"))
    };
    // -63/64 has six bits, which bf16 holds; 1 and -2.
    assert_eq!(wide("cvt.rn.bf16x2.s2f6x2", 0xC1C1), 0xBF7C_BF7C);
    assert_eq!(wide("cvt.rn.bf16x2.s2f6x2", 0x4080), 0x3F80_C000);
    assert_eq!(wide("cvt.rn.relu.bf16x2.s2f6x2", 0x4080), 0x3F80_0000);
    assert_eq!(wide("cvt.rn.satfinite.scaled::n2::ue8m0.bf16x2.s2f6x2", 0x4080), 0x4000_BF80);
    // A factor that is no number.
    assert_eq!(
        first("mov.b16 h, 0x4040; mov.b16 g, 0xff7f; cvt.rn.scaled::n2::ue8m0.bf16x2.s2f6x2 o0, h, g;"),
        0x7FFF_3F80
    );
}

#[test]
fn video_products_and_shifts() {
    let with = |a: u32, b: u32, c: u32, line: &str| {
        first(&format!("mov.b32 a, {a}; mov.b32 b, {b}; mov.b32 c, {c}; mov.b32 o0, 0x11223344; {line}"))
    };
    let minus = |x: u32| x.wrapping_neg();
    for (a, b, c, line, want) in [
        (5, minus(3), 7, "vmad.s32.s32.s32 o0, a, b, c;", minus(8)),
        (5, minus(3), 7, "vmad.s32.s32.s32 o0, -a, b, c;", 22),
        (5, minus(3), 7, "vmad.s32.s32.s32 o0, a, -b, c;", 22),
        (5, minus(3), 7, "vmad.s32.s32.s32 o0, a, b, -c;", minus(22)),
        (2, 3, 4, "vmad.u32.u32.u32.po o0, a, b, c;", 11),
        (1000, 1000, 0, "vmad.u32.u32.u32.shr7 o0, a, b, c;", 7812),
        (minus(1000), 1000, 0, "vmad.s32.s32.s32.shr7 o0, a, b, c;", minus(7813)),
        (1 << 16, 1 << 16, 5, "vmad.u32.u32.u32.shr15 o0, a, b, c;", 1 << 17),
        (!0, !0, 0, "vmad.u32.u32.u32.sat o0, a, b, c;", !0),
        (!0, 2, 0, "vmad.u32.u32.u32 o0, a, b, c;", !0 - 1),
        (i32::MAX as u32, 2, 0, "vmad.s32.s32.s32.sat o0, a, b, c;", i32::MAX as u32),
        (i32::MAX as u32, minus(2), 0, "vmad.s32.s32.s32.sat o0, a, b, c;", i32::MIN as u32),
        // Unsigned sources, negated: a signed result, to which C is signed too.
        (2, 3, !0, "vmad.s32.u32.u32 o0, -a, b, c;", minus(7)),
        // -128 times 0x1234, plus 1.
        (0x8000, 0x1234_0000, 1, "vmad.s32.s32.u32 o0, a.b1, b.h1, c;", minus(128 * 0x1234 - 1)),
        (1, 33, 0, "vshl.u32.u32.u32.clamp o0, a, b;", 0),
        (1, 33, 0, "vshl.u32.u32.u32.wrap o0, a, b;", 2),
        (1, 4, 100, "vshl.u32.u32.u32.clamp.add o0, a, b, c;", 116),
        (1 << 31, 40, 0, "vshr.s32.s32.u32.clamp o0, a, b;", !0),
        (1 << 31, 40, 0, "vshr.u32.u32.u32.clamp o0, a, b;", 0),
        (1 << 31, 33, 0, "vshr.s32.s32.u32.wrap o0, a, b;", 0xC000_0000),
        (0xABCD, 8, 0x1122_3344, "vshr.u32.u32.u32.clamp o0.b1, a, b, c;", 0x1122_AB44),
        (0x8000, 3, 0, "vshr.s32.s32.u32.clamp o0, a.h0, b.b0;", minus(0x1000)),
        (0x7FFF, 2, 0, "vshr.s32.s32.u32.sat.clamp o0.b0, a, b, c;", 0x7F),
    ] {
        assert_eq!(with(a, b, c, line), want, "{line} {a:#x} {b:#x} {c:#x}");
    }
}
