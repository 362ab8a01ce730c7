//! The fast conversions give what the definition gives.

use numerics::convert::{f64_to, fast};
use numerics::{Format, Rounding};

/// All halves, and floats and doubles around every place where rounding turns.
#[test]
fn fast_conversions_are_the_definition() {
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
            for (format, code) in [
                (Format::E4m3, fast::f32_to_e4m3(x)),
                (Format::E5m2, fast::f32_to_e5m2(x)),
                (Format::E2m1, fast::f32_to_e2m1(x)),
            ] {
                assert_eq!(u32::from(code), f64_to(format, wide, near, true, false), "{x:#x} as {format:?}");
            }
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
