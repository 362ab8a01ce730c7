//! Decode tables, rounding and scale rules, exhaustively.

use numerics::convert::f64_to;
use numerics::{Format, Rounding};
use pipeline::moe::case::Format::Mxfp8;
use pipeline::moe::case::ScaleRule;
use pipeline::moe::reference::formats::{bf16, e2m1, e4m3, to_bf16, to_e4m3, ue8m0};
use pipeline::moe::reference::quantize::{Target, mx_block, scale_code};

fn same(a: f64, b: f64) -> bool {
    a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan())
}

#[test]
fn decode_tables_agree_with_the_emulators() {
    for code in 0..=255_u8 {
        assert!(same(e4m3(code), f64::from(Format::E4m3.decode(code.into()))), "e4m3 {code:#x}");
        assert!(same(ue8m0(code), f64::from(Format::Ue8m0.decode(code.into()))), "ue8m0 {code:#x}");
        assert!(same(e2m1(code), f64::from(Format::E2m1.decode(u32::from(code & 15)))), "e2m1 {code:#x}");
    }
    for code in 0..=u16::MAX {
        assert!(same(bf16(code), f64::from(Format::Bf16.decode(code.into()))), "bf16 {code:#x}");
    }
}

#[test]
fn rounding_agrees_with_the_emulators() {
    let nearest = |format, x: f64, saturate| f64_to(format, x, Rounding::NearestEven, saturate, false);
    // Every bf16, every middle between two, and a hair to either side.
    for bits in 0..0x7F80_u16 {
        let (low, high) = (bf16(bits), bf16(bits + 1));
        let middle = if high.is_finite() { f64::midpoint(low, high) } else { low * (1.0 + 1.0 / 512.0) };
        for x in [low, middle, middle.next_up(), middle.next_down()] {
            for x in [x, -x] {
                assert_eq!(u32::from(to_bf16(x)), nearest(Format::Bf16, x, false), "{x:e}");
            }
        }
    }
    for code in 0..0x7E_u8 {
        let middle = f64::midpoint(e4m3(code), e4m3(code + 1));
        for x in [e4m3(code), middle, middle.next_up(), middle.next_down(), 448.0, 460.0, 464.0, 1e30] {
            for x in [x, -x] {
                assert_eq!(u32::from(to_e4m3(x)), nearest(Format::E4m3, x, true), "{x:e}");
            }
        }
    }
    assert_eq!((to_e4m3(f64::INFINITY), to_e4m3(f64::NAN)), (0x7E, 0x7F));
    assert_eq!((to_bf16(1e300), to_bf16(-1e300), to_bf16(f64::NAN)), (0x7F80, 0xFF80, 0x7FFF));
}

/// The exponent by definition: candidates are tried, none is computed.
fn by_definition(rule: ScaleRule, amax: f64, (largest, mantissa_bits): (f64, i32)) -> i32 {
    let power = |x: i32| 2f64.powi(x);
    let all = -160..=160;
    // ⌊log2 x⌋: the largest power that x reaches.
    let floor = |x: f64| all.clone().rev().find(|e| power(*e) <= x).unwrap();
    match rule {
        ScaleRule::Ceil => all.clone().find(|e| amax <= largest * power(*e)).unwrap(),
        ScaleRule::Rz => all.clone().rev().find(|e| largest * power(*e) <= amax).unwrap(),
        ScaleRule::Floor => floor(amax) - floor(largest),
        ScaleRule::Even => {
            // To the nearest of the numbers with an element's mantissa bits, ties to even.
            let unit = power(floor(amax) - mantissa_bits);
            floor((amax / unit).round_ties_even() * unit) - floor(largest)
        }
        ScaleRule::Nearest => {
            let y = amax / largest;
            // The midpoint of 2^e and 2^(e+1) belongs to the upper one.
            all.clone().rev().find(|e| (power(*e) + power(*e - 1)) / 2.0 <= y).unwrap()
        }
        ScaleRule::Identity => 0,
        ScaleRule::FourOverSixMae | ScaleRule::FourOverSixMse => unreachable!("not of shared exponents"),
    }
}

#[test]
fn scales_are_those_of_the_definition_for_every_bf16() {
    let targets = [(Target::E4M3, (448.0, 3)), (Target::E2M1, (6.0, 1))];
    for ((target, element), rule) in targets
        .into_iter()
        .flat_map(|t| ScaleRule::ALL.iter().filter(|r| r.suits(Mxfp8)).map(move |r| (t, r)))
    {
        for bits in 0..=0x7FFF_u16 {
            let amax = bf16(bits);
            let wanted = match rule {
                _ if amax.is_nan() => 0xFF,
                ScaleRule::Identity => 127,
                _ if amax == 0.0 => 0,
                _ if amax.is_infinite() => 0xFE,
                _ => (by_definition(*rule, amax, element).clamp(-127, 127) + 127) as u8,
            };
            assert_eq!(scale_code(target, *rule, amax), wanted, "{} {amax:e}", rule.word());
        }
    }
}

#[test]
fn elements_are_the_nearest_and_blocks_follow_the_rules() {
    for rule in ScaleRule::ALL.iter().filter(|rule| rule.suits(Mxfp8)) {
        for bits in (0..0x7F80_u16).step_by(7) {
            let values = [bf16(bits), -bf16(bits) / 3.0, 0.0, -0.0];
            let (scale, codes) = mx_block(Target::E4M3, *rule, &values);
            for (x, code) in values.iter().zip(codes) {
                let scaled = x / ue8m0(scale);
                let best = (0..0x7F_u8).map(|c| (e4m3(c) - scaled.abs()).abs()).fold(f64::INFINITY, f64::min);
                assert!((e4m3(code as u8) - scaled).abs() <= best, "{x:e} under {scale:#x} is not {code:#x}");
                assert_eq!(code & 0x80 != 0, x.is_sign_negative());
            }
        }
        let (scale, codes) = mx_block(Target::E4M3, *rule, &[1.0, f64::NAN, f64::INFINITY]);
        assert_eq!((scale, codes), (0xFF, vec![0x7F; 3]));
        let (scale, codes) = mx_block(Target::E4M3, *rule, &[1.0, f64::NEG_INFINITY]);
        let one = *rule == ScaleRule::Identity;
        assert_eq!((scale, codes[1]), (if one { 0x7F } else { 0xFE }, 0xFE));
        let (scale, codes) = mx_block(Target::E4M3, *rule, &[0.0, -0.0]);
        assert_eq!((scale, codes), (if one { 0x7F } else { 0 }, vec![0, 0x80]));
    }
}
