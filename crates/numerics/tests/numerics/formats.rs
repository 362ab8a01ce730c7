//! Every code of the narrow formats, and every rounding decision between two of them.

use numerics::convert::{f32_to, f64_to};
use numerics::{Format, Rounding};

/// Exponent bits, mantissa bits and bias, written down a second time from the OCP and IEEE documents.
const FIELDS: [(Format, u32, u32, i32); 8] = [
    (Format::F16, 5, 10, 15),
    (Format::Bf16, 8, 7, 127),
    (Format::E4m3, 4, 3, 7),
    (Format::E5m2, 5, 2, 15),
    (Format::E3m2, 3, 2, 3),
    (Format::E2m3, 2, 3, 1),
    (Format::E2m1, 2, 1, 1),
    (Format::Ue4m3, 4, 3, 7),
];

/// The value of a code by the formats' definition; `None` for NaN.
fn value(format: Format, code: u32) -> Option<f64> {
    let (_, e, m, bias) = *FIELDS.iter().find(|f| f.0 == format).unwrap();
    let sign = if format != Format::Ue4m3 && code >> (e + m) & 1 == 1 { -1.0 } else { 1.0 };
    let field = code >> m & ((1 << e) - 1);
    let mantissa = code & ((1 << m) - 1);
    let top = field == (1 << e) - 1;
    match format {
        Format::F16 | Format::Bf16 | Format::E5m2 if top => {
            return (mantissa == 0).then_some(sign * f64::INFINITY);
        }
        Format::E4m3 | Format::Ue4m3 if top && mantissa == 7 => return None,
        _ => {}
    }
    let fraction = f64::from(mantissa) / f64::from(1u32 << m);
    let scaled = if field == 0 { fraction } else { 1.0 + fraction };
    Some(sign * scaled * 2f64.powi(field.max(1).cast_signed() - bias))
}

#[test]
fn every_code_decodes_to_its_value() {
    for (format, e, m, _) in FIELDS {
        for code in 0..1 << (1 + e + m) {
            let got = format.decode(code);
            match value(format, code) {
                None => {
                    assert!(format.is_nan(code), "{format:?} {code:#x}");
                    assert_eq!(got.to_bits(), 0x7FFF_FFFF, "{format:?} {code:#x}: the canonical NaN");
                }
                Some(want) => {
                    assert!(!format.is_nan(code), "{format:?} {code:#x}");
                    assert_eq!(f64::from(got).to_bits(), want.to_bits(), "{format:?} {code:#x}");
                }
            }
        }
    }
}

#[test]
fn scales_decode_to_powers_of_two() {
    for code in 0..255 {
        assert_eq!(f64::from(Format::Ue8m0.decode(code)), 2f64.powi(code.cast_signed() - 127));
    }
    assert!(Format::Ue8m0.is_nan(255));
}

#[test]
fn a_tf32_register_counts_with_its_upper_bits() {
    for bits in [0x3F80_0000, 0x3F80_1FFF, 0xBF81_E000, 0x0000_2000, 0x8000_1FFF, 0x7F80_0000, 0xFF80_1000] {
        assert_eq!(Format::Tf32.decode(bits).to_bits(), bits & 0xFFFF_E000, "{bits:#x}");
    }
    assert!(Format::Tf32.is_nan(0x7F80_2000));
}

#[test]
fn names_are_those_of_ptx() {
    for format in Format::ALL {
        assert_eq!(Format::parse(format.name()), Some(format));
    }
    assert_eq!(Format::parse("e8m0"), None);
}

/// Finite magnitudes in order; the index is the code.
fn ladder(format: Format) -> Vec<f64> {
    (0..1 << (format.bits() - 1)).map_while(|code| value(format, code).filter(|v| v.is_finite())).collect()
}

/// The code that `x` should get, found by looking at both neighbours.
fn expected(ladder: &[f64], x: f64, rounding: Rounding, satfinite: bool, infinity: Option<u32>) -> u32 {
    let (magnitude, negative) = (x.abs(), x.is_sign_negative());
    let last = ladder.len() - 1;
    let above = ladder.partition_point(|v| *v < magnitude);
    // What would follow the last number decides how far rounding to nearest stays finite.
    let next = |index: usize| ladder.get(index).copied().unwrap_or(2.0 * ladder[last] - ladder[last - 1]);
    let code = if above <= last && ladder[above] == magnitude {
        above
    } else {
        let (low, high) = (next(above - 1), next(above));
        let middle = (low + high) / 2.0;
        let up = match rounding {
            Rounding::Zero => false,
            Rounding::Up => !negative,
            Rounding::Down => negative,
            Rounding::NearestAway => magnitude >= middle,
            Rounding::NearestEven => magnitude > middle || magnitude == middle && above % 2 == 0,
            Rounding::Stochastic(_) => unreachable!("tested apart"),
        };
        above - usize::from(!up)
    };
    match infinity {
        Some(infinity) if code > last && !satfinite => infinity,
        _ => code.min(last) as u32,
    }
}

const MODES: [Rounding; 5] =
    [Rounding::NearestEven, Rounding::Zero, Rounding::Up, Rounding::Down, Rounding::NearestAway];

#[test]
fn every_number_and_every_midpoint_is_rounded_to_the_right_code() {
    let mut asked = 0u64;
    for (format, e, m, _) in FIELDS {
        if format == Format::Ue4m3 {
            continue;
        }
        let ladder = ladder(format);
        let sign = 1 << (e + m);
        let infinity = matches!(format, Format::F16 | Format::Bf16).then_some(ladder.len() as u32);
        let last = ladder[ladder.len() - 1];
        let beyond = [2.0 * last - ladder[ladder.len() - 2], last * 1.5, last * 1000.0];
        let pairs = ladder.windows(2).flat_map(|pair| [pair[0], (pair[0] + pair[1]) / 2.0]);
        for middle in pairs.chain([last]).chain(beyond) {
            let middle = middle as f32;
            for magnitude in [middle.next_down().max(0.0), middle, middle.next_up()] {
                if !magnitude.is_finite() {
                    continue;
                }
                for x in [magnitude, -magnitude] {
                    for mode in MODES {
                        for satfinite in [false, true] {
                            let want = expected(&ladder, f64::from(x), mode, satfinite, infinity);
                            let want = want | if x.is_sign_negative() { sign } else { 0 };
                            let got = f32_to(format, x, mode, satfinite, false);
                            assert_eq!(got, want, "{format:?} {x:e} {mode:?} satfinite {satfinite}");
                            asked += 1;
                        }
                    }
                }
            }
        }
    }
    assert!(asked > 1_000_000, "{asked}");
}

#[test]
fn doubles_round_once() {
    // Halfway in binary32 after a first rounding, just above before it.
    let x = 1.0 + 2f64.powi(-11) + 2f64.powi(-40);
    assert_eq!(f64_to(Format::F16, x, Rounding::NearestEven, false, false), 0x3C01);
    assert_eq!(f32_to(Format::F16, x as f32, Rounding::NearestEven, false, false), 0x3C00);
}

#[test]
fn every_code_survives_the_way_there_and_back() {
    for (format, e, m, _) in FIELDS {
        for code in 0..1 << (e + m + u32::from(format != Format::Ue4m3)) {
            if !format.is_nan(code) && !format.is_infinite(code) {
                let back = f32_to(format, format.decode(code), Rounding::NearestEven, true, false);
                assert_eq!(back, code, "{format:?}");
            }
        }
    }
}

#[test]
fn ptx_ties_of_e2m1() {
    let ties = [(0.25, 0), (0.75, 2), (1.25, 2), (1.75, 4), (2.5, 4), (3.5, 6), (5.0, 6), (6.5, 7), (1e9, 7)];
    for (x, code) in ties {
        assert_eq!(f32_to(Format::E2m1, x, Rounding::NearestEven, true, false), code, "{x}");
        assert_eq!(f32_to(Format::E2m1, -x, Rounding::NearestEven, true, false), code | 8, "-{x}");
    }
}

#[test]
fn nan_infinity_and_relu() {
    let to = |format, x, satfinite, relu| f32_to(format, x, Rounding::NearestEven, satfinite, relu);
    for (format, nan, infinity, largest) in [
        (Format::F16, 0x7FFF, 0x7C00, 0x7BFF),
        (Format::Bf16, 0x7FFF, 0x7F80, 0x7F7F),
        (Format::Tf32, 0x7FFF_E000, 0x7F80_0000, 0x7F7F_E000),
        (Format::E4m3, 0x7F, 0x7E, 0x7E),
        (Format::E5m2, 0x7F, 0x7B, 0x7B),
        (Format::E2m3, 0x1F, 0x1F, 0x1F),
        (Format::E3m2, 0x1F, 0x1F, 0x1F),
        (Format::E2m1, 0x7, 0x7, 0x7),
    ] {
        for relu in [false, true] {
            assert_eq!(to(format, f32::NAN, true, relu), nan, "{format:?}");
            assert_eq!(to(format, f32::INFINITY, false, relu), infinity, "{format:?}");
            assert_eq!(to(format, f32::INFINITY, true, relu), largest, "{format:?}");
        }
        for below in [-0.0, -1.0, f32::NEG_INFINITY] {
            assert_eq!(to(format, below, true, true), 0, "{format:?} {below}");
        }
    }
}

#[test]
fn scales_are_rounded_up_or_cut() {
    let to = |x, mode, satfinite| f32_to(Format::Ue8m0, x, mode, satfinite, false);
    for code in 0..255u32 {
        let power = Format::Ue8m0.decode(code);
        for mode in [Rounding::Up, Rounding::Zero] {
            assert_eq!(to(power, mode, true), code);
            assert_eq!(to(-power, mode, true), code);
        }
        if code > 0 {
            assert_eq!(to(power.next_down(), Rounding::Up, true), code);
            assert_eq!(to(power.next_down(), Rounding::Zero, true), code - 1);
        }
        assert_eq!(to(power.next_up(), Rounding::Up, true), (code + 1).min(254));
    }
    assert_eq!(to(0.0, Rounding::Up, true), 0);
    assert_eq!(to(f32::from_bits(1), Rounding::Up, true), 0);
    assert_eq!(to(f32::MAX, Rounding::Up, true), 0xFE);
    assert_eq!(to(f32::MAX, Rounding::Up, false), 0xFF);
    assert_eq!(to(f32::INFINITY, Rounding::Zero, true), 0xFE);
    assert_eq!(to(f32::NAN, Rounding::Up, true), 0xFF);
}

#[test]
fn stochastic_rounding_goes_up_as_often_as_the_fraction_says() {
    let x = Format::E2m1.decode(4) + 0.25;
    for (random, code) in [(0, 4), (0xBFFF_FFFF, 4), (0xC000_0000, 5), (u32::MAX, 5)] {
        assert_eq!(f32_to(Format::E2m1, x, Rounding::Stochastic(random), true, false), code, "{random:#x}");
    }
}
