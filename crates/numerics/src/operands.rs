//! Random instruction operands: 32-bit registers of a given kind, in regimes that reach cases which uniform bits miss.

use std::str::FromStr;

use super::Format;
use super::format::{F32, F64, Layout};

/// The contents of a 32-bit operand register.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum OperandKind {
    /// An integer, or untyped bits.
    U32,
    /// One half of a binary64: registers come in pairs, the low half first.
    F64,
    /// As many codes of a format as fit: one of 32 bits, two of 16, four of 8; formats narrower than 8 bits use the containers
    /// of `kind::f8f6f4`.
    Of(Format),
}

/// The error for a word that is not the name of an operand kind.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "`{0}` is not a kind of operand; use u32, f64, f32, tf32, f16, bf16, e4m3, e5m2, e3m2, e2m3, e2m1, ue8m0, ue4m3"
)]
pub struct UnknownKind(pub String);

impl FromStr for OperandKind {
    type Err = UnknownKind;

    fn from_str(word: &str) -> Result<Self, UnknownKind> {
        match word {
            "u32" => Ok(Self::U32),
            "f64" => Ok(Self::F64),
            other => Format::parse(other).map(Self::Of).ok_or_else(|| UnknownKind(other.to_owned())),
        }
    }
}

/// A distribution of operand values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Regime {
    /// Magnitudes around one.
    Ordinary,
    /// Uniformly random bits.
    Raw,
    /// The middle half of the exponents.
    Middle,
    /// Powers of two.
    Powers,
    /// Subnormal numbers, and numbers with the smallest normal exponent.
    Subnormal,
    /// The three largest exponents.
    Large,
    /// Zeros, ones, infinities and NaNs, and the smallest and largest subnormal and normal numbers.
    Special,
    /// Magnitudes within a factor of four.
    Near,
}

impl Regime {
    /// Every regime; case `n` of a recording uses regime `n` modulo 8.
    pub const ALL: [Self; 8] = [
        Self::Ordinary,
        Self::Raw,
        Self::Middle,
        Self::Powers,
        Self::Subnormal,
        Self::Large,
        Self::Special,
        Self::Near,
    ];
}

impl OperandKind {
    /// Returns a register of this kind, a function of `random`; `high` selects the upper half of a binary64.
    #[must_use]
    pub fn word(self, regime: Regime, random: u64, high: bool) -> u32 {
        match self {
            Self::U32 => integer(regime, random),
            Self::F64 => {
                // Both halves derive the same code from the same random bits.
                let code = float(F64, regime, random);
                if high { (code >> 32) as u32 } else { code as u32 }
            }
            // A tf32 register is a binary32.
            Self::Of(Format::Tf32 | Format::F32) => float(F32, regime, random) as u32,
            Self::Of(format) => {
                // ue8m0 is a bare exponent.
                let Some(layout) = format.layout() else { return four(random, |r| scale(regime, r)) };
                let code = |r: u64| float(layout, regime, r) as u32;
                match format.bits() {
                    16 => code(random) & 0xFFFF | code(random.rotate_left(29)) << 16,
                    _ if regime == Regime::Raw => random as u32,
                    8 => four(random, code),
                    _ => four(random, |r| super::fragment::to_container(format, code(r))),
                }
            }
        }
    }
}

fn four(random: u64, byte: impl Fn(u64) -> u32) -> u32 {
    (0..4).fold(0, |word, n| word | (byte(super::random::at(random, n)) & 0xFF) << (8 * n))
}

/// Returns a scale code, near one in most regimes so that products stay finite.
fn scale(regime: Regime, random: u64) -> u32 {
    let bits = (random >> 32) as u32;
    match regime {
        Regime::Raw => bits,
        Regime::Special => [0x00, 0x01, 0x7F, 0xFE, 0xFF][bits as usize % 5],
        Regime::Large => 0xFE - bits % 8,
        Regime::Subnormal => bits % 8,
        Regime::Near => 126 + bits % 3,
        _ => 119 + bits % 17,
    }
}

fn integer(regime: Regime, random: u64) -> u32 {
    let (bits, choice) = (random as u32, (random >> 40) as u32);
    match regime {
        Regime::Ordinary | Regime::Raw => bits,
        Regime::Middle => bits >> (choice % 32),
        Regime::Powers => (1_u32 << (choice % 32)).wrapping_sub(choice >> 8 & 1),
        Regime::Subnormal => bits % 4,
        Regime::Large => !(bits % 256),
        Regime::Special => [0, 1, 31, 32, 33, 0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFFF][choice as usize % 8],
        Regime::Near => bits % 64,
    }
}

/// A code of a format.
fn float(layout: Layout, regime: Regime, random: u64) -> u64 {
    let exponents = 1_u64 << layout.exponent_bits;
    let bias = exponents / 2 - 1;
    let mantissa = random & ((1 << layout.mantissa_bits) - 1);
    let sign = (random >> 63) << layout.magnitude_bits();
    // Bits 53 to 62: above the mantissa (bits 0 to 51 at most) and below the sign (bit 63).
    let choice = random >> 53 & 0x3FF;
    let greatest = layout.max_finite() >> layout.mantissa_bits;
    let about = |low: i64, count: u64| {
        let exponent = bias as i64 + low + (choice % count) as i64;
        exponent.clamp(0, greatest as i64) as u64
    };
    let code = |exponent: u64, mantissa: u64| {
        sign | (exponent << layout.mantissa_bits | mantissa).min(layout.max_finite())
    };
    match regime {
        Regime::Ordinary => code(about(-4, 8), mantissa),
        Regime::Raw => random & (u64::MAX >> (63 - layout.magnitude_bits())),
        Regime::Middle => code(exponents / 4 + choice % (exponents / 2).max(1), mantissa),
        Regime::Powers => code(about(-8, 17), 0),
        Regime::Subnormal => code(choice & 1 & u64::from(choice % 8 == 1), mantissa),
        Regime::Large => code(greatest - (choice % 3).min(greatest), mantissa),
        Regime::Near => code(about(-1, 2), mantissa),
        Regime::Special => {
            let (one, least) = (bias << layout.mantissa_bits, 1_u64 << layout.mantissa_bits);
            let all = (1 << layout.magnitude_bits()) - 1;
            let beyond = if layout.infinity() <= all { layout.infinity() } else { all };
            sign | [0, one, 1, least - 1, least, layout.max_finite(), beyond, all][choice as usize % 8]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::at;

    const KINDS: [&str; 13] = [
        "u32", "f64", "f32", "tf32", "f16", "bf16", "e4m3", "e5m2", "e3m2", "e2m3", "e2m1", "ue8m0", "ue4m3",
    ];

    #[test]
    fn every_kind_has_values_in_every_regime() {
        for name in KINDS {
            let kind: OperandKind = name.parse().unwrap();
            for regime in Regime::ALL {
                let words: std::collections::BTreeSet<u32> =
                    (0..400).map(|n| kind.word(regime, at(7, n), n % 2 == 1)).collect();
                assert!(words.len() > 3, "{name} {regime:?}: {words:x?}");
            }
        }
        assert!("f8".parse::<OperandKind>().is_err());
    }

    #[test]
    fn regimes_are_what_they_say() {
        let all = |name: &str, regime| {
            let kind: OperandKind = name.parse().unwrap();
            (0..2000).map(move |n| kind.word(regime, at(3, n), false))
        };
        let f32s = |regime| all("f32", regime).map(f32::from_bits);
        assert!(f32s(Regime::Ordinary).all(|x| x.abs() >= 0.0625 && x.abs() < 16.0));
        assert!(f32s(Regime::Near).all(|x| x.abs() >= 0.5 && x.abs() < 2.0));
        assert!(f32s(Regime::Powers).all(|x| x.to_bits() & 0x007F_FFFF == 0));
        assert!(f32s(Regime::Large).all(|x| x.is_finite() && x.abs() > 1e37));
        let special: Vec<f32> = f32s(Regime::Special).collect();
        assert!(special.iter().any(|x| x.is_nan()) && special.iter().any(|x| x.is_infinite()));
        assert!(special.contains(&0.0) && special.contains(&-1.0));
        assert!(f32s(Regime::Subnormal).all(|x| x.abs() < 3e-38));
        // The two halves of one number.
        let kind: OperandKind = "f64".parse().unwrap();
        for n in 0..2000 {
            let (low, high) = (kind.word(Regime::Ordinary, n, false), kind.word(Regime::Ordinary, n, true));
            let x = f64::from_bits(u64::from(high) << 32 | u64::from(low));
            assert!(x.abs() >= 0.0625 && x.abs() < 16.0, "{x}");
        }
    }
}
