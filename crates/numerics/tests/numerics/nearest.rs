//! Forms without branches, which become vector instructions, give what the definitions give.

use numerics::convert::f64_to;
use numerics::float::{
    self, add_bf16, add_f16, add_f32, add_f32_directed, add_f32_nearest, fma_f32, fma_f32_directed,
    fma_f32_nearest, may_be_tiny, mul_bf16, mul_f16, mul_f32, mul_f32_directed, mul_f32_nearest,
};
use numerics::{Format, Rounding};

use crate::flush::Random;

const NEAR: Rounding = Rounding::NearestEven;

/// Floats at every turn: zeros, subnormals, the smallest normals and their neighbours, powers of two, the largest, infinities, NaNs.
fn specials() -> Vec<u32> {
    let magnitudes = [
        0,
        1,
        2,
        0x0040_0000,
        0x007F_FFFE,
        0x007F_FFFF,
        0x0080_0000,
        0x0080_0001,
        0x0100_0000,
        0x1F80_0000,
        0x2000_0000,
        0x3380_0000,
        0x3F00_0000,
        0x3F7F_FFFF,
        0x3F80_0000,
        0x3F80_0001,
        0x3FFF_FFFF,
        0x4B00_0000,
        0x5F80_0000,
        0x7F00_0000,
        0x7F7F_FFFF,
        0x7F80_0000,
        0x7F80_0001,
        0x7FC0_0000,
        0x7FFF_FFFF,
    ];
    magnitudes.into_iter().flat_map(|bits| [bits, bits | 1 << 31]).collect()
}

/// Three floats: of any bits, or such that their product is near the smallest normal number.
fn drawn(random: &mut Random, near_tiny: bool) -> [u32; 3] {
    let mut word = || random.below(1 << 16) << 16 | random.below(1 << 16);
    if !near_tiny {
        return [word(), word(), word()];
    }
    let exponent = word() % 120;
    let float = |exponent: u32, bits: u32| (exponent << 23 | bits & 0x807F_FFFF, bits);
    let (a, _) = float(1 + exponent, word());
    let (b, _) = float(127 - exponent - (word() & 1), word());
    let (c, _) = float(word() % 3, word());
    [a, b, c]
}

fn check([a, b, c]: [u32; 3]) {
    for (ftz, sat) in [(false, false), (true, false), (false, true), (true, true)] {
        assert_eq!(
            add_f32_nearest(a, b, ftz, sat),
            add_f32(a, b, NEAR, ftz, sat),
            "{a:#x} + {b:#x} {ftz} {sat}"
        );
        let exact = mul_f32(a, b, NEAR, ftz, sat);
        let quick = mul_f32_nearest(a, b, ftz, sat);
        assert!(
            quick == exact || ftz && may_be_tiny(quick),
            "{a:#x} * {b:#x} {ftz} {sat}: {quick:#x}, {exact:#x}"
        );
        let exact = fma_f32(a, b, c, NEAR, ftz, sat);
        let quick = fma_f32_nearest(a, b, c, ftz, sat);
        assert!(
            quick == exact || ftz && may_be_tiny(quick),
            "{a:#x} * {b:#x} + {c:#x} {ftz} {sat}: {quick:#x}, {exact:#x}"
        );
        for r in [Rounding::Zero, Rounding::Down, Rounding::Up] {
            let all = [
                (add_f32_directed(a, c, r, ftz, sat), add_f32(a, c, r, ftz, sat)),
                (mul_f32_directed(a, b, r, ftz, sat), mul_f32(a, b, r, ftz, sat)),
                (fma_f32_directed(a, b, c, r, ftz, sat), fma_f32(a, b, c, r, ftz, sat)),
            ];
            for (quick, exact) in all {
                assert!(
                    quick == exact || ftz && may_be_tiny(quick),
                    "{a:#x}, {b:#x}, {c:#x} {r:?} {ftz} {sat}: {quick:#x}, {exact:#x}"
                );
            }
        }
    }
}

#[test]
fn single_precision_in_one_rounding() {
    let specials = specials();
    for a in &specials {
        for b in &specials {
            specials.iter().for_each(|c| check([*a, *b, *c]));
        }
    }
    let mut random = Random::new(1);
    (0..400_000).for_each(|n| check(drawn(&mut random, n % 2 == 0)));
}

/// `fma.f32` of the host's instruction is the one of exact arithmetic.
#[test]
fn fused_products_are_those_of_exact_arithmetic() {
    let mut random = Random::new(2);
    for n in 0..200_000 {
        let [a, b, c] = drawn(&mut random, n % 3 == 0);
        let [x, y, z] = [a, b, c].map(|bits| f64::from(f32::from_bits(bits)));
        // The product is exact; a sum whose rounding error is zero is exact, too.
        let (product, sum) = (x * y, x * y + z);
        let back = sum - product;
        if sum.is_finite() && (product - (sum - back)) + (z - back) == 0.0 {
            let exact = f64_to(Format::F32, sum, NEAR, false, false);
            assert_eq!(fma_f32(a, b, c, NEAR, false, false), exact, "{a:#x} * {b:#x} + {c:#x}");
        }
    }
}

/// All halves by halves at every turn: sums and products are exact in a double, or have so many bits that the second rounding does no
/// harm.
#[test]
fn half_precision_in_one_rounding() {
    let turns =
        [0, 1, 0x3FF, 0x400, 0x401, 0x1400, 0x3BFF, 0x3C00, 0x3C01, 0x4248, 0x7BFF, 0x7C00, 0x7C01, 0x7E00];
    let brain =
        [0, 1, 0x7F, 0x80, 0x81, 0x1F80, 0x3F7F, 0x3F80, 0x3F81, 0x4049, 0x5F80, 0x7F7F, 0x7F80, 0x7FC0];
    for b in turns.into_iter().chain(brain).flat_map(|b: u16| [b, b | 0x8000]) {
        for a in 0..=u16::MAX {
            for (format, sum, product) in [
                (Format::F16, add_f16(a, b, false, false), mul_f16(a, b, false, false)),
                (Format::Bf16, add_bf16(a, b, false, false), mul_bf16(a, b, false, false)),
            ] {
                let [x, y] = [a, b].map(|x| f64::from(format.decode(x.into())));
                let exact = |value| f64_to(format, value, NEAR, false, false);
                assert_eq!(u32::from(sum), exact(x + y), "{a:#x} + {b:#x} as {format:?}");
                assert_eq!(u32::from(product), exact(x * y), "{a:#x} * {b:#x} as {format:?}");
            }
        }
    }
}

#[test]
fn functions_of_many_lanes_give_what_they_give_for_one() {
    type One = fn(u32, bool) -> u32;
    type Many = fn(&[u32; 32], bool) -> [u32; 32];
    let functions: [(One, Many); 8] = [
        (float::ex2_approx_f32, float::ex2_approx_f32_lanes),
        (float::lg2_approx_f32, float::lg2_approx_f32_lanes),
        (float::rcp_approx_f32, float::rcp_approx_f32_lanes),
        (float::rsqrt_approx_f32, float::rsqrt_approx_f32_lanes),
        (float::sqrt_approx_f32, float::sqrt_approx_f32_lanes),
        (|a, _| float::sin_approx_f32(a), |a, _| float::sin_approx_f32_lanes(a)),
        (|a, _| float::cos_approx_f32(a), |a, _| float::cos_approx_f32_lanes(a)),
        (|a, _| float::tanh_approx_f32(a), |a, _| float::tanh_approx_f32_lanes(a)),
    ];
    let (specials, mut random) = (specials(), Random::new(11));
    for round in 0..2_000 {
        let a: [u32; 32] = std::array::from_fn(|lane| match (round + lane) % 3 {
            0 => specials[(7 * round + lane) % specials.len()],
            _ => drawn(&mut random, false)[0],
        });
        for ftz in [false, true] {
            for (one, many) in functions {
                assert_eq!(many(&a, ftz), a.map(|a| one(a, ftz)), "{a:x?}");
            }
        }
    }
}

#[test]
fn quotients_of_many_lanes_are_those_of_one_where_some_are_tiny() {
    let (specials, mut random) = (specials(), Random::new(12));
    for round in 0..4_000 {
        let (mut a, mut b) = ([0; 32], [0; 32]);
        for lane in 0..32 {
            [a[lane], b[lane], _] = drawn(&mut random, false);
            if (round + lane) % 5 == 0 {
                b[lane] = specials[(3 * round + lane) % specials.len()];
            }
        }
        // The exact quotient is below 2^-126, the rounded one is not.
        let tiny = round % 32;
        (a[tiny], b[tiny]) = (0x3BFF_FFFF, 0x7B00_0000);
        for ftz in [false, true] {
            let approximate: [u32; 32] = std::array::from_fn(|n| float::div_approx_f32(a[n], b[n], ftz));
            assert_eq!(float::div_approx_f32_lanes(&a, &b, ftz), approximate, "{a:x?} / {b:x?}");
            let full: [u32; 32] = std::array::from_fn(|n| float::div_full_f32(a[n], b[n], ftz));
            assert_eq!(float::div_full_f32_lanes(&a, &b, ftz), full, "{a:x?} / {b:x?}");
        }
    }
}
