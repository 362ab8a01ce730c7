//! Forms without branches, which become vector instructions, give what the definitions give.

use numerics::convert::f64_to;
use numerics::float::{
    add_bf16, add_f16, add_f32, add_f32_nearest, fma_f32, fma_f32_nearest, may_be_tiny, mul_bf16, mul_f16,
    mul_f32, mul_f32_nearest,
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
